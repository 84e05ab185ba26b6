"""Running the tool calls of a reply: all at once, and each result kept as soon as those before it are.

What a tool draws on the canvas is written together with its result, under the lease of the turn: both or neither. What
a child draws on its parent's is written right before its result, which stands on another branch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from everthread.agent.canvas import change_canvas
from everthread.agent.finish import finished
from everthread.agent.results import instead_of, undrawn
from everthread.agent.runtime import Runtime
from everthread.core.canvas import Change, read_changes
from everthread.core.deltas import CallDelta, CanvasDelta, Delta, ResultDelta
from everthread.core.events import Event, ToolCall, text_of
from everthread.core.happenings import CanvasChanged
from everthread.core.logged import Logged
from everthread.core.quotes import Quote
from everthread.errors import BadValue, EventTooLarge, Outrun
from everthread.live import LiveTurn
from everthread.store.scripts.append import Basis, Beside
from everthread.tools import Toolbox, ToolContext
from everthread.tools.context import running_call
from everthread.tools.toolbox import ToolOutcome


class Append(Protocol):
    async def __call__(
        self, *events: Event, basis: Basis | None = None, beside: Beside | None = None
    ) -> list[Logged]: ...


class DrawsOn(NamedTuple):
    """The branch of a parent, on whose canvas a child draws, and the agent that it has."""

    branch: int
    by: str


class ToolCalls:
    """The tool calls of a turn. `seconds`: how long each may take. `draws_on`: None for the turn's own branch."""

    def __init__(
        self,
        runtime: Runtime,
        run: LiveTurn,
        toolbox: Toolbox,
        talk: ToolContext,
        *,
        append: Append,
        tell: Callable[[Delta], None],
    ) -> None:
        self._log, self._observers = runtime.log, runtime.observers
        self._line, self._held, self._toolbox, self._talk = run.line, run.held, toolbox, talk
        self._append, self._tell = append, tell
        self.seconds = 0.0
        self.draws_on: DrawsOn | None = None

    async def run(self, calls: Sequence[Logged]) -> bool:
        """Run all at once; append the results in the order of the calls. Whether the turn goes on without waiting."""
        running: list[tuple[Logged, asyncio.Task[ToolOutcome]]] = []
        for one in calls:
            call = one.event
            assert isinstance(call, ToolCall)
            waits = bool(call.waits_for)
            self._tell(CallDelta(id=call.id, name=call.name, arguments=call.arguments, approval=waits))
            running += [] if waits else [(one, asyncio.create_task(self.outcome(call, one)))]
        waiting = len(running) < len(calls)
        try:
            while running:
                await asyncio.wait({running[0][1]})
                call_of, task = running.pop(0)
                await self.keep(task.result(), call_of)
        finally:
            await self._stop(running)
        return not waiting

    async def outcome(self, call: ToolCall, logged: Logged) -> ToolOutcome:
        """What comes of a tool call that the log has, perhaps with other arguments."""
        with running_call(self._line.conversation, logged), self._observers.tool_call(call):
            return await self._toolbox.outcome(call, self._talk, seconds=self.seconds)

    async def keep(self, outcome: ToolOutcome, call: Logged, *before: Event) -> None:
        """Append what came of a tool call, with what stands before it."""
        result = outcome.result
        try:
            if outcome.changes:
                await self._draw(outcome, call, before)
            else:
                await self._append(*before, result)
        except (EventTooLarge, Outrun) as problem:
            result = undrawn(result, problem) if outcome.changes else instead_of(result, problem)
            await self._append(*before, result)
        except BadValue as problem:
            if not outcome.changes:
                raise
            result = undrawn(result, problem)
            await self._append(*before, result)
        self._tell(ResultDelta(id=result.id, name=result.name, text=text_of(result), error=result.error))

    async def _draw(self, outcome: ToolOutcome, call: Logged, before: Sequence[Event]) -> None:
        """Both repeat the tool call, and are forgotten with it."""
        quote = Quote(self._line.conversation, call.branch, call.seq)
        result = msgspec.structs.replace(outcome.result, quotes=(*outcome.result.quotes, quote))

        async def write(event: CanvasChanged, basis: Basis, beside: Beside) -> Logged:
            written = await self._append(*before, event, result, basis=basis, beside=beside)
            return written[len(before)]

        if self.draws_on:
            await self._draw_on(self.draws_on, outcome.changes, result.quotes)
            await self._append(*before, result)
        else:
            drawn = await change_canvas(self._log, self._line, outcome.changes, write, quotes=result.quotes)
            assert isinstance(drawn.event, CanvasChanged)
            self._tell(CanvasDelta(changes=tuple(read_changes(drawn.event.data["changes"])), seq=drawn.seq))

    async def _draw_on(self, other: DrawsOn, changes: Sequence[Change], quotes: Sequence[Quote]) -> None:
        """Draw on the canvas of another branch, as long as the turn is ours. Its listeners hear of it there."""
        line = await self._log.line(self._talk.conversation, other.branch)

        async def write(event: CanvasChanged, basis: Basis, beside: Beside) -> None:
            await self._log.append(line.target, [event], basis=basis, beside=beside, under=self._held.lease)

        await change_canvas(self._log, line, changes, write, by=other.by, quotes=quotes)

    async def _stop(self, running: Sequence[tuple[Logged, asyncio.Task[ToolOutcome]]]) -> None:
        """End the tools that still run, and keep what the others gave: they may have done something."""
        if not running:
            return
        ended = [(call, task) for call, task in running if task.done()]
        for _, task in running:
            task.cancel()
        await finished(asyncio.wait([task for _, task in running]))
        for call, task in ended:
            await self.keep(task.result(), call)
