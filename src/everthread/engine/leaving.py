"""Turns whose runner is gone: whoever notices closes them, and keeps what had come of their replies."""

from __future__ import annotations

from everthread.core.branches import Line
from everthread.core.events import UNANSWERED, AgentKilled, Assistant, Event
from everthread.core.partial import read
from everthread.core.parts import Text
from everthread.core.turns import Head
from everthread.engine.leasing import Queues
from everthread.store.appending import Place
from everthread.store.leases import Held
from everthread.store.log import Log

LEFT_OPEN = "left open: its process ended, or slept, in the middle of it"


async def left_open(log: Log, head: Head, held: Held) -> list[Event]:
    """The events that close a turn whose runner is gone, with what had come of its reply; none where it is closed."""
    kept = await log.partial(held.lease.tenant, held.lease.name)
    partial = read(kept.text) if kept else None
    if partial and partial.text:  # nobody has written it, whatever else was written meanwhile
        said = Assistant(parts=(Text(text=partial.text),), model=partial.model, interrupted=True)
        return [said, AgentKilled(reason=LEFT_OPEN)]
    if head.state != "open" or not head.turn_first:
        return []
    ran = (
        kept is not None and kept.at >= head.turn_first
    )  # whoever had the lease before wrote under it, and did not end
    return [AgentKilled(reason=LEFT_OPEN if ran else UNANSWERED)]


async def close(log: Log, queues: Queues, line: Line) -> bool:
    """Close a turn that nobody runs. Whether there was one; TurnBusy: somebody runs it."""
    async with queues.turn(log, line, wait=False) as held:
        closing = await left_open(log, await log.head(line), held)
        if closing:
            place = Place(line.tenant, line.conversation, line.branch.number)
            await log.append(place, closing, under=held.lease)
        return bool(closing)
