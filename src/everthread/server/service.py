"""What all requests share: the open store, the door, the meter, and what callers may not set."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from typing import Any

from starlette.requests import HTTPConnection

from everthread.app import Everthread
from everthread.core.accounts import Caller, Scope
from everthread.core.events import SettingsChanged
from everthread.errors import EverthreadError, Forbidden
from everthread.server.door import Door
from everthread.server.limits import Allowance, Meter
from everthread.server.vault import Vault
from everthread.store.scope import within

_log = logging.getLogger("everthread.server")

# What would have the service call elsewhere, read its files or take more of its machine: for operators to set.
OPERATORS = frozenset({"address", "extra_body", "threads", "worker", "call_seconds", "tool_seconds", "memory_seconds"})
MODELS = ("model", "fallback", "summary_model")
PATHS = ("local:/", "local:.", "local:~", "local:\\")


PAGE_SECONDS = 2.0


class Service:
    """`leaving`: set when the process is about to end. `to_tell`: what is called then, for those of whom there are very
    many: each costs less than a task that waits. `page_seconds`: how long a page of events may take before it is
    made smaller."""

    def __init__(
        self, et: Everthread, door: Door, vault: Vault, limits: Allowance, *, page_seconds: float = PAGE_SECONDS
    ) -> None:
        self.et, self.door, self.vault, self.page_seconds = et, door, vault, page_seconds
        self.meter = Meter(limits, self._tokens_today)
        self.leaving = asyncio.Event()
        self.to_tell: set[Callable[[], None]] = set()

    @property
    def limits(self) -> Allowance:
        return self.meter.limits

    async def enter(self, request: HTTPConnection, scope: Scope) -> Caller:
        """Who calls, if it may, and has not called too often."""
        caller = await self.door.enter(request, scope)
        self.meter.request(caller)
        return caller

    def note(self, problem: BaseException) -> None:
        """Log a problem that was told to its caller, if nobody expected it."""
        if not isinstance(problem, EverthreadError):
            _log.error("A request failed", exc_info=problem)

    def leave(self) -> None:
        """The process is about to end: whoever listens is told to come back elsewhere."""
        self.leaving.set()
        for tell in tuple(self.to_tell):
            tell()

    async def drained(self, seconds: float) -> None:
        """Give the turns that run some seconds to finish. Closing the store interrupts what is left of them."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.et.idle(), seconds)

    def within(self, caller: Caller) -> AbstractContextManager[None]:
        """Whatever is done for a caller, tasks that it begins included, reaches its tenant only."""
        return within(caller.tenant)

    def allow(self, caller: Caller, several: list[Any], named: dict[str, Any]) -> None:
        """Forbidden: an argument sets what only operators may."""
        if caller.may("admin"):
            return
        changes = [one.values for one in several if isinstance(one, SettingsChanged)]
        for given in (named, named.get("settings"), *changes):
            if isinstance(given, dict):
                _check_settings(given)

    async def _tokens_today(self, caller: Caller) -> int:
        midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        rows = await self.et.usage(user=caller.user, tenant=caller.tenant, by="day", since=midnight)
        return sum(row.input + row.output for row in rows)


def _check_settings(given: dict[str, Any]) -> None:
    for name, value in given.items():
        if value is not None and (name in OPERATORS or (name in MODELS and str(value).startswith(PATHS))):
            raise Forbidden(f"{name} is set by the operators of this service alone", "leave it out, or ask one of them")
