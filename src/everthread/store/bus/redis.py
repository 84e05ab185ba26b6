"""The bus over Redis, or a server that speaks its protocol: for stores whose PostgreSQL has enough to do already.

One connection publishes, another subscribes; both speak RESP 2, which every such server understands. redis-py's client
would subscribe again by itself when a connection is lost and tell nobody, so its connections are used without it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from redis.asyncio import Connection, SSLConnection
from redis.exceptions import RedisError

from everthread.store.bus.address import BusAddress
from everthread.store.bus.gather import PATIENCE, PING, GatheringBus


class RedisBus(GatheringBus):
    def __init__(self, address: BusAddress) -> None:
        super().__init__(address.shown)
        self._address = address
        self._outgoing: Any = None

    def __repr__(self) -> str:
        return f"RedisBus({self._address.shown!r})"

    async def _publish(self, payloads: list[str]) -> None:
        if self._outgoing is None:
            self._outgoing = self._connection()
        commands = [("PUBLISH", self._address.channel, payload) for payload in payloads]
        try:
            await self._outgoing.send_packed_command(self._outgoing.pack_commands(commands))  # connects if need be
            for _ in commands:
                await self._outgoing.read_response()
        except BaseException:
            await self._outgoing.disconnect(nowait=True)  # there may be answers that nobody has read
            raise

    async def _attend(self, listening: Callable[[], None]) -> None:
        connection = self._connection()
        try:
            await connection.connect()
            await connection.send_command("SUBSCRIBE", self._address.channel)
            await connection.read_response()
            listening()
            while True:
                answer = await connection.read_response(timeout=PING)
                if answer is None:  # silent for PING seconds; a server that is there answers a ping
                    await connection.send_command("PING")
                    answer = await connection.read_response()
                if answer[0] == b"message":
                    self._receive(answer[2])
        finally:
            await connection.disconnect(nowait=True)

    async def _let_go(self) -> None:
        if self._outgoing is not None:
            with suppress(OSError, RedisError):
                await self._outgoing.disconnect()

    def _connection(self) -> Any:
        address = self._address
        return (SSLConnection if address.tls else Connection)(
            host=address.host,
            port=address.port,
            username=address.user,
            password=address.password,
            protocol=2,
            socket_timeout=PATIENCE,
            socket_connect_timeout=PATIENCE,
        )
