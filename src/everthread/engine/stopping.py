"""Ending a turn from anywhere.

A command in the log asks for it, so that it reaches the runner in whichever process it is, and stays on record. A turn
that nobody runs any more, because its process is gone, is closed here.
"""

from __future__ import annotations

from contextlib import aclosing

from everthread.core.branches import Line
from everthread.core.events import Command
from everthread.engine.desk import Desk
from everthread.engine.turn import left_open
from everthread.errors import TurnBusy
from everthread.live import STOP
from everthread.store.appending import Place


async def stop(desk: Desk, line: Line) -> bool:
    """End the turn of a branch, and wait until it has ended. Whether there was one."""
    log, asked = desk.log, False
    place = Place(line.tenant, line.conversation, line.branch.number)
    async with aclosing(log.changes(line.about)) as changes:  # type: ignore[type-var]
        async for _ in changes:
            head = await log.head(line)
            if head.state not in ("open", "waiting"):
                return asked
            try:
                async with desk.queues.turn(log, line, wait=False) as held:
                    if closing := await left_open(log, line, await log.head(line), held):
                        await log.append(place, closing, under=held.lease)
                    return asked or bool(closing)
            except TurnBusy:
                if not asked:
                    await log.append(place, [Command(name=STOP)])
                    asked = True
    return asked
