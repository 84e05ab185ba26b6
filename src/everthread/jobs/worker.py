"""The worker: does beside the conversation what memory has to do.

A reminder says that something may be due on a branch; what is due is derived from the log. It is done when the branch
has been quiet for a moment and no turn of this process is under way, or after a while in any case. Of many workers one
does it, because it is done under a lease. What fails is tried again after a pause that doubles, and model calls and
money are limited by the hour; both are derived from the log, so they outlive the process, and what can be told without
a model is told meanwhile. A worker that is closed finishes what it was reminded of, up to a deadline.

Where the setting `worker` says so, the process that replies only writes a reminder down, and a worker apart, which
`serve` makes of this one, reads it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from everthread.agent.lease import leased
from everthread.agent.runtime import Runtime
from everthread.config import Settings
from everthread.core.branches import Line
from everthread.errors import Conflict, EverthreadError, NotFound, TakenOver
from everthread.memory.due import Due, due
from everthread.memory.make import Memory, Unusable
from everthread.memory.spending import Spending, error_of, spending
from everthread.store.audit import audit
from everthread.store.beside.leases import Held, nothing_more
from everthread.store.beside.reminders import ABOUT, Reminder
from everthread.store.conversations import Conversation, Owner, find
from everthread.store.engine import Script
from everthread.store.recall.index import Unindexed, unindexed
from everthread.store.scripts.branch import line as line_of
from everthread.store.scripts.forget import pending

MOMENT, PATIENCE = 0.25, 5.0  # seconds of quiet that are waited for, and for how long
AT_ONCE = 4  # branches that are worked on at the same time
TRIES = 3  # times that somebody may be faster
ROUNDS = 200  # pieces of work on one branch before others have their turn
FAULT = 60.0  # seconds after which a branch is looked at again on which something went wrong
AGAIN = 5.0  # seconds after which a branch is looked at again on which another worker was

_log = logging.getLogger("everthread.memory")


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """How memory stands on a branch. `behind`: messages that no brief covers yet, without those of a turn under way; no
    summary, under the strategy `importance`; none under `session`, which has neither. `failures` are in a row, `error`
    is the newest of them, and `wait` the seconds until a model is asked again; `calls` and `dollars` are what memory
    took for this user in the last hour."""

    covers: int
    behind: int
    extractive: bool
    on: bool = True
    model: str = ""
    failures: int = 0
    error: str = ""
    wait: float = 0.0
    calls: int = 0
    dollars: float = 0.0


class Did(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of work that was done: a brief, a recap, a summary or a name. Without a `model` it is an extract."""

    conversation: str
    branch: str
    what: str
    model: str = ""


class _Place(msgspec.Struct):
    """A branch of which we were reminded, first and last at these times."""

    conversation: Conversation
    branch: int
    first: float
    last: float
    written: Reminder | None = None


class _Looked(msgspec.Struct, frozen=True, kw_only=True):
    """How a branch stands, all of it read at once: what to make it with, what is due, and what was spent. `model`: the
    one that memory has, whether or not it may be asked now; `wait`: seconds until it may. Also what else there is to
    do: events that the index of recall lacks, and whether something is half-forgotten."""

    memory: Memory
    model: str
    due: Due
    spent: Spending
    wait: float
    unindexed: list[Unindexed]
    half_forgotten: bool

    @property
    def settings(self) -> Settings:
        return self.memory.settings


