"""Google's Gemini, called through its own SDK.

One model call is one request: the SDK does not retry, resume or run tools, and takes nothing from the environment. It
gets an HTTP client from here, because with its own it leaves an abandoned stream to the garbage collector; this way the
connection is closed before the block is left.

What the model thought comes as reasoning, which Gemini does not want back. What it does want back is the signature
beside a function call, kept in the tool call's `meta` as `providers.google.request` reads it.
"""

from __future__ import annotations

import base64
import json
import logging
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, cast

from everthread.core.deltas import ReasoningDelta, TextDelta, Usage
from everthread.core.events import ToolCall
from everthread.core.parts import File, Image, file, image
from everthread.errors import (
    BrokenOff,
    MissingExtra,
    ModelError,
    NoKey,
    RequestRefused,
    Unreachable,
    WrongKey,
)
from everthread.providers.client import NO_HEADERS, Access, Client, Finish, Headers, Replied, StreamPiece
from everthread.providers.faults import fault, hidden, reason
from everthread.providers.google import ABOUT
from everthread.providers.google.request import SIGNATURE
from everthread.providers.reply import ReplyBuilder

try:
    import httpx2  # which the SDK stands on
    from google import genai
    from google.genai import errors, types
except ImportError:
    raise MissingExtra("google") from None

PROVIDER = ABOUT.name
CONNECT_SECONDS = 10.0
ADDRESS = "https://generativelanguage.googleapis.com"
VERSION = "v1beta"  # gets new fields first; the SDK would take v1, or what the environment says
NO_KEY = "none"  # for servers that want no key: given none, the SDK would send one that it finds in the environment

