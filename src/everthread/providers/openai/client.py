"""Model calls to OpenAI's Chat Completions, and to every server that speaks it, through OpenAI's own SDK.

Servers leave out different things, so only text is relied on: usage may never come, a tool call's delta may lack its
index or its id, and a stream may end without `[DONE]`. A reply is whole once the server has said how it finished, or
that it is done; one that ends sooner has broken off. `Caller`, the SDK's client with its errors turned into ours, also
serves the Responses API.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

from everthread.core.deltas import Usage
from everthread.core.events import ToolCall
from everthread.errors import BrokenOff, MissingExtra, ModelError, NoKey, RequestRefused, TooLong, Unreachable, WrongKey
from everthread.providers.client import NO_HEADERS, Access, Client, Finish, Headers, Replied, StreamPiece
from everthread.providers.faults import fault, shortened
from everthread.providers.openai import ABOUT
from everthread.providers.reply import ReplyBuilder, new_id

try:
    import httpx2
    import openai
except ImportError:
    raise MissingExtra("openai") from None

_T = TypeVar("_T")
Stream = openai.AsyncStream[Any]

CONNECT = 10.0  # seconds
_HEADERS = {"Accept-Encoding": "identity"}  # a compressed stream would come in lumps, and its end could not be seen
NO_KEY = "none"  # local servers want any key
_DONE = re.compile(rb"(^|\n)data: ?\[DONE\]")
_TAIL = 64  # bytes at the end of a stream that are searched for `[DONE]`
_STATUS = {  # for errors inside a stream, which come without a status
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "server_error": 500,
    "overloaded_error": 503,
    "context_length_exceeded": 400,
    "invalid_prompt": 400,
    "invalid_request_error": 400,
    "invalid_api_key": 401,
    "authentication_error": 401,
    "model_not_found": 404,
}
_FINISH: dict[str, Finish] = {
    "stop": "stop",
    "tool_calls": "tools",
    "function_call": "tools",
    "length": "length",
    "content_filter": "refused",
}


def connect(access: Access) -> Client:
    return _ChatClient(Caller(access))


def flat(body: dict[str, Any]) -> dict[str, Any]:
    """A request as it goes over the wire: what the SDK has no parameter for stands beside the rest."""
    if "extra_body" not in body:
        return body
    return {**{name: value for name, value in body.items() if name != "extra_body"}, **body["extra_body"]}


class _ChatClient:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._asks_usage = True

    @asynccontextmanager
    async def reply(
        self, body: dict[str, Any], *, headers: Headers = NO_HEADERS
    ) -> AsyncIterator[AsyncIterator[StreamPiece]]:
        model = str(body.get("model", ""))
        async with (
            await self._begin(model, flat(body), headers) as stream,
            aclosing(self._pieces(model, stream)) as pieces,
        ):
            yield pieces

    async def count(self, _body: dict[str, Any], *, headers: Headers = NO_HEADERS) -> int | None:
        return None

    async def close(self) -> None:
        await self._caller.sdk.close()

    async def _begin(self, model: str, body: dict[str, Any], headers: Headers) -> Stream:
        def create(**options: Any) -> Awaitable[Stream]:
            # As extra_body, because the SDK takes all else apart, field by field: 150 ms for 600 messages, in our loop.
            completions = self._caller.sdk.chat.completions
            beside: dict[str, Any] = {"extra_body": body, "extra_headers": headers, **options}
            return completions.create(model=model, messages=[], stream=True, **beside)

        if self._asks_usage:
            try:
                return await self._caller.safely(model, lambda: create(stream_options={"include_usage": True}))
            except RequestRefused as refused:
                if "stream_options" not in str(refused):
                    raise
            self._asks_usage = False  # this server does not know the option
        return await self._caller.safely(model, create)

    async def _pieces(self, model: str, stream: Stream) -> AsyncGenerator[StreamPiece]:
        said = _Said(f"{self._caller.provider}:{model}")
        async with aclosing(self._caller.told(model, stream)) as chunks:
            async for chunk in chunks:
                for piece in self._caller.read(said.take, chunk):
                    yield piece
        if not said.finish and not is_done(stream):
            raise BrokenOff(self._caller.provider, "it ended before the model had finished")
        yield said.whole()


# -- what a stream adds up to ------------------------------------------------------------------------------


class _Called:
    """A tool call while it comes."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.name = ""
        self.arguments: list[str] = []

    def event(self) -> ToolCall:
        return ToolCall(id=self.id or new_id(), name=self.name, arguments="".join(self.arguments))


