"""Which children there are: those of a branch, those that run, a branch with all of its own."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from everthread.core.branches import Line
from everthread.core.happenings import FlowCompleted
from everthread.core.logged import readable
from everthread.core.outcomes import child_of, ended_key
from everthread.errors import NotFound
from everthread.store.beside.holders import is_dead
from everthread.store.conversations import Conversation
from everthread.store.log import Log
from everthread.store.scripts.along import key_of
from everthread.store.scripts.children import Begun, begun
from everthread.store.scripts.read import newest_markers

if TYPE_CHECKING:
    from everthread.agent.runtime import Runtime


async def begun_on(log: Log, line: Line) -> Begun | None:
    """How a child's branch began; None where it is no child's."""
    return await log.ask(lambda: begun(key_of(line), line.branch))


async def own_children(log: Log, conversation: Conversation, line: Line) -> list[Line]:
    """The branches of the children that were begun on a branch itself, newest first."""
    started = await log.ask(lambda: newest_markers(line, "flow_started", first=line.branch.at + 1))
    lines = []
    for child in {child: None for one in readable(started) if (child := child_of(one.event))}:
        with suppress(NotFound):  # an application's event, that looks like ours
            lines.append(await log.line(conversation, child))
    return lines


async def ended(log: Log, line: Line) -> FlowCompleted | None:
    """The event that tells the outcome of a child; None where there is none yet, or it was redacted."""
    events = [one.event for one in await log.kept(line, ended_key(line.branch.number))]
    return next((event for event in events if isinstance(event, FlowCompleted)), None)


async def running(runtime: Runtime, conversation: Conversation) -> list[Line]:
    """The children of a conversation that run at this moment, whoever began them."""
    log = runtime.log
    holders = await log.leases.turns(conversation.tenant, conversation.id)
    lines = [await log.line(conversation, branch) for branch, who in holders.items() if not is_dead(who)]
    # One whose outcome is told is over, though it may hold its lease for a moment longer.
    left = [line for line in lines if not await log.kept(line, ended_key(line.branch.number))]
    return [line for line in left if await begun_on(log, line)]


async def family(log: Log, conversation: Conversation, line: Line) -> set[int]:
    """A branch with the children that were begun on it, and with theirs."""
    found, queue = {line.branch.number}, [line]
    while queue:
        new = [one for one in await own_children(log, conversation, queue.pop()) if one.branch.number not in found]
        found |= {one.branch.number for one in new}
        queue += new
    return found
