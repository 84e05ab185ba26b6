"""The worker: does jobs beside the conversation.

A reminder says that something may be due on a branch; what is due is derived from the log. It is done when the branch
has been quiet for a moment and no turn of this process is under way, or after a while in any case. Of many workers one
does it, because it is done under a lease. After a job has failed, the branch is looked at again at once, because
another job may stand in for it, and then when the branch says so. A worker that is closed finishes what it was reminded
of, up to a deadline.

The worker is given its jobs and a way to look at a branch (`jobs.memory` has memory's), and knows nothing else. Where a
branch is left to a worker apart, the process that replies only writes a reminder down. A worker that runs `serve` in
another process reads it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from everthread.agent.lease import leased
from everthread.core.branches import Line
from everthread.core.values import Value
from everthread.errors import Archived, Conflict, EverthreadError, NotFound, TakenOver
from everthread.store.audit import audit
from everthread.store.beside.leases import Held, Lease, nothing_more
from everthread.store.beside.reminders import ABOUT, Reminder
from everthread.store.conversations import Conversation
from everthread.store.log import Log
from everthread.store.reach import as_operator, within
from everthread.store.restoring import leaving_archived

MOMENT, PATIENCE = 0.25, 5.0  # seconds of quiet that are waited for, and for how long
AT_ONCE = 4  # branches that are worked on at the same time
TRIES = 3  # times that somebody may be faster
ROUNDS = 200  # pieces of work on one branch before others have their turn
FAULT = 60.0  # seconds after which a branch is looked at again on which something went wrong
AGAIN = 5.0  # seconds after which a branch is looked at again on which another worker was

_log = logging.getLogger("everthread.memory")


class Looked(Protocol):
    """A branch as it was found, so far as the worker must know. `on`: whether anything is to be done there; `apart`: by
    a worker apart. `wait`: the seconds after which to look again, 0 where that is not needed. `asks`: the model that
    jobs ask now, if any."""

    @property
    def line(self) -> Line: ...
    @property
    def on(self) -> bool: ...
    @property
    def apart(self) -> bool: ...
    @property
    def wait(self) -> float: ...
    @property
    def asks(self) -> str: ...


L = TypeVar("L", bound=Looked)
L_co = TypeVar("L_co", bound=Looked, covariant=True)


class Look(Protocol[L_co]):
    async def __call__(self, conversation: Conversation, branch: int | None, *, failed: bool = False) -> L_co:
        """Look at a branch. `failed`: a job has failed there just now."""
        ...


class Job(msgspec.Struct, Generic[L], frozen=True, kw_only=True):
    """Something that is done on a branch. `due` says whether it is due, given whether all is to be done or only what is
    worth it by now. `do` does it, and says whether it succeeded. A job that is done `alone` holds the branch's lease,
    and is done again until nothing is due; the others are done once, before these."""

    name: str
    due: Callable[[L, bool], bool]
    do: Callable[[L, Lease | None], Awaitable[bool]]
    alone: bool = True


class Did(msgspec.Struct, Value, frozen=True, kw_only=True):
    """A job that was done: its name, and the model that it asked, if any."""

    conversation: str
    branch: str
    what: str
    model: str = ""


class _Waiting(msgspec.Struct):
    """A branch that waits to be seen to: we were reminded of it first and last at these times."""

    conversation: Conversation
    branch: int
    first: float
    last: float
    written: Reminder | None = None


class Worker:
    def __init__(self, log: Log, jobs: Sequence[Job[L]], *, look: Look[L], busy: Callable[[], bool]) -> None:
        """`busy`: whether a turn of this process is under way."""
        self._store, self._busy = log, busy
        self._look: Look[Looked] = look
        self._before: list[Job[Any]] = [job for job in jobs if not job.alone]
        self._jobs: list[Job[Any]] = [job for job in jobs if job.alone]
        self._tell: Callable[[Did], None] = lambda _: None
        self._waiting: dict[str, _Waiting] = {}
        self._working: dict[str, asyncio.Task[None]] = {}
        self._again: dict[str, asyncio.TimerHandle] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._hurry = asyncio.Event()
        self._closing = self._apart = False

    # -- from the outside --------------------------------------------------------------------------------------

    @property
    def backlog(self) -> int:
        """How many branches wait to be seen to, or are being seen to."""
        return len(self._working)

    def remind(self, conversation: Conversation, branch: int, written: Reminder | None = None) -> None:
        """Something may be due on a branch. Returns at once."""
        if self._closing:
            return
        name, now = f"{conversation.about}/{branch}", time.monotonic()
        before = self._waiting.get(name)
        self._waiting[name] = _Waiting(conversation, branch, before.first if before else now, now, written)
        if name not in self._working:
            self._working[name] = asyncio.create_task(self._attend(name))

    async def drain(self, seconds: float | None = None) -> bool:
        """Do now what is waiting, in this many seconds at most. Whether that was enough."""
        self._hurry.set()
        try:
            async with asyncio.timeout(seconds):
                while self._working:
                    await asyncio.wait(set(self._working.values()))
        except TimeoutError:
            return False
        finally:
            self._hurry.clear()
        return True

    async def close(self, seconds: float = 10.0) -> None:
        """Finish what we were reminded of, in this many seconds at most."""
        self._closing = True
        for handle in self._again.values():
            handle.cancel()
        if not await self.drain(seconds):
            rest = set(self._working.values())
            for task in rest:
                task.cancel()
            if rest:
                await asyncio.wait(rest)

    async def once(self, conversation: Conversation, branch: int | None = None, *, all: bool = True) -> bool:
        """Do what is due on a branch. Whether anything was. Not `all`: only what is worth it by now."""
        did, _ = await self._once(conversation, branch, all=all)
        return did

    async def serve(self, *, until_idle: bool = False, tell: Callable[[Did], None] | None = None) -> None:
        """Do what the processes that reply have written reminders of, until cancelled, or until there are none."""
        self._apart, self._tell = True, tell or self._tell
        audit.info("a worker works for all users")
        with as_operator():
            async for _ in self._store.changes(ABOUT):
                await self._take_all()
                if until_idle:
                    await self.drain()
                    if not await self._store.reminders.due(limit=1):
                        return

    async def _take_all(self) -> None:
        """Be reminded of what processes that reply have written down: looked for everywhere, and seen to within the
        tenant whose it is."""
        for one in await self._store.reminders.due():
            if f"{one.tenant}/{one.conversation}/{one.branch}" in self._working:
                continue
            with within(one.tenant):
                try:
                    self.remind(await self._store.conversations.find(one.owner, one.conversation), one.branch, one)
                except NotFound:
                    await self._store.reminders.drop(one)

    # -- when --------------------------------------------------------------------------------------------------

    async def _attend(self, name: str) -> None:
        """See to a branch for as long as we are reminded of it."""
        try:
            while name in self._waiting:
                await self._quiet(name)
                waiting = self._waiting.pop(name)
                async with self._slots:
                    await self._see_to(name, waiting)
        finally:
            del self._working[name]

    async def _quiet(self, name: str) -> None:
        while not self._hurry.is_set():
            waiting, now = self._waiting[name], time.monotonic()
            rest = max(MOMENT - (now - waiting.last), MOMENT if self._busy() else 0.0)
            if rest <= 0 or now - waiting.first > PATIENCE:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._hurry.wait()

    async def _see_to(self, name: str, waiting: _Waiting) -> None:
        try:
            with leaving_archived():
                wait = await self._try(waiting)
        except (Archived, NotFound):
            return  # archived or erased meanwhile
        if waiting.written:
            with suppress(EverthreadError):
                await self._store.reminders.drop(waiting.written)
        if wait and self._apart:
            await self._write_down(waiting, wait)
        elif wait and not self._closing:
            self._later(name, waiting, wait)

    async def _try(self, waiting: _Waiting) -> float:
        """Do what is due on a branch. After how many seconds to look again. Raises NotFound or Archived alone."""
        conversation = waiting.conversation
        try:
            _, wait = await self._once(conversation, waiting.branch, all=False)
        except (Archived, NotFound):
            raise
        except EverthreadError as problem:
            _log.warning("The work beside conversation %s is behind: %s", conversation.id, problem)
        except Exception:  # noqa: BLE001 -- whatever it was, the conversation goes on, and other branches' turn comes
            _log.exception("The work beside conversation %s failed", conversation.id)
        else:
            return wait
        return FAULT

    async def _write_down(self, waiting: _Waiting, seconds: float) -> None:
        """Remind whichever worker runs by then."""
        with suppress(EverthreadError):
            line = await self._store.line(waiting.conversation, waiting.branch)
            await self._store.reminders.add(waiting.conversation.owner, line, seconds=seconds)

    def _later(self, name: str, waiting: _Waiting, seconds: float) -> None:
        if handle := self._again.pop(name, None):
            handle.cancel()

        def again() -> None:
            self._again.pop(name, None)
            self.remind(waiting.conversation, waiting.branch)

        self._again[name] = asyncio.get_running_loop().call_later(seconds, again)

    # -- what --------------------------------------------------------------------------------------------------

    async def _once(self, conversation: Conversation, branch: int | None, *, all: bool) -> tuple[bool, float]:
        """Whether anything was done, and after how many seconds to look again; 0 where that is not needed."""
        looked = await self._look(conversation, branch)
        if not looked.on:
            return False, 0.0
        if self._leaves(looked, all):
            await self._store.reminders.add(conversation.owner, looked.line)
            return False, 0.0
        for job in [job for job in self._before if job.due(looked, all)]:
            await job.do(looked, None)
        if self._next(looked, all) is None:
            return False, looked.wait
        line = looked.line
        name = f"memory/{line.conversation}/{line.branch.number}"
        async with leased(self._store, line, name, wait=all, ask=nothing_more) as taken:
            return await self._rounds(conversation, line, taken[0], all=all) if taken else (False, AGAIN)

    def _leaves(self, looked: Looked, all: bool) -> bool:
        """Whether what is due is left to a worker apart; not where somebody asks for it now."""
        return looked.apart and not all and not self._apart

    def _next(self, looked: Looked, all: bool) -> Job[Any] | None:
        """The first job that is due."""
        return next((job for job in self._jobs if job.due(looked, all)), None)

    async def _rounds(self, conversation: Conversation, line: Line, held: Held, *, all: bool) -> tuple[bool, float]:
        did, failed, outrun = False, False, 0
        for _ in range(ROUNDS):
            looked = await self._look(conversation, line.branch.number, failed=failed)
            if not looked.on or held.lost:
                return did, 0.0
            if (job := self._next(looked, all)) is None:
                return did, looked.wait
            try:
                succeeded = await self._do(job, looked, held)
            except Conflict as refused:
                outrun += 1
                if isinstance(refused, TakenOver) or outrun == TRIES:
                    return did, AGAIN
            else:
                did |= succeeded
                failed |= not succeeded
        return did, AGAIN

    async def _do(self, job: Job[Any], looked: Looked, held: Held) -> bool:
        """Whether it succeeded."""
        if succeeded := await job.do(looked, held.lease):
            line = looked.line
            self._tell(Did(conversation=line.conversation, branch=line.branch.name, what=job.name, model=looked.asks))
        return succeeded
