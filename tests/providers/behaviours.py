"""What every provider's client must do, and how the suite talks to one: its SDK, unchanged, and its loopback server.

`BEHAVIOURS` is the list in words; `test_behaviours.py` and `test_behaviours_of_connections.py` have the tests. A
provider takes part by an entry in `PROVIDERS`; what its API does not have is named in `lacks`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, NamedTuple

import msgspec
import pytest

from benchmarks.loopback.http import Answer, Fault
from benchmarks.loopback.model import Replies, Script
from everthread.core.deltas import ReasoningDelta, TextDelta
from everthread.core.events import Assistant, ToolCall
from everthread.core.parts import Part, Reasoning, Text
from everthread.core.request import Answer as Result
from everthread.core.request import Call, Item, MessageItem, ReplyItem, Request, Tool
from everthread.errors import ModelError
from everthread.providers.base import Media
from everthread.providers.client import Access, Client, Replied
from everthread.providers.models import model
from everthread.providers.registry import provider
from tests.waiting import PATIENCE

BEHAVIOURS = (
    "A reply streams in pieces, and the whole reply is the pieces together.",
    "Tool calls come whole, several in the model's order, with their arguments as they were written, JSON or not.",
    "What the model reasoned is kept, goes back with the next request, and is accepted.",
    "Images are accepted.",
    "Usage is what the provider reports, with what was read from its cache and written to it.",
    "A reply that came to its limit says so.",
    "Temperature, top_p, stop, seed, effort, structured output and choice of a tool reach the wire, if it has them.",
    "Fields and headers of the caller's own reach the wire.",
    "The provider's own count is asked for, where it has one.",
    "A wrong key, an unknown model, a request that is refused and one that is too long (with figures) are told apart.",
    "Too many requests: the wait that the provider asks for is told, in any of three forms.",
    "Faults of the provider's own are told as such.",
    "A malformed event, wrong JSON or a stream that ends early is an error, never a shorter reply.",
    "A connection that is lost at any byte of a reply ends in an error or in the whole reply, and never hangs.",
    "A provider that is silent for too long, or cannot be reached, is an error.",
    "Leaving early, or being cancelled, closes the connection.",
    "Calls run side by side on one client, and one after another on one connection.",
    "A key is in no error and in no log.",
)


class Tried(NamedTuple):
    """A provider in this suite. `server` and `client` are where they live; `cool`: a model that takes a temperature."""

    server: str
    client: str
    model: str
    cool: str = ""
    lacks: frozenset[str] = frozenset()


PROVIDERS = {
    "anthropic": Tried("anthropic.AnthropicServer", "anthropic.client", "claude-sonnet-4-6"),
    "openai": Tried(
        *("openai.OpenAIServer", "openai.client", "gpt-5", "gpt-4o"),
        lacks=frozenset({"reasoning", "counting", "cache writes"}),
    ),
    "openai-responses": Tried(
        *("openai.ResponsesServer", "openai.responses.client", "gpt-5", "gpt-4o"), lacks=frozenset({"cache writes"})
    ),
    "google": Tried(
        *("google.GoogleServer", "google.client", "gemini-3-pro-preview"),
        lacks=frozenset({"cache writes", "text arguments"}),
    ),
}
every = pytest.mark.parametrize("name", PROVIDERS)

KEY = "test-key"
TOOLS = (
    Tool(name="find", description="Finds.", schema={"type": "object", "properties": {"a": {"type": "integer"}}}),
    Tool(name="look", description="Looks.", schema={"type": "object", "properties": {"b": {"type": "string"}}}),
)


def having(feature: str) -> pytest.MarkDecorator:
    """The providers whose API has this."""
    return pytest.mark.parametrize("name", [name for name, tried in PROVIDERS.items() if feature not in tried.lacks])


def lacking(feature: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", [name for name, tried in PROVIDERS.items() if feature in tried.lacks])


class Heard(NamedTuple):
    """All that came of one model call."""

    texts: list[str]
    thoughts: list[str]
    replied: Replied

    @property
    def calls(self) -> list[ToolCall]:
        return [event for event in self.replied.events if isinstance(event, ToolCall)]

    @property
    def parts(self) -> list[Part]:
        return [part for event in self.replied.events if isinstance(event, Assistant) for part in event.parts]

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def reasoning(self) -> list[Reasoning]:
        return [part for part in self.parts if isinstance(part, Reasoning)]

    def answered(self, *results: str) -> ReplyItem:
        """As it stands in the next request, each tool call with its result."""
        parts: list[Part | Call] = []
        for event in self.replied.events:
            if isinstance(event, ToolCall):
                parts.append(Call(id=event.id, name=event.name, arguments=event.arguments, seq=1, meta=event.meta))
            else:
                parts += event.parts
        calls = [part for part in parts if isinstance(part, Call)]
        answers = [Result(call=call, parts=(Text(text=said),)) for call, said in zip(calls, results, strict=True)]
        return ReplyItem(parts=tuple(parts), answers=tuple(answers), reasons=True, model=self.replied.model)


class Wired:
    """A client and the server that it talks to."""

    def __init__(self, name: str, server: Any, client: Client) -> None:
        self.name, self.server, self.client = name, server, client
        self.tried = PROVIDERS[name]

    def body(self, *said: str | Part | Item, model_name: str = "", **options: Any) -> dict[str, Any]:
        """The request in the provider's form, made as the package makes it."""
        about = model(f"{self.name}:{model_name or self.tried.model}")
        items = tuple(_item(each) for each in said or ("Hello.",))
        request = Request(model=about.name, items=items, **{"reply_tokens": 4_096, "key": "talk", **options})
        return provider(self.name).request_form().render(request, about, Media({})).body

    async def ask(self, *said: str | Part | Item, **options: Any) -> Heard:
        return await heard(self.client, self.body(*said, **options))

    async def fails(self, *said: str | Part | Item, fault: Fault | None = None, **options: Any) -> ModelError:
        """The error that this ends in."""
        if fault:
            self.server.faults.append(fault)
        with pytest.raises(ModelError) as caught:
            await self.ask(*said, **options)
        return caught.value

    @property
    def wire(self) -> dict[str, Any]:
        """The newest request's body as it came to the server."""
        body = self.server.asked[-1].json()
        assert isinstance(body, dict)
        return body


