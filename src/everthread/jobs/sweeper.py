"""The sweeper: closes turns whose process is gone, also where nobody listens to them.

A process that serves says that it lives, by a lease of its own that it renews (`process/…`). Every other looks at the
leases of turns now and then. One whose time is over, or whose process was on this machine and is surely gone, is closed
at the next look: the turn is interrupted, and what had come of its reply is kept. Of a process on another machine it is
known only that it says nothing any more: it is taken to be gone once it has been silent for `SILENT` looks on end that
succeeded, whatever the clocks of the machines say. Should it come back after all, the store refuses what it would still
write to turns that were closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from everthread.agent.abandoned import closed
from everthread.agent.outcomes import written
from everthread.agent.runtime import Runtime
from everthread.errors import Conflict, EverthreadError, NotFound
from everthread.store.beside.holders import is_dead, process_of, this_process
from everthread.store.beside.leases import Term, TurnLease
from everthread.store.conversations import OPERATOR, Owner
from everthread.store.reach import as_operator, within

LOOK = 2.0  # seconds between two looks, and between two signs of life
SILENT = 5  # looks after which a process that has said nothing is gone
LIFE = 3_600.0  # seconds after which a sign of life that nobody looked after is no longer one
AT_ONCE = 8  # turns that are closed at the same time
PREFIX = "process/"

_log = logging.getLogger("everthread.sweeper")


class Sweeper:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime, self._log = runtime, runtime.log
        self._name = PREFIX + this_process()
        self._seen: dict[str, tuple[int, int]] = {}  # what a process last said, and in how many looks it was the same
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def serve(self) -> None:
        """Say that this process lives, and look after the turns of others, until cancelled."""
        with as_operator():
            living = asyncio.create_task(self._again(self._live))
            try:
                await self._again(self.sweep)
            finally:
                living.cancel()
                await asyncio.wait({living})
                with suppress(EverthreadError):
                    await self._log.leases.release(OPERATOR, self._name, holder=this_process())

    async def _again(self, work: Callable[[], Awaitable[object]]) -> None:
        while True:
            try:
                await work()
            except EverthreadError as problem:
                _log.warning("Other processes' turns could not be looked after: %s", problem)
            except Exception:  # noqa: BLE001 -- whatever it is, this process goes on saying that it lives
                _log.exception("Other processes' turns could not be looked after")
            await asyncio.sleep(LOOK)

    async def _live(self) -> None:
        await self._log.leases.take(OPERATOR, self._name, holder=this_process(), seconds=LIFE)

    async def sweep(self) -> int:
        """Look once. How many turns were closed."""
        processes = await self._log.leases.named(OPERATOR, PREFIX)
        turns = await self._log.leases.all_turns()
        gone = self._runtime.queues.gone
        gone.clear()
        gone.update(self._silent(processes))
        left = [one for one in turns if self._is_left(one)]
        done = await asyncio.gather(*(self._close(one) for one in left))
        for name, term in processes.items():
            if name.removeprefix(PREFIX) in gone and not left:  # nothing of it is left, so nobody need know of it
                await self._log.leases.release(OPERATOR, name, holder=term.holder)
        return sum(done)

    def _silent(self, processes: dict[str, Term]) -> list[str]:
        """The processes that are gone: here for certain, elsewhere because they have long said nothing."""
        before, self._seen = self._seen, {}
        for name, term in processes.items():
            said, looks = before.get(name, (term.until, -1))
            self._seen[name] = (term.until, looks + 1 if said == term.until else 0)
        return [
            process
            for name, (_, looks) in self._seen.items()
            if (process := name.removeprefix(PREFIX)) != this_process() and (looks >= SILENT or is_dead(f"{process}/-"))
        ]

    def _is_left(self, one: TurnLease) -> bool:
        return one.until <= self._log.now or is_dead(one.holder) or process_of(one.holder) in self._runtime.queues.gone

    async def _close(self, one: TurnLease) -> bool:
        """Whether there was something to close."""
        async with self._slots:
            with within(one.tenant), suppress(Conflict, NotFound):  # somebody was faster, or it was erased meanwhile
                conversation = await self._log.conversations.find(Owner(one.tenant, one.user), one.conversation)
                line = await self._log.line(conversation, one.branch)
                async with closed(self._log, self._runtime.queues, line) as (_, there_was):
                    await written(self._runtime, conversation, line)  # of a child: the parent hears how it ended
                if there_was:
                    self._runtime.observers.taken_over()
                return there_was
        return False
