"""Turns whose runner is gone: whoever notices closes them, and keeps what had come of their replies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from everthread.agent.approval import late_one, refusals, unfinished
from everthread.agent.approval import waiting as waiting_calls
from everthread.agent.lease import Queues
from everthread.core.branches import Line
from everthread.core.ended import LEFT_OPEN, STOPPED
from everthread.core.events import (
    MESSAGES,
    UNANSWERED,
    AgentKilled,
    Assistant,
    Event,
    ToolResult,
    is_unremembered,
    unremembered,
)
from everthread.core.logged import readable
from everthread.core.partial import read_partial
from everthread.core.parts import Text
from everthread.core.turns import Head
from everthread.store.beside.leases import Held, PartialReply
from everthread.store.log import Log
from everthread.store.scripts.append import Draft
from everthread.store.scripts.read import standing


async def left_open(log: Log, line: Line, head: Head, kept: PartialReply) -> list[Event]:
    """The events that close a turn whose runner is gone, with what had come of its reply; none where it is closed, or
    waits. `kept`: what it left under its lease."""
    came = read_partial(kept.text)
    said: list[Event] = []
    if came and came.text:  # nobody has written it, whatever else was written meanwhile
        said = [Assistant(parts=(Text(text=came.text),), model=came.model, interrupted=True)]
    wrote = kept.at  # by whoever had the lease before, and did not end
    late = await late_one(log, line, head, wrote) if wrote else None
    ran = said or late or wrote >= head.turn_first or head.state == "waiting"
    events = await closing(log, line, head, said, reason=LEFT_OPEN if ran else UNANSWERED, late=late)
    if events and await is_without_memory(log, line, head.turn_first, head.seq):
        return [unremembered(event) for event in events]
    return events


async def is_without_memory(log: Log, line: Line, first: int, last: int) -> bool:
    """Whether memory is told nothing of a turn: any of its messages says so, for some may be redacted."""
    return any(is_unremembered(one.event) for one in readable(await log.range(line, first, last)))


def as_of(head: Head, events: Sequence[Event]) -> list[Event | Draft]:
    """What ends a turn that was left belongs to the session that it was in, not to the moment when somebody notices."""
    return [
        Draft(event=event, time=head.time, session=head.session) if event.kind in MESSAGES else event
        for event in events
    ]


async def closing(
    log: Log, line: Line, head: Head, said: Sequence[Event], *, reason: str, late: ToolResult | None = None
) -> list[Event]:
    """The events that end a turn before its time: results of the tool calls that were cut short (`late`: that of one
    of an earlier turn), what had come of its reply, and the reason. A turn of which something still waits for approval
    goes on waiting."""
    results = await unfinished(log, line, head)
    goes_on_waiting = head.state == "waiting" and head.pending > len(results)
    events: list[Event] = [*results, *([late] if late else []), *said]
    is_open = bool(head.turn_first) and head.state in ("open", "waiting")
    if said or (not goes_on_waiting and (is_open or late)):
        events.append(AgentKilled(reason=reason))
    return events


async def close(log: Log, queues: Queues, line: Line, *, waiting: bool = False) -> bool:
    """Close a turn that nobody runs. Whether there was one; TurnBusy: somebody runs it. `waiting`: also one that waits
    for approval, as stopped."""
    async with closed(log, queues, line) as (held, closes):
        events = await _stopped(log, line) if waiting else []
        if events:
            await log.append(line.target, events, under=held.lease)
        return closes or bool(events)


@asynccontextmanager
async def closed(log: Log, queues: Queues, line: Line) -> AsyncIterator[tuple[Held, bool]]:
    """Hold the lease of a branch whose turn nobody runs, and that is closed; and whether there was something to close.
    TurnBusy: somebody runs it."""
    async with queues.turn(log, line, wait=False, ask=partial(standing, line.target, None)) as (held, found):
        events = await left_open(log, line, found.head, found.kept)
        if events:
            await log.append(line.target, as_of(found.head, events), under=held.lease)
        held.open = False
        yield held, bool(events)


async def _stopped(log: Log, line: Line) -> list[Event]:
    """The events that end a turn that waits for approval: its tool calls are refused. None where it does not wait."""
    head = await log.head(line)
    calls = await waiting_calls(log, line)
    own = [one for one in calls if one.branch == line.branch.number]
    if head.state != "waiting" or not own:
        return []
    others = [one for one in calls if one not in own]
    events = [*refusals(own, others, head), AgentKilled(reason=STOPPED)]
    forgetful = await is_without_memory(log, line, head.turn_first, head.seq)
    return [unremembered(event) for event in events] if forgetful else events