class _Said:
    """What the chunks of a stream say, taken together."""

    def __init__(self, model: str) -> None:
        self.finish = ""
        self._reply = ReplyBuilder(model, in_order=False)
        self._refused = False
        self._calls: list[_Called] = []
        self._at: dict[int | None, _Called] = {}  # by their index

    def take(self, chunk: object) -> Iterator[StreamPiece]:
        self._reply.reported = text_in(chunk, "model") or self._reply.reported
        if (usage := getattr(chunk, "usage", None)) is not None:
            self._reply.usage = usage_of(usage, "prompt", "completion")
        for choice in listed(chunk, "choices"):
            yield from self._choose(choice)

    def _choose(self, choice: object) -> Iterator[StreamPiece]:
        delta = getattr(choice, "delta", None)
        yield from self._reply.thought(text_in(delta, "reasoning_content") or text_in(delta, "reasoning"))
        refusal = text_in(delta, "refusal")
        self._refused = self._refused or bool(refusal)
        yield from self._reply.text(text_in(delta, "content") + refusal)
        for call in listed(delta, "tool_calls"):
            self._call(call)
        self.finish = text_in(choice, "finish_reason") or self.finish

    def whole(self) -> Replied:
        for call in self._calls:
            self._reply.call(call.event())
        return self._reply.whole(self._finished())

    def _finished(self) -> Finish:
        if self._refused:
            return "refused"
        finish = _FINISH.get(self.finish, "other") if self.finish else "stop"
        if finish in ("stop", "tools"):  # after a tool call some servers say the one, some the other
            return "tools" if self._calls else "stop"
        return finish

    def _call(self, delta: object) -> None:
        function = getattr(delta, "function", None)
        call = self._of(delta, text_in(delta, "id"), text_in(function, "name"))
        call.name = call.name or text_in(function, "name")
        arguments = getattr(function, "arguments", None)
        call.arguments.append(json.dumps(arguments) if isinstance(arguments, dict) else text_in(function, "arguments"))

    def _of(self, delta: object, id: str, name: str) -> _Called:
        """The call that a delta continues, or a new one. Some servers give every call the same index, or none."""
        told = getattr(delta, "index", None)
        index = told if isinstance(told, int) else None
        found = self._known(index, id, name)
        if found is None or (id and found.id not in ("", id)):
            found = _Called(id)
            self._calls.append(found)
            self._at[index] = found
        found.id = found.id or id
        return found

    def _known(self, index: int | None, id: str, name: str) -> _Called | None:
        """By its index; else by its id; else the last, unless the delta names another tool."""
        if index is not None:
            return self._at.get(index)
        if id:
            return next((call for call in self._calls if call.id == id), None)
        return self._calls[-1] if self._calls and not name else None


def usage_of(told: object, asked: str, answered: str) -> Usage:
    """Tokens, under the names that either API has for what was asked and what was answered."""
    before, after = getattr(told, f"{asked}_tokens_details", None), getattr(told, f"{answered}_tokens_details", None)
    return Usage(
        input=_number_in(told, f"{asked}_tokens"),
        output=_number_in(told, f"{answered}_tokens"),
        cache_read=_number_in(before, "cached_tokens"),
        cache_write=_number_in(before, "cache_write_tokens"),
        reasoning=_number_in(after, "reasoning_tokens"),
    )


# -- fields ------------------------------------------------------------------------------------------------

# The SDK passes on what a server sends: a field may be missing, or of any type. A missing field says nothing; one of
# the wrong type is an error, because it would have said something.


class Odd(Exception):
    """An event that breaks the protocol."""


def text_in(value: object, name: str) -> str:
    found = getattr(value, name, None)
    if isinstance(found, list):  # content in parts, as some servers stream it
        return _joined(found)
    if found is None or isinstance(found, str):
        return found or ""
    raise Odd(f"{name} is not text")


def _joined(parts: list[Any]) -> str:
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))


def listed(value: object, name: str) -> list[Any]:
    """The objects of a list."""
    found = getattr(value, name, None)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(each, openai.BaseModel) for each in found):
        raise Odd(f"{name} is not a list of objects")
    return found


def _number_in(value: object, name: str) -> int:
    found = getattr(value, name, None)
    return found if isinstance(found, int) and found > 0 else 0


# -- the SDK, and its errors as ours -----------------------------------------------------------------------


