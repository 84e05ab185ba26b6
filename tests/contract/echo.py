"""The other process in the tests of the bus: `python echo.py <kind> <url> <channel>`.

It answers everything with the same in capitals, until it hears `end`.
"""

from __future__ import annotations

import asyncio
import sys

from everthread.store.bus.address import read
from everthread.store.bus.gather import GatheringBus
from everthread.store.bus.postgres import PostgresBus
from everthread.store.bus.redis import RedisBus


async def echo(bus: GatheringBus) -> None:
    end = asyncio.Event()

    def heard(topic: str, message: str) -> None:
        if topic == "end":
            end.set()
        bus.send(topic.upper(), message.upper())

    bus.hear(heard, lambda: None)
    await bus.watch()
    bus.send("READY")
    await end.wait()
    await bus.close()


if __name__ == "__main__":
    kind, url, channel = sys.argv[1:]
    other = RedisBus(read(f"{url}?channel={channel}")) if kind == "redis" else PostgresBus(url, channel=channel)
    asyncio.run(echo(other))
