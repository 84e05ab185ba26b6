"""The worker's part in archives: it finishes what a crash left of them, and archives what has long been idle.

It looks a while after the store was opened, and then now and then. Idle conversations are archived only where the
setting `archive` says so; by which process, the setting `worker` does. That several look at the same time does no harm.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from everthread.archive.catalogue import ArchiveProgress
from everthread.archive.move import Archiver
from everthread.config import Settings
from everthread.errors import EverthreadError
from everthread.store.reach import as_operator

SOON = 10.0  # seconds after which a process that has opened the store begins to look
LOOK = 3_600.0  # seconds between two looks

_log = logging.getLogger("everthread.archive")


class ArchiveWorker:
    def __init__(self, archiver: Archiver, settings: Callable[[], Settings]) -> None:
        self._archiver, self._settings = archiver, settings
        self._begins: asyncio.TimerHandle | None = None
        self._serving: asyncio.Task[None] | None = None

    def begin_soon(self) -> None:
        """Begin to look, beside whatever else this process does, unless it ends soon or leaves it to others."""

        def begin() -> None:
            self._serving = asyncio.create_task(self.serve(apart=False))

        self._begins = asyncio.get_running_loop().call_later(SOON, begin)

    async def serve(self, *, apart: bool = True) -> None:
        """Look again and again, until cancelled. `apart`: this is the worker apart."""
        with as_operator():
            while True:
                await self.look(apart=apart)
                await asyncio.sleep(LOOK)

    async def look(self, *, apart: bool = True, tell: Callable[[ArchiveProgress], None] | None = None) -> int:
        """Finish what was left, and archive what is idle, if that is wanted. How many conversations were archived."""
        try:
            settings = self._settings()
            await self._archiver.finish()
            if not settings.archive or (settings.worker == "apart" and not apart):
                return 0
            return await self._archiver.archive_idle(days=settings.archive_after, tell=tell)
        except EverthreadError as problem:
            _log.warning("Idle conversations could not be archived: %s", problem)
            return 0

    async def close(self) -> None:
        if self._begins:
            self._begins.cancel()
        if self._serving:
            self._serving.cancel()
            await asyncio.wait({self._serving})
