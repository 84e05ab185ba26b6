"""Outcomes of children: derived from what a child's branch says, and told on the branch where it was begun.

An outcome is written under a key of the child's: so it makes no difference who writes it, and it is written once. The
child's runner does, as soon as the turn is over, and keeps its lease until it has. Where that was killed, whoever looks
next does it: a worker, `talk.children()`, somebody who waits for the child, or the parent's next turn.

A child takes its own children along: before its outcome is written they are ended, and each of them has an outcome.
Branches that went on from where a child had begun (forks and rewinds) are told of it as well, in an event of their own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from everthread.agent.abandoned import closed
from everthread.agent.family import begun_on, own_children
from everthread.agent.finish import finished
from everthread.agent.stop import stop
from everthread.core.branches import Line, Target
from everthread.core.happenings import FlowCompleted
from everthread.core.logged import Logged, readable
from everthread.core.outcomes import Delegated, child_of, ended_key, outcome_of, started_key
from everthread.errors import EverthreadError, KeyReused, NotFound, Outrun, TurnBusy
from everthread.store.beside.holders import is_dead
from everthread.store.beside.leases import of_turns
from everthread.store.conversations import Conversation
from everthread.store.log import Log
from everthread.store.scripts.children import Begun, heirs
from everthread.tools import ToolContext

if TYPE_CHECKING:
    from everthread.agent.runtime import Runtime

LOOKED = 50  # of the newest children
TAIL = 30  # events at the end of a child's turn among which its reply is looked for

_log = logging.getLogger("everthread.agent")


@asynccontextmanager
async def telling_parent(runtime: Runtime, conversation: Conversation, line: Line) -> AsyncIterator[Delegated | None]:
    """While a turn of a branch runs: what the child was begun with, if that is one's. The outcome is written when the
    turn is over, however it ended."""
    said = await runtime.children.said_of(runtime.log, line)
    try:
        yield said
    finally:
        if said is not None:
            with suppress(EverthreadError):  # the store is away, or the conversation erased: whoever looks next does it
                await finished(written(runtime, conversation, line))


async def settle(runtime: Runtime, conversation: Conversation, line: Line) -> Logged | None:
    """The outcome of a child; None while it runs, or waits for approval. If its process is gone, its turn is closed."""
    if there := await runtime.log.kept(line, ended_key(line.branch.number)):
        return there[-1]
    if await begun_on(runtime.log, line) is None:
        return None
    term = await runtime.log.leases.term(line.tenant, of_turns(line.conversation, line.branch.number))
    if term is not None and not is_dead(term.holder):
        return None
    try:
        async with closed(runtime.log, runtime.queues, line):
            return await written(runtime, conversation, line)
    except TurnBusy:
        return None


async def written(runtime: Runtime, conversation: Conversation, line: Line) -> Logged | None:
    """The outcome of a child whose turn nobody runs any more, written once; None where that waits or goes on."""
    log, branch = runtime.log, line.branch.number
    while (outcome := await _outcome(log, line)) is not None:
        await end_children(runtime, conversation, line)
        said, event = outcome
        await _tell_heirs(log, line, event)
        told = {"told": True} if runtime.children.is_awaited(line) else {}
        try:
            target = Target(line.tenant, line.conversation, said.said.parent)
            there = msgspec.structs.replace(event, data=event.data | told)
            [logged] = await log.append(target, [there], key=ended_key(branch))
        except Outrun:  # something that it quotes was redacted meanwhile
            continue
        except KeyReused:  # somebody else has written it, a moment before something was redacted
            return (await log.kept(line, ended_key(branch)))[-1]
        runtime.remind(conversation, said.said.parent)
        return logged
    return None


async def _outcome(log: Log, line: Line) -> tuple[Begun, FlowCompleted] | None:
    """What became of a child, as its branch tells; None where its turn is not over."""
    found = await begun_on(log, line)
    if found is None or not await log.kept(line, started_key(line.branch.number)):
        return None
    make = partial(outcome_of, line.branch.number, found.said, conversation=line.conversation)
    if found.task is None:
        return found, make(None, (), None)
    [turn] = await log.turns(line, limit=1, last=found.task.seq)
    if turn.state in ("open", "waiting"):
        return None
    events = readable(await log.range(line, max(turn.first, turn.last - TAIL), turn.last))
    return found, make(found.task, events, await log.ended(line, at=turn.last))


# -- ending them -----------------------------------------------------------------------------------------------


async def end(runtime: Runtime, conversation: Conversation, line: Line) -> bool:
    """End a child, also one that waits for approval, and its own children; they have their outcomes then. Whether any
    of them ran."""
    stopped = await stop(runtime, line, waiting=True)
    await settle(runtime, conversation, line)
    return await end_children(runtime, conversation, line) or stopped


async def end_children(runtime: Runtime, conversation: Conversation, line: Line) -> bool:
    """End the children that were begun on a branch, and theirs. Whether any ran."""
    own = await own_children(runtime.log, conversation, line)
    left = [one for one in own if await _is_left(runtime, conversation, one, line.branch.number)]
    return any(await asyncio.gather(*(end(runtime, conversation, one) for one in left)))


async def _is_left(runtime: Runtime, conversation: Conversation, line: Line, parent: int) -> bool:
    """Whether it is a child of this parent that has not ended."""
    found = await begun_on(runtime.log, line)
    return found is not None and found.said.parent == parent and await settle(runtime, conversation, line) is None


# -- telling others --------------------------------------------------------------------------------------------


async def _tell_heirs(log: Log, line: Line, event: FlowCompleted) -> None:
    """Tell an outcome on the branches that went on from where the child had begun, before it is told there: whoever
    has waited for it finds all of them told. One that begins meanwhile is told by its first turn."""
    with suppress(EverthreadError):
        for started in await log.kept(line, started_key(line.branch.number)):
            for heir in await log.ask(partial(heirs, line, started)):
                await _tell_heir(log, line, heir, event)


async def _tell_heir(log: Log, line: Line, heir: int, event: FlowCompleted) -> None:
    """Once, whatever was told to the parent by its tool."""
    plain = msgspec.structs.replace(event, data={name: said for name, said in event.data.items() if name != "told"})
    with suppress(KeyReused, Outrun):  # what it tells of was redacted
        target = Target(line.tenant, line.conversation, heir)
        await log.append(target, [plain], key=f"{ended_key(line.branch.number)}/{heir}")


async def settle_left(runtime: Runtime, talk: ToolContext) -> None:
    """Before a turn: the outcomes of children whose process is gone, and those that this branch was not told. A turn
    never fails for them."""
    conversation = talk.conversation
    if not runtime.children.is_time_to_look(conversation.id):
        return
    try:
        here = await talk.line()
        started = readable(await runtime.log.markers(here, "flow_started", limit=LOOKED))
        if not any(child_of(one.event) for one in started):
            return
        completed = readable(await runtime.log.markers(here, "flow_completed", limit=LOOKED))
        told = {child_of(one.event) for one in completed}
        for one in started:
            if (child := child_of(one.event)) and child not in told:
                await _settle_here(runtime, conversation, here, one)
    except EverthreadError as problem:
        _log.warning("The children of conversation %s could not be looked at: %s", conversation.id, problem)


async def _settle_here(runtime: Runtime, conversation: Conversation, here: Line, started: Logged) -> None:
    """Settle a child that was begun along a line, and tell its outcome there."""
    try:
        line = await runtime.log.line(conversation, child_of(started.event))
    except NotFound:  # an application's event, that looks like ours
        return
    found = await begun_on(runtime.log, line)
    if found is None or found.said.parent != started.branch:
        return
    outcome = await settle(runtime, conversation, line)
    if outcome is None or not isinstance(outcome.event, FlowCompleted) or started.branch == here.branch.number:
        return
    if here.branch.number in await runtime.log.ask(partial(heirs, here, started, outcome)):
        await _tell_heir(runtime.log, line, here.branch.number, outcome.event)
