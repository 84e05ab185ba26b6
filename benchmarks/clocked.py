"""The loopback servers with a clock in their replies, in a process of their own.

    python -m benchmarks.clocked anthropic openai

prints the address of each as a line of JSON and serves until its standard input ends. The first piece of every reply
is the moment at which the whole of the request had arrived, each further one the moment at which it was sent itself: in
microseconds of the machine's monotonic clock, which all processes share. How many there are, and how far apart, is up
to the newest message that asks for it (`asking`).
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Any, overload

from benchmarks.loopback.anthropic import AnthropicServer
from benchmarks.loopback.http import Answer, Asked, Server
from benchmarks.loopback.model import Script
from benchmarks.loopback.openai import OpenAIServer

SERVERS: dict[str, type[AnthropicServer] | type[OpenAIServer]] = {
    "anthropic": AnthropicServer,
    "openai": OpenAIServer,
}
KEY = "test-key"
NOW = "f" * 12  # stands where a moment is to stand: twelve hexadecimal digits, which is one piece of a reply
_ASKING = re.compile(rb"(\d+) pieces, (\d+) ms apart")


def asking(pieces: int, apart: int = 0) -> str:
    """A message that asks for a reply of so many pieces."""
    return f"Tell me the time: {pieces} pieces, {apart} ms apart"


def asked(said: object) -> tuple[int, float]:
    """How many pieces a message asks for, and how many seconds apart."""
    pieces, apart = _ASKING.findall(str(said).encode())[-1]
    return int(pieces), int(apart) / 1000


def now() -> int:
    return time.monotonic_ns() // 1_000


def moment(piece: str) -> int:
    return int(piece.strip(), 16)


class Clocked(Sequence[bytes]):
    """The chunks of a reply. The one with NOW in it is sent as often as asked, with the moment at which it is."""

    def __init__(self, chunks: Sequence[bytes], times: int) -> None:
        self._chunks, self._times = chunks, times

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            if NOW.encode() not in chunk:
                yield chunk
                continue
            for _ in range(self._times):
                yield chunk.replace(NOW.encode(), _text(now()).encode())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> list[bytes]: ...
    def __getitem__(self, place: int | slice) -> bytes | list[bytes]:
        return list(self)[place]


def clocked(provider: str) -> Server:
    """A provider's loopback server whose replies tell the time."""
    arrived = 0

    def say(_: dict[str, Any]) -> list[str]:
        return [f"{_text(arrived)} {NOW}"]

    server = SERVERS[provider](Script(otherwise=say), key=KEY)
    respond = server._respond

    def answer(asked: Asked) -> Answer:
        nonlocal arrived
        arrived = now()
        server.asked.clear()
        given = respond(asked)
        if isinstance(given.body, bytes):
            return given
        pieces, apart = map(int, _ASKING.findall(asked.body)[-1])
        return given._replace(body=Clocked(given.body, pieces), pace=apart / 1000)

    server._answer = answer
    return server


def _text(moment: int) -> str:
    return f"{moment:012x}"


async def _serve(*providers: str) -> None:
    async with AsyncExitStack() as open_ones:
        servers = {name: await open_ones.enter_async_context(clocked(name)) for name in providers}
        print(json.dumps({name: server.address for name, server in servers.items()}), flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))
