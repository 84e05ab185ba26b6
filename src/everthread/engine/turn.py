"""A turn: from a message until the agent is idle again.

The way of one message: append it, durable before anything else; build the context; call the model and tell what comes
as it comes; append the reply with the record of the call, in one transaction; run the tools that it calls, append
their results; build the context afresh, and so on until the model calls no tool. However it ends, the log says how: a
turn that is cancelled, fails or comes to a limit keeps what had come and is closed as interrupted; one that waits for
approval stays open, across restarts, until somebody says yes or no.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from everthread.config import Settings
from everthread.context.building import Context
from everthread.context.planning import Asked
from everthread.core.branches import Line
from everthread.core.deltas import CallDelta, Delta, Done, Failed, Notice, ResultDelta, Usage
from everthread.core.events import AgentKilled, Assistant, Command, Event, ModelCall, ToolCall, ToolResult, text_of
from everthread.core.logged import Logged
from everthread.core.parts import Text
from everthread.core.turns import State
from everthread.engine.calling import Calling
from everthread.engine.desk import Desk
from everthread.errors import (
    BeyondModel,
    EverthreadError,
    LimitReached,
    MissingExtra,
    ModelError,
    NoModel,
    Overloaded,
    TooLong,
    Unreachable,
)
from everthread.store.appending import Place
from everthread.tools import Toolbox

CANCELLED = "cancelled"
DIED = "its process ended in the middle of the turn"
SHRINK = 0.95  # of what should fit after the provider found a request too long

Tell = Callable[[Delta], None]


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn is run with: what is asked of every context, the tools, the agent's name and version, and what the
    user should know before it begins."""

    asked: Asked
    toolbox: Toolbox
    agent: str = ""
    notes: tuple[str, ...] = ()


