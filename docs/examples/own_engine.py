"""A store engine of your own: here one that watches how long another takes, and leaves the rest to it.

A database of another kind does what `everthread.store.engine.Engine` says, with the statements of `store/sql`; the
tests in `tests/contract` tell whether it does.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from everthread import Everthread, user
from everthread.store.engine import Outcome, Script
from everthread.store.sqlite.engine import SqliteEngine

T = TypeVar("T")


class TimedEngine(SqliteEngine):
    """SQLite, and the time of the slowest write."""

    slowest = 0.0

    async def write(self, script: Callable[[], Script[Outcome[T]]], **how: Any) -> T:
        began = time.perf_counter()
        try:
            return await super().write(script, **how)
        finally:
            self.slowest = max(self.slowest, time.perf_counter() - began)


async def main() -> None:
    engine = TimedEngine(Path("own-engine.db"))
    async with Everthread.open(engine) as et:  # in place of an address; it is closed with the store
        talk = await et.conversation(user="ana")
        await talk.append(user("Hello."))
        print([event.text for event in await talk.tail()], engine.slowest > 0)


asyncio.run(main())