def _item(said: str | Part | Item) -> Item:
    if isinstance(said, MessageItem | ReplyItem):
        return said
    return MessageItem(role="user", parts=(Text(text=said) if isinstance(said, str) else said,), seq=1)


@asynccontextmanager
async def wired(
    name: str,
    *replies: Replies,
    script: Script | None = None,
    limit: int = 0,
    seconds: float = PATIENCE,
    key: str = KEY,
) -> AsyncIterator[Wired]:
    """A provider's server, which says this, and a client for it."""
    module, _, kind = PROVIDERS[name].server.partition(".")
    made = getattr(import_module(f"benchmarks.loopback.{module}"), kind)
    async with (
        made(script or Script(replies), key=KEY, limit=limit) as server,
        connected(name, server.address, seconds=seconds, key=key) as client,
    ):
        yield Wired(name, server, client)


@asynccontextmanager
async def connected(name: str, address: str, *, seconds: float = PATIENCE, key: str = KEY) -> AsyncIterator[Client]:
    module = import_module(f"everthread.providers.{PROVIDERS[name].client}")
    client: Client = module.connect(Access(provider=name, key=key, address=address, seconds=seconds))
    try:
        yield client
    finally:
        await client.close()


async def heard(client: Client, body: dict[str, Any]) -> Heard:
    """A reply to its end: pieces, then the whole, then nothing."""
    texts: list[str] = []
    thoughts: list[str] = []
    whole: list[Replied] = []
    async with client.reply(body) as pieces:
        async for piece in pieces:
            assert not whole
            match piece:
                case TextDelta(text):
                    texts.append(text)
                case ReasoningDelta(text):
                    thoughts.append(text)
                case Replied():
                    whole.append(piece)
    assert len(whole) == 1
    return Heard(texts, thoughts, whole[0])


# -- bytes -------------------------------------------------------------------------------------------------


def chunks(answer: Answer) -> list[bytes]:
    assert not isinstance(answer.body, bytes), "this reply is not streamed"
    return list(answer.body)


def with_data(data: bytes) -> Fault:
    """The reply with the event in its middle saying this; `{half}` is half of what it said."""

    def change(answer: Answer) -> Answer:
        sent = chunks(answer)
        at = len(sent) // 2
        named, mark, said = sent[at].partition(b"data: ")
        assert mark, "no event in this chunk"
        said = said.strip()
        sent[at] = named + mark + data.replace(b"{half}", said[: len(said) // 2]) + b"\n\n"
        return answer._replace(body=sent)

    return Fault(change=change)


def only(number: int) -> Fault:
    """The first chunks of the reply, as many as asked for, and then a proper end."""
    return Fault(change=lambda answer: answer._replace(body=chunks(answer)[:number]))


def failing(status: int, said: str = "not now", **headers: str) -> Fault:
    """An error in a form that every SDK reads."""
    error = {"message": said, "type": "error", "code": status, "status": "UNAVAILABLE"}
    body = msgspec.json.encode({"type": "error", "error": error})
    return Fault(answer=Answer(status, body, {name.replace("_", "-"): value for name, value in headers.items()}))


def within(value: object) -> Iterator[tuple[str, object]]:
    """Every field of a body, at any depth."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield name, each
            yield from within(each)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for each in value:
            yield from within(each)
