"""What all requests share: the open store, the door, the meter, and what callers may not set."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from starlette.requests import HTTPConnection

from everthread.app import Everthread
from everthread.core.accounts import Caller, Scope
from everthread.core.locks import check_event, check_open
from everthread.errors import EverthreadError
from everthread.server.door import Door
from everthread.server.limits import Allowance, Meter
from everthread.server.vault import Vault
from everthread.store.scope import within

_log = logging.getLogger("everthread.server")

PAGE_SECONDS = 2.0
SURE = 1.0  # seconds for which whoever stays is not asked again


class Service:
    """`leaving`: set when the process is about to end. `page_seconds`: how long a page of events may take before it is
    made smaller."""

    def __init__(
        self, et: Everthread, door: Door, vault: Vault, limits: Allowance, *, page_seconds: float = PAGE_SECONDS
    ) -> None:
        self.et, self.door, self.vault, self.page_seconds = et, door, vault, page_seconds
        self.meter = Meter(limits, self._tokens_today)
        self.leaving = asyncio.Event()

    @property
    def limits(self) -> Allowance:
        return self.meter.limits

    async def enter(self, request: HTTPConnection, scope: Scope) -> Caller:
        """Who calls, if it may, and has not called too often."""
        caller = await self.door.enter(request, scope)
        self.meter.request(caller)
        return caller

    def stay(self, request: HTTPConnection) -> Stay:
        """For a caller who has been let in and stays connected."""
        return Stay(self.door, request)

    def note(self, problem: BaseException) -> None:
        """Log a problem that was told to its caller, if nobody expected it."""
        if not isinstance(problem, EverthreadError):
            _log.error("A request failed", exc_info=problem)

    def leave(self) -> None:
        """The process is about to end: whoever listens is told to come back elsewhere."""
        self.leaving.set()

    async def drained(self, seconds: float) -> None:
        """Give the turns that run some seconds to finish. Closing the store interrupts what is left of them."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.et.idle(), seconds)

    @contextmanager
    def within(self, caller: Caller) -> Iterator[None]:
        """Whatever is done for a caller, tasks that it begins included, reaches its tenant only."""
        with within(caller.tenant):
            yield

    def allow(self, several: list[Any], named: dict[str, Any]) -> None:
        """Forbidden: an argument sets what only operators may. The store would pass it over or refuse it as well; here
        it is told before anything is written."""
        for one in several:
            check_event(one)
        for given in (named, named.get("settings")):
            if isinstance(given, dict):
                check_open(given)

    async def _tokens_today(self, caller: Caller) -> int:
        midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        rows = await self.et.usage(user=caller.user, tenant=caller.tenant, by="day", since=midnight)
        return sum(row.input + row.output for row in rows)


class Stay:
    """A caller who stays, and whether they still may: who was signed out meanwhile is told nothing more."""

    def __init__(self, door: Door, request: HTTPConnection) -> None:
        self._door, self._request, self._sure_until = door, request, 0.0

    async def check(self) -> None:
        """NotSignedIn, AccountDisabled …: as at the door. Asked anew every few seconds at most."""
        if (now := time.monotonic()) >= self._sure_until:
            await self._door.enter(self._request, "read")
            self._sure_until = now + SURE
