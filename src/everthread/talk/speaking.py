"""Turns: to say something, to go on, to stop, to approve or refuse a tool call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack, overload

from everthread import arguments as check
from everthread.agent.approval import waiting
from everthread.agent.outcomes import end_children
from everthread.agent.reply import Reply, V
from everthread.agent.start import TurnAct, settling, start
from everthread.agent.stop import stop
from everthread.agent.turn import TurnRunner
from everthread.arguments import ForMessage, ForTurn, WhenBusy
from everthread.core.events import user
from everthread.core.logged import Logged
from everthread.core.parts import Part
from everthread.core.settings import GivenSettings
from everthread.core.strategies import Strategy
from everthread.talk.bound import Bound


class Speaking(Bound):
    @overload
    def say(self, *pieces: str | Part, output: None = None, **given: Unpack[ForMessage]) -> Reply[None]: ...
    @overload
    def say(self, *pieces: str | Part, output: type[V], **given: Unpack[ForMessage]) -> Reply[V]: ...
    @overload
    def say(self, *pieces: str | Part, output: Any, **given: Unpack[ForMessage]) -> Reply: ...
    def say(
        self,
        *pieces: str | Part,
        model: str | None = None,
        strategy: str | Strategy | None = None,
        instructions: str | Mapping[str, str] | None = None,
        tools: Iterable[Any] | None = None,
        tool_choice: str | None = None,
        output: Any = None,
        settings: GivenSettings | None = None,
        extra_headers: Mapping[str, str] | None = None,
        when_busy: WhenBusy = "wait",
        detached: bool = False,
        origin: str = "",
        metadata: dict[str, Any] | None = None,
        key: str = "",
    ) -> Reply:
        """Say something to the model, and hear its reply: `async for delta in talk.say("…")`, or `await` the whole.

        The message is on disk before its turn does anything else. `strategy`: as for `context`. `tools`: functions with
        type hints, objects with name, schema and execute, MCP servers; without any, the agent's. `tool_choice`: of the
        first model call: auto, none, required, or the name of a tool. `output`: what the reply must be, as a Pydantic
        model, dataclass, msgspec Struct, TypedDict or JSON Schema; the reply's `value` is one. `extra_headers`: for the
        provider; kept nowhere. `when_busy`: "wait" for a turn of this branch that is under way, or "refuse".
        `detached`: begin at once, and go on without the caller; otherwise the turn ends when the caller stops
        listening. `origin`: who speaks, if not the user in person. `metadata`: a JSON object of your own, kept with the
        message and never sent. `key`: a message that is said again with the same key is appended only once. Errors are
        raised where the reply is awaited or read.
        """
        message = check.message(user(*pieces, origin=check.text("origin", origin), metadata=metadata))
        check.name("key", key, empty=True)
        given: ForTurn = {"model": model, "strategy": strategy, "instructions": instructions, "tools": tools}
        given |= {"settings": settings, "tool_choice": tool_choice, "output": output, "extra_headers": extra_headers}
        given |= {"when_busy": when_busy, "detached": detached}
        return self._start(lambda turn: turn.say(message, key=key), **given)

    def resume(self, **given: Unpack[ForTurn]) -> Reply:
        """Go on with a turn that failed or was interrupted, without a new message. Takes what `say` takes beside
        the message."""
        return self._start(TurnRunner.resume, **given)

    async def stop(self, *, children: bool = False) -> bool:
        """End the turn that runs on this branch, in whichever process, and return when it has ended. What has come of
        its reply is kept. `children`: end those that were begun on this branch, too; else they go on. Returns whether
        there was a turn."""
        line = await self.line()
        stopped = await stop(self._runtime, line)
        return (children and await end_children(self._runtime, self.conversation, line)) or stopped

    async def waiting(self) -> list[Logged]:
        """The tool calls that wait for approval, oldest first."""
        return await waiting(self._log, await self.line())

    def approve(
        self,
        call: str | int | None = None,
        *,
        arguments: Mapping[str, Any] | None = None,
        **given: Unpack[ForTurn],
    ) -> Reply:
        """Let a waiting tool call run (by its id or seq; the only one, where none is named) and go on. Takes what `say`
        takes: give it the same tools.

        `arguments`: what it runs with, in place of all the model's arguments. The log keeps both, and the model is told
        with the result. Redacting the tool call forgets both.
        """
        changed = check.call_arguments(arguments)
        return self._start(settling(self._log, call, approved=True, arguments=changed), **given)

    def refuse(self, call: str | int | None = None, why: str = "", **given: Unpack[ForTurn]) -> Reply:
        """Refuse a waiting tool call; the model is told why, and goes on."""
        return self._start(settling(self._log, call, approved=False, why=check.text("why", why)), **given)

    def _start(self, act: TurnAct, **given: Unpack[ForTurn]) -> Reply:
        return start(self._runtime, self, self._target, act, check.given(**given))