class Turn:
    def __init__(self, desk: Desk, talk: Any, line: Line, prepared: Prepared, tell: Tell) -> None:
        self._desk, self._talk, self._line, self._tell = desk, talk, line, tell
        self._asked, self._toolbox, self._agent = prepared.asked, prepared.toolbox, prepared.agent
        self._place = Place(line.tenant, line.conversation, line.branch.number)
        self._calling: Calling | None = None
        self._usage, self._price, self._calls = Usage(), 0.0, 0
        self._priced = True
        self._model = ""
        self._limits = Settings()
        for note in prepared.notes:
            tell(Notice(text=note))

    # -- from the outside --------------------------------------------------------------------------------------

    async def say(self, message: Event, *, key: str = "") -> None:
        """Append a message and go on until the agent is idle."""
        head = await self._desk.log.head(self._line)
        if head.state == "open" and head.turn_first:  # whoever ran it holds no lease any more
            await self._append(AgentKilled(reason=DIED))
        await self._desk.log.append(self._place, [message], key=key)
        await self._run()

    async def resume(self) -> None:
        """Go on with a turn that was left open or interrupted; nothing is said anew."""
        await self._run()

    async def settle(self, call: Logged, *, approved: bool, why: str) -> None:
        """Run a tool call that was waiting, or refuse it, and go on unless others of its turn still wait."""
        event = call.event
        assert isinstance(event, ToolCall)
        self._limits = (await self._context()).settings
        verdict = Command(name="approve" if approved else "refuse", arguments={"call": event.id, "seq": call.seq})
        result = await self._result(event) if approved else _refusal(event, why)
        await self._append(verdict, result)
        self._tell(_told(result))
        if (await self._desk.log.head(self._line)).state == "waiting":
            await self._done()
        else:
            await self._run()

    # -- the loop ----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        problem: EverthreadError | None = None
        deadline = asyncio.timeout(None)
        try:
            async with deadline:
                while await self._once(deadline):
                    pass
        except TimeoutError:
            if not deadline.expired():
                raise
            problem = LimitReached("turn_seconds", self._limits.turn_seconds, "seconds")
        except (ModelError, LimitReached, BeyondModel, MissingExtra) as failed:
            problem = failed
        except asyncio.CancelledError:
            await self._close(CANCELLED)
            raise
        except Exception as unexpected:
            await self._close(f"{type(unexpected).__name__}: {unexpected}")
            raise
        if problem is not None:
            await self._close(str(problem))
            self._tell(Failed(error=str(problem), name=type(problem).__name__))
        await self._done()

    async def _once(self, deadline: asyncio.Timeout) -> bool:
        """One model call and the tools that it calls. Whether there is more to do."""
        context = await self._context()
        if not self._calls:
            self._limits = context.settings
            deadline.reschedule(asyncio.get_running_loop().time() + self._limits.turn_seconds)
        self._check_limits()
        replied = await self._reply(context)
        calls = [event for event in replied if isinstance(event, ToolCall)]
        return bool(calls) and await self._run_tools(calls)

    async def _context(self) -> Context:
        try:
            return await self._desk.contexts.build(self._desk.log, self._line, self._asked)
        except NoModel:
            self._asked = await self._desk.with_default_model(self._asked)
            return await self._desk.contexts.build(self._desk.log, self._line, self._asked)

    def _check_limits(self) -> None:
        limits = self._limits
        if self._calls >= limits.turn_calls:
            raise LimitReached("turn_calls", limits.turn_calls, "model calls")
        if limits.turn_dollars and self._price >= limits.turn_dollars:
            raise LimitReached("turn_dollars", limits.turn_dollars, "US dollars")

    # -- the model ---------------------------------------------------------------------------------------------

    async def _reply(self, context: Context) -> tuple[Event, ...]:
        """What the model said and called, appended. Too long: once more, smaller. Down: the fallback, if any."""
        try:
            return await self._call(context)
        except TooLong as problem:
            self._tell(Notice(text="The provider found the request too long; it is built again, smaller."))
            await self._failed(problem)
            await self._desk.learn(context, problem.needed)
            self._desk.learn_window(context.model, problem.limit)
            otherwise: dict[str, Any] = {"budget": _smaller(context, problem)}
        except (Overloaded, Unreachable) as problem:
            fallback = context.settings.fallback
            if self._said or not fallback or fallback == context.model:
                raise
            self._tell(Notice(text=f"{problem} {fallback} takes over for this turn."))
            await self._failed(problem)
            otherwise = {"model": fallback, "address": ""}
        self._asked = msgspec.structs.replace(self._asked, settings=self._asked.settings | otherwise)
        return await self._call(await self._context())

    async def _call(self, context: Context) -> tuple[Event, ...]:
        self._calls += 1
        self._model = context.model
        self._calling = calling = Calling(self._desk, context, agent=self._agent, tell=self._tell)
        replied = await calling.reply()
        asks = [self._toolbox.needs_approval(e) if isinstance(e, ToolCall) else False for e in replied.events]
        said = [
            msgspec.structs.replace(event, waits_for="approval") if waits and isinstance(event, ToolCall) else event
            for event, waits in zip(replied.events, asks, strict=True)
        ]
        if not any(isinstance(event, ToolCall) for event in said):
            said = said or [Assistant(model=context.model)]  # even an empty reply ends the turn
        record = calling.record
        await self._append(*said, record)
        self._calling = None
        self._count(record)
        self._desk.beside(self._desk.learn(context, record.input))
        return tuple(said)

    @property
    def _said(self) -> str:
        return self._calling.said if self._calling else ""

    def _count(self, record: ModelCall) -> None:
        counts = {name: getattr(record, name) for name in Usage.__struct_fields__}
        self._usage += Usage(**counts)
        self._priced = self._priced and record.price is not None
        self._price += record.price or 0.0

    async def _failed(self, problem: ModelError) -> None:
        """The record of a model call of which nothing came, and that is made again otherwise."""
        assert self._calling
        await self._append(self._calling.failed(str(problem)))
        self._calling = None

    # -- tools -------------------------------------------------------------------------------------------------

    async def _run_tools(self, calls: Sequence[ToolCall]) -> bool:
        """All at once; their results are appended in the order of the calls. Whether the turn goes on at once."""
        for call in calls:
            waits = bool(call.waits_for)
            self._tell(CallDelta(id=call.id, name=call.name, arguments=call.arguments, approval=waits))
        running = [asyncio.create_task(self._result(call)) for call in calls if not call.waits_for]
        try:
            for task in running:
                result = await task
                await self._append(result)
                self._tell(_told(result))
        finally:
            for task in running:
                task.cancel()
        return not any(call.waits_for for call in calls)

    async def _result(self, call: ToolCall) -> ToolResult:
        return await self._toolbox.run(call, self._talk, seconds=self._limits.tool_seconds)

    # -- how it ends -------------------------------------------------------------------------------------------

    async def _close(self, reason: str) -> None:
        """Keep what had come of the reply, and close the turn as interrupted."""
        events: list[Event] = []
        if self._calling:
            if said := self._calling.said:
                events.append(Assistant(parts=(Text(text=said),), model=self._calling.model, interrupted=True))
            events.append(self._calling.failed(reason))
            self._calling = None
        await self._append(*events, AgentKilled(reason=reason))

    async def _done(self) -> None:
        head = await self._desk.log.head(self._line)
        state: State = head.state
        price = self._price if self._priced else None
        self._tell(
            Done(state=state, model=self._model, seq=head.seq, usage=self._usage, price=price, calls=self._calls)
        )

    async def _append(self, *events: Event) -> list[Logged]:
        return await self._desk.log.append(self._place, events)


def _smaller(context: Context, problem: TooLong) -> int:
    """A budget that should fit, from the provider's own figures where it gave them."""
    needed = problem.needed or context.estimate
    limit = problem.limit or int(needed * 0.75)
    room = max(1, limit - context.settings.reply_tokens) if problem.limit else limit
    return max(1, int(min(context.budget, context.estimate) * min(1.0, room / needed) * SHRINK))


def _refusal(call: ToolCall, why: str) -> ToolResult:
    said = f"The user refused this tool call{f': {why}' if why else '.'}"
    return ToolResult(id=call.id, name=call.name, parts=(Text(text=said),), error=True)


def _told(result: ToolResult) -> ResultDelta:
    return ResultDelta(id=result.id, name=result.name, text=text_of(result), error=result.error)
