"""`log.reminders`: where memory has to look, for workers that are apart from the processes that reply."""

from __future__ import annotations

from collections.abc import Callable

from everthread.core.branches import Line
from everthread.store.audit import audit
from everthread.store.beside import reminders
from everthread.store.beside.reminders import ABOUT, Reminder
from everthread.store.conversations import Owner
from everthread.store.engine import Engine


class Reminders:
    def __init__(self, engine: Engine, clock: Callable[[], int]) -> None:
        self._engine = engine
        self._clock = clock

    async def add(self, owner: Owner, line: Line, *, seconds: float = 0.0) -> None:
        """Write down that something may be due on a branch, now or `seconds` from now."""
        one = reminders.reminder(owner, line, self._clock() + int(seconds * 1e6))
        await self._engine.write(lambda: reminders.remind(one, later=seconds > 0), about=ABOUT, durable=False)

    async def add_all(self) -> None:
        """The same of every branch there is. For workers: crosses every wall, and is logged."""
        now = self._clock()
        audit.info("a worker looks at all conversations")
        await self._engine.write(lambda: reminders.remind_all(now), about=ABOUT, large=True, durable=False)

    async def due(self, *, limit: int = 100) -> list[Reminder]:
        """Those that are due, the oldest first. For workers: crosses every wall."""
        now = self._clock()
        return await self._engine.read(lambda: reminders.due(now, limit))

    async def drop(self, one: Reminder) -> None:
        """It has been seen to; it stays if somebody has reminded again meanwhile."""
        await self._engine.write(lambda: reminders.drop(one), about="reminders dropped", durable=False)
