"""Model calls to OpenAI's Responses API, through OpenAI's own SDK.

A reply is made from the items of the final response, in their order, because only there encrypted reasoning is
complete. It is kept as it came, for `render` to send back verbatim. A stream without a final response has broken off.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from typing import Any

from everthread.core.deltas import ReasoningDelta, TextDelta
from everthread.core.events import ToolCall
from everthread.core.parts import Reasoning, Text
from everthread.errors import BrokenOff, ModelError, RequestRefused, UnknownModel
from everthread.providers.client import NO_HEADERS, Access, Client, Finish, Headers, Replied, StreamPiece
from everthread.providers.openai.client import Caller, Odd, Stream, flat, listed, text_in, usage_of
from everthread.providers.openai.responses.request import META
from everthread.providers.reply import ReplyBuilder, new_id

_DRAIN = 0.1  # seconds to wait for the end of a stream, so that the connection can be used again
_COUNTED = ("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text")
_ABSENT = re.compile(r"not found|method not allowed|status 40[45]", re.IGNORECASE)
_BETWEEN = "\n\n"
_DELTAS: dict[str, type[TextDelta | ReasoningDelta]] = {
    "response.output_text.delta": TextDelta,
    "response.refusal.delta": TextDelta,
    "response.reasoning_summary_text.delta": ReasoningDelta,
    "response.reasoning_text.delta": ReasoningDelta,
}
_INCOMPLETE: dict[str, Finish] = {"max_output_tokens": "length", "content_filter": "refused"}


def connect(access: Access) -> Client:
    return _ResponsesClient(Caller(access))


class _ResponsesClient:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    @asynccontextmanager
    async def reply(
        self, body: dict[str, Any], *, headers: Headers = NO_HEADERS
    ) -> AsyncIterator[AsyncIterator[StreamPiece]]:
        model = str(body.get("model", ""))
        create = self._caller.sdk.responses.create
        # As extra_body, which the SDK does not take apart field by field: see the other client.
        beside: dict[str, Any] = {"extra_body": flat(body), "extra_headers": headers}
        begun = await self._caller.safely(model, lambda: create(stream=True, **beside))
        async with begun as stream, aclosing(self._pieces(model, stream)) as pieces:
            yield pieces

    async def count(self, body: dict[str, Any], *, headers: Headers = NO_HEADERS) -> int | None:
        asked = {name: body[name] for name in _COUNTED if name in body}
        ask = partial(self._caller.sdk.responses.input_tokens.count, extra_body=asked, extra_headers=headers)
        try:
            counted = await self._caller.safely(str(body.get("model", "")), ask)
        except (UnknownModel, RequestRefused) as problem:
            if "model_not_found" in str(problem) or not _ABSENT.search(str(problem)):
                raise
            return None  # a server that lacks this part of the API
        return counted.input_tokens if isinstance(getattr(counted, "input_tokens", None), int) else None

    async def close(self) -> None:
        await self._caller.sdk.close()

    async def _pieces(self, model: str, stream: Stream) -> AsyncGenerator[StreamPiece]:
        streamed = _Streamed(f"{self._caller.provider}:{model}")
        async with aclosing(self._caller.told(model, stream)) as events:
            async for event in events:
                for piece in self._caller.read(streamed.take, event):
                    yield piece
                if streamed.failure is not None:
                    raise self._caller.error(model, *streamed.failure)
                if streamed.is_whole:
                    break
            else:
                raise BrokenOff(self._caller.provider, "it ended before the model had finished")
            with suppress(ModelError, TimeoutError):
                async with asyncio.timeout(_DRAIN):
                    async for _ in events:
                        pass


class _Streamed:
    """Takes the events of a stream. `failure`: what went wrong, in the server's words, and its code."""

    def __init__(self, model: str) -> None:
        self.is_whole = False
        self.failure: tuple[str, object] | None = None
        self._model = model
        self._items: dict[int, Any] = {}  # used where the final response has none
        self._messages = 0

    def take(self, event: Any) -> Iterator[StreamPiece]:
        match kind := text_in(event, "type"):
            case "response.completed" | "response.incomplete":
                yield self._whole(getattr(event, "response", None))
            case "response.failed":
                self._fail(getattr(getattr(event, "response", None), "error", None))
            case "error":
                self._fail(event)
            case _ if kind.startswith(("response.", "keepalive")):
                yield from self._grow(kind, event)
            case _:
                raise Odd(f"its type is unknown: {kind}")

    def _grow(self, kind: str, event: Any) -> Iterator[TextDelta | ReasoningDelta]:
        match kind:
            case "response.reasoning_summary_part.added" if getattr(event, "summary_index", 0):
                yield ReasoningDelta(text=_BETWEEN)
            case "response.output_item.added" if text_in(getattr(event, "item", None), "type") == "message":
                self._messages += 1
                if self._messages > 1:
                    yield TextDelta(text=_BETWEEN)
            case "response.output_item.done":
                self._keep(getattr(event, "item", None), getattr(event, "output_index", None))
            case _ if kind in _DELTAS and (text := text_in(event, "delta")):
                yield _DELTAS[kind](text=text)

    def _keep(self, item: object, index: object) -> None:
        self._items[index if isinstance(index, int) else len(self._items)] = item

    def _whole(self, response: object) -> Replied:
        self.is_whole = True
        items = listed(response, "output") or [item for _, item in sorted(self._items.items())]
        return _reply(self._model, response, items)

    def _fail(self, error: object) -> None:
        self.failure = text_in(error, "message"), getattr(error, "code", None)


# -- from items to events ----------------------------------------------------------------------------------


def _reply(model: str, response: object, items: list[Any]) -> Replied:
    reply = ReplyBuilder(model)
    reply.usage = usage_of(getattr(response, "usage", None), "input", "output")
    reply.reported = text_in(response, "model")
    for item in items:  # in their order: a reasoning item belongs to the item that follows it
        match text_in(item, "type"):
            case "reasoning":
                reply.part(_reasoning(item))
            case "message" if text := "".join(_texts(item)):
                reply.part(Text(text=text, meta=_phase(item)))
            case "function_call":
                id, name = text_in(item, "call_id") or new_id(), text_in(item, "name")
                reply.call(ToolCall(id=id, name=name, arguments=text_in(item, "arguments")))
    return reply.whole(_finish(response, items))


def _reasoning(item: Any) -> Reasoning:
    shown = listed(item, "summary") or listed(item, "content")
    given = {name: value for name, value in item.to_dict().items() if value is not None}
    text = _BETWEEN.join(text_in(part, "text") for part in shown)
    return Reasoning(text=text, meta={META: json.dumps(given, ensure_ascii=False)})


def _texts(message: object) -> Iterator[str]:
    for part in listed(message, "content"):
        yield text_in(part, "text") or text_in(part, "refusal")


def _refuses(item: object) -> bool:
    return any(text_in(part, "refusal") for part in listed(item, "content"))


def _phase(message: object) -> dict[str, str]:
    """Whether the message was a remark on the way or the answer. Newer models want to be told this again."""
    phase = text_in(message, "phase")
    return {META: json.dumps({"phase": phase})} if phase else {}


def _finish(response: object, items: list[Any]) -> Finish:
    reason = text_in(getattr(response, "incomplete_details", None), "reason")
    if reason in _INCOMPLETE:
        return _INCOMPLETE[reason]
    if any(map(_refuses, items)):
        return "refused"
    if reason:
        return "other"
    return "tools" if any(text_in(item, "type") == "function_call" for item in items) else "stop"
