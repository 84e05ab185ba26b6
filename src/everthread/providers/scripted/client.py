"""A model that says what it was told to say: for tests, documentation and demonstrations.

`script("greeter", "Hello.", ["Let me look.", call("clock", {})], "It is noon.")` gives the model `scripted:greeter` its
replies, one for each model call, in order. A reply is a text; or a list of texts, thoughts and tool calls; or an error
to raise; or a function of the request's body that returns one of these. Where nothing is scripted, or all of it has
been said, the model repeats the user's last message. It streams word by word, as a model does, at the pace it was
given; it has no clock and no chance, so the same script always gives the same pieces. Usage is counted as OpenAI would.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec

from everthread.core import tokens
from everthread.core.deltas import ReasoningDelta, TextDelta, Usage
from everthread.core.events import Assistant, ToolCall
from everthread.core.parts import Reasoning, Text
from everthread.errors import BadValue, BrokenOff, ModelError
from everthread.providers.client import NO_HEADERS, Access, Client, Finish, Headers, Replied, StreamPiece
from everthread.providers.reply import ReplyBuilder

PROVIDER = "scripted"
Body = dict[str, Any]

_WORD = re.compile(r"\s*\S+\s*$|\s*\S+|\s+")  # with the space before it; the last with the space after it too
_NOW = re.compile(r"\s*<now>[^<]*</now>\Z")  # is told to the model, and was not said by the user
_MOST = 1_000_000  # tokens of a reply where no limit was set


class ScriptedCall(msgspec.Struct, frozen=True):
    """A tool call to make. `arguments` is the text that the model writes, whether or not it is JSON."""

    name: str
    arguments: str = "{}"
    id: str = ""


class Thought(msgspec.Struct, frozen=True):
    """Something to think before saying anything."""

    text: str


class Broken(msgspec.Struct, frozen=True):
    """The reply breaks off after this many words."""

    after_words: int = 0


Said = str | ScriptedCall | Thought | Broken
ScriptedReply = Said | Sequence[Said] | ModelError | Callable[[Body], "ScriptedReply"]


class _Script:
    def __init__(self, replies: tuple[ScriptedReply, ...], pace: float) -> None:
        self.replies = list(replies)
        self.pace = pace
        self._named = 0

    def event(self, called: ScriptedCall) -> ToolCall:
        """The tool call, with an id: its own, or the next of this script."""
        self._named += not called.id
        return ToolCall(id=called.id or f"call_{self._named}", name=called.name, arguments=called.arguments)


_scripts: dict[str, _Script] = {}


def script(name: str, *replies: ScriptedReply, pace: float = 0.0) -> str:
    """Give the model `scripted:name` its replies, in place of any that it had; returns the model's full name.

    `pace` is the time between two words, in seconds.
    """
    if not name or not name.isprintable() or name != name.strip():
        raise BadValue("name", name, "printable text, not empty")
    _scripts[name] = _Script(replies, pace)
    return f"{PROVIDER}:{name}"


def call(name: str, arguments: str | dict[str, Any] = "{}", *, id: str = "") -> ScriptedCall:
    """A tool call, for a reply. Without an id it gets one of its own."""
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ScriptedCall(name, written, id)


def thought(text: str) -> Thought:
    """Reasoning, for a reply."""
    return Thought(text)


def broken(*, after_words: int = 0) -> Broken:
    """For a reply that is a list: it breaks off after this many words of its texts."""
    return Broken(after_words)


def left(name: str) -> int:
    """How many of a model's replies have not been asked for yet."""
    return len(_scripts[name].replies) if name in _scripts else 0


def connect(_access: Access) -> Client:
    return _ScriptedClient()


class _ScriptedClient:
    @asynccontextmanager
    async def reply(self, body: Body, *, headers: Headers = NO_HEADERS) -> AsyncIterator[AsyncIterator[StreamPiece]]:
        async with aclosing(_pieces(body)) as pieces:
            yield pieces

    async def count(self, body: Body, *, headers: Headers = NO_HEADERS) -> int | None:
        return _input(body)

    async def close(self) -> None:
        pass


