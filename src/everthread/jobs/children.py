"""The worker's part in children: it finds those whose process was killed, and tells their outcomes.

Nobody else need look: a parent is told although nobody speaks to it. A child keeps its lease until its outcome is told,
so whoever left one behind has left its lease as well. Every process that has the store open for a while looks, and
`everthread work` does; that several find the same child does no harm.
"""

from __future__ import annotations

import asyncio
import logging

from everthread.agent.outcomes import settle
from everthread.agent.runtime import Runtime
from everthread.errors import EverthreadError, NotFound
from everthread.store.conversations import Owner
from everthread.store.reach import as_operator, within

SOON = 5.0  # seconds after which a process that has opened the store begins to look
LOOK = 60.0  # seconds between two looks
PAGE = 1_000  # children that are looked at together

_log = logging.getLogger("everthread.agent")


class ChildWorker:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._begins: asyncio.TimerHandle | None = None
        self._serving: asyncio.Task[None] | None = None

    def begin_soon(self) -> None:
        """Begin to look, beside whatever else this process does, unless it ends soon."""

        def begin() -> None:
            self._serving = asyncio.create_task(self.serve())

        self._begins = asyncio.get_running_loop().call_later(SOON, begin)

    async def serve(self) -> None:
        """Look again and again, until cancelled."""
        with as_operator():
            while True:
                await self.look()
                await asyncio.sleep(LOOK)

    async def look(self) -> int:
        """Settle the children that were left behind. How many had ended."""
        try:
            left = await self._runtime.log.children_left(limit=PAGE)
        except EverthreadError as problem:
            _log.warning("Children that were left behind could not be looked for: %s", problem)
            return 0
        return sum([await self._settle(*one) for one in left])

    async def _settle(self, owner: Owner, conversation: str, branch: int) -> bool:
        try:
            with within(owner.tenant):
                found = await self._runtime.log.conversations.find(owner, conversation)
                line = await self._runtime.log.line(found, branch)
                return await settle(self._runtime, found, line) is not None
        except NotFound:  # erased meanwhile
            return False
        except EverthreadError as problem:
            _log.warning("A child of conversation %s waits to be settled: %s", conversation, problem)
            return False

    async def close(self) -> None:
        if self._begins:
            self._begins.cancel()
        if self._serving:
            self._serving.cancel()
            await asyncio.wait({self._serving})
