"""Model calls to the model in the process: SmolLM2 from its wheel, or any GGUF file.

A reply streams as it is made. Small models do not call tools reliably, so a request with tools becomes up to three
questions: which tool, if any, under a JSON Schema that names them; its arguments, under that tool's own schema; and, if
no tool was chosen, the reply. A model call makes at most one tool call, and after a result the model replies in words.
If the choice fails in any way, the model replies.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from everthread.config import Settings
from everthread.core.deltas import ReasoningDelta, TextDelta, Usage
from everthread.core.events import ToolCall
from everthread.core.request import object_of
from everthread.errors import BrokenOff, RequestRefused, TooLong
from everthread.providers.client import NO_HEADERS, Access, Client, Finish, Headers, Replied, StreamPiece
from everthread.providers.local import files as local_files
from everthread.providers.local import messages as local_messages
from everthread.providers.local.files import ModelFile
from everthread.providers.local.server import PROVIDER, Chunk, LoadedModel, chunks_of
from everthread.providers.reply import ReplyBuilder, new_id

Body = dict[str, Any]

CHOICE_TOKENS = 64  # enough for a tool's name in a line of JSON
ARGUMENT_TOKENS = 256  # a small model that is not done by then writes in circles

# A tiny model may ramble until it is cut off, so it gets this much where nobody chose a reply length.
TINY_REPLY = 512
# The temperature and the share that SmolLM2's makers recommend. Without a penalty it repeats itself for ever; with one
# of 1.1 it no longer says what a tool has just told it. Larger models bring their own defaults in their files.
TINY_SAMPLING = {"temperature": 0.2, "top_p": 0.9, "repeat_penalty": 1.05}

TAKEN = ("temperature", "top_p", "seed", "stop", "response_format")

_FINISH: dict[str, Finish] = {"stop": "stop", "length": "length"}


def connect(access: Access) -> Client:
    return _LocalClient(access)


class _LocalClient:
    def __init__(self, access: Access) -> None:
        self._access = access

    @asynccontextmanager
    async def reply(self, body: Body, *, headers: Headers = NO_HEADERS) -> AsyncIterator[AsyncIterator[StreamPiece]]:
        async with aclosing(self._pieces(body)) as pieces:
            yield pieces

    async def count(self, _body: Body, *, headers: Headers = NO_HEADERS) -> int | None:
        return None

    async def close(self) -> None:
        """The model stays loaded, for whoever asks next."""

    async def _pieces(self, body: Body) -> AsyncGenerator[StreamPiece]:
        file = await asyncio.to_thread(local_files.find, body["model"])
        access = self._access
        model = LoadedModel(file=file, threads=access.threads, window=file.window(access.window))
        messages = local_messages.for_template(body["messages"], tiny=file.tiny)
        spent: list[Usage] = []
        functions = local_messages.offered(body, tiny=file.tiny)
        must = local_messages.must_call(body)
        if functions and (call := await self._call(model, messages, functions, spent, must=must)):
            yield Replied(events=(call,), usage=_together(spent), finish="tools", model=file.name)
            return
        said = _Said(file)
        async with chunks_of(model, request_of(body, messages, file), seconds=access.seconds) as chunks:
            async for chunk in chunks:
                for piece in said.take(chunk):
                    yield piece
        yield said.whole(spent)

    async def _call(
        self, model: LoadedModel, messages: list[Body], functions: list[Body], spent: list[Usage], *, must: bool
    ) -> ToolCall | None:
        """The tool call that the model chose, whole; or none, unless it must."""
        name = functions[0]["name"]
        if len(functions) > 1 or not must:
            asking = local_messages.choosing(messages, functions, must=must)
            chosen = await self._answer(model, *asking, CHOICE_TOKENS, spent)
            name = (object_of(chosen) or {}).get("action", local_messages.REPLY)
        function = next((function for function in functions if function["name"] == name), None)
        if function is None:
            return None
        arguments = await self._answer(model, *local_messages.filling(messages, function), ARGUMENT_TOKENS, spent)
        if not arguments or object_of(arguments) is None:
            return None
        return ToolCall(id=new_id(), name=name, arguments=arguments)

    async def _answer(
        self, model: LoadedModel, messages: list[Body], schema: Body, most: int, spent: list[Usage]
    ) -> str:
        """The model's likeliest answer under a schema; empty where it cannot be asked."""
        form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
        body = _streamed(messages) | {"max_tokens": most, "temperature": 0.0, "response_format": form}
        said, texts = _Said(model.file), list[str]()
        try:
            async with chunks_of(model, body, seconds=self._access.seconds) as chunks:
                async for chunk in chunks:
                    texts += [str(piece) for piece in said.take(chunk)]  # a thought prints as nothing
        except (TooLong, RequestRefused):  # no room for the question, or a schema that llama.cpp does not know
            return ""
        spent.append(said.reply.usage)
        return "".join(texts)


def _reply_tokens(body: Body, *, tiny: bool) -> int:
    usual = Settings().reply_tokens
    asked: int = body.get("max_completion_tokens") or body.get("max_tokens") or usual
    return TINY_REPLY if tiny and asked == usual else asked


def request_of(body: Body, messages: list[Body], file: ModelFile) -> Body:
    """The request for a reply, in llama.cpp's form."""
    most = _reply_tokens(body, tiny=file.tiny)
    taken: Body = {**{name: body[name] for name in TAKEN if name in body}, **body.get("extra_body", {})}
    return _streamed(messages) | (TINY_SAMPLING if file.tiny else {}) | taken | {"max_tokens": most}


def _streamed(messages: list[Body]) -> Body:
    # Progress is asked for because it is a sign of life, and a chance to stop, while a long prompt is read.
    usage = {"include_usage": True}
    return {"messages": messages, "stream": True, "stream_options": usage, "return_progress": True}


class _Said:
    """What the chunks of a stream say, taken together."""

    def __init__(self, file: ModelFile) -> None:
        self.reply = ReplyBuilder(f"{PROVIDER}:{file.name}", in_order=False)
        self.reply.reported = file.name
        self._finish = ""

    def take(self, chunk: Chunk) -> Iterator[TextDelta | ReasoningDelta]:
        if usage := chunk.get("usage"):
            self.reply.usage = _usage(usage)
        for choice in chunk.get("choices", ()):
            delta = choice.get("delta") or {}
            yield from self.reply.thought(delta.get("reasoning_content") or "")
            yield from self.reply.text(delta.get("content") or "")
            self._finish = choice.get("finish_reason") or self._finish

    def whole(self, spent: list[Usage]) -> Replied:
        if not self._finish:
            raise BrokenOff(PROVIDER, "it ended before the model had finished")
        self.reply.usage = _together([*spent, self.reply.usage])
        return self.reply.whole(_FINISH.get(self._finish, "other"))


def _usage(told: Body) -> Usage:
    cached = (told.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    return Usage(input=told["prompt_tokens"], output=told["completion_tokens"], cache_read=cached)


def _together(spent: list[Usage]) -> Usage:
    """The usage of one model call that took several questions. They share their prompt but for its end, so the longest
    is the input: a sum would teach calibration that every text is twice as long as it is."""
    return Usage(
        input=max(one.input for one in spent),
        output=sum(one.output for one in spent),
        cache_read=spent[0].cache_read,
    )