async def _pieces(body: Body) -> AsyncGenerator[StreamPiece]:
    name = body["model"]
    scripted = _scripts.get(name) or _Script((), 0.0)
    reply = _next(scripted, body)
    said = _Whole(name, body.get("max_completion_tokens") or body.get("max_tokens") or _MOST)
    for piece in said.take(reply):
        await asyncio.sleep(scripted.pace)
        yield piece
    yield said.replied(scripted, _input(body))


def _next(scripted: _Script, body: Body) -> list[Said]:
    reply: ScriptedReply = scripted.replies.pop(0) if scripted.replies else _echo(body)
    while not isinstance(reply, Said | Sequence | ModelError):
        reply = reply(body)
    if isinstance(reply, ModelError):
        raise reply
    return [reply] if isinstance(reply, Said) else list(reply)


def _echo(body: Body) -> str:
    spoken = [message for message in body["messages"] if message["role"] == "user"]
    said = _NOW.sub("", _text(spoken[-1]["content"])) if spoken else ""
    return f"You said: “{said}”" if said else "I am listening."


def _text(content: object) -> str:
    if isinstance(content, list):
        return "\n\n".join(part["text"] for part in content if part.get("type") == "text")
    return content if isinstance(content, str) else ""


class _Whole:
    """What a reply comes to, within the length that was allowed. Tool calls come last."""

    def __init__(self, name: str, limit: int) -> None:
        self._reply = ReplyBuilder(f"{PROVIDER}:{name}")
        self._reply.reported = name
        self._room = limit
        self._calls: list[ScriptedCall] = []
        self._finish: Finish = "stop"

    def take(self, reply: list[Said]) -> Iterator[TextDelta | ReasoningDelta]:
        """The pieces, until the reply breaks off or its length is reached."""
        breaks = next((one.after_words for one in reply if isinstance(one, Broken)), None)
        words = 0
        for one, word in self._spoken(reply):
            if words == breaks:
                break
            if not self._fits(word):
                return
            words += 1
            yield from self._reply.thought(word) if isinstance(one, Thought) else self._reply.text(word)
        if breaks is not None:
            raise BrokenOff(PROVIDER, f"as scripted, after {words} words")

    def _spoken(self, reply: list[Said]) -> Iterator[tuple[Said, str]]:
        """The words, one by one, each with what it is a part of; tool calls on the way are put aside."""
        for one in reply:
            if isinstance(one, ScriptedCall):
                self._calls.append(one)
            else:
                yield from ((one, word) for word in _words(one))

    def _fits(self, word: str) -> bool:
        self._room -= tokens.count(word)
        if self._room < 0:
            self._finish = "length"
        return self._room >= 0

    def replied(self, scripted: _Script, input: int) -> Replied:
        for one in self._calls:
            self._reply.call(scripted.event(one))
        whole = self._reply.whole("tools" if self._calls and self._finish == "stop" else self._finish)
        return msgspec.structs.replace(whole, usage=_usage(whole.events, input))


def _usage(events: tuple[Assistant | ToolCall, ...], input: int) -> Usage:
    parts = [part for event in events if isinstance(event, Assistant) for part in event.parts]
    said = sum(tokens.count(part.text) for part in parts if isinstance(part, Text))
    thought = sum(tokens.count(part.text) for part in parts if isinstance(part, Reasoning))
    calls = [event for event in events if isinstance(event, ToolCall)]
    called = sum(tokens.count(one.name) + tokens.count(one.arguments) for one in calls)
    return Usage(input=input, output=said + thought + called, reasoning=thought)


def _words(said: str | Thought | Broken) -> list[str]:
    if isinstance(said, Broken):
        return []
    return _WORD.findall(said if isinstance(said, str) else said.text)


def _input(body: Body) -> int:
    total = 3  # the reply is begun for the model
    for message in body["messages"]:
        called = [call["function"] for call in message.get("tool_calls", ())]
        total += tokens.WRAPPING + tokens.count(_text(message.get("content")))
        total += sum(tokens.count(one["name"]) + tokens.count(one["arguments"]) for one in called)
    functions = [tool["function"] for tool in body.get("tools", ())]
    return total + tokens.tools_size([function | {"schema": function["parameters"]} for function in functions])
