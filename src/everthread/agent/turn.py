"""A turn: from a message until the agent is idle again.

The way of one message: append it, durable before anything else; build the context; call the model and tell what comes
as it comes; append the reply with the record of the call, in one transaction; run the tools that it calls, append
their results; build the context afresh, and so on until the model calls no tool. However it ends, the log says how: a
turn that is cancelled, fails or comes to a limit keeps what had come and is closed as interrupted; one that waits for
approval stays open, across restarts, until somebody says yes or no.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from everthread.agent.abandoned import as_of, closing, left_open
from everthread.agent.approval import (
    StillWaiting,
    approved_here,
    change,
    check_can_run,
    is_late,
    key_for,
    late_result,
    refusal,
    verdict,
)
from everthread.agent.call import Calling, of_fallback, sent_with, smaller
from everthread.agent.figures import Figures
from everthread.agent.finish import finished, finished_or_failed
from everthread.agent.results import with_arguments, with_note
from everthread.agent.resumed import SAID_AGAIN, first_reply, is_said_again, why_over, with_same_memory, with_same_model
from everthread.agent.runtime import Runtime
from everthread.agent.tool_calls import DrawsOn, ToolCalls
from everthread.config import Settings
from everthread.context.build import Context, holding
from everthread.context.plan import Asked
from everthread.core.deltas import Delta, Notice, TextDelta
from everthread.core.ended import CANCELLED, STOPPED, UNTOLD, is_own_reason
from everthread.core.events import Assistant, Event, ToolCall, unremembered
from everthread.core.logged import Logged
from everthread.core.partial import LiveDelta
from everthread.core.parts import Text
from everthread.core.sections import ago
from everthread.core.turns import Head
from everthread.errors import (
    BrokenOff,
    EverthreadError,
    LimitReached,
    ModelError,
    NothingToResume,
    Overloaded,
    TakenOver,
    TooLong,
    Unreachable,
)
from everthread.live import LiveTurn
from everthread.store.scripts.append import Draft
from everthread.store.scripts.read import Standing
from everthread.tools import Toolbox, ToolContext
from everthread.tools.toolbox import ToolOutcome

TellDelta = Callable[[Delta], None]
Accept = Callable[[Logged], None]

_log = logging.getLogger("everthread.agent")


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn is run with: what is asked of every context, the tools, the agent's name and version, what the user
    should know before it begins, and where it draws, if that is not on its own branch. `keeps_lease`: whether something
    is to be written after its last event, so that the branch is not yet free with that."""

    asked: Asked
    toolbox: Toolbox
    agent: str = ""
    notices: tuple[str, ...] = ()
    draws_on: DrawsOn | None = None
    keeps_lease: bool = False


