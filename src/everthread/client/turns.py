"""A turn that a service runs, heard here: what a `Reply` is given to do.

Its deltas come with the answer to the request that began it. Where that connection is lost in the middle, the branch is
listened to instead, from the message on, and what was told before is passed over: nothing is lost or told twice, but
where a model call was tried again meanwhile. Who stops listening ends the turn, as in the library, unless it is
detached.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from everthread import wire
from everthread.client.connection import Asked, Lost
from everthread.client.events import ServerEvent
from everthread.client.visit import Visit
from everthread.core.canvas.changes import read_changes
from everthread.core.deltas import CallDelta, CanvasDelta, Delta, Done, Notice, ReasoningDelta, ResultDelta, TextDelta
from everthread.core.ended import CANCELLED, LEFT_OPEN, STOPPED
from everthread.core.events import UNANSWERED, AgentKilled, Assistant, Event, ModelCall, ToolCall, ToolResult, text_of
from everthread.core.happenings import CanvasChanged
from everthread.core.logged import Logged
from everthread.errors import BadOutput, EverthreadError, LimitReached, ModelError, TurnInterrupted
from everthread.errors.turns import AT_ITS_LIMIT
from everthread.problems import URN, error_of

if TYPE_CHECKING:
    from everthread.client.talk import Talk

LEAVES = "it ended before the turn began"
ENDED_WITH_ITS_PROCESS = (CANCELLED, LEFT_OPEN, UNANSWERED)  # a service's turns are cancelled by nobody else


class Turn:
    """One turn. `says`: whether it begins with a message, which is told of once it is in the log."""

    def __init__(self, visit: Visit, asked: Asked, talk: Talk, *, says: bool) -> None:
        self._visit, self._asked, self._talk, self._says = visit, asked, talk, says
        self._begins: Logged | None = None  # the event after which its own come
        self._begun = False
        self._heard = Heard()

    async def run(self, tell: Callable[[Delta], None], accept: Callable[[Logged], object], *, detached: bool) -> None:
        """Begin the turn and tell its deltas to the end. Raises what it came to, if that is an error."""
        with self._visit.turn():
            try:
                await self._run(tell, accept)
            except asyncio.CancelledError:
                if not (detached and self._visit.leaving):
                    await self._end()
                raise
        if self._heard.done and self._heard.done.state == "interrupted":
            raise asyncio.CancelledError  # by somebody else: to whoever waits, it is as if it had been here

    async def _run(self, tell: Callable[[Delta], None], accept: Callable[[Logged], object]) -> None:
        if not self._says:
            self._begins = next(iter(await self._talk.before(limit=1)), None)
        try:
            async with self._visit.connection.events(self._asked) as events:
                async for event in events:
                    if event.name == "reconnect":
                        break
                    self._hear(event, tell, accept)
        except Lost as lost:
            if not self._begun:
                raise self._visit.connection.unreachable(lost) from None
        if self._heard.done is None:
            await self._go_on(tell)

    def _hear(self, event: ServerEvent, tell: Callable[[Delta], None], accept: Callable[[Logged], object]) -> None:
        match event.name:
            case "accepted":
                self._begins, self._begun = wire.loads(Logged, event.data), True
                accept(self._begins)
            case "delta":
                delta = wire.loads(Delta, event.data)
                self._begun = self._begun or not isinstance(delta, Notice)
                self._heard.tell(delta, tell)
            case "problem":
                problem = error_of(json.loads(event.data))
                if not (isinstance(problem, BadOutput) and self._heard.done):  # which is read, and told of, here
                    raise problem

    async def _go_on(self, tell: Callable[[Delta], None]) -> None:
        """Listen to the rest of the turn, from where it began, and tell what was not told."""
        if not self._begun or self._begins is None:
            raise self._visit.connection.unreachable(LEAVES)
        own = self._talk._at(self._begins.branch)
        try:
            async with aclosing(own.listen(after=self._begins.seq)) as told:  # type: ignore[type-var]
                async for item in told:
                    if delta := self._heard.new(item):
                        tell(delta)
                    if self._heard.done:
                        break
            if problem := self._heard.problem:
                raise problem
        except EverthreadError as problem:
            if self._says:
                problem.kept = self._begins.seq
            elif isinstance(problem, TurnInterrupted):
                problem.kept = (await own.turns(limit=1))[-1].first
            raise

    async def _end(self) -> None:
        """End the turn; one that has not begun, the service drops by itself."""
        if self._begun and self._begins is not None and self._heard.done is None:
            with suppress(EverthreadError):  # then it ends, or goes on, without us
                await self._talk._at(self._begins.branch).stop()


class Heard:
    """What was told of a turn, so that the rest can be told when it comes in another way: of texts so many characters,
    of everything else how often it came."""

    def __init__(self) -> None:
        self.done: Done | None = None
        self._failed = ""  # why the last model call failed, if it did
        self._killed: str | None = None  # why the turn ended before its time, if it did
        self._known: Counter[object] = Counter()
        self._passed: Counter[object] = Counter()
        self._running = 0  # characters of the reply that runs which were listened to

    @property
    def problem(self) -> EverthreadError | None:
        """What a turn came to that was listened to until its end; None where it is over, waits or was stopped."""
        if self.done is None or self.done.state in ("idle", "waiting") or self._killed == STOPPED:
            return None
        if self._killed in ENDED_WITH_ITS_PROCESS:
            return TurnInterrupted()
        if self._killed and self._killed.startswith(AT_ITS_LIMIT):
            return error_of({"type": f"{URN}{LimitReached.__name__}", "detail": self._killed})
        return ModelError(self._failed) if self._failed else None

    def tell(self, delta: Delta, tell: Callable[[Delta], None]) -> None:
        """Tell a delta that comes with the answer itself."""
        what, size = _measured(delta)
        self._known[what] += size
        self.done = delta if isinstance(delta, Done) else self.done
        tell(delta)

    def new(self, item: Logged | Delta) -> Delta | None:
        """What has not been told yet of something that was listened to."""
        delta = self._delta(item)
        if delta is None:
            return None
        what, size = _measured(delta)
        known = max(0, self._known[what] - self._passed[what])
        self._passed[what] += size
        self._known[what] = max(self._known[what], self._passed[what])
        self.done = delta if isinstance(delta, Done) else self.done
        return None if known >= size else _rest(delta, known)

    def _delta(self, item: Logged | Delta) -> Delta | None:
        """An item that was listened to, as the turn itself would have told it."""
        if not isinstance(item, Logged):
            self._running += len(item.text) if isinstance(item, TextDelta) else 0
            return item
        event = item.event
        if isinstance(event, Assistant):
            rest, self._running = text_of(event)[self._running :], 0
            return TextDelta(text=rest)
        if isinstance(event, ModelCall):
            self._failed = event.error
        if isinstance(event, AgentKilled):
            self._killed = event.reason
        return _as_delta(item.seq, event)


def _as_delta(seq: int, event: Event) -> Delta | None:
    match event:
        case ToolCall(id=id, name=name, arguments=arguments):
            return CallDelta(id=id, name=name, arguments=arguments, approval=bool(event.waits_for))
        case ToolResult(id=id, name=name, error=error):
            return ResultDelta(id=id, name=name, text=text_of(event), error=error)
        case CanvasChanged(by=""):
            return CanvasDelta(changes=tuple(read_changes(event.data.get("changes"))), seq=seq)
        case _:
            return None


def _measured(delta: Delta) -> tuple[object, int]:
    """What a delta is a piece of, and how much of it."""
    match delta:
        case TextDelta() | ReasoningDelta():
            return type(delta), len(delta.text)
        case CallDelta() | ResultDelta():
            return (type(delta), delta.id), 1
        case CanvasDelta():
            return (CanvasDelta, delta.seq), 1
        case _:
            return delta, 1


def _rest(delta: Delta, known: int) -> Delta:
    return type(delta)(text=delta.text[known:]) if isinstance(delta, TextDelta | ReasoningDelta) else delta
