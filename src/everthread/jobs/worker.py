"""The worker: does beside the conversation what memory has to do.

A reminder says that something may be due on a branch; what is due is derived from the log. Of many workers one does
it, because it is done under a lease. What fails is tried again after a pause that doubles; how often it failed stands
in the log, so the pause outlives the process. Model calls and money are limited by the hour. A worker that is closed
finishes what it has begun, up to a deadline.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from everthread.core.branches import Line
from everthread.engine.desk import Desk
from everthread.errors import Conflict, EverthreadError, ModelError, NotFound
from everthread.jobs.due import Due, due
from everthread.jobs.memory import Memory
from everthread.store.conversations import Conversation, Owner
from everthread.store.holders import holder, is_dead

LEASE = 120.0  # seconds that one piece of work may take
HOUR = 3_600.0
TRIES = 3  # times that somebody may be faster
ROUNDS = 200  # pieces of work on one branch before others have their turn

_log = logging.getLogger("everthread.memory")


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """How memory stands on a branch. `behind`: messages that no brief covers yet."""

    covers: int
    behind: int
    extractive: bool
    failures: int = 0
    error: str = ""
    model: str = ""


class Worker:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._waiting: dict[str, tuple[Conversation, int]] = {}
        self._task: asyncio.Task[None] | None = None
        self._calls: deque[tuple[float, float]] = deque()  # when, and what it cost
        self._again: set[asyncio.TimerHandle] = set()
        self._closing = False

    # -- from the outside --------------------------------------------------------------------------------------

    def remind(self, conversation: Conversation, branch: int) -> None:
        """Something may be due on a branch. Returns at once."""
        if self._closing:
            return
        self._waiting[f"{conversation.about}/{branch}"] = (conversation, branch)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())

    async def drain(self, seconds: float) -> bool:
        """Wait until nothing is waiting, for so many seconds at most. Whether that was enough."""
        if self._task is None or self._task.done():
            return True
        done, _ = await asyncio.wait({self._task}, timeout=seconds)
        return bool(done)

    async def close(self, seconds: float = 10.0) -> None:
        """Finish what is begun, for so many seconds at most."""
        self._closing = True
        self._waiting.clear()
        for handle in self._again:
            handle.cancel()
        if not await self.drain(seconds) and self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def status(self, conversation: Conversation, branch: int | None = None) -> Status:
        line = await self._desk.log.line(conversation, branch)
        memory = await self._memory(conversation, line)
        found = await due(self._desk.log, line, capable=bool(memory.model))
        newest = await due(self._desk.log, line, capable=False)
        head = await self._desk.log.head(line, at=max(1, newest.covered)) if newest.covered else None
        covered = head.messages_sum if head else 0
        event = newest.brief.event if newest.brief else None
        return Status(
            covers=newest.covered,
            behind=max(0, newest.head.messages_sum - covered),
            extractive=bool(getattr(event, "extractive", False)),
            failures=found.failures,
            error=found.error,
            model=memory.model,
        )

    async def once(self, conversation: Conversation, branch: int | None = None) -> bool:
        """Do what is due on a branch, all of it. Whether anything was."""
        line = await self._desk.log.line(conversation, branch)
        name, me = f"memory/{line.conversation}/{line.branch.number}", holder()
        has = await self._desk.log.lease(line.tenant, name, holder=me, seconds=LEASE)
        if has != me and is_dead(has):
            has = await self._desk.log.lease(line.tenant, name, holder=me, seconds=LEASE, over=has)
        if has != me:
            return False  # another worker is at it
        try:
            return await self._rounds(conversation, line, name, me)
        finally:
            await self._desk.log.release(line.tenant, name, holder=me)

    # -- inside ------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while self._waiting:
            place = next(iter(self._waiting))
            conversation, branch = self._waiting.pop(place)
            try:
                await self.once(conversation, branch)
            except NotFound:
                pass  # erased meanwhile
            except EverthreadError as problem:
                _log.warning("Memory of conversation %s is behind: %s", conversation.id, problem)

    async def _rounds(self, conversation: Conversation, line: Line, name: str, me: str) -> bool:
        did, outrun = False, 0
        for _ in range(ROUNDS):
            memory = await self._memory(conversation, line)
            if not memory.settings.memory:
                break
            found = await due(self._desk.log, line, capable=bool(memory.model))
            todo = self._todo(memory, found)
            if todo is None:
                break
            if memory.model and not self._may_call(conversation, line, found, memory):
                break
            try:
                await todo()
                did = True
                self._note(memory)
            except Conflict:
                outrun += 1
                if outrun == TRIES:
                    break
                continue  # somebody was faster: look again
            except ModelError as problem:
                self._note(memory)
                _log.info("Memory of conversation %s waits: %s", conversation.id, problem)
                await self._in_place(memory, line)
                break
            await self._desk.log.lease(line.tenant, name, holder=me, seconds=LEASE)
        return did

    def _todo(self, memory: Memory, found: Due) -> Callable[[], Awaitable[None]] | None:
        """The next piece of work, the most urgent first."""
        settings = memory.settings
        if found.recap:
            return lambda: memory.recap(found)
        if found.wants_brief and settings.strategy != "importance":
            return lambda: memory.brief(found)
        if settings.strategy == "importance" and memory.wants_summary(found):
            return lambda: memory.summary(found)
        if memory.wants_name(found):
            return memory.name
        return None

    async def _in_place(self, memory: Memory, line: Line) -> None:
        """The model failed: the extractive form serves until it is back."""
        memory.model = ""
        found = await due(self._desk.log, line, capable=False)
        todo = self._todo(memory, found)
        if todo is not None:
            with suppress(Conflict):
                await todo()

    async def _memory(self, conversation: Conversation, line: Line) -> Memory:
        """As the conversation is now: it may have been named, or set otherwise, since somebody reminded us."""
        now = await self._desk.log.find(Owner(conversation.tenant, conversation.user), conversation.id)
        return Memory(self._desk, now, line, await self._desk.settings_of(now, line))

    def _may_call(self, conversation: Conversation, line: Line, found: Due, memory: Memory) -> bool:
        now = time.time()
        if pause := found.pause(int(now * 1e6)):
            self._later(conversation, line.branch.number, pause)
            return False
        while self._calls and self._calls[0][0] < now - HOUR:
            self._calls.popleft()
        limit, spent = memory.settings.memory_dollars, sum(price for _, price in self._calls)
        if len(self._calls) >= memory.settings.memory_calls or (limit and spent >= limit):
            self._later(conversation, line.branch.number, HOUR / 4)
            return False
        return True

    def _note(self, memory: Memory) -> None:
        """A piece of work that a model did, and what it cost."""
        if memory.calls:
            self._calls.append((time.time(), memory.spent))

    def _later(self, conversation: Conversation, branch: int, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        handle = loop.call_later(seconds, lambda: self.remind(conversation, branch))
        self._again.add(handle)
        if len(self._again) > 1_000:
            self._again = {one for one in self._again if not one.cancelled() and one.when() > loop.time()}
