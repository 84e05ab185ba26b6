"""One turn at a time on a branch, in any number of processes.

Who runs a turn holds a lease in the store and renews it. Within a process turns wait in the order in which they came;
a lease of another process is waited for, or taken over when it has run out or its process is seen to be gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from weakref import WeakValueDictionary

from everthread.core.branches import Line
from everthread.errors import EverthreadError, TurnBusy
from everthread.store.holders import holder, is_dead
from everthread.store.log import Log

SECONDS = 30.0
LOOK = 0.25  # seconds between two looks at another process's lease


class Queues:
    """Where the turns of this process wait, by branch."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, log: Log, line: Line, *, wait: bool) -> AsyncIterator[None]:
        """Be the one who runs a turn of this branch. TurnBusy: somebody does, and we were not to wait."""
        name = f"turn/{line.conversation}/{line.branch.number}"
        lock = self._locks.setdefault(f"{line.tenant}/{name}", asyncio.Lock())
        if lock.locked() and not wait:
            raise TurnBusy(line.conversation, "in this process")
        async with lock:
            me = holder()
            await _take(log, line, name, me, wait=wait)
            keeping = asyncio.create_task(_keep(log, line.tenant, name, me, asyncio.current_task()))
            try:
                yield
            finally:
                keeping.cancel()
                with suppress(EverthreadError):
                    await log.release(line.tenant, name, holder=me)


async def _take(log: Log, line: Line, name: str, me: str, *, wait: bool) -> None:
    while True:
        has = await log.lease(line.tenant, name, holder=me, seconds=SECONDS)
        if has != me and is_dead(has):
            has = await log.lease(line.tenant, name, holder=me, seconds=SECONDS, over=has)
        if has == me:
            return
        if not wait:
            raise TurnBusy(line.conversation, "in another process")
        await asyncio.sleep(LOOK)


async def _keep(log: Log, tenant: str, name: str, me: str, running: asyncio.Task[object] | None) -> None:
    """Renew the lease. Should it have gone to somebody else (we were asleep for long), the turn is theirs."""
    while True:
        await asyncio.sleep(SECONDS / 3)
        try:
            has = await log.lease(tenant, name, holder=me, seconds=SECONDS)
        except EverthreadError:
            continue  # the store is away for a moment; the lease has not run out yet
        if has != me and running is not None:
            running.cancel()
            return
