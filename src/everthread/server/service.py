"""What all requests share: the open store, the door, the meter, and what callers may not set."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from starlette.requests import HTTPConnection

from everthread.app import Everthread
from everthread.config import KNOWN, check
from everthread.core.accounts import Caller, Scope
from everthread.core.locks import check_event, check_open
from everthread.errors import EverthreadError
from everthread.jobs.sweeper import Sweeper
from everthread.server.door import Door
from everthread.server.freed import give_back_now_and_then
from everthread.server.limits import Allowance, counted_as, held_to
from everthread.server.logs import TurnLog
from everthread.server.metrics import Metrics, look_at_backlog
from everthread.server.tracing import Tracing
from everthread.server.vault import Vault
from everthread.server.watched import CALLER
from everthread.store.reach import as_operator, within

_log = logging.getLogger("everthread.server")

PAGE_SECONDS = 2.0
SURE = 1.0  # seconds for which whoever stays is not asked again
COUNTED = 5.0  # seconds between two counts of what memory has to do


class Service:
    """`leaving`: set when the process is about to end. `to_tell`: what is called then, for those of whom there are very
    many: each costs less than a task that waits. `page_seconds`: how long a page of events may take before it is
    made smaller. `local_metrics`: whether figures are told without a key to who calls from this machine."""

    def __init__(
        self,
        et: Everthread,
        door: Door,
        vault: Vault,
        limits: Allowance,
        traces: Tracing | None = None,
        *,
        page_seconds: float = PAGE_SECONDS,
        local_metrics: bool = True,
    ) -> None:
        self.et, self.door, self.vault, self.page_seconds = et, door, vault, page_seconds
        self.meter = held_to(et._runtime, limits)
        self.leaving, self.local_metrics = asyncio.Event(), local_metrics
        self.metrics, self.traces = Metrics(), traces
        for observer in (self.metrics, TurnLog(), traces):
            if observer is not None:
                et._runtime.observers.add(observer)
        self.to_tell: set[Callable[[], None]] = set()

    @property
    def limits(self) -> Allowance:
        return self.meter.limits

    async def enter(self, request: HTTPConnection, scope: Scope) -> Caller:
        """Who calls, if it may, and has not called too often."""
        caller = await self.door.enter(request, scope)
        request.scope[CALLER] = caller
        self.meter.request(caller)
        return caller

    def stay(self, request: HTTPConnection) -> Stay:
        """For a caller who has been let in and stays connected."""
        return Stay(self.door, request)

    def note(self, problem: BaseException) -> None:
        """Log a problem that was told to its caller, if nobody expected it."""
        self.metrics.problem(problem)
        if not isinstance(problem, EverthreadError):
            _log.error("A request failed", exc_info=problem)

    def leave(self) -> None:
        """The process is about to end: whoever listens is told to come back elsewhere, and nothing that is scheduled
        begins any more."""
        self.leaving.set()
        self.et._scheduled.leave()
        for tell in tuple(self.to_tell):
            tell()

    async def drained(self, seconds: float) -> None:
        """Give the turns that run some seconds to finish, and interrupt what is left of them then."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.et.idle(), max(0.0, seconds))
        await self.et._runtime.interrupt()

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """While the process serves: turns of processes that are gone are closed, figures kept up to date, and memory
        given back that is free."""
        work = (Sweeper(self.et._runtime).serve(), self._count(), give_back_now_and_then())
        beside = [asyncio.create_task(each) for each in work]
        try:
            yield
        finally:
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)
            if self.traces:
                await asyncio.to_thread(self.traces.close)

    async def _count(self) -> None:
        while True:
            with suppress(EverthreadError), as_operator():
                await look_at_backlog(self)
            await asyncio.sleep(COUNTED)

    @contextmanager
    def within(self, caller: Caller) -> Iterator[None]:
        """Whatever is done for a caller, tasks that it begins included, reaches its tenant only, and counts as its."""
        with within(caller.tenant), counted_as(caller):
            yield

    def allow(self, several: list[Any], named: dict[str, Any]) -> None:
        """Forbidden: an argument sets what only operators may. The store would pass it over or refuse it as well; here
        it is told before anything is written. BadSetting: there is no such setting."""
        for one in several:
            check_event(one)
        for given in (named, named.get("settings")):
            if isinstance(given, dict):
                check_open(given)
        settings = named.get("settings")
        for name, value in settings.items() if isinstance(settings, dict) else ():
            if name not in KNOWN:  # a library's program may keep settings of its own there; here it is a mistake
                check(name, value, "what was given")


class Stay:
    """A caller who stays, and whether they still may: who was signed out meanwhile is told nothing more."""

    def __init__(self, door: Door, request: HTTPConnection) -> None:
        self._door, self._request, self._sure_until = door, request, 0.0

    async def check(self) -> None:
        """NotSignedIn, AccountDisabled …: as at the door. Asked anew every few seconds at most."""
        if (now := time.monotonic()) >= self._sure_until:
            await self._door.enter(self._request, "read")
            self._sure_until = now + SURE