class Caller:
    """The SDK's client for one provider. Whatever it raises becomes a ModelError, without the key and without a trace
    of the SDK's own exception, which holds the request and so the key."""

    def __init__(self, access: Access) -> None:
        self.provider = access.provider
        self._key = _key(access)
        self._seconds = access.seconds
        timeout = openai.Timeout(access.seconds, connect=min(CONNECT, access.seconds))
        self.sdk = openai.AsyncOpenAI(
            api_key=self._key,
            base_url=access.address or None,
            timeout=timeout,
            max_retries=0,
            default_headers=_HEADERS,
            http_client=openai.DefaultAsyncHttpxClient(timeout=timeout, event_hooks={"response": [_watch]}),
        )
        if access.foreign:  # what the SDK found in the environment is not for others
            self.sdk.organization = self.sdk.project = None
            self.sdk._custom_headers = dict(_HEADERS)

    async def safely(self, model: str, work: Callable[[], Awaitable[_T]], *, begun: bool = False) -> _T:
        """What the SDK returns. `begun`: the server has begun its reply."""
        try:
            return await work()
        except openai.APIStatusError as problem:
            error = self._fault(model, problem.status_code, problem)
        except (openai.APIConnectionError, httpx2.HTTPError) as problem:
            error = self._lost(problem, begun)
        except openai.APIError as problem:
            error = self._inside(model, problem)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as problem:
            error = self._odd(self._clean(str(problem)), begun)
        raise error

    async def told(self, model: str, stream: Stream) -> AsyncGenerator[Any]:
        """The events of a stream, to its end."""
        events = aiter(stream)
        while (event := await self.safely(model, lambda: anext(events, None), begun=True)) is not None:
            yield event

    def read(self, take: Callable[[Any], Iterable[_T]], event: object) -> list[_T]:
        """What is taken from an event of a stream."""
        try:
            if not isinstance(event, openai.BaseModel):
                raise Odd("it is not an object")
            return list(take(event))
        except Odd as problem:
            error = self._odd(str(problem), begun=True)
        raise error

    def error(self, model: str, said: str, *codes: object) -> ModelError:
        """The error that a server reports inside a stream, found by the codes that it gives."""
        said = self._clean(_named(said, *codes))
        status = next(filter(None, map(_status, codes)), None)
        error = fault(self.provider, model, status or 500, said)
        if status or isinstance(error, TooLong):
            return error
        return BrokenOff(self.provider, shortened(said) or "no reason was given")

    def _fault(self, model: str, status: int, problem: openai.APIStatusError) -> ModelError:
        said = self._clean(_said(problem.body) or problem.response.text)
        return fault(self.provider, model, status, said, headers=problem.response.headers)

    def _inside(self, model: str, problem: openai.APIError) -> ModelError:
        said = problem.body if isinstance(problem.body, str) else problem.message
        return self.error(model, said, problem.code, problem.type)

    def _lost(self, problem: Exception, begun: bool) -> ModelError:
        cause = problem.__cause__ or problem
        if isinstance(cause, httpx2.ConnectTimeout):
            why = "it does not accept the connection"
        elif isinstance(cause, httpx2.TimeoutException):
            why = f"nothing came for {self._seconds:g} seconds"
        else:
            why = self._clean(str(cause)) or type(cause).__name__
        return BrokenOff(self.provider, why) if begun else Unreachable(self.provider, why)

    def _odd(self, why: str, begun: bool) -> ModelError:
        """The error for what the SDK could not read; or, before the reply began, could not write."""
        if begun:
            return BrokenOff(self.provider, f"an event breaks the protocol: {shortened(why)}")
        return RequestRefused(self.provider, f"its SDK does not take it: {shortened(why)}")

    def _clean(self, said: str) -> str:
        """What a server said, without the key: some repeat the one that they refuse."""
        return said if self._key == NO_KEY else said.replace(self._key, "…")


def _key(access: Access) -> str:
    key = access.key.strip()
    if not key:
        if not access.address:
            raise NoKey(ABOUT.name, ABOUT.keys[0])  # both APIs have the same
        return NO_KEY
    if not (key.isascii() and key.isprintable()):  # no header can carry it, and the error would quote it
        raise WrongKey(access.provider, "it has characters that no key has")
    return key


def _said(body: object) -> str:
    """What the body of a refusal says."""
    if isinstance(body, dict):
        said = body.get("message") or body.get("detail")
        return _named(said, body.get("code"), body.get("type")) if isinstance(said, str) else json.dumps(body)
    return body if isinstance(body, str) else ""


def _named(said: str, *codes: object) -> str:
    """What was said, with the first code of the error, which often tells more than the text."""
    name = next((code for code in codes if isinstance(code, str) and code), "")
    return said if name in said else f"{said} [{name}]"


def _status(code: object) -> int | None:
    if isinstance(code, str) and not code.isdecimal():
        return _STATUS.get(code)
    number = int(code) if isinstance(code, str | int) else 0
    return number if 400 <= number < 600 else None


# -- whether a stream came to its end ----------------------------------------------------------------------


class _Watched(httpx2.AsyncByteStream):
    """A reply's bytes, of which the last are remembered: the SDK does not say whether `[DONE]` came."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream
        self.tail = b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self.tail = (self.tail + chunk)[-_TAIL:]
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _watch(response: httpx2.Response) -> None:
    if isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _Watched(response.stream)


def is_done(stream: Stream) -> bool:
    watched = stream.response.stream
    return isinstance(watched, _Watched) and bool(_DONE.search(watched.tail))
