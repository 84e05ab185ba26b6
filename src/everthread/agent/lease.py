"""One at a time, in any number of processes: one turn on a branch, one worker at what memory has to do there.

Whoever does the work holds a lease in the store and renews it. Within a process, turns wait in the order in which they
came. A lease of another process is waited for, or taken over once it has run out or its process is seen to be gone. A
turn whose lease was taken over (its machine slept for too long) is ended: `Held.lost` says so, and the store refuses
whatever it would still write.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TypeVar, cast
from weakref import WeakValueDictionary

from everthread.agent.finish import finished
from everthread.core.branches import Line
from everthread.errors import EverthreadError, TurnBusy
from everthread.store.beside import leases
from everthread.store.beside.holders import holder, is_dead, process_of
from everthread.store.beside.leases import Held, Lease, PartialReply
from everthread.store.engine import Script
from everthread.store.log import Log

SECONDS = 30.0
LOOK = 0.25  # seconds between two looks at another process's lease

T = TypeVar("T")

# The branches whose turns we are in: a tool that speaks to its own branch would wait for itself.
_within: ContextVar[frozenset[str]] = ContextVar("_within", default=frozenset())


@contextmanager
def apart() -> Iterator[None]:
    """Tasks that are begun meanwhile belong to no turn: they may outlive the one that begins them."""
    inside = _within.set(frozenset())
    try:
        yield
    finally:
        _within.reset(inside)


class Queues:
    """Where the turns of this process wait, by branch. `gone`: processes on other machines that are known to be (see
    `jobs.sweeper`): their leases are not waited for."""

    def __init__(self) -> None:
        self.gone: set[str] = set()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(
        self,
        log: Log,
        line: Line,
        *,
        wait: bool,
        waits: Callable[[], None] = lambda: None,
        ask: Callable[[PartialReply], Script[T]],
    ) -> AsyncIterator[tuple[Held, T]]:
        """Hold the lease of this branch's turns, and give what the script `ask` finds once it is held. TurnBusy:
        another turn has it, and we were not to `wait`. `waits` is called if we have to."""
        name = leases.of_turns(line.conversation, line.branch.number)
        turns = f"{line.tenant}/{name}"
        if turns in _within.get():
            raise TurnBusy(line.conversation, "the one that this tool belongs to")
        lock = self._locks.setdefault(turns, asyncio.Lock())
        if lock.locked() and not wait:
            raise TurnBusy(line.conversation, "in this process")
        if lock.locked():
            waits()
        running = asyncio.current_task()
        async with lock:
            inside = _within.set(_within.get() | {turns})
            try:
                async with leased(
                    log, line, name, wait=wait, waits=waits, running=running, ask=ask, gone=self.gone
                ) as taken:
                    if taken is None:
                        raise TurnBusy(line.conversation, "in another process")
                    taken[0].open = True  # until it is known what the holder before has left
                    yield taken
            finally:
                _within.reset(inside)


@asynccontextmanager
async def leased(
    log: Log,
    line: Line,
    name: str,
    *,
    wait: bool,
    waits: Callable[[], None] = lambda: None,
    running: asyncio.Task[Any] | None = None,
    ask: Callable[[PartialReply], Script[T]],
    gone: AbstractSet[str] = frozenset(),
) -> AsyncIterator[tuple[Held, T] | None]:
    """Hold a lease that concerns a branch, and give what the script `ask` finds once it is held; None where another has
    it and we were not to `wait`. `running` is cancelled if the lease is lost. `gone`: processes that are."""
    held = Held(Lease(line.tenant, name, holder()))
    ours = True  # until we know better: if we are cancelled while taking it, we may have it
    try:
        taken = await _take(log, held, wait=wait, waits=waits, ask=ask, gone=gone)
        ours = taken is not None
        keeping = asyncio.create_task(_keep(log, held, running)) if ours else None
        try:
            yield taken
        finally:
            if keeping is not None:
                keeping.cancel()
    finally:
        if ours and not held.given_back:
            with suppress(EverthreadError):
                await finished(log.leases.release(line.tenant, name, holder=held.lease.holder, open=held.open))


async def _take(
    log: Log,
    held: Held,
    *,
    wait: bool,
    waits: Callable[[], None],
    ask: Callable[[PartialReply], Script[T]],
    gone: AbstractSet[str],
) -> tuple[Held, T] | None:
    """Try until the lease is ours; None where another has it and we were not to wait. `over`: a holder that is dead."""
    over, waited = "", False
    while True:
        held.until = log.now + int(SECONDS * 1e6)
        has, found = await finished(log.leases.take_and_ask(held.lease, seconds=SECONDS, over=over, ask=ask))
        if has == held.lease.holder:
            return held, cast(T, found)
        if not over and (is_dead(has) or process_of(has) in gone):
            over = has
        elif not wait:
            return None
        else:
            if not waited:
                waits()
            over, waited = "", True
            await asyncio.sleep(LOOK)


async def _keep(log: Log, held: Held, running: asyncio.Task[Any] | None) -> None:
    """Renew the lease again and again. If another has taken it, the work is theirs: `running` is cancelled."""
    while True:
        await asyncio.sleep(SECONDS / 3)
        until = log.now + int(SECONDS * 1e6)
        try:
            held.lost = not await log.leases.renew(held.lease, seconds=SECONDS) and not held.given_back
        except EverthreadError:
            continue  # the store is away for a moment; the lease has not run out yet
        if held.lost:
            if running is not None:
                running.cancel()
            return
        if not held.given_back:
            held.until = until
