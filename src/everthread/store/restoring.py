"""An engine for which no conversation is archived: a script that meets one is run again once it has been restored.

So nobody who reads or writes a conversation need know that it was archived. How one is restored is told by whoever
opened the store, since files and their places are none of the store's; until then, Archived is raised. So it is where
somebody works beside conversations and would restore one for nobody (`leaving_archived`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from everthread.errors import Archived
from everthread.store.bus.base import Bus
from everthread.store.engine import Bells, Engine, Outcome, Script

T = TypeVar("T")
Restore = Callable[[str, str], Awaitable[None]]  # of tenant and conversation

TRIES = 3  # somebody may archive it again

_leaves: ContextVar[bool] = ContextVar("everthread_leaves_archived", default=False)


@contextmanager
def leaving_archived() -> Iterator[None]:
    """Whatever is done meanwhile restores nothing: it raises Archived."""
    before = _leaves.set(True)
    try:
        yield
    finally:
        _leaves.reset(before)


class Restoring:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.restore: Restore | None = None

    @property
    def bells(self) -> Bells:
        return self._engine.bells

    @bells.setter
    def bells(self, bells: Bells) -> None:
        self._engine.bells = bells

    @property
    def bus(self) -> Bus:
        return self._engine.bus

    @bus.setter
    def bus(self, bus: Bus) -> None:
        self._engine.bus = bus

    async def read(self, script: Callable[[], Script[T]], *, large: bool = False) -> T:
        for _ in range(TRIES):
            try:
                return await self._engine.read(script, large=large)
            except Archived as found:
                await self._bring_back(found)
        return await self._engine.read(script, large=large)

    async def write(
        self,
        script: Callable[[], Script[Outcome[T]]],
        *,
        about: str,
        large: bool = False,
        alone: bool = False,
        durable: bool = True,
    ) -> T:
        for _ in range(TRIES):
            try:
                return await self._engine.write(script, about=about, large=large, alone=alone, durable=durable)
            except Archived as found:
                await self._bring_back(found)
        return await self._engine.write(script, about=about, large=large, alone=alone, durable=durable)

    async def _bring_back(self, found: Archived) -> None:
        if self.restore is None or _leaves.get():
            raise found
        await self.restore(found.tenant, found.conversation)

    async def watch(self) -> None:
        await self._engine.watch()

    async def scrub(self, *, patient: bool = True) -> None:
        await self._engine.scrub(patient=patient)

    async def problems(self) -> list[str]:
        return await self._engine.problems()

    async def close(self) -> None:
        await self._engine.close()