_FINISHES: dict[str, Finish] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    **dict.fromkeys(("SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "RECITATION", "SPII"), "refused"),
    **dict.fromkeys(("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"), "refused"),
}
_UNFINISHED = "FINISH_REASON_UNSPECIFIED"
_TELLING = ("candidates", "prompt_feedback", "usage_metadata", "response_id")  # a chunk has one of these at least
_OURS = {"automaticFunctionCalling": {"disable": True}, "automaticContinuation": False}
_Chunk = types.GenerateContentResponse
_opened: ContextVar[list[httpx2.Response] | None] = ContextVar("_opened", default=None)


def connect(access: Access) -> Client:
    """A client for Gemini, or for a server that speaks its API. NoKey, WrongKey: the key cannot be one."""
    key = access.key.strip()
    if not key and not access.address:
        raise NoKey(PROVIDER, ABOUT.keys[0])
    if not key.isascii() or not key.isprintable():  # the HTTP client would refuse it, and repeat it
        raise WrongKey(PROVIDER, "it has characters that no key has")
    _quieten()
    return _GoogleClient(access, key)


def _with_headers(body: dict[str, Any], headers: Headers) -> dict[str, Any]:
    if not headers:
        return body
    config = body.get("config", {})
    return {**body, "config": {**config, "httpOptions": {**config.get("httpOptions", {}), "headers": dict(headers)}}}


def _quieten() -> None:
    """Silence the SDK, which logs keys that it found and does not use, and finish reasons that it does not know."""
    sdk = logging.getLogger("google_genai")
    if sdk.level == logging.NOTSET:
        sdk.setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", r".* is not a valid \w+$", module=r"google\.genai\._common")


class _GoogleClient:
    def __init__(self, access: Access, key: str) -> None:
        self._key, self._seconds = key, access.seconds
        self._http = httpx2.AsyncClient(event_hooks={"request": [_unhurried], "response": [_note_response]})
        options = types.HttpOptions(
            base_url=access.address or ADDRESS,
            api_version=VERSION,
            timeout=max(1, round(access.seconds * 1000)),
            httpx_async_client=self._http,
        )
        self._sdk = genai.Client(api_key=key or NO_KEY, vertexai=False, http_options=options)

    @asynccontextmanager
    async def reply(
        self, body: dict[str, Any], *, headers: Headers = NO_HEADERS
    ) -> AsyncIterator[AsyncIterator[StreamPiece]]:
        opened: list[httpx2.Response] = []
        pieces = self._pieces(_with_headers(body, headers), opened)
        try:
            yield pieces
        finally:
            try:
                await pieces.aclose()
            finally:
                for response in opened:
                    await response.aclose()

    async def count(self, body: dict[str, Any], *, headers: Headers = NO_HEADERS) -> int | None:
        """The count of the contents alone. Instructions and tools, which the endpoint does not take, are estimated."""
        opened: list[httpx2.Response] = []
        with self._telling(body["model"], opened), _noting(opened):
            asked = _with_headers({"model": body["model"], "contents": body["contents"]}, headers)
            counted = await self._sdk.aio.models.count_tokens(**asked)
        return counted.total_tokens

    async def close(self) -> None:
        await self._http.aclose()
        await self._sdk.aio.aclose()
        self._sdk.close()

    async def _pieces(self, body: dict[str, Any], opened: list[httpx2.Response]) -> AsyncGenerator[StreamPiece, None]:
        reading = _Reading(body["model"])
        async with aclosing(self._chunks(body, opened)) as chunks:
            async for chunk in chunks:
                for piece in reading.take(chunk):
                    yield piece
        yield reading.whole()

    async def _chunks(self, body: dict[str, Any], opened: list[httpx2.Response]) -> AsyncGenerator[_Chunk, None]:
        asked = {**body, "config": {**body.get("config", {}), **_OURS}}
        with self._telling(body["model"], opened):
            with _noting(opened):
                stream = cast(AsyncGenerator[_Chunk, None], await self._sdk.aio.models.generate_content_stream(**asked))
                first = await anext(stream, None)  # only now is anything sent
            async with aclosing(stream):
                if first is not None:
                    yield first
                async for chunk in stream:
                    yield chunk

    # -- what went wrong -----------------------------------------------------------------------------------

    @contextmanager
    def _telling(self, model: str, opened: list[httpx2.Response]) -> Iterator[None]:
        try:
            yield
        except Exception as problem:  # noqa: BLE001 - over data that is not what it expects, the SDK raises anything
            raise self._fault(problem, model, opened) from None

    def _fault(self, problem: Exception, model: str, opened: list[httpx2.Response]) -> ModelError:
        """The error for what the SDK raised: about network or request before an answer, about the reply after it."""
        if isinstance(problem, errors.APIError):
            return self._refusal(problem, model)
        if opened and opened[-1].status_code != 200:  # and what it said could not be read
            return fault(PROVIDER, model, opened[-1].status_code, "", headers=opened[-1].headers)
        if opened:
            return BrokenOff(PROVIDER, self._why(problem))
        is_connection = isinstance(problem, httpx2.HTTPError | httpx2.InvalidURL | OSError)
        return (Unreachable if is_connection else RequestRefused)(PROVIDER, self._why(problem))

    def _refusal(self, problem: errors.APIError, model: str) -> ModelError:
        said = hidden(str(problem.message or problem.status or ""), self._key)
        headers = {**_retry_info(problem.details), **(getattr(problem.response, "headers", None) or {})}
        return fault(PROVIDER, model, problem.code or 500, said, headers=headers)

    def _why(self, problem: Exception) -> str:
        match problem:
            case httpx2.ConnectTimeout():
                return f"no connection within {min(CONNECT_SECONDS, self._seconds):g} seconds"
            case httpx2.TimeoutException():
                return f"no sign of life for {self._seconds:g} seconds"
            case errors.UnknownApiResponseError():
                return "the answer is not JSON"
            case _:
                return reason(problem, self._key)


def _retry_info(details: Any) -> dict[str, str]:
    """The time to wait, as the header that other providers send. Google has it in the error itself, as in "34.07s".

    Less than a second is given there as "0s", and exactly in words: then the words count.
    """
    match details:
        case {"error": {"details": [*said]}}:
            delay = next((each["retryDelay"] for each in said if isinstance(each, dict) and "retryDelay" in each), "0s")
            return {"retry-after": str(delay).removesuffix("s")} if delay != "0s" else {}
        case _:
            return {}


# -- the HTTP client's part --------------------------------------------------------------------------------


@contextmanager
def _noting(opened: list[httpx2.Response]) -> Iterator[None]:
    """Collect in `opened` the responses to what is sent in this block."""
    token = _opened.set(opened)
    try:
        yield
    finally:
        _opened.reset(token)


async def _note_response(response: httpx2.Response) -> None:
    opened = _opened.get()
    if opened is not None:
        opened.append(response)


async def _unhurried(request: httpx2.Request) -> None:
    """The SDK tells the server that the time-out is for the whole reply. It is for silence."""
    request.headers.pop("x-server-timeout", None)
    request.extensions["timeout"]["connect"] = min(CONNECT_SECONDS, request.extensions["timeout"]["connect"])


# -- from chunks to a reply --------------------------------------------------------------------------------


class _Reading:
    """Takes the chunks of one reply; after the last, `whole` is the reply."""

    def __init__(self, model: str) -> None:
        self._reply = ReplyBuilder(f"{PROVIDER}:{model}")
        self._finish: Finish | None = None
        self._tokens: dict[str, int] = {}
        self._id = ""

    def take(self, chunk: _Chunk) -> Iterator[TextDelta | ReasoningDelta]:
        if not any(getattr(chunk, name) for name in _TELLING):
            raise BrokenOff(PROVIDER, "an event is empty")  # the SDK takes any JSON for a chunk
        self._note(chunk)
        for candidate in (chunk.candidates or [])[:1]:
            yield from self._take_candidate(candidate)

    def _note(self, chunk: _Chunk) -> None:
        """Note what a chunk says about the whole reply."""
        self._id = chunk.response_id or self._id
        self._reply.reported = chunk.model_version or self._reply.reported
        if chunk.usage_metadata:
            self._tokens |= chunk.usage_metadata.model_dump(include=set(_TOKENS), exclude_none=True)
        if chunk.prompt_feedback and chunk.prompt_feedback.block_reason:
            self._finish = "refused"

    def _take_candidate(self, candidate: types.Candidate) -> Iterator[TextDelta | ReasoningDelta]:
        for part in (candidate.content and candidate.content.parts) or []:
            yield from self._take_part(part)
        reason = candidate.finish_reason.value if candidate.finish_reason else _UNFINISHED
        if reason != _UNFINISHED:
            self._finish = _FINISHES.get(reason, "other")

    def whole(self) -> Replied:
        if self._finish is None:
            raise BrokenOff(PROVIDER, "it ended without a finish reason")
        self._reply.usage = _usage(self._tokens)
        return self._reply.whole("tools" if self._reply.calls and self._finish == "stop" else self._finish)

    def _take_part(self, part: types.Part) -> Iterator[TextDelta | ReasoningDelta]:
        if part.function_call:
            self._reply.call(self._called(part.function_call, part.thought_signature))
        elif part.text:
            yield from self._reply.thought(part.text) if part.thought else self._reply.text(part.text)
        elif part.inline_data and part.inline_data.data:
            self._reply.part(_shown(part.inline_data.data, part.inline_data.mime_type))

    def _called(self, call: types.FunctionCall, signature: bytes | None) -> ToolCall:
        # Gemini matches by position and often gives no id. The reply's own id keeps this one apart from other replies'.
        id = call.id or "_".join(filter(None, ("call", self._id[:24], str(self._reply.calls + 1))))
        meta = {PROVIDER: json.dumps({SIGNATURE: base64.b64encode(signature).decode()})} if signature else {}
        arguments = json.dumps(call.args or {}, ensure_ascii=False)
        return ToolCall(id=id, name=call.name or "", arguments=arguments, meta=meta)


def _shown(data: bytes, media_type: str | None) -> Image | File:
    if media_type and media_type.startswith("image/"):
        return image(data, media_type=media_type)
    return file(data, media_type=media_type or "")


_TOKENS = (
    "prompt_token_count",
    "tool_use_prompt_token_count",
    "candidates_token_count",
    "thoughts_token_count",
    "cached_content_token_count",
)


def _usage(tokens: Mapping[str, int]) -> Usage:
    prompt, tools, said, thought, cached = (tokens.get(name, 0) for name in _TOKENS)
    return Usage(input=prompt + tools, output=said + thought, cache_read=cached, reasoning=thought)
