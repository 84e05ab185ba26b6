"""Ending a turn from anywhere.

A command in the log asks for it, so that it reaches the runner in whichever process it is, and stays on record. It
names the runner that it is meant for, so a turn that is queued behind this one goes on. Whether somebody runs a turn is
told by the lease and not by the turn's state, which users change by what they append. A turn that nobody runs any more,
because its process is gone, is closed here.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from everthread.agent.abandoned import close
from everthread.core.branches import Line
from everthread.errors import TurnBusy
from everthread.live import stop_of
from everthread.store.beside.leases import LeaseName, of_turns

if TYPE_CHECKING:
    from everthread.agent.runtime import Runtime


async def stop(runtime: Runtime, line: Line, *, waiting: bool = False) -> bool:
    """End the turn of a branch, and wait until it has ended. Whether there was one. `waiting`: also one that waits for
    approval, whose tool calls are refused; else it goes on waiting."""
    log, asked = runtime.log, ""
    name = LeaseName(line.tenant, of_turns(line.conversation, line.branch.number))
    # A turn's last append gives the lease back, and tells of the conversation alone.
    async with aclosing(log.changes(name.about, line.about)) as changes:  # type: ignore[type-var]
        async for _ in changes:
            found = await log.leases.partial(*name)
            runner = found.holder if found else ""
            if asked and runner != asked and (runner or not waiting):
                return True
            if not runner and (await log.head(line)).state not in ("open", "waiting"):
                return bool(asked)
            try:
                return await close(log, runtime.queues, line, waiting=waiting) or bool(asked)
            except TurnBusy:
                if runner and not asked:
                    await log.append(line.target, [stop_of(runner)])
                    asked = runner
    return bool(asked)
