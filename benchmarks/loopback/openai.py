"""OpenAI's two APIs on the loopback interface: Chat Completions and Responses, streamed and whole.

Both refuse what the provider refuses: a wrong key, an unknown model, a request against the rules, too many tokens. The
Responses server hands out encrypted reasoning where it is asked for, sealed with its model and text
(`benchmarks.seals`), and refuses what comes back changed. Chat Completions shows a thought in `reasoning_content`, as
the servers do that merely speak its language; and both quote a wrong key, as some of those do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import count, groupby
from typing import Any

import msgspec

from benchmarks.caching import Spent
from benchmarks.loopback.http import Answer, Asked, Server, sse
from benchmarks.loopback.model import Books, Called, Piece, Script, Thought, limited, size_of, streamed, tokens_of
from benchmarks.seals import broken, reasoning_item
from benchmarks.validator import refusals

Json = dict[str, Any]

CREATED = 1_780_000_000
MODELS = ("gpt-4o", "gpt-5.6-terra")
_ENCRYPTED = "reasoning.encrypted_content"


class _Provider(Server):
    """What both APIs have in common. `as_429`: a request that is too long is refused as one too many, which is what
    accounts with a small quota are told."""

    provider = ""

    def __init__(self, script: Script | None = None, *, key: str = "test-key", limit: int = 0) -> None:
        super().__init__(self._respond)
        self.script = script or Script()
        self.books = Books(self.provider, limit=limit)
        self.as_429 = False
        self._key = key
        self._numbers = count(1)

    @property
    def address(self) -> str:
        return f"{super().address}/v1"

    def _routes(self) -> dict[str, Callable[[Json], Answer]]:
        raise NotImplementedError

    def _respond(self, asked: Asked) -> Answer:
        if asked.headers.get("authorization") != f"Bearer {self._key}":
            given = asked.headers.get("authorization", "").removeprefix("Bearer ")
            return _refused(401, f"Incorrect API key provided: {given}.", "invalid_api_key")
        if (asked.method, asked.path) == ("GET", "/v1/models"):
            return _json({"object": "list", "data": [_model(name) for name in MODELS]})
        answer = self._routes().get(asked.path)
        if asked.method != "POST" or answer is None:
            return _refused(404, f"Invalid URL ({asked.method} {asked.path})")
        try:
            body = asked.json()
        except msgspec.DecodeError:
            return _refused(400, "We could not parse the JSON body of your request.")
        if not isinstance(body, dict) or not isinstance(body.get("model"), str):
            return _refused(400, "you must provide a model parameter")
        if body["model"].startswith("unknown"):
            said = f"The model `{body['model']}` does not exist or you do not have access to it."
            return _refused(404, said, "model_not_found")
        return answer(body)

    def _enter(self, body: Json) -> Spent | Answer:
        """What the request's input comes to, or the refusal."""
        if "stream_options" in body and not body.get("stream"):
            return _refused(400, "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
        spent = self.books.enter(body["model"], body)
        if isinstance(spent, str):
            return _refused(400, spent)
        limit = self.books.limit
        if limit and spent.total > limit:
            return self._too_long(body["model"], limit, spent.total)
        return spent

    def _too_long(self, model: str, limit: int, size: int) -> Answer:
        if self.as_429:
            on = f"Request too large for {model} in organization org-loopback on tokens per min (TPM)"
            return _refused(429, f"{on}: Limit {limit}, Requested {size}.", "rate_limit_exceeded")
        said = (
            f"This model's maximum context length is {limit} tokens. However, your messages resulted in {size} tokens."
        )
        return _refused(400, said, "context_length_exceeded")

    def _id(self, kind: str) -> str:
        return f"{kind}{next(self._numbers):08}"


# -- Chat Completions --------------------------------------------------------------------------------------


class OpenAIServer(_Provider):
    provider = "openai"

    def _routes(self) -> dict[str, Callable[[Json], Answer]]:
        return {"/v1/chat/completions": self._complete}

    def _complete(self, body: Json) -> Answer:
        spent = self._enter(body)
        if isinstance(spent, Answer):
            return spent
        most = body.get("max_completion_tokens", body.get("max_tokens"))
        reply, cut = limited(self.script.next(body), most)
        called = any(isinstance(piece, Called) for piece in reply)
        finish = "length" if cut else "tool_calls" if called else "stop"
        head = {"id": self._id("chatcmpl-"), "created": CREATED, "model": body["model"]}
        calls = [self._call(piece) for piece in reply if isinstance(piece, Called)]
        usage = _chat_usage(spent, reply)
        if not body.get("stream"):
            message: Json = {"role": "assistant", "content": _said(reply) or None, "refusal": None}
            message |= {"tool_calls": calls} if calls else {}
            choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
            return _json({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
        asks_usage = (body.get("stream_options") or {}).get("include_usage")
        return Answer(body=list(_chunks(head, reply, calls, finish, usage if asks_usage else None)))

    def _call(self, piece: Called) -> Json:
        function = {"name": piece.name, "arguments": piece.arguments}
        return {"id": self._id("call_"), "type": "function", "function": function}


def _chunks(head: Json, reply: list[Piece], calls: list[Json], finish: str, usage: Json | None) -> Iterator[bytes]:
    def chunk(delta: Json, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        told = {} if usage is None else {"usage": None}
        return sse({**head, "object": "chat.completion.chunk", "choices": [choice], **told})

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    for piece in (piece for piece in reply if not isinstance(piece, Called)):
        name, text = ("reasoning_content", piece.text) if isinstance(piece, Thought) else ("content", piece)
        for each in streamed(text):
            yield chunk({name: each})
    for index, call in enumerate(calls):
        begun = {**call, "function": {**call["function"], "arguments": ""}}
        yield chunk({"tool_calls": [{"index": index, **begun}]})
        for each in _letters(call["function"]["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": each}}]})
    yield chunk({}, finish)
    if usage is not None:
        yield sse({**head, "object": "chat.completion.chunk", "choices": [], "usage": usage})
    yield sse("[DONE]")


def _chat_usage(spent: Spent, reply: list[Piece]) -> Json:
    output = tokens_of(*reply)
    return {
        "prompt_tokens": spent.total,
        "completion_tokens": output,
        "total_tokens": spent.total + output,
        "prompt_tokens_details": {"cached_tokens": spent.read, "cache_write_tokens": spent.written, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": _thought(reply), "audio_tokens": 0},
    }


# -- Responses ---------------------------------------------------------------------------------------------


class ResponsesServer(_Provider):
    provider = "openai-responses"

    def _routes(self) -> dict[str, Callable[[Json], Answer]]:
        return {"/v1/responses": self._create, "/v1/responses/input_tokens": self._count}

    def _count(self, body: Json) -> Answer:
        if wrong := refusals(f"{self.provider}:{body['model']}", body):
            self.books.refused += wrong
            return _refused(400, wrong[0])
        return _json({"object": "response.input_tokens", "input_tokens": size_of(body)})

    def _create(self, body: Json) -> Answer:
        spent = self._enter(body)
        if isinstance(spent, Answer):
            return spent
        if isinstance(body["input"], list) and (wrong := broken(f"{self.provider}:{body['model']}", body)):
            self.books.refused += wrong
            return _refused(400, wrong[0], "invalid_encrypted_content")
        reply, cut = limited(self.script.next(body), body.get("max_output_tokens"))
        reply = _joined(reply)
        items = [self._item(piece, body) for piece in reply]
        response = self._response(body, items, _usage(spent, reply), cut)
        return Answer(body=list(_events(response))) if body.get("stream") else _json(response)

    def _response(self, body: Json, items: list[Json], usage: Json, cut: bool) -> Json:
        return {
            "id": self._id("resp_"),
            "object": "response",
            "created_at": CREATED,
            "status": "incomplete" if cut else "completed",
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "model": body["model"],
            "output": items,
            "parallel_tool_calls": True,
            "store": body.get("store", True),
            "tool_choice": "auto",
            "tools": [],  # the provider repeats them here, which is of no use to anyone
            "usage": usage,
        }

    def _item(self, piece: Piece, body: Json) -> Json:
        match piece:
            case Thought(text):
                item: Json = json.loads(reasoning_item(f"{self.provider}:{body['model']}", text, self._id("rs_")))
                if _ENCRYPTED not in (body.get("include") or ()):
                    del item["encrypted_content"]
                return item
            case Called(name, arguments):
                call = {"type": "function_call", "id": self._id("fc_"), "call_id": self._id("call_")}
                return {**call, "name": name, "arguments": arguments, "status": "completed"}
            case _:
                content = [{"type": "output_text", "text": piece, "annotations": [], "logprobs": []}]
                message = {"type": "message", "id": self._id("msg_"), "role": "assistant", "status": "completed"}
                return {**message, "content": content}


def _events(response: Json) -> Iterator[bytes]:
    numbers = count()

    def event(kind: str, fields: Json) -> bytes:
        return sse({"type": kind, "sequence_number": next(numbers), **fields}, event=kind)

    begun = {**response, "status": "in_progress", "incomplete_details": None, "output": [], "usage": None}
    yield event("response.created", {"response": begun})
    yield event("response.in_progress", {"response": begun})
    for index, item in enumerate(response["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        yield event("response.output_item.added", {"output_index": index, "item": _begun(item)})
        for kind, fields in _inside(item):
            yield event(kind, {**place, **fields})
        yield event("response.output_item.done", {"output_index": index, "item": item})
    yield event(f"response.{response['status']}", {"response": response})


def _begun(item: Json) -> Json:
    empty: Json = {"message": {"content": []}, "reasoning": {"summary": []}, "function_call": {"arguments": ""}}
    status = {"status": "in_progress"} if "status" in item else {}
    return {**item, **empty[item["type"]], **status}


def _inside(item: Json) -> Iterator[tuple[str, Json]]:
    """The events between the beginning of an item and its end."""
    match item["type"]:
        case "message":
            for index, part in enumerate(item["content"]):
                at = {"content_index": index}
                yield "response.content_part.added", {**at, "part": {**part, "text": ""}}
                for text in streamed(part["text"]):
                    yield "response.output_text.delta", {**at, "delta": text, "logprobs": []}
                yield "response.output_text.done", {**at, "text": part["text"], "logprobs": []}
                yield "response.content_part.done", {**at, "part": part}
        case "reasoning":
            for index, part in enumerate(item["summary"]):
                at = {"summary_index": index}
                yield "response.reasoning_summary_part.added", {**at, "part": {**part, "text": ""}}
                for text in streamed(part["text"]):
                    yield "response.reasoning_summary_text.delta", {**at, "delta": text}
                yield "response.reasoning_summary_text.done", {**at, "text": part["text"]}
                yield "response.reasoning_summary_part.done", {**at, "part": part}
        case _:
            for text in _letters(item["arguments"]):
                yield "response.function_call_arguments.delta", {"delta": text}
            yield "response.function_call_arguments.done", {"arguments": item["arguments"], "name": item["name"]}


def _usage(spent: Spent, reply: list[Piece]) -> Json:
    output = tokens_of(*reply)
    return {
        "input_tokens": spent.total,
        "input_tokens_details": {"cached_tokens": spent.read, "cache_write_tokens": spent.written},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": _thought(reply)},
        "total_tokens": spent.total + output,
    }


# -- pieces, and the wire ----------------------------------------------------------------------------------


def _joined(reply: list[Piece]) -> list[Piece]:
    """Texts that follow each other are one message."""
    joined: list[Piece] = []
    for is_text, pieces in groupby(reply, lambda piece: isinstance(piece, str)):
        found = list(pieces)
        joined += ["".join(map(str, found))] if is_text else found
    return joined


def _said(reply: list[Piece]) -> str:
    return "".join(piece for piece in reply if isinstance(piece, str))


def _thought(reply: list[Piece]) -> int:
    return tokens_of(*(piece for piece in reply if isinstance(piece, Thought)))


def _letters(arguments: str) -> list[str]:
    return re.findall(r"(?s).{1,5}", arguments)


def _model(name: str) -> Json:
    return {"id": name, "object": "model", "created": CREATED, "owned_by": "loopback"}


def _json(body: Json, status: int = 200) -> Answer:
    return Answer(status, msgspec.json.encode(body))


def _refused(status: int, said: str, code: str | None = None) -> Answer:
    kind = {401: "authentication_error", 429: "tokens"}.get(status, "invalid_request_error")
    return _json({"error": {"message": said, "type": kind, "param": None, "code": code}}, status)
