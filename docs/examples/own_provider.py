"""A provider of your own, registered without changing Everthread.

It is a module or object with `ABOUT`, `connect` and, unless it takes the request form of another, `render` and `check`.
A package names its provider as an entry point instead: `[project.entry-points."everthread.providers"] shouting = "…"`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from everthread import Everthread, GivenSettings, Usage
from everthread.providers.client import NO_HEADERS, Access, Client, Headers, StreamPiece
from everthread.providers.registry import Provider, register
from everthread.providers.reply import ReplyBuilder


class Shouting:
    """A model that repeats what it was told, louder."""

    @asynccontextmanager
    async def reply(
        self, body: dict[str, Any], *, headers: Headers = NO_HEADERS
    ) -> AsyncIterator[AsyncIterator[StreamPiece]]:
        yield self._pieces(body)

    async def _pieces(self, body: dict[str, Any]) -> AsyncIterator[StreamPiece]:
        reply = ReplyBuilder(f"shouting:{body['model']}")
        for word in str(body["messages"][-1]["content"]).upper().split():
            for piece in reply.text(f"{word} "):
                yield piece
        reply.usage = Usage(input=10, output=2)
        yield reply.whole("stop")

    async def count(self, body: dict[str, Any], *, headers: Headers = NO_HEADERS) -> int | None:
        return None  # it has no endpoint for that

    async def close(self) -> None:
        pass


class ShoutingProvider:
    ABOUT = Provider(
        name="shouting",
        form="openai",  # requests are those of Chat Completions
        keys=("SHOUTING_API_KEY",),
        models=({"match": ["loud-*"], "window": 32_000, "encoding": "o200k"},),  # as in providers/models.toml
    )

    @staticmethod
    def connect(access: Access) -> Client:
        return Shouting()  # import an SDK here, and hand it access.key and access.address


async def main() -> None:
    register(ShoutingProvider)
    settings: GivenSettings = {"model": "shouting:loud-1", "clock": "off"}
    async with Everthread.open("sqlite:///own-provider.db", settings=settings) as et:
        talk = await et.conversation(user="ana")
        async for delta in talk.say("hello there"):
            print(delta, end="")
        print()


asyncio.run(main())
