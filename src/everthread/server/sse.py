"""Server-sent events: what is told bit by bit, over plain HTTP.

Each event has a name, data in JSON and, where one can go on from it, an id: a browser that lost the connection sends it
as `Last-Event-ID`, and nothing is lost or told twice. A comment every few seconds keeps the connection alive; when the
service is about to end, `reconnect` is told, and the connection closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing
from contextvars import copy_context
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from everthread.routes import EVENTS

BEAT = 15.0  # seconds after which a sign of life is sent
HEADERS = ((b"content-type", f"{EVENTS}; charset=utf-8".encode()), (b"cache-control", b"no-store"))
UNBUFFERED = ((b"x-accel-buffering", b"no"),)  # nginx would else keep it back


class Sent(NamedTuple):
    """An event of a stream. `id`: from where to go on; empty where it is the one before."""

    name: str
    data: bytes
    id: str = ""

    def written(self) -> bytes:
        id = f"id: {self.id}\n".encode() if self.id else b""
        return b"event: " + self.name.encode() + b"\n" + id + b"data: " + self.data + b"\n\n"


LEAVE = Sent("reconnect", b"{}")


def wants_events(request: Request) -> bool:
    return EVENTS in request.headers.get("accept", "")


class EventStream(Response):
    """A response that lasts until there is nothing more to tell, the caller has gone or the service ends."""

    def __init__(
        self, told: AsyncGenerator[bytes, None], leaving: asyncio.Event, held: ExitStack | None = None
    ) -> None:
        """`told`: events as they are sent, one or several at once. `held`: what is let go of at its end. It is told in
        the context in which this was made: the caller's reach of the store holds there as well."""
        super().__init__(media_type=EVENTS)
        self._told, self._leaving, self._held = told, leaving, held or ExitStack()
        self._context = copy_context()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._held:
            await send({"type": "http.response.start", "status": 200, "headers": [*HEADERS, *UNBUFFERED]})
            if scope["method"] != "HEAD":
                await self._until_the_end(receive, send)
            await send({"type": "http.response.body", "body": b""})

    async def _until_the_end(self, receive: Receive, send: Send) -> None:
        ways = [self._tell(send), self._until_gone(receive, send), self._until_leaving(send)]
        tasks = [asyncio.create_task(way, context=self._context.copy()) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()

    async def _tell(self, send: Send) -> None:
        async with aclosing(self._told):
            async for one in self._told:
                await _send(send, one)
                del one  # it may be large, and nothing more may come for days

    async def _until_gone(self, receive: Receive, send: Send) -> None:
        while True:
            try:
                async with asyncio.timeout(BEAT):
                    if (await receive())["type"] == "http.disconnect":
                        return
            except TimeoutError:
                await _send(send, b": still here\n\n")

    async def _until_leaving(self, send: Send) -> None:
        await self._leaving.wait()
        await _send(send, LEAVE.written())


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
