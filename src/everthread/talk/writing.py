"""What is written without a model: messages, marks, pins, settings and names."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any, Unpack

import msgspec

from everthread import arguments
from everthread.agent.call import recorded
from everthread.context.build import Context
from everthread.context.pins import first_of_turn
from everthread.core.events import Event, kinds
from everthread.core.images import UNKNOWN, media_type_of
from everthread.core.logged import Logged
from everthread.core.metadata import check_metadata
from everthread.core.parts import File, Image, file, image
from everthread.core.settings import GivenSettings
from everthread.errors import BadValue
from everthread.talk.bound import Bound


def as_events(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """What is appended, with what SDKs' objects say in place of these."""
    if all(isinstance(one, msgspec.Struct) for one in given):
        return given
    from everthread.transfer.objects import events_of  # only for those who append such objects

    return tuple(event for one in given for event in events_of(one))


class Writing(Bound):
    async def append(
        self, *events: Event | Any, key: str = "", expect: int | None = None, at: datetime | None = None
    ) -> list[Logged]:
        """Append events in one transaction; they are on disk when this returns.

        What an SDK of Anthropic, OpenAI or Google gives (a reply, a message, a content), and LangChain's messages, go
        in as they are: what they say becomes events, and so do their tool calls, with what the provider wants back.
        `key` makes it safe to repeat: the same key and events again give the first result. `expect` is the
        seq of the newest message that you know of: if somebody has said more since, `Moved` is raised. A result of
        `look_up` that quotes what was redacted meanwhile raises `Outrun`: look it up again. `at`: when it happened, for
        history that is older than now, appended oldest first: a time before the branch's newest event is refused.
        Refused, too, is what only `redact`, `fork`, `rewind` and the log itself write.
        """
        arguments.name("key", key, empty=True)
        if expect is not None:
            arguments.seq("expect", expect)
        events = arguments.appended(as_events(events))
        await self._log.conversations.mine(self.conversation)
        gap = partial(self._runtime.session_gap, self.conversation, self._branch)
        when = None if at is None else arguments.past("at", at)
        logged = await self._log.append(self._target, events, key=key, expect=expect, gap=gap, at=when)
        if "assistant" in [one.kind for one in logged]:
            self._runtime.remind(self.conversation, logged[-1].branch)
        return logged

    async def upload(self, data: bytes, *, name: str = "", media_type: str = "") -> Logged:
        """Hand in an image or a file before anything is said of it; a message then shows it: `talk.say("Look.",
        *logged.event.parts)`. It is an event, and is forgotten as one: with `redact`.

        What its first bytes say is an image becomes one; everything else is a file of the type that is given.
        """
        name, given = arguments.name("name", name, empty=True), arguments.name("media_type", media_type, empty=True)
        if media_type_of(data) == UNKNOWN:
            part: Image | File = file(data, name=name, media_type=given or UNKNOWN)
        else:
            part = image(data)
        return (await self.append(kinds.Upload(parts=(part,))))[0]

    async def record(
        self, context: Context, usage: Any, *, seconds: float = 0.0, first_seconds: float = 0.0, error: str = ""
    ) -> Logged:
        """Record a model call that you made with a context, as `say` does: what it was built from, its tokens, price
        and time. What the provider counted makes later estimates better.

        `usage`: the SDK's reply or its usage, or a `Usage`; None where there was none, as of a call that failed.
        `seconds`: how long it took; `first_seconds`: until the first piece came. `error`: why it failed.
        """
        took = arguments.seconds("seconds", seconds), arguments.seconds("first_seconds", first_seconds)
        if not isinstance(context, Context):
            raise BadValue("context", context, "what `talk.context` gave, and not its JSON form")
        line = context.line
        if (line.tenant, line.conversation) != (self.conversation.tenant, self.id):
            raise BadValue("context", context, "a context of this conversation")
        await self._log.conversations.mine(self.conversation)
        call = recorded(context, usage, took, arguments.text("error", error))
        [logged] = await self._log.append(line.target, [call])
        if call.input and not call.error:
            self._runtime.replies(line, context)
            self._runtime.beside(self._runtime.learn(context, call.input))
        return logged

    async def clear(self) -> Logged:
        """Start afresh: what came before is no longer sent, but stays and can be found."""
        return (await self.append(kinds.Clear()))[0]

    async def mark(self, name: str) -> Logged:
        """Name this point, to come back to with `rewind`."""
        return (await self.append(kinds.Mark(name=arguments.name("mark", name))))[0]

    async def pin(self, seq: int) -> Logged:
        """Always send the turn that holds event `seq`, up to the share of the room that pins have."""
        turn = await first_of_turn(self._log, await self.line(), arguments.seq("seq", seq), to_pin=True)
        return (await self.append(kinds.Pin(turn=turn)))[0]

    async def unpin(self, seq: int) -> Logged:
        """Stop sending the turn that holds event `seq` once it has left the window."""
        turn = await first_of_turn(self._log, await self.line(), arguments.seq("seq", seq))
        return (await self.append(kinds.Pin(turn=turn, pinned=False)))[0]

    async def configure(self, **settings: Unpack[GivenSettings]) -> Logged:
        """Set settings of this branch from here on; None takes one back."""
        values: dict[str, Any] = {**settings}
        return (await self.append(kinds.SettingsChanged(values=values)))[0]

    async def rename(self, name: str) -> None:
        """Give the conversation a name."""
        given = arguments.name("name", name, empty=True)
        self.conversation = await self._log.conversations.change(self.conversation, name=given)

    async def set_goal(self, goal: str) -> None:
        """Say what the conversation is for."""
        self.conversation = await self._log.conversations.change(self.conversation, goal=arguments.goal(goal))

    async def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Replace the conversation's metadata: a JSON object of your own, by which `et.conversations` finds it."""
        kept = check_metadata(metadata)
        self.conversation = await self._log.conversations.change(self.conversation, metadata=kept)

    async def set_settings(self, settings: dict[str, Any]) -> None:
        """Replace the conversation's settings: any JSON object, where Everthread's own have values that it takes."""
        settings = arguments.settings_of_conversation(settings)
        self.conversation = await self._log.conversations.change(self.conversation, settings=settings)
