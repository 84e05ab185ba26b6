"""One turn at a time on a branch, in any number of processes.

Who runs a turn holds a lease in the store and renews it. Within a process turns wait in the order in which they found
their branch; a lease of another process is waited for, or taken over when it has run out or its process is seen to be
gone. A turn whose lease was taken over (it was asleep for long) is ended, and must not write any more: `Held.lost` says
so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from weakref import WeakValueDictionary

from everthread.core.branches import Line
from everthread.engine.finishing import finished
from everthread.errors import EverthreadError, TurnBusy
from everthread.store import leases
from everthread.store.holders import holder, is_dead
from everthread.store.log import Log

SECONDS = 30.0
LOOK = 0.25  # seconds between two looks at another process's lease

# The branches whose turns we are in: a tool that speaks to its own branch would wait for itself.
_within: ContextVar[frozenset[str]] = ContextVar("_within", default=frozenset())


class Held:
    """A lease in the hand."""

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        self.lost = False


class Queues:
    """Where the turns of this process wait, by branch."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, log: Log, line: Line, *, wait: bool) -> AsyncIterator[Held]:
        """Be the one who runs a turn of this branch. TurnBusy: somebody does, and we were not to wait."""
        name = leases.of_turns(line.conversation, line.branch.number)
        place = f"{line.tenant}/{name}"
        if place in _within.get():
            raise TurnBusy(line.conversation, "the one that this tool belongs to")
        lock = self._locks.setdefault(place, asyncio.Lock())
        if lock.locked() and not wait:
            raise TurnBusy(line.conversation, "in this process")
        async with lock:
            me, held = holder(), Held(line.conversation)
            inside = _within.set(_within.get() | {place})
            try:
                await _take(log, line, name, me, wait=wait)
                keeping = asyncio.create_task(_keep(log, line.tenant, name, me, held, asyncio.current_task()))
                try:
                    yield held
                finally:
                    keeping.cancel()
            finally:
                _within.reset(inside)
                with suppress(EverthreadError):
                    await finished(log.release(line.tenant, name, holder=me))


async def _take(log: Log, line: Line, name: str, me: str, *, wait: bool) -> None:
    while True:
        has = await finished(log.lease(line.tenant, name, holder=me, seconds=SECONDS))
        if has != me and is_dead(has):
            has = await finished(log.lease(line.tenant, name, holder=me, seconds=SECONDS, over=has))
        if has == me:
            return
        if not wait:
            raise TurnBusy(line.conversation, "in another process")
        await asyncio.sleep(LOOK)


async def _keep(log: Log, tenant: str, name: str, me: str, held: Held, running: asyncio.Task[object] | None) -> None:
    """Renew the lease. Should it have gone to somebody else, the turn is theirs."""
    while True:
        await asyncio.sleep(SECONDS / 3)
        try:
            has = await log.lease(tenant, name, holder=me, seconds=SECONDS)
        except EverthreadError:
            continue  # the store is away for a moment; the lease has not run out yet
        if has != me and running is not None:
            held.lost = True
            running.cancel()
            return
