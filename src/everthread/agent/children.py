"""Children: turns on branches of their own, and their outcomes on the parent's branch.

An outcome is derived from what the child's branch says, and written under a key of the child's: so it makes no
difference who writes it, and it is written once. The child's runner does, as soon as the turn is over. Where that was
killed, whoever looks next does it: `talk.children()`, somebody who waits for the child, or the parent's next turn.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import msgspec

from everthread.agent.abandoned import close
from everthread.agent.finish import finished
from everthread.core.branches import ENDLESS, Line, Target
from everthread.core.ended import usage_of
from everthread.core.happenings import FlowCompleted, FlowStarted
from everthread.core.logged import Logged, readable
from everthread.core.outcomes import ChildState, Delegated, child_of, ended_key, outcome_of, started_key
from everthread.core.values import Value
from everthread.errors import EverthreadError, KeyReused, NotFound, Outrun, TurnBusy
from everthread.store.beside.holders import is_dead
from everthread.store.beside.leases import of_turns
from everthread.store.conversations import Conversation
from everthread.store.log import Log
from everthread.store.scripts.along import key_of
from everthread.store.scripts.children import Begun, begun
from everthread.store.scripts.read import newest_markers, own_calls
from everthread.tools import ToolContext

if TYPE_CHECKING:
    from everthread.agent.runtime import Runtime

AGAIN = 60.0  # seconds after which a parent's turn looks again for children that were left
LOOKED = 50  # of the newest children
TAIL = 30  # events at the end of a child's turn among which its reply is looked for
KNOWN = 10_000  # conversations and branches of which something is kept

_log = logging.getLogger("everthread.agent")


class ListedChild(msgspec.Struct, Value, frozen=True, kw_only=True):
    """A child as it stands: running, waiting for approval, done, failed, stopped, at a limit, or killed.

    `branch` and `name` are its branch's. `task` is its beginning, in one line; the whole is the first message there.
    `result` is what it said at the end, or had said until then, and `why` why it ended before its time. `agent` is
    empty where it is the conversation's. Model calls, tokens and price are those of its task, without its children's;
    the price is null where one is not known.
    """

    branch: int
    name: str
    task: str
    agent: str
    state: ChildState
    depth: int
    result: str = ""
    why: str = ""
    calls: int = 0
    input: int = 0
    output: int = 0
    price: float | None = None
    began: datetime
    ended: datetime | None = None

    def __str__(self) -> str:
        return self.result


class Children:
    """What a process knows of children: with what they were begun, those that a tool of the parent's waits for, when a
    conversation was last looked at, and who begins one in it: one after another, so that no more run than may."""

    def __init__(self) -> None:
        self._awaited: set[tuple[str, int]] = set()
        self._looked: dict[str, float] = {}
        self._said: dict[tuple[str, int], Delegated | None] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def beginning(self, conversation: str) -> asyncio.Lock:
        return self._locks.setdefault(conversation, asyncio.Lock())

    async def said_of(self, log: Log, line: Line) -> Delegated | None:
        """What the child was begun with whose branch has a turn; None where it is no child's. It never changes."""
        if line.branch.parent is None:
            return None
        where = (line.about, line.branch.number)
        if where not in self._said:
            found = await begun_on(log, line)
            self.know(line, found.said if found else None)
        return self._said[where]

    def know(self, line: Line, said: Delegated | None) -> None:
        """Keep in mind with what a child was begun."""
        if len(self._said) >= KNOWN:
            self._said.clear()
        self._said[line.about, line.branch.number] = said

    def wait_for(self, line: Line) -> None:
        """From now on a tool of the parent's waits for this child, and will tell its outcome."""
        self._awaited.add((line.conversation, line.branch.number))

    def leave(self, line: Line) -> None:
        """It no longer does."""
        self._awaited.discard((line.conversation, line.branch.number))

    def is_awaited(self, line: Line) -> bool:
        return (line.conversation, line.branch.number) in self._awaited

    def is_time_to_look(self, conversation: str) -> bool:
        """Whether a conversation was not looked at for a while."""
        now = time.monotonic()
        if conversation in self._looked and now - self._looked[conversation] < AGAIN:
            return False
        if len(self._looked) >= KNOWN:
            self._looked.clear()
        self._looked[conversation] = now
        return True


async def begun_on(log: Log, line: Line) -> Begun | None:
    """How a child's branch began; None where it is no child's."""
    return await log.ask(lambda: begun(key_of(line), line.branch))


# -- outcomes --------------------------------------------------------------------------------------------------


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
        await close(runtime.log, runtime.queues, line)
    except TurnBusy:
        return None
    return await written(runtime, conversation, line)