class Worker:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._tell: Callable[[Did], None] = lambda _: None
        self._waiting: dict[str, _Place] = {}
        self._working: dict[str, asyncio.Task[None]] = {}
        self._again: dict[str, asyncio.TimerHandle] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._hurry = asyncio.Event()
        self._closing = self._apart = False

    # -- from the outside --------------------------------------------------------------------------------------

    def remind(self, conversation: Conversation, branch: int, written: Reminder | None = None) -> None:
        """Something may be due on a branch. Returns at once."""
        if self._closing:
            return
        name, now = f"{conversation.about}/{branch}", time.monotonic()
        before = self._waiting.get(name)
        self._waiting[name] = _Place(conversation, branch, before.first if before else now, now, written)
        if name not in self._working:
            self._working[name] = asyncio.create_task(self._attend(name))

    async def drain(self, seconds: float | None = None) -> bool:
        """Do now what is waiting, for so many seconds at most. Whether that was enough."""
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
        """Finish what we were reminded of, for so many seconds at most."""
        self._closing = True
        for handle in self._again.values():
            handle.cancel()
        if not await self.drain(seconds):
            rest = set(self._working.values())
            for task in rest:
                task.cancel()
            if rest:
                await asyncio.wait(rest)

    async def status(self, conversation: Conversation, branch: int | None = None) -> Status:
        looked = await self._look(conversation, branch, as_is=True)
        found, spent = looked.due, looked.spent
        version, behind = found.standing(looked.settings.strategy)
        return Status(
            covers=max(found.head.cleared, version.covers),
            behind=behind,
            extractive=bool(version.event and version.event.extractive),
            on=looked.settings.memory,
            model=looked.model,
            failures=spent.failures,
            error=await error_of(self._runtime.log, conversation, spent),
            wait=looked.wait,
            calls=spent.calls,
            dollars=spent.dollars,
        )

    async def once(self, conversation: Conversation, branch: int | None = None, *, all: bool = True) -> bool:
        """Do what is due on a branch. Whether anything was. Not `all`: extracts only once they are worth it."""
        did, _ = await self._once(conversation, branch, all=all)
        return did

    async def serve(self, *, until_idle: bool = False, tell: Callable[[Did], None] | None = None) -> None:
        """Do what the processes that reply have written reminders of, until cancelled, or until there are none."""
        self._apart, self._tell = True, tell or self._tell
        audit.info("a worker works for all users")
        async for _ in self._runtime.log.changes(ABOUT):
            found = await self._runtime.log.reminders.due()
            for one in found:
                if f"{one.tenant}/{one.conversation}/{one.branch}" not in self._working:
                    await self._take(one)
            if until_idle:
                await self.drain()
                if not await self._runtime.log.reminders.due(limit=1):
                    return

    # -- when --------------------------------------------------------------------------------------------------

    async def _attend(self, name: str) -> None:
        """See to a branch for as long as we are reminded of it."""
        try:
            while name in self._waiting:
                await self._quiet(name)
                place = self._waiting.pop(name)
                async with self._slots:
                    await self._see_to(name, place)
        finally:
            del self._working[name]

    async def _quiet(self, name: str) -> None:
        while not self._hurry.is_set():
            place, now = self._waiting[name], time.monotonic()
            rest = max(MOMENT - (now - place.last), MOMENT if self._runtime.busy else 0.0)
            if rest <= 0 or now - place.first > PATIENCE:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._hurry.wait()

    async def _see_to(self, name: str, place: _Place) -> None:
        conversation, wait = place.conversation, FAULT
        try:
            _, wait = await self._once(conversation, place.branch, all=False)
        except NotFound:
            return  # erased meanwhile
        except EverthreadError as problem:
            _log.warning("Memory of conversation %s is behind: %s", conversation.id, problem)
        except Exception:  # noqa: BLE001 -- whatever it was, the conversation goes on, and other branches' turn comes
            _log.exception("Memory of conversation %s failed", conversation.id)
        if place.written:
            with suppress(EverthreadError):
                await self._runtime.log.reminders.drop(place.written)
        if wait and self._apart:
            await self._write_down(place, wait)
        elif wait and not self._closing:
            self._later(name, place, wait)

    async def _write_down(self, place: _Place, seconds: float) -> None:
        """For whichever worker there is by then."""
        with suppress(EverthreadError):
            line = await self._runtime.log.line(place.conversation, place.branch)
            owner = Owner(place.conversation.tenant, place.conversation.user)
            await self._runtime.log.reminders.add(owner, line, seconds=seconds)

    def _later(self, name: str, place: _Place, seconds: float) -> None:
        if handle := self._again.pop(name, None):
            handle.cancel()

        def again() -> None:
            self._again.pop(name, None)
            self.remind(place.conversation, place.branch)

        self._again[name] = asyncio.get_running_loop().call_later(seconds, again)

    async def _take(self, one: Reminder) -> None:
        """A reminder that a process which replies has written."""
        try:
            self.remind(await self._runtime.log.conversations.find(one.owner, one.conversation), one.branch, one)
        except NotFound:
            await self._runtime.log.reminders.drop(one)

    # -- what --------------------------------------------------------------------------------------------------

    async def _once(self, conversation: Conversation, branch: int | None, *, all: bool) -> tuple[bool, float]:
        """Whether anything was done, and after how many seconds to look again; 0 where that is not needed."""
        looked = await self._look(conversation, branch)
        if not looked.settings.memory:
            return False, 0.0
        line, log = looked.memory.line, self._runtime.log
        if not all and not self._apart and looked.settings.worker != "here":
            await log.reminders.add(Owner(conversation.tenant, conversation.user), line)  # who is apart sees to it
            return False, 0.0
        if looked.half_forgotten:
            await log.forgetting.finish_later()  # what a process that died has left
        await log.recall.index_these(Owner(conversation.tenant, conversation.user), looked.unindexed)
        if looked.memory.todo(looked.due, all=all) is None:
            return False, looked.wait
        name = f"memory/{line.conversation}/{line.branch.number}"
        async with leased(log, line, name, wait=all, ask=nothing_more) as taken:
            return await self._rounds(conversation, line, taken[0], all=all) if taken else (False, AGAIN)

    async def _rounds(self, conversation: Conversation, line: Line, held: Held, *, all: bool) -> tuple[bool, float]:
        did, failed, outrun = False, False, 0
        for _ in range(ROUNDS):
            looked = await self._look(conversation, line.branch.number, failed=failed)
            memory = looked.memory
            memory.lease = held.lease
            if not memory.settings.memory or held.lost:
                return did, 0.0
            if (todo := memory.todo(looked.due, all=all)) is None:
                return did, looked.wait
            try:
                await todo[1]()
                did = True
                self._tell(Did(conversation=conversation.id, branch=line.branch.name, what=todo[0], model=memory.model))
            except TakenOver:
                return did, AGAIN
            except Conflict:
                outrun += 1
                if outrun == TRIES:
                    return did, AGAIN
            except Unusable as problem:
                failed = True
                _log.info("Memory of conversation %s waits: %s", conversation.id, problem)
        return did, AGAIN

    async def _look(
        self, conversation: Conversation, branch: int | None, *, failed: bool = False, as_is: bool = False
    ) -> _Looked:
        """How a branch stands now: it may have been named, or set otherwise, since somebody reminded us. `failed`: the
        model was asked in vain just now, and what can be told without it serves until then. `as_is`: extracts are taken
        for what they are, though a model could do better."""
        runtime, now = self._runtime, self._runtime.log.now
        owner = Owner(conversation.tenant, conversation.user)
        await runtime.log.conversations.mine(conversation)
        agent = await runtime.agent(conversation.tenant, conversation.agent)

        def script() -> Script[_Looked]:
            found = yield from find(owner, conversation.id)
            line = yield from line_of(found.tenant, found.id, branch, known=runtime.log.lines)
            settings = (yield from runtime.resolving(found, line, agent)).settings
            memory = Memory(runtime, found, line, settings)
            spent = yield from spending(found, now)
            model, wait = memory.model, spent.wait(settings, now) if memory.model else 0.0
            memory.model = "" if wait or failed else model
            return _Looked(
                memory=memory,
                model=model,
                due=(yield from due(line, capable=bool(memory.model) and not as_is)),
                spent=spent,
                wait=wait,
                unindexed=(yield from unindexed(owner, found.id)),
                half_forgotten=bool((yield from pending(1))),
            )

        return await runtime.log.ask(script)

    async def memory_of(self, conversation: Conversation, line: Line) -> Memory:
        """As the conversation is now: it may have been named, or set otherwise, since somebody reminded us."""
        now = await self._runtime.log.conversations.find(Owner(conversation.tenant, conversation.user), conversation.id)
        return Memory(self._runtime, now, line, await self._runtime.settings_of(now, line))
