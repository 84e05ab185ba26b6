"""The bus over PostgreSQL's NOTIFY: nothing to install, and only who shares the database hears it.

Transactions with a NOTIFY commit one after the other, in all databases of the server, so none is part of an append: a
connection of its own sends, at most once an INTERVAL, and does not wait for the disk. Another one listens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import asyncpg

from everthread.store.bus.gather import PATIENCE, PING, GatheringBus

CHANNEL = "everthread"


class PostgresBus(GatheringBus):
    WARN_AFTER = 10.0  # whoever uses the store waits for a server that restarts, and is told if it stays away

    def __init__(self, url: str, *, shown: str = "PostgreSQL", channel: str = CHANNEL) -> None:
        super().__init__(shown)
        self._url = url
        self._channel = channel
        self._outgoing: Any = None

    async def _publish(self, payloads: list[str]) -> None:
        if self._outgoing is None or self._outgoing.is_closed():
            self._outgoing = await self._connect()
        try:
            notify = "SELECT pg_notify($1, unnest($2::text[]))"
            await self._outgoing.execute(notify, self._channel, payloads, timeout=PATIENCE)
        except BaseException:
            self._outgoing.terminate()  # nobody knows what state it is in
            raise

    async def _attend(self, listening: Callable[[], None]) -> None:
        connection = await self._connect()
        try:
            ended = asyncio.Event()
            connection.add_termination_listener(lambda _: ended.set())
            async with asyncio.timeout(PATIENCE):
                await connection.add_listener(self._channel, lambda _c, _p, _n, payload: self._receive(payload))
            listening()
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(PING):
                        await ended.wait()
                # Raises when the connection has ended, and when the network is gone and nobody has told us.
                await connection.execute("SELECT 1", timeout=PATIENCE)
        finally:
            connection.terminate()

    async def _let_go(self) -> None:
        if self._outgoing is not None:
            self._outgoing.terminate()

    async def _connect(self) -> Any:
        # A hint need not survive a crash: otherwise every one would wait for the disk.
        settings = {"application_name": "everthread bus", "synchronous_commit": "off"}
        return await asyncpg.connect(self._url, server_settings=settings, timeout=PATIENCE)