class TurnRunner:
    """A turn as its runner sees it. Its verbs raise what went wrong, after the last delta; the log says it as well."""

    def __init__(
        self,
        runtime: Runtime,
        talk: ToolContext,
        run: LiveTurn,
        standing: Standing,
        prepared: Prepared,
        figures: Figures,
        *,
        tell: TellDelta,
        accept: Accept,
    ) -> None:
        self._runtime, self._talk, self._live, self._held = runtime, talk, run, run.held
        self.head = standing.head  # after the newest event that we know of
        self._left = standing.kept  # what came of a reply of the runner before
        self.line = run.line
        self._tell_caller, self._accept = tell, accept
        self._asked, self._toolbox, self._agent = prepared.asked, prepared.toolbox, prepared.agent
        talk.notes_seen = ""
        self._tools = ToolCalls(runtime, run, self._toolbox, talk, append=self._append, tell=self._tell)
        self._tools.draws_on = prepared.draws_on
        self._keeps_lease = prepared.keeps_lease
        self._target = run.line.target
        self._calling: Calling | None = None
        self._answered: Logged | None = None  # the tool call that was approved, and runs
        self._change: Logged | None = None  # how somebody changed its arguments
        self._figures = figures
        self._begun = False  # whether the turn is ours to go on with
        self._limits = Settings()  # from the first context on: its settings, for the whole turn
        for notice in prepared.notices:
            self._tell(Notice(text=notice))

    def _tell(self, delta: Delta) -> None:
        """Tell the caller, and those who listen what they cannot read in the log."""
        self._tell_caller(delta)
        if isinstance(delta, LiveDelta):
            self._live.tell(delta)

    # -- from the outside --------------------------------------------------------------------------------------

    async def say(self, message: Event, *, key: str = "") -> None:
        """Append a message and go on until the agent is idle. What was said with the same key is not said again."""

        async def begin() -> bool:
            await self.close_left()
            head = self.head
            await self._warn_if_said_again(head, message, key)
            logged, new = await finished(self._take(message, key, head))
            if new:
                self._greet(head, logged)
                return True
            here = self.line.owner(logged.seq) == logged.branch
            if here and logged.seq == head.turn_first and not why_over(head):
                return await self._go_on(head)
            await self._repeat(logged)
            return False

        await self._run(begin)

    async def _take(self, message: Event, key: str, head: Head) -> tuple[Logged, bool]:
        """Append the message, or find the one that was said before with the same key; and whether it is new."""
        kept, lease = self._kept([message]), self._held.lease
        [logged], self.head = await self._runtime.log.go_on(self._target, kept, key=key, under=lease, gap=self._gap)
        new = logged.branch == self._target.branch and logged.seq > head.seq
        self._accept(logged)
        self._begun = True
        if new:
            self._live.moved(logged.seq)
        return logged, new

    async def _warn_if_said_again(self, head: Head, message: Event, key: str) -> None:
        """Tell the caller where the same was said last and had no reply."""
        if not key and await is_said_again(self._runtime.log, self.line, head, message):
            self._tell(Notice(text=SAID_AGAIN))

    def _greet(self, head: Head, message: Logged) -> None:
        """Tell the caller where a message begins a new session."""
        if head.session and message.session != head.session:
            pause = ago((message.micros - head.spoken_time) / 1e6)
            self._tell(Notice(text=f"A new session: the last message was {pause} ago."))
            # The session before has ended: its recap is made beside this turn.
            self._runtime.remind(self._talk.conversation, self.line.branch.number)

    async def resume(self) -> None:
        """Go on with a turn that was left open or interrupted; nothing is said anew."""

        async def begin() -> bool:
            await self.close_left()  # so that those who heard some of its reply know that another one begins
            if over := why_over(self.head):
                raise NothingToResume(over)
            self._asked = await with_same_model(self._runtime.log, self.line, self._asked)
            return await self._go_on(self.head)

        await self._run(begin)

    async def close_left(self) -> list[Event]:
        """Close a turn that was left open by a runner that is gone; returns what was written."""
        events = await left_open(self._runtime.log, self.line, self.head, self._left)
        if events:
            await finished(self._write(as_of(self.head, events)))
        self._held.open = False
        return events

    async def _go_on(self, head: Head) -> bool:
        """Go on from the newest event, with nothing to append before the model is called."""
        await self._keep_memory(head.turn_first, head.seq)
        await self._runtime.log.leases.hold(self._held.lease, at=head.seq)
        self._live.moved(head.seq)
        self._begun = True
        return True

    async def settle(
        self, call: Logged, left: StillWaiting, *, approved: bool, why: str = "", arguments: str = ""
    ) -> None:
        """Run a tool call that was waiting, with its own arguments or others, or refuse it; and go on unless others of
        its turn still wait."""
        assert isinstance(call.event, ToolCall)
        event = with_arguments(call.event, arguments)
        if approved:
            check_can_run(self._toolbox, event, changed=event is not call.event)

        async def begin() -> bool:
            self._asked = await with_same_model(self._runtime.log, self.line, self._asked)
            await self._keep_memory(call.seq, call.seq)
            self._limit((await self._context()).settings)
            said: tuple[Event, ...] = (verdict(call, left, approved=approved),)
            if approved:
                if event is not call.event:
                    said = (change(call, event.arguments), *said)
                # The verdict first: a tool that was let run once must not run again, whatever happens meanwhile.
                writing = finished(self._write(self._kept(said), key=key_for(call)))
                self._change = await approved_here(self._runtime.log, self.line, call, writing)
                self._answered, self._begun, said = call, True, ()
            outcome = await self._tools.outcome(event, call) if approved else ToolOutcome(refusal(event, why))
            late = is_late(call, await self._runtime.log.head(self.line))
            result = msgspec.structs.replace(with_note(outcome.result, self.line, self._change), late=late)
            await self._tools.keep(outcome._replace(result=result), call, *said)
            self._answered, self._change, self._begun = None, None, True
            return self.head.state != "waiting"

        await self._run(begin)

    async def _keep_memory(self, first: int, last: int) -> None:
        self._asked = await with_same_memory(self._runtime.log, self.line, self._asked, first, last)

    async def _repeat(self, message: Logged) -> None:
        """Tell the caller the reply that a message had when it was first said. Listeners have heard it already."""
        for text in await first_reply(self._runtime.log, self._talk.conversation, message):
            self._tell_caller(TextDelta(text=text))

    # -- the loop ----------------------------------------------------------------------------------------------

    async def _run(self, begin: Callable[[], Awaitable[bool]]) -> None:
        deadline = asyncio.timeout(None)
        try:
            async with deadline:
                going = await begin()
                while going:
                    going = await self._once(deadline)
        except TimeoutError as problem:
            if not deadline.expired():
                raise
            await self._fail(LimitReached("turn_seconds", self._limits.turn_seconds, "seconds"), problem)
        except (NothingToResume, TakenOver):
            raise
        except asyncio.CancelledError:
            await self._cancelled()
            raise
        except Exception as problem:  # noqa: BLE001 -- whatever it is, the log says how the turn ended
            await self._fail(problem)
        await self._surely(self._done())

    async def _once(self, deadline: asyncio.Timeout) -> bool:
        """One model call and the tools that it calls. Whether there is more to do."""
        context = await self._context()
        if not self._figures.calls:
            if tiny := self._runtime.news_of(context.model):
                self._tell(Notice(text=tiny))
            self._limit(context.settings)
            self._runtime.replies(self.line, context)
            deadline.reschedule(asyncio.get_running_loop().time() + self._limits.turn_seconds)
        self._figures.sent = context
        self._check_limits()
        replied = await self._reply(context)
        calls = [one for one in replied if one.kind == "tool_call"]
        self._asked = msgspec.structs.replace(self._asked, tool_choice="")  # which is for the first model call
        return bool(calls) and await self._tools.run(calls)

    def _limit(self, settings: Settings) -> None:
        """Hold the turn to what the settings allow."""
        self._limits = self._figures.limits = settings
        self._tools.seconds = settings.tool_seconds

    async def _context(self) -> Context:
        context, self._asked = await self._runtime.build(self.line, self._asked)
        if not self._figures.calls:
            self._talk.notes_seen = context.notes
            self._asked = holding(context, self._asked)
        return context

    def _check_limits(self) -> None:
        figures = self._figures
        figures.check()
        if self._limits.turn_dollars and not figures.priced and figures.calls == 1:
            self._tell(Notice(text=f"No price is known of {figures.model}, so turn_dollars cannot be checked."))

    # -- the model ---------------------------------------------------------------------------------------------

    async def _reply(self, context: Context) -> list[Logged]:
        """Append what the model says and calls. Too long: built again, smaller. Down: the fallback replies, if any."""
        try:
            return await self._call(context)
        except TooLong as problem:
            self._tell(Notice(text="The provider found the request too long; it is built again, smaller."))
            await self._failed(problem)
            self._runtime.learn_window(context, problem.limit)
            self._asked = smaller(self._asked, context, problem)
        except (Overloaded, Unreachable, BrokenOff) as problem:
            fallback = context.settings.fallback
            if self._said or not fallback or fallback == context.model:
                raise
            self._tell(Notice(text=f"{problem} {fallback} takes over for this turn."))
            await self._failed(problem)
            self._asked = of_fallback(self._asked, fallback)
        return await self._call(await self._context())

    async def _call(self, context: Context) -> list[Logged]:
        self._figures.begin(context.model)
        self._live.replies(context.model, forgotten=context.forgotten)
        sent = sent_with(context, agent=self._agent, headers=self._asked.headers)
        self._calling = calling = Calling(self._runtime, sent, tell=self._tell)
        replied = await calling.reply()
        said = [self._asking(event) for event in replied.events] or [Assistant(model=context.model)]
        record = calling.record
        self._figures.count(record)
        self._calling = None  # from here on the log has it
        idle = not any(isinstance(event, ToolCall) for event in said)
        written = await self._append(*said, record, gives_back=idle)
        self._runtime.beside(self._runtime.learn(context, record.input))
        return written

    def _asking(self, event: Assistant | ToolCall) -> Assistant | ToolCall:
        """The event; a tool call that needs approval says that it waits for it."""
        if isinstance(event, ToolCall) and self._toolbox.needs_approval(event, self._talk):
            return msgspec.structs.replace(event, waits_for="approval")
        return event

    @property
    def _said(self) -> str:
        return self._calling.said if self._calling else ""

    async def _failed(self, problem: ModelError) -> None:
        """Append the record of a model call that gave nothing and will be made again in another way."""
        assert self._calling
        record, self._calling = self._calling.failed(await self._tellable(str(problem))), None
        await self._append(record)

    # -- how it ends -------------------------------------------------------------------------------------------

    async def _fail(self, problem: Exception, cause: Exception | None = None) -> None:
        """Close the turn as interrupted, and raise what went wrong."""
        known = isinstance(problem, EverthreadError)
        try:
            head = await self._surely(self._end(str(problem) if known else f"{type(problem).__name__}: {problem}"))
            if isinstance(problem, EverthreadError) and self._begun and not why_over(head):
                problem.kept = head.turn_first
        except TakenOver:
            raise
        except EverthreadError as further:  # the store is away: whoever comes next closes the turn
            _log.warning("The turn of conversation %s could not be closed: %s", self.line.conversation, further)
        raise problem from cause

    async def _cancelled(self) -> None:
        """Close a turn that somebody ended; but write nothing more where its lease is another's by now."""
        if self._held.lost:
            raise TakenOver(self._held.lease.name)
        await self._surely(self._end(STOPPED if self._live.stopped else CANCELLED))

    async def _surely(self, ending: Awaitable[Head]) -> Head:
        """Do the last thing of the turn, even if it is cancelled. Where that fails, the end is told all the same."""
        try:
            return await finished_or_failed(ending)
        except TakenOver:
            raise
        except EverthreadError:  # the conversation was erased, or the store is away
            self._tell(self._figures.done("interrupted", self.head.seq))
            raise

    async def _end(self, reason: str) -> Head:
        """Keep what had come of the reply, and close the turn as interrupted, unless it is over or awaits approval."""
        if self._held.given_back:
            return await self._done()
        reason = await self._tellable(reason)
        came: list[Event] = []
        if calling := self._calling:
            self._calling = None
            if calling.said:
                came.append(Assistant(parts=(Text(text=calling.said),), model=calling.model, interrupted=True))
            came.append(calling.failed(reason))
        self.head = await self._runtime.log.head(self.line)
        call, self._answered = self._answered, None
        late = late_result(call, self.line, self._change) if call and is_late(call, self.head) else None
        if events := await closing(self._runtime.log, self.line, self.head, came, reason=reason, late=late):
            await self._append(*events, gives_back=True)
        return await self._done()

    async def _tellable(self, reason: str) -> str:
        """Why something failed; not in a provider's words where something was redacted that it had been sent."""
        sent = self._figures.sent
        if sent is None or is_own_reason(reason):
            return reason
        return reason if await self._runtime.log.forgotten(self.line) == sent.forgotten else UNTOLD

    async def _done(self) -> Head:
        self._runtime.remind(self._talk.conversation, self.line.branch.number)
        self._held.open = False
        self._tell(self._figures.done(self.head.state, self.head.seq))
        return self.head

    async def _append(self, *events: Event, **how: Any) -> list[Logged]:
        """Append events, as long as the turn is ours; with the last ones the branch is free for the next."""
        return await finished(self._write(self._kept(events), **how))

    async def _write(self, events: Sequence[Event | Draft], *, gives_back: bool = False, **how: Any) -> list[Logged]:
        self._live.moves()
        self._held.open = True
        gives_back = gives_back and not self._keeps_lease
        how |= {"under": self._held.lease, "gap": self._gap, "gives_back": gives_back}
        logged, self.head = await self._runtime.log.go_on(self._target, events, **how)
        self._live.moved(logged[-1].seq)
        if gives_back:
            self._held.give_back()
        return logged

    async def _gap(self) -> int | None:
        """The pause that ends a session, by the settings of this turn."""
        return await self._runtime.session_gap(self._talk.conversation, self.line.branch.number, self._asked.settings)

    def _kept(self, events: Sequence[Event]) -> list[Event]:
        """Events as the log keeps them: those of a turn that was to be without memory say so, and memory skips them."""
        off = self._asked.settings.get("memory") is False
        return [unremembered(event) for event in events] if off else list(events)
