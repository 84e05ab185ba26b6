"""How long a piece of a reply takes from one process to another: `python -m benchmarks.bus [seconds]`.

Two hundred streams each send forty characters every 30 ms, each in its own rhythm. Another process listens. Over
PostgreSQL they go through the bus, which gathers, and then with a NOTIFY each; with EVERTHREAD_BUS set also over that
Redis. The time is taken from `send` to the ear, so half of an INTERVAL is waiting for company.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Protocol

import asyncpg

from everthread.store.bus import address as bus_address
from everthread.store.bus.base import Bus
from everthread.store.bus.postgres import CHANNEL, PostgresBus
from tests.postgres_server import postgres_for_tests

STREAMS = 200
EVERY = 0.03  # seconds
SIZE = 40  # characters
SECONDS = 5.0
GRACE = 10.0  # seconds in which what has piled up may still be sent and heard


class Sender(Protocol):
    def send(self, topic: str, message: str = "") -> None: ...

    async def close(self) -> None: ...


class Measured(NamedTuple):
    """Milliseconds of the way; `cpu` is the sender's share of a core."""

    what: str
    sent: int
    heard: int
    p50: float
    p99: float
    most: float
    cpu: float


class NotifyEach:
    """What is measured against: every message is a statement of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._work = asyncio.create_task(self._notify())

    def send(self, topic: str, message: str = "") -> None:
        self._queue.put_nowait(f'["each",[["{topic}","{message}"]],{time.monotonic_ns()}]')

    async def close(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await self._queue.join()
        self._work.cancel()
        await asyncio.gather(self._work, return_exceptions=True)

    async def _notify(self) -> None:
        connection = await asyncpg.connect(self._url, server_settings={"synchronous_commit": "off"})
        try:
            while True:
                await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, await self._queue.get())
                self._queue.task_done()
        finally:
            connection.terminate()


def a_bus(how: str, url: str) -> Bus:
    if how != "redis":
        return PostgresBus(url)
    from everthread.store.bus.redis import RedisBus

    return RedisBus(bus_address.read(url))


async def speak(how: str, url: str, seconds: float) -> None:
    """The other process. What it prints: how many pieces it sent, and its share of a core."""
    sender: Sender = NotifyEach(url) if how == "each" else a_bus(how, url)
    sent, began, used = 0, time.monotonic(), time.process_time()

    async def stream(number: int) -> None:
        nonlocal sent
        due = began + random.uniform(0, EVERY)
        while due < began + seconds:
            await asyncio.sleep(max(0, due - time.monotonic()))
            sender.send(f"stream {number}", f"{time.monotonic_ns():0{SIZE}}")
            sent += 1
            due += EVERY

    await asyncio.gather(*(stream(number) for number in range(STREAMS)))
    share = (time.process_time() - used) / (time.monotonic() - began)
    await sender.close()
    print(sent, share)


async def listen(what: str, how: str, url: str, seconds: float) -> Measured:
    """Hear the other process to its end."""
    ways: list[float] = []
    bus = a_bus(how, url)
    bus.hear(lambda _, message: ways.append((time.monotonic_ns() - int(message)) / 1e6), lambda: None)
    await bus.watch()
    command = [sys.executable, "-m", "benchmarks.bus", "speak", how, url, str(seconds)]
    other = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await other.communicate()
    sent, cpu = out.split()
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE):
            while len(ways) < int(sent):  # noqa: ASYNC110 — pieces may come for a moment yet
                await asyncio.sleep(0.01)
    await bus.close()
    centiles = statistics.quantiles(ways, n=100)
    return Measured(what, int(sent), len(ways), centiles[49], centiles[98], max(ways), float(cpu))


async def measure(seconds: float, tell: Callable[[Measured], None]) -> None:
    with postgres_for_tests() as server:
        url = server.create_database("bus")
        tell(await listen("PostgreSQL, gathered", "postgres", url, seconds))
        tell(await listen("PostgreSQL, a NOTIFY each", "each", url, seconds))
    if redis := os.environ.get("EVERTHREAD_BUS"):
        tell(await listen("Redis, gathered", "redis", redis, seconds))


def show(found: Measured) -> None:
    print(
        f"{found.what:26} {found.heard:6} of {found.sent} heard   p50 {found.p50:7.1f} ms   p99 {found.p99:7.1f} ms"
        f"   most {found.most:7.1f} ms   sender {found.cpu:.0%} of a core"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["speak"]:
        asyncio.run(speak(sys.argv[2], sys.argv[3], float(sys.argv[4])))
    else:
        asyncio.run(measure(float(sys.argv[1]) if sys.argv[1:] else SECONDS, show))
