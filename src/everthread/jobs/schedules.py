"""The worker's part in schedules: it says what is due, and the agent replies.

Of many processes one runs each: under a lease, and the message has a key made of the schedule and its due time. So
whoever comes after a process that was killed finds the message there and goes on with its turn; and whoever lost the
lease moves the schedule no more. A schedule moves on only after its turn has ended: between the two nothing can be
lost, and nothing said twice.

It does not wait in line for a branch, but looks again later: the turn that is under way may come to wait for approval,
and then the message waits behind that, too. Nor does it wait in line for one of the turns that a service lets its user
have at once. What fails is an event on the branch; it is tried again later and later, and then paused. What a service
refuses because its user has had the tokens of a day is an event as well, and is tried at its next time. A turn that
somebody stops has run; one that ends with its process is gone on with by the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial

import msgspec

from everthread.agent.lease import leased
from everthread.agent.runtime import Runtime
from everthread.agent.start import Given, start
from everthread.context.plan import Asked
from everthread.core import schedules
from everthread.core.branches import Line, Target
from everthread.core.events import Event, ScheduleFailed, User, user
from everthread.core.logged import readable
from everthread.core.schedules import Schedule
from everthread.core.times import microseconds, moment
from everthread.errors import (
    EverthreadError,
    KeyReused,
    StoreError,
    TakenOver,
    TooMany,
    TurnBusy,
    TurnCancelled,
    UnknownConversation,
    UnknownSchedule,
)
from everthread.jobs.worker import Did
from everthread.store.beside.leases import Lease, nothing_more
from everthread.store.beside.schedules import ABOUT
from everthread.store.conversations import Conversation, Owner
from everthread.store.reach import as_operator, within
from everthread.tools import ToolContext

SOON = 5.0  # seconds after which a process that has opened the store begins to look: one that ends before leaves it
LOOK = 5.0  # seconds between two looks: another process may have made a schedule
BUSY, WAITS = 5, 60  # seconds until the next look at a branch with a turn under way, and at one that waits for approval
AT_ONCE = 4  # turns that are run at the same time
PAGE = 1_000  # schedules that are looked at together

_log = logging.getLogger("everthread.schedules")


class ScheduleWorker:
    def __init__(self, runtime: Runtime, talk: Callable[[Conversation], ToolContext]) -> None:
        self.runtime, self.store, self.talk = runtime, runtime.log, talk
        self.tell: Callable[[Did], None] = lambda _: None
        self._running: dict[str, asyncio.Task[bool]] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._begins: asyncio.TimerHandle | None = None
        self._serving: asyncio.Task[None] | None = None
        self._closing = self._apart = False

    # -- from the outside ----------------------------------------------------------------------------------

    def begin_soon(self) -> None:
        """Begin to look, beside whatever else this process does, unless it ends soon."""

        def begin() -> None:
            self._serving = asyncio.create_task(self._serve())

        with as_operator():
            self._begins = asyncio.get_running_loop().call_later(SOON, begin)

    async def serve(self, *, tell: Callable[[Did], None] | None = None) -> None:
        """Run what is due until cancelled, also where that is left to a worker apart."""
        self._apart, self.tell = True, tell or self.tell
        with as_operator():
            await self.store.watch()
            await self._serve()

    async def drain(self, *, tell: Callable[[Did], None] | None = None) -> None:
        """The same, until nothing is due that can be run now."""
        self._apart, self.tell = True, tell or self.tell
        tried = set[tuple[str, object]]()
        while True:
            with as_operator():
                found = await self.store.schedules.due(limit=PAGE)
            due = [one for one in found if (one.id, one.look) not in tried]
            tried |= {(one.id, one.look) for one in due}
            self._run_all(due)
            if not self._running or self._closing:
                return
            await asyncio.wait(set(self._running.values()))

    def leave(self) -> None:
        """Begin nothing any more; what runs goes on."""
        self._closing = True

    def is_closing(self) -> bool:
        return self._closing

    async def close(self) -> None:
        """End what runs: whoever runs the schedule next goes on with its turn."""
        self.leave()
        if self._begins:
            self._begins.cancel()
        tasks = {*self._running.values(), *([self._serving] if self._serving else [])}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # -- when ----------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        self.store.schedules.audit()
        with self.store.bells.listen(ABOUT) as bell:
            while True:
                bell.clear()
                seconds = await self._look()
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await bell.wait()

    async def _look(self) -> float:
        """Begin to run what is due. After how many seconds to look again."""
        try:
            self._run_all(await self.store.schedules.due(limit=PAGE))
            after, now = await self.store.schedules.next_look(), self.store.now
        except EverthreadError as problem:
            _log.warning("Schedules could not be looked at: %s", problem)
            return LOOK
        return LOOK if after is None else max(0.0, min(LOOK, (after - now) / 1e6))

    def _run_all(self, due: list[Schedule]) -> None:
        """Begin to run them, those of a conversation one after another, each within its tenant."""
        together: dict[str, list[Schedule]] = {}
        for one in due:
            together.setdefault(f"{one.tenant}/{one.conversation}", []).append(one)
        for about, own in together.items():
            if about not in self._running and not self._closing:
                with within(own[0].tenant):
                    self._running[about] = task = asyncio.create_task(self._see_to_all(own))
                task.add_done_callback(partial(self._ended, about))

    def _ended(self, about: str, task: asyncio.Task[bool]) -> None:
        del self._running[about]
        if not task.cancelled() and task.result():
            self.store.bells.ring(ABOUT)  # one may be due again

    async def _see_to_all(self, due: list[Schedule]) -> bool:
        """Whether any was moved on."""
        async with self._slots:
            return any([await self._see_to(one) for one in due])

    async def _see_to(self, one: Schedule) -> bool:
        try:
            return not self._closing and await self._run(one)
        except (UnknownConversation, UnknownSchedule, TakenOver):
            return False  # erased, deleted or run by another meanwhile
        except EverthreadError as problem:
            _log.warning("The schedule %s waits: %s", one.id, problem)
        except Exception:  # noqa: BLE001 -- whatever it was, the others have their turn
            _log.exception("The schedule %s could not be run", one.id)
        return False

    # -- what ----------------------------------------------------------------------------------------------

    async def _run(self, one: Schedule) -> bool:
        conversation = await self.store.conversations.find(Owner(one.tenant, one.user), one.conversation)
        line = await self.store.line(conversation)
        if not self._apart and await self._is_left(conversation, line):
            return False
        async with leased(self.store, line, f"schedule/{one.id}", wait=False, ask=nothing_more) as taken:
            return await _Run(self, conversation, line, taken[0].lease).run(one.id) if taken else False

    async def _is_left(self, conversation: Conversation, line: Line) -> bool:
        """Whether it is left to a worker apart. Bad settings are told by the turn."""
        try:
            return (await self.runtime.settings_of(conversation, line)).worker != "here"
        except StoreError:
            raise
        except EverthreadError:
            return False


class _Run:
    """One look at a schedule that is ours alone."""

    def __init__(self, worker: ScheduleWorker, conversation: Conversation, line: Line, lease: Lease) -> None:
        self._worker, self._store = worker, worker.store
        self._conversation, self._line, self._lease = conversation, line, lease

    async def run(self, id: str) -> bool:
        one, now = await self._store.schedules.get(self._conversation, id), moment(self._store.now)
        if not schedules.is_due(one, now):
            return False
        said = [event.event for event in readable(await self._store.kept(self._line, one.key))]
        if not said and one.missed == "skip" and schedules.is_missed(one, now):
            return await self._move(one, partial(schedules.skipped, now=now))
        if not said and (seconds := await self._behind()):
            return await self._put_off(one, seconds)
        try:
            await self._speak(one, said[0] if said else None)
        except TurnBusy:
            return await self._put_off(one, BUSY)
        except TooMany as problem:
            return await self._refuse(one, problem)
        except (StoreError, TakenOver, UnknownConversation, UnknownSchedule):
            raise
        except TurnCancelled:
            if self._worker.is_closing():
                return False
        except Exception as problem:  # noqa: BLE001 -- whatever it was, the log says so
            return await self._fail(one, problem)
        self._worker.tell(Did(conversation=one.conversation, branch=self._line.branch.name, what="schedule"))
        return await self._move(one, partial(schedules.after_run, began=now))

    async def _behind(self) -> int:
        """For how many seconds a message has to wait: behind a turn that waits for approval, or one that another
        schedule began and whose process was killed, so that this is gone on with first. 0 where there is none."""
        head = await self._store.head(self._line)
        if head.state in ("waiting", "idle") or not head.turn_first:
            return WAITS if head.state == "waiting" else 0
        for first in readable(await self._store.range(self._line, head.turn_first, head.turn_first)):
            if isinstance(first.event, User) and (id := schedules.schedule_of(first.event.origin)):
                with suppress(UnknownSchedule):
                    other = await self._store.schedules.get(self._conversation, id)
                    kept = await self._store.kept(self._line, other.key)
                    goes_on = other.state == "active" and not other.failures
                    return BUSY if goes_on and [event.seq for event in kept] == [first.seq] else 0
        return 0

    async def _speak(self, one: Schedule, said: Event | None) -> None:
        """Say the message, or go on with its turn; where somebody has spoken since, say it anew."""
        message = user(one.text, origin=one.origin)
        if self._worker.is_closing():
            raise TurnCancelled
        over = await self._worker.runtime.admit(self._conversation)
        try:
            await self._say(said if isinstance(said, User) else message, key=one.key)
            if await self._has_no_reply(one.key):
                await self._say(message, key=f"{one.key}/{microseconds(one.look) if one.look else 0}")
        finally:
            over()

    async def _has_no_reply(self, key: str) -> bool:
        """Whether what was said under a key stands in a turn that was cut short, or on a branch that was left."""
        line = await self._store.line(self._conversation)
        for said in await self._store.kept(line, key):
            if line.owner(said.seq) != said.branch:
                return True
            [turn] = await self._store.turns(line, last=said.seq, limit=1)
            return turn.state == "interrupted"
        return False

    async def _say(self, message: User, *, key: str) -> None:
        """Say it, or go on with the turn of a message that was said already."""
        target, talk = Target(self._line.tenant, self._line.conversation), self._worker.talk(self._conversation)
        given = Given(asked=Asked(settings={}), wait=False)
        await start(self._worker.runtime, talk, target, lambda turn: turn.say(message, key=key), given)

    async def _fail(self, one: Schedule, problem: Exception) -> bool:
        if isinstance(problem, EverthreadError):
            reason = problem.sentence
        else:
            reason = f"{type(problem).__name__}: {problem}"
            _log.warning("The schedule %s failed", one.id, exc_info=problem)
        await self._store.schedules.get(self._conversation, one.id)  # which is gone where its message was redacted
        now = moment(self._store.now)
        after = schedules.after_failure(one, now)
        told = ScheduleFailed(schedule=one.id, reason=reason, failures=after.failures, paused=after.state == "paused")
        with suppress(KeyReused):  # whoever tried before was killed before it could move the schedule
            target = Target(one.tenant, one.conversation)
            await self._store.append(target, [told], key=f"{one.key}/{one.look}", under=self._lease)
        return await self._move(one, partial(schedules.after_failure, now=now))

    async def _refuse(self, one: Schedule, problem: TooMany) -> bool:
        """More than the user may have. A turn at once too many ends soon; a day's tokens are told on the branch."""
        if problem.seconds <= WAITS:
            return await self._put_off(one, BUSY)
        now = moment(self._store.now)
        again = now + timedelta(seconds=problem.seconds)
        told = ScheduleFailed(schedule=one.id, reason=problem.sentence, failures=one.failures)
        with suppress(KeyReused):  # as in `_fail`
            target = Target(one.tenant, one.conversation)
            await self._store.append(target, [told], key=f"{one.key}/{one.look}", under=self._lease)
        return await self._move(one, partial(schedules.after_refusal, now=now, again=again))

    async def _put_off(self, one: Schedule, seconds: int) -> bool:
        look = moment(self._store.now) + timedelta(seconds=seconds)
        return await self._move(one, lambda now: msgspec.structs.replace(now, look=look))

    async def _move(self, one: Schedule, to: Callable[[Schedule], Schedule]) -> bool:
        await self._store.schedules.move(self._conversation, one, to, under=self._lease)
        return True
