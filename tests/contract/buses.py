"""What the tests of the bus share: each back end with the means to disturb it, and somebody who listens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, Self
from urllib.parse import quote, unquote, urlsplit

import asyncpg
import pytest
import redis.asyncio

from everthread.store.bus.address import read
from everthread.store.bus.base import Bus
from everthread.store.bus.gather import GatheringBus
from everthread.store.bus.postgres import PostgresBus
from everthread.store.bus.redis import RedisBus
from tests.postgres_server import PrivatePostgres
from tests.redis_server import RedisServer

PATIENCE = 60  # seconds, only so that a broken bus fails instead of hanging


class Backend(Protocol):
    """What carries the messages, and what can happen to it."""

    kind: str
    url: str

    def bus(self, channel: str, url: str = "") -> GatheringBus:
        """A bus at the back end's address, or at another one that leads there."""

    async def publish(self, channel: str, payload: str) -> None:
        """What a stranger may send."""

    async def cut(self) -> int:
        """End all connections of buses; how many there were."""

    def stop(self) -> None: ...

    def start(self) -> None: ...


class Postgres:
    kind = "postgres"

    def __init__(self, server: PrivatePostgres) -> None:
        self._server = server
        self.url = server.url

    def bus(self, channel: str, url: str = "") -> GatheringBus:
        return PostgresBus(url or self.url, channel=channel)

    async def publish(self, channel: str, payload: str) -> None:
        await self._execute("SELECT pg_notify($1, $2)", channel, payload)

    async def cut(self) -> int:
        ended = await self._execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'everthread bus'"
        )
        return len(ended)

    def stop(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()

    async def _execute(self, statement: str, *values: Any) -> list[Any]:
        connection = await asyncpg.connect(self.url)
        try:
            return list(await connection.fetch(statement, *values))
        finally:
            await connection.close()


class Redis:
    kind = "redis"

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self.url = server.url

    def bus(self, channel: str, url: str = "") -> GatheringBus:
        return RedisBus(read(f"{url or self.url}?channel={channel}"))

    async def publish(self, channel: str, payload: str) -> None:
        async with redis.asyncio.from_url(self.url) as client:
            await client.publish(channel, payload)

    async def cut(self) -> int:
        async with redis.asyncio.from_url(self.url) as client:
            kinds = ("normal", "pubsub")
            return sum([int(await client.client_kill_filter(_type=kind, skipme=True)) for kind in kinds])

    def stop(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()


@contextmanager
def started(kind: str) -> Iterator[Backend]:
    if kind == "postgres":
        with PrivatePostgres(durable=False) as cluster:
            yield Postgres(cluster)
    else:
        with RedisServer() as server:
            yield Redis(server)


class Ear:
    """Somebody who hears, and remembers it."""

    def __init__(self, bus: Bus) -> None:
        self.heard: list[tuple[str, str]] = []
        self.losses = 0
        bus.hear(lambda topic, message: self.heard.append((topic, message)), self._lost)

    def _lost(self) -> None:
        self.losses += 1

    async def has(self, count: int) -> list[tuple[str, str]]:
        """What was heard, once it is so much."""
        await until(lambda: len(self.heard) >= count)
        return self.heard


class Wire:
    """Between a bus and its server, at an address of its own: it can fall silent, as a network does."""

    def __init__(self, backend: Backend, folder: Path) -> None:
        self._backend = backend
        self._folder = folder
        self._silenced: set[asyncio.StreamWriter] = set()
        self._open: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        if self._backend.kind == "postgres":
            self._server = await asyncio.start_unix_server(self._carry, self._folder / ".s.PGSQL.5432")
            self.url = f"postgresql://postgres@/postgres?host={quote(str(self._folder))}&port=5432"
        else:
            self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
            self.url = f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/0"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._open:
            writer.close()
        await until(lambda: not self._open)

    def silence(self) -> None:
        """From now on nothing comes through on the connections that there are."""
        self._silenced |= self._open

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await self._upstream()
        pumps = [self._pump(reader, there_writer), self._pump(there_reader, writer)]
        self._open |= {writer, there_writer}
        await asyncio.gather(*pumps)

    async def _upstream(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._backend.kind == "postgres":
            folder = self._backend.url.partition("host=")[2].partition("&")[0]
            return await asyncio.open_unix_connection(f"{unquote(folder)}/.s.PGSQL.5432")
        parts = urlsplit(self._backend.url)
        return await asyncio.open_connection(parts.hostname, parts.port)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                if writer not in self._silenced:
                    writer.write(data)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        self._open.discard(writer)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 — a condition that nobody tells
            await asyncio.sleep(0.005)


async def repeatedly(bus: Bus, ear: Ear, topic: str) -> None:
    """Send until it is heard: after an outage nobody knows when both sides are back."""
    async with asyncio.timeout(PATIENCE):
        while not any(heard == topic for heard, _ in ear.heard):
            bus.send(topic)
            await asyncio.sleep(0.05)


def published(bus: GatheringBus, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The payloads of each sending, from now on."""
    sendings: list[list[str]] = []
    publish = bus._publish

    async def noted(payloads: list[str]) -> None:
        sendings.append(payloads)
        await publish(payloads)

    monkeypatch.setattr(bus, "_publish", noted)
    return sendings


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno == logging.WARNING]
