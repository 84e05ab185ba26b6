"""Anthropic's Messages API on the loopback interface: streamed and whole replies, and the counting of tokens.

It refuses what the provider refuses: a wrong key, a header that is missing, a request against the rules, too many
tokens, and thinking that is not as it was given out: signatures tell the model and the text (`benchmarks.seals`), and
for models whose thinking is bound to what came before it, that too. A thought without text is sent as a redacted one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec

from benchmarks.caching import Spent
from benchmarks.loopback.http import Answer, Asked, Server, sse
from benchmarks.loopback.model import (
    Books,
    Called,
    Piece,
    Script,
    Thought,
    limited,
    size_of,
    streamed,
    tokens_of,
)
from benchmarks.seals import broken, seal
from benchmarks.validator import refusals

Json = dict[str, Any]

COUNTED = {"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control"}
_BOUND = re.compile(r"(fable|mythos)-5[-.][1-9]|(opus|sonnet|haiku)-5[-.]5")
_DROPPING = "thinking-binding-controls-2026-08-01"


class AnthropicServer(Server):
    """`script`: what the model says; `books`: what was cached and refused; `limit`: the most input tokens, if any."""

    def __init__(self, script: Script | None = None, *, key: str = "test-key", limit: int = 0) -> None:
        super().__init__(self._respond)
        self.script = script or Script()
        self.books = Books("anthropic", limit=limit)
        self._key = key
        self._numbers = count(1)
        self._given: dict[str, set[str]] = {}  # what each thought of a bound model was produced with, by its signature

    def _respond(self, asked: Asked) -> Answer:
        # The SDK sends a key as a bearer token; other clients, and older ones, in the header of its own.
        given = asked.headers.get("x-api-key") or asked.headers.get("authorization", "").removeprefix("Bearer ")
        if given != self._key:
            return _refused(401, "authentication_error", "invalid x-api-key")
        if "anthropic-version" not in asked.headers:
            return _refused(400, "invalid_request_error", "anthropic-version: header is required")
        answer = {"/v1/messages": self._message, "/v1/messages/count_tokens": self._count}.get(asked.path)
        if asked.method != "POST" or answer is None:
            return _refused(404, "not_found_error", f"Not found: {asked.method} {asked.path}")
        try:
            body = asked.json()
        except msgspec.DecodeError as problem:
            return _refused(400, "invalid_request_error", f"The request body is not valid JSON: {problem}")
        if not isinstance(body, dict) or not isinstance(body.get("model"), str):
            return _refused(400, "invalid_request_error", "model: Field required")
        if body["model"].startswith("unknown"):
            return _refused(404, "not_found_error", f"model: {body['model']}")
        return answer(asked, body)

    def _count(self, asked: Asked, body: Json) -> Answer:
        if extra := body.keys() - COUNTED:
            return _refused(400, "invalid_request_error", f"{min(extra)}: Extra inputs are not permitted")
        if wrong := refusals(f"anthropic:{body['model']}", {**body, "max_tokens": 100_000}):
            self.books.refused += wrong
            return _refused(400, "invalid_request_error", wrong[0])
        return _json(200, {"input_tokens": size_of(body)})

    def _message(self, asked: Asked, body: Json) -> Answer:
        spent = self.books.enter(body["model"], body)
        if isinstance(spent, str):
            return _refused(400, "invalid_request_error", spent)
        if self.books.limit and spent.total > self.books.limit:
            said = f"prompt is too long: {spent.total} tokens > {self.books.limit} maximum"
            return _refused(400, "invalid_request_error", said)
        if wrong := self._altered(asked, body):
            self.books.refused += wrong
            return _refused(400, "invalid_request_error", wrong[0])
        reply, cut = limited(self.script.next(body), body["max_tokens"])
        message = self._message_of(body, reply, cut, spent)
        return Answer(body=list(_events(message, reply))) if body.get("stream") else _json(200, message)

    # -- what the model says -------------------------------------------------------------------------------

    def _message_of(self, body: Json, reply: list[Piece], cut: bool, spent: Spent) -> Json:
        content = [self._block(body, piece) for piece in reply]
        called = any(isinstance(piece, Called) for piece in reply)
        thought = tokens_of(*(piece for piece in reply if isinstance(piece, Thought)))
        return {
            "id": f"msg_{next(self._numbers):08}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": "max_tokens" if cut else "tool_use" if called else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": spent.plain,
                "cache_creation_input_tokens": spent.written,
                "cache_read_input_tokens": spent.read,
                "output_tokens": tokens_of(*reply) + 1,
                "output_tokens_details": {"thinking_tokens": thought},
            },
        }

    def _block(self, body: Json, piece: Piece) -> Json:
        match piece:
            case Thought(text):
                signature = seal(f"anthropic:{body['model']}", text)
                self._given.setdefault(signature, set()).add(_prefix(body, len(body["messages"])))
                if not text:
                    return {"type": "redacted_thinking", "data": signature}
                return {"type": "thinking", "thinking": text, "signature": signature}
            case Called(name, arguments):
                id = f"toolu_{next(self._numbers):08}"
                return {"type": "tool_use", "id": id, "name": name, "input": _object(arguments)}
            case _:
                return {"type": "text", "text": piece}

    # -- what it was told to have thought ------------------------------------------------------------------

    def _altered(self, asked: Asked, body: Json) -> list[str]:
        """Thinking that is not as it was given out."""
        if wrong := broken(f"anthropic:{body['model']}", body):
            return wrong
        if not _BOUND.search(body["model"]) or _drops(asked, body):
            return []
        return [
            f"{where}: the thinking block was produced with another system, tools or earlier messages"
            for where, prefix, signature in _thoughts(body)
            if prefix not in self._given.get(signature, ())
        ]


def _drops(asked: Asked, body: Json) -> bool:
    """Whether the request asks that thinking which no longer fits be left out, not refused."""
    binding = (body.get("thinking") or {}).get("block_binding") or {}
    drops = binding.get("prefix_mismatch_behavior") == "drop_block"
    return drops and _DROPPING in asked.headers.get("anthropic-beta", "")


def _thoughts(body: Json) -> Iterator[tuple[str, str, str]]:
    """Each thought with its place, a hash of what stands before its message, and its signature."""
    for index, message in enumerate(body["messages"]):
        blocks = message["content"] if isinstance(message["content"], list) else []
        for place, block in enumerate(blocks):
            if block["type"] in ("thinking", "redacted_thinking"):
                signature = block["signature"] if block["type"] == "thinking" else block["data"]
                yield f"messages.{index}.content.{place}", _prefix(body, index), signature


def _prefix(body: Json, messages: int) -> str:
    said = _unmarked([body.get("system"), body.get("tools"), body["messages"][:messages]])
    return hashlib.sha256(msgspec.json.encode(said)).hexdigest()


def _unmarked(value: Any) -> Any:
    """Without the marks of the cache, which move from request to request and say nothing."""
    if isinstance(value, dict):
        return {name: _unmarked(each) for name, each in value.items() if name != "cache_control"}
    return [_unmarked(each) for each in value] if isinstance(value, list) else value


# -- the wire ----------------------------------------------------------------------------------------------


def _events(message: Json, reply: list[Piece]) -> Iterator[bytes]:
    usage = message["usage"]
    begun = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield _event("message_start", message=begun)
    for index, (block, piece) in enumerate(zip(message["content"], reply, strict=True)):
        yield _event("content_block_start", index=index, content_block=_empty(block))
        if not index:
            yield _event("ping")
        for delta in _deltas(block, piece):
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=delta, usage=usage)
    yield _event("message_stop")


def _event(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, **fields}, event=kind)


def _empty(block: Json) -> Json:
    """A block as it begins."""
    match block["type"]:
        case "text":
            return {**block, "text": ""}
        case "thinking":
            return {**block, "thinking": "", "signature": ""}
        case "tool_use":
            return {**block, "input": {}}
        case _:
            return block


def _deltas(block: Json, piece: Piece) -> Iterator[Json]:
    match piece:
        case Called(_, arguments):
            yield {"type": "input_json_delta", "partial_json": ""}
            for text in re.findall(r"(?s).{1,5}", arguments):
                yield {"type": "input_json_delta", "partial_json": text}
        case Thought(text):
            for each in streamed(text):
                yield {"type": "thinking_delta", "thinking": each}
            if text:
                yield {"type": "signature_delta", "signature": block["signature"]}
        case _:
            for each in streamed(piece):
                yield {"type": "text_delta", "text": each}


def _object(arguments: str) -> Json:
    """What a whole reply has for arguments; text that spells no object cannot stand there."""
    try:
        return msgspec.json.decode(arguments, type=dict[str, Any])
    except msgspec.DecodeError:
        return {}


def _json(status: int, body: Json) -> Answer:
    return Answer(status, msgspec.json.encode(body))


def _refused(status: int, kind: str, said: str) -> Answer:
    return _json(status, {"type": "error", "error": {"type": kind, "message": said}, "request_id": "req_loopback"})