async def written(runtime: Runtime, conversation: Conversation, line: Line) -> Logged | None:
    """The outcome of a child whose turn nobody runs any more, written once; None where that waits or goes on."""
    log, branch = runtime.log, line.branch.number
    while (outcome := await _outcome(log, line)) is not None:
        said, event = outcome
        if runtime.children.is_awaited(line):
            event = msgspec.structs.replace(event, data=event.data | {"told": True})
        try:
            target = Target(line.tenant, line.conversation, said.said.parent)
            [logged] = await log.append(target, [event], key=ended_key(branch))
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


async def settle_left(runtime: Runtime, talk: ToolContext) -> None:
    """Before a turn of a parent: the outcomes of children whose process is gone. A turn never fails for them."""
    conversation = talk.conversation
    if not runtime.children.is_time_to_look(conversation.id):
        return
    try:
        for line in await own_children(runtime.log, conversation, await talk.line(), limit=LOOKED):
            await settle(runtime, conversation, line)
    except EverthreadError as problem:
        _log.warning("The children of conversation %s could not be looked at: %s", conversation.id, problem)


async def own_children(log: Log, conversation: Conversation, line: Line, *, limit: int = ENDLESS) -> list[Line]:
    """The branches of the newest children that were begun on a branch itself."""
    started = await log.ask(lambda: newest_markers(line, "flow_started", first=line.branch.at + 1, limit=limit))
    lines = []
    for child in {child: None for one in readable(started) if (child := child_of(one.event))}:
        with suppress(NotFound):  # an application's event, that looks like ours
            lines.append(await log.line(conversation, child))
    return lines


async def ended(log: Log, line: Line) -> FlowCompleted | None:
    """The event that tells the outcome of a child; None where there is none yet, or it was redacted."""
    events = [one.event for one in await log.kept(line, ended_key(line.branch.number))]
    return next((event for event in events if isinstance(event, FlowCompleted)), None)


# -- listing ---------------------------------------------------------------------------------------------------


async def listed(runtime: Runtime, conversation: Conversation, line: Line, *, limit: int) -> list[ListedChild]:
    """The newest children that were begun along a line, newest first."""
    started = readable(await runtime.log.markers(line, "flow_started", limit=limit))
    found = [await _listed(runtime, conversation, one) for one in started if child_of(one.event)]
    return [one for one in found if one is not None]


async def _listed(runtime: Runtime, conversation: Conversation, started: Logged) -> ListedChild | None:
    try:
        line = await runtime.log.line(conversation, child_of(started.event))
    except NotFound:  # an application's event, that looks like ours
        return None
    found = await begun_on(runtime.log, line)
    if found is None or found.said.parent != started.branch:
        return None
    return await as_listed(runtime, conversation, line, found, started)


async def as_listed(
    runtime: Runtime, conversation: Conversation, line: Line, found: Begun, started: Logged
) -> ListedChild:
    """A child as it stands. What has ended is settled on the way."""
    outcome = await settle(runtime, conversation, line)
    event = started.event
    about: dict[str, Any] = {
        "branch": line.branch.number,
        "name": line.branch.name,
        "task": event.name if isinstance(event, FlowStarted) else "",
        "agent": found.said.agent,
        "depth": found.said.depth,
        "began": started.time,
    }
    return ListedChild(**about, **(_ended(outcome) if outcome else await _so_far(runtime.log, line)))


def _ended(outcome: Logged) -> dict[str, Any]:
    """What an outcome says; where it was redacted, only that there was one."""
    event = outcome.event
    if not isinstance(event, FlowCompleted):
        return {"state": "done", "ended": outcome.time}
    names = ("state", "why", "calls", "input", "output", "price")
    return {name: event.data[name] for name in names if name in event.data} | {
        "result": event.result,
        "ended": outcome.time,
    }


async def _so_far(log: Log, line: Line) -> dict[str, Any]:
    """What a child that has not ended has taken until now."""
    head = await log.head(line)
    made = await log.ask(lambda: own_calls(line, first=line.branch.at + 1))
    calls = [one.call for one in made]
    prices = [call.price for call in calls if not call.error]
    return {
        "state": "waiting" if head.state == "waiting" else "running",
        "calls": len(calls),
        "input": sum(usage_of(call).input for call in calls),
        "output": sum(usage_of(call).output for call in calls),
        "price": None if None in prices else sum(price for price in prices if price),
    }


async def running(runtime: Runtime, conversation: Conversation) -> list[Line]:
    """The children of a conversation that run at this moment, whoever began them."""
    holders = await runtime.log.leases.turns(conversation.tenant, conversation.id)
    lines = [await runtime.log.line(conversation, branch) for branch, who in holders.items() if not is_dead(who)]
    return [line for line in lines if await begun_on(runtime.log, line)]


async def family(log: Log, conversation: Conversation, line: Line) -> set[int]:
    """A branch with the children that were begun on it, and with theirs."""
    found, queue = {line.branch.number}, [line]
    while queue:
        new = [one for one in await own_children(log, conversation, queue.pop()) if one.branch.number not in found]
        found |= {one.branch.number for one in new}
        queue += new
    return found
