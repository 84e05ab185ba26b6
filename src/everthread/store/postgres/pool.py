"""Connections to PostgreSQL that are opened when needed and kept while they are sound.

A stack of idle connections and a limit. asyncpg's own pool does more (it resets each connection, a round trip,
and wraps it), at a price that an append would feel: 0.1 ms here, a tenth of a durable commit.
"""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg

from everthread.errors import EverthreadError


class Pool:
    def __init__(self, url: str, *, most: int, patience: float) -> None:
        self._url = url
        self._settings = {
            "synchronous_commit": "on",
            "application_name": "everthread",
            "lock_timeout": str(max(1, int(patience * 1000))),
        }
        self._room = asyncio.Semaphore(most)
        self._idle: list[Any] = []
        self._busy: set[Any] = set()
        self._closed = False

    def acquire(self) -> Loan:
        """A connection for a while: `async with pool.acquire() as connection`."""
        return Loan(self)

    async def take(self) -> Any:
        await self._room.acquire()
        try:
            connection = await self._sound()
        except BaseException:
            self._room.release()
            raise
        self._busy.add(connection)
        return connection

    def give_back(self, connection: Any, problem: BaseException | None) -> None:
        """Kept for the next one, unless what happened may have harmed it."""
        self._busy.discard(connection)
        self._room.release()
        # Refused by the script or the server, it is as good as before.
        harmless = problem is None or isinstance(problem, EverthreadError | asyncpg.PostgresError)
        if self._closed or not harmless:
            connection.terminate()
        elif not connection.is_closed():
            self._idle.append(connection)

    async def connect(self, **settings: str) -> Any:
        """A connection of one's own."""
        return await asyncpg.connect(self._url, server_settings={**self._settings, **settings})

    async def close(self) -> None:
        self._closed = True
        while self._busy:  # noqa: ASYNC110 — those that are at work end soon
            await asyncio.sleep(0.001)
        await asyncio.gather(*(connection.close() for connection in self._idle), return_exceptions=True)

    def terminate(self) -> None:
        self._closed = True
        for connection in (*self._idle, *self._busy):
            connection.terminate()

    async def _sound(self) -> Any:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return await self.connect()


class Loan:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def __aenter__(self) -> Any:
        self._connection = await self._pool.take()
        return self._connection

    async def __aexit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        self._pool.give_back(self._connection, problem)
