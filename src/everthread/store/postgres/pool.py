"""Connections to PostgreSQL that are opened when needed and kept while they are sound.

A stack of idle connections and a limit. asyncpg's own pool does more (it resets each connection, a round trip,
and wraps it), at a price that an append would feel: 0.1 ms here, a tenth of a durable commit.

Each connection sees the rows of one tenant, or of all (`store.reach`). Whoever takes one gets one that sees what they
may: if there is one, an idle one that does already, else another that is told first, which is a round trip.
"""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg

from everthread.errors import EverthreadError
from everthread.store.reach import reach

CONNECTS = 5.0  # seconds for a connection to be made, before it is tried again
TENANT = "everthread.tenant"  # the variable that the policies of the tables look at
POINT = f"SELECT set_config('{TENANT}', $1, false)"


class Pool:
    def __init__(self, url: str, *, most: int, patience: float) -> None:
        self._url, self._patience = url, patience
        self.settings = {
            "synchronous_commit": "on",
            "application_name": "everthread",
            "lock_timeout": str(max(1, int(patience * 1000))),
        }
        self._room = asyncio.Semaphore(most)
        self._idle: list[Any] = []
        self._busy: set[Any] = set()
        self._sees: dict[Any, str] = {}  # whose rows, by connection
        self._closed = False

    @property
    def is_full(self) -> bool:
        """Whether all connections that there may be are in use."""
        return self._room.locked()

    def acquire(self) -> Loan:
        """A connection for a while: `async with pool.acquire() as connection`."""
        return Loan(self)

    async def take(self) -> Any:
        await self._room.acquire()
        try:
            connection = await self._sound(reach())
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
        if self._closed or not harmless or connection.is_closed():
            self._drop(connection)
        else:
            self._idle.append(connection)

    async def close(self) -> None:
        self._closed = True
        while self._busy:  # noqa: ASYNC110 — those that are at work end soon
            await asyncio.sleep(0.001)
        await asyncio.gather(*(connection.close() for connection in self._idle), return_exceptions=True)

    def terminate(self) -> None:
        self._closed = True
        for connection in (*self._idle, *self._busy):
            connection.terminate()

    async def _sound(self, tenant: str) -> Any:
        """A connection that lives, as far as anybody knows, and sees this tenant's rows."""
        while self._idle:
            connection = self._idle.pop(self._nearest(tenant))
            if connection.is_closed():
                self._drop(connection)
            elif self._sees[connection] == tenant:
                return connection
            else:
                return await self._told(connection, tenant)
        connection = await asyncpg.connect(
            self._url,
            server_settings={**self.settings, TENANT: tenant},
            timeout=min(CONNECTS, max(1.0, self._patience)),
        )
        self._sees[connection] = tenant
        return connection

    def _nearest(self, tenant: str) -> int:
        """The place of the idle connection that was used last, of those that see this tenant's rows if any does."""
        last = len(self._idle) - 1
        return next((at for at in range(last, -1, -1) if self._sees[self._idle[at]] == tenant), last)

    async def _told(self, connection: Any, tenant: str) -> Any:
        try:
            await connection.execute(POINT, tenant)
        except BaseException:
            self._drop(connection)  # nobody knows what it sees
            raise
        self._sees[connection] = tenant
        return connection

    def _drop(self, connection: Any) -> None:
        self._sees.pop(connection, None)
        connection.terminate()


class Loan:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def __aenter__(self) -> Any:
        self._connection = await self._pool.take()
        return self._connection

    async def __aexit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        self._pool.give_back(self._connection, problem)
