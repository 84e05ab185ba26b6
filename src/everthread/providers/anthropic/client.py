"""Model calls through Anthropic's SDK.

The SDK sends the request and splits the stream into events. They are decoded here, strictly, because a reply must be
whole: an event that breaks the protocol, or a stream that ends too early, is an error and never a shorter reply.
Unknown types of events and blocks are passed over, as Anthropic asks of its clients. Thinking is kept as the exact
block that came, with its signature.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import msgspec

from everthread.core.deltas import ReasoningDelta, TextDelta, Usage
from everthread.core.parts import Text
from everthread.errors import BadFormat, BrokenOff, MissingExtra, ModelError, NoKey, Unreachable, WrongKey
from everthread.providers.anthropic import ABOUT
from everthread.providers.anthropic.blocks import THINKING, read_call, read_part
from everthread.providers.client import NO_HEADERS, Access, Client, Finish, Headers, Replied, StreamPiece
from everthread.providers.faults import fault, hidden, reason
from everthread.providers.reply import ReplyBuilder

try:
    import httpx2
    from anthropic import (
        AnthropicError,
        APIConnectionError,
        APIStatusError,
        APITimeoutError,
        AsyncAnthropic,
        AsyncStream,
        Timeout,
    )
    from anthropic.types import Message, RawMessageStreamEvent
except ImportError:
    raise MissingExtra("anthropic") from None

PROVIDER = ABOUT.name
CONNECT_SECONDS = 10.0
NO_KEY = "no-key"  # for people's own servers, which want none
_LAST_SECONDS = 1.0  # how long the end of a stream is waited for, once the reply is whole
_COUNTED = ("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config")

_FINISHES: dict[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tools",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}
_FIELDS = {  # the field that a delta of this type adds to
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
_SHOWN: dict[str, type[TextDelta | ReasoningDelta]] = {"text": TextDelta, "thinking": ReasoningDelta}
_STATUSES = {  # for errors that come as an event, after a status of 200
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
# What the SDK and the HTTP client under it raise when something is wrong with the connection or with what came over it.
_CONNECTION = (APIConnectionError, httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError)
_BROKEN = (*_CONNECTION, AnthropicError, msgspec.MsgspecError, ValueError)


def connect(access: Access) -> Client:
    """A client for Anthropic, or for a server that speaks its API. NoKey, WrongKey: the key cannot be one."""
    if not access.key and not access.address:
        raise NoKey(PROVIDER, ABOUT.keys[0])
    if not (access.key.isascii() and access.key.isprintable()) or " " in access.key:
        # The HTTP client would refuse it with an error that repeats it.
        raise WrongKey(PROVIDER, "it has characters that no key has")
    return _AnthropicClient(access)


class _AnthropicClient:
    def __init__(self, access: Access) -> None:
        self._key, self._seconds = access.key, access.seconds
        self._sdk = AsyncAnthropic(
            api_key=access.key or NO_KEY,
            base_url=access.address or None,
            timeout=Timeout(access.seconds, connect=min(CONNECT_SECONDS, access.seconds)),
            max_retries=0,
        )
        if access.foreign:  # headers that the SDK found in the environment are not for others
            self._sdk._custom_headers = {}

    @asynccontextmanager
    async def reply(
        self, body: dict[str, Any], *, headers: Headers = NO_HEADERS
    ) -> AsyncIterator[AsyncIterator[StreamPiece]]:
        try:
            stream = await self._begin(body, headers)
        except (AnthropicError, *_CONNECTION) as problem:
            raise self._refusal(problem, body["model"]) from None
        async with stream, aclosing(self._pieces(stream, body["model"])) as pieces:
            yield pieces

    async def _begin(self, body: dict[str, Any], headers: Headers) -> AsyncStream[Any]:
        # Written out here, because `messages.create` copies a body first: 6 ms for 1,400 messages, in our loop.
        sent = {**body, **body.get("extra_body", {}), "stream": True}
        sent.pop("extra_body", None)
        content, stream_cls = msgspec.json.encode(sent), AsyncStream[RawMessageStreamEvent]
        sending: dict[str, Any] = {"content": content, "options": {"headers": headers}}
        return await self._sdk.post("/v1/messages", cast_to=Message, stream=True, stream_cls=stream_cls, **sending)

    async def _pieces(self, stream: AsyncStream[Any], model: str) -> AsyncGenerator[StreamPiece, None]:
        reading = _Reading(model)
        events = AsyncStream.raw_events(stream.response)
        try:
            async for raw in events:
                if piece := self._taken(raw.data, reading, model):
                    yield piece
                if reading.is_over:
                    break
            else:
                raise BrokenOff(PROVIDER, "it ended without a message_stop")
            whole = reading.whole()
        except _BROKEN as problem:
            raise BrokenOff(PROVIDER, self._why(problem)) from None
        except BadFormat:  # whose own words are about imports
            raise BrokenOff(PROVIDER, "a block breaks the protocol") from None
        yield whole
        # A connection that was read to its end can serve the next call.
        with suppress(TimeoutError, *_BROKEN):
            async with asyncio.timeout(_LAST_SECONDS):
                async for _ in events:
                    pass

    def _taken(self, data: str, reading: _Reading, model: str) -> TextDelta | ReasoningDelta | None:
        if not data:
            return None
        event = _events.decode(data)
        if event.type == "error":
            raise self._error(event, model)
        return reading.take(event)

    async def count(self, body: dict[str, Any], *, headers: Headers = NO_HEADERS) -> int | None:
        taken = {name: body[name] for name in _COUNTED if name in body}
        try:
            return int((await self._sdk.messages.count_tokens(**taken, extra_headers=headers)).input_tokens)
        except (TypeError, ValueError, AttributeError):
            raise BrokenOff(PROVIDER, "its count is not a number") from None
        except (AnthropicError, *_CONNECTION) as problem:
            raise self._refusal(problem, body["model"]) from None

    async def close(self) -> None:
        await self._sdk.close()

    # -- errors --------------------------------------------------------------------------------------------

    def _refusal(self, problem: Exception, model: str) -> ModelError:
        """What went wrong before the reply began."""
        if isinstance(problem, APIStatusError):
            said = hidden(_said(problem.body) or problem.response.text, self._key)
            return fault(PROVIDER, model, problem.status_code, said, headers=problem.response.headers)
        if isinstance(problem, _CONNECTION):
            return Unreachable(PROVIDER, self._why(problem))
        return BrokenOff(PROVIDER, self._why(problem))

    def _error(self, event: _Event, model: str) -> ModelError:
        """What the provider says in the middle of a reply."""
        error = event.error or _Error()
        said = hidden(error.message or error.type, self._key)
        if status := _STATUSES.get(error.type):
            return fault(PROVIDER, model, status, said)
        return BrokenOff(PROVIDER, said or "an error without a message")

    def _why(self, problem: Exception) -> str:
        if isinstance(problem, APITimeoutError | httpx2.TimeoutException):
            return f"nothing came for {self._seconds:g} seconds"
        said = reason(problem, self._key)
        return said if isinstance(problem, _CONNECTION) else f"an event breaks the protocol: {said}"


def _said(body: object) -> str:
    match body:
        case {"error": {"message": str(message)}} if message:
            return message
        case {"error": {"type": str(kind)}}:
            return kind
        case _:
            return ""


# -- what comes over the wire ------------------------------------------------------------------------------


class _Error(msgspec.Struct):
    type: str = ""
    message: str = ""


class _Details(msgspec.Struct):
    thinking_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: _Details | None = None


class _Message(msgspec.Struct):
    model: str
    usage: _Usage


class _Delta(msgspec.Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class _Event(msgspec.Struct):
    """Any event. Which fields a type must have is checked where it is taken."""

    type: str
    index: int | None = None
    message: _Message | None = None
    content_block: dict[str, Any] | None = None
    delta: _Delta | None = None
    usage: _Usage | None = None
    error: _Error | None = None


_events = msgspec.json.Decoder(_Event)


class _Block:
    """A block as it grows."""

    def __init__(self, begun: dict[str, Any]) -> None:
        self.begun = begun
        self.texts: dict[str, list[str]] = {}
        self.is_open = True

    def add(self, field: str, text: str | None) -> str:
        if text is None:
            raise ValueError(f"a delta without its {field}")
        self.texts.setdefault(field, []).append(text)
        return text

    def grown(self, *fields: str) -> dict[str, Any]:
        """The block with what came for these fields added to what they began with."""
        added = {field: "".join([self.begun.get(field) or "", *self.texts.get(field, [])]) for field in fields}
        return {**self.begun, **{field: text for field, text in added.items() if text or field in self.begun}}

    def arguments(self) -> str:
        """As the model wrote them, JSON or not. Some servers send them whole, with the beginning of the block."""
        return "".join(self.texts.get("partial_json", [])) or json.dumps(self.begun.get("input") or {})


class _Reading:
    """Takes the events of one reply; after the last, `whole` is the reply."""

    def __init__(self, model: str) -> None:
        self._reply = ReplyBuilder(f"{PROVIDER}:{model}")
        self._blocks: list[_Block] = []
        self._used: dict[str, int] = {}
        self._stopped: str | None = None
        self.is_over = False

    def take(self, event: _Event) -> TextDelta | ReasoningDelta | None:
        match event.type:
            case "content_block_delta":
                return self._grow(self._block(event), event.delta)
            case "content_block_start":
                self._open(event)
            case "content_block_stop":
                self._block(event).is_open = False
            case "message_start":
                self._begin(event.message)
            case "message_delta":
                self._end(event.delta or _Delta(), event.usage)
            case "message_stop":
                self.is_over = True
        return None  # for a ping, too, and for what is not known yet

    def _open(self, event: _Event) -> None:
        if event.content_block is None or event.index != len(self._blocks):
            raise ValueError("a block begins out of order")
        self._blocks.append(_Block(event.content_block))

    def _begin(self, message: _Message | None) -> None:
        if message is None:
            raise ValueError("the reply begins without a message")
        self._reply.reported = message.model
        self._use(message.usage)

    def _end(self, delta: _Delta, usage: _Usage | None) -> None:
        self._stopped = delta.stop_reason or self._stopped
        self._use(usage)

    def _block(self, event: _Event) -> _Block:
        at = event.index
        if at is None or not 0 <= at < len(self._blocks) or not self._blocks[at].is_open:
            raise ValueError("an event for a block that is not open")
        return self._blocks[at]

    def _grow(self, block: _Block, delta: _Delta | None) -> TextDelta | ReasoningDelta | None:
        if delta is None:
            raise ValueError("a delta without content")
        if not delta.type:
            raise ValueError("a delta without a type")
        if (field := _FIELDS.get(delta.type)) is None:
            return None  # citations, and what is not known yet
        text = block.add(field, getattr(delta, field))
        return _SHOWN[field](text=text) if text and field in _SHOWN else None

    def _use(self, usage: _Usage | None) -> None:
        """Figures are totals: later ones replace earlier ones."""
        if usage is None:
            return
        thought = usage.output_tokens_details.thinking_tokens if usage.output_tokens_details else None
        figures = {**msgspec.structs.asdict(usage), "output_tokens_details": thought}
        self._used |= {name: figure for name, figure in figures.items() if figure is not None}

    def whole(self) -> Replied:
        if not self._reply.reported or self._stopped is None or any(block.is_open for block in self._blocks):
            raise ValueError("a part of the reply is missing")
        self._reply.usage = _usage(self._used)
        for number, block in enumerate(self._blocks):
            self._say(block, f"content[{number}]")
        return self._reply.whole(_FINISHES.get(self._stopped, "other"))

    def _say(self, block: _Block, where: str) -> None:
        kind = block.begun.get("type")
        if kind == "tool_use":
            read = read_call({**block.begun, "input": None}, where)
            self._reply.call(msgspec.structs.replace(read, arguments=block.arguments()))
        elif kind in THINKING:
            self._reply.part(read_part(block.grown("thinking", "signature"), where, understood=THINKING))
        elif kind == "text" and (text := block.grown("text").get("text", "")):
            self._reply.part(Text(text=text))


def _usage(figures: dict[str, int]) -> Usage:
    used = {name: figures.get(name, 0) for name in _Usage.__struct_fields__}
    read, written = used["cache_read_input_tokens"], used["cache_creation_input_tokens"]
    return Usage(
        input=used["input_tokens"] + written + read,
        output=used["output_tokens"],
        cache_read=read,
        cache_write=written,
        reasoning=used["output_tokens_details"],
    )
