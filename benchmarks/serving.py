"""A service to be measured, in a process of its own; or the bare framework under the same web server.

    python -m benchmarks.serving everthread sqlite:////tmp/bench.db
    python -m benchmarks.serving bare

prints its port and serves until it is told to end (SIGTERM). The bare one has an empty handler at `/` and a WebSocket
that says what it hears. The model `scripted:clock` of the other tells the time: as many moments as it is asked for,
each of the machine's monotonic clock, which all processes share (`benchmarks.clocked`).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket, WebSocketDisconnect

from benchmarks.clocked import asked, now
from everthread.core.deltas import TextDelta, Usage
from everthread.core.events import Assistant
from everthread.core.parts import Text
from everthread.providers.client import Access, Replied, StreamPiece
from everthread.providers.scripted import client as scripted_client
from everthread.server.limits import Allowance
from everthread.server.serve import BACKLOG, Options, configured, listening_socket, serve

CLOCK, ECHO = "clock", "echo"
BOUNDLESS = Allowance(requests=0, connections=0, turns=0)


async def _empty(_request: Request) -> JSONResponse:
    return JSONResponse({})


async def _echo(socket: WebSocket) -> None:
    await socket.accept()
    try:
        while True:
            await socket.send_text(await socket.receive_text())
    except WebSocketDisconnect:
        pass


def bare() -> ASGIApp:
    return Starlette(routes=[Route("/", _empty), WebSocketRoute("/live", _echo)])


class Clock:
    """A model whose replies are moments; any other one that is asked for says what was said."""

    def __init__(self, access: Access) -> None:
        self._scripted = _connect(access)

    @asynccontextmanager
    async def reply(self, body: dict[str, Any], **more: Any) -> AsyncIterator[AsyncIterator[StreamPiece]]:
        if body["model"] == CLOCK:
            yield self._told(*asked(body["messages"][-1]["content"]))
        else:
            async with self._scripted.reply(body, **more) as pieces:
                yield pieces

    async def _told(self, pieces: int, apart: float) -> AsyncIterator[StreamPiece]:
        """Each piece with the moment at which it is due: a provider elsewhere would have sent it then, whether or not
        this process had time to look."""
        said, due = "", now()
        for _ in range(pieces):
            due += round(apart * 1_000_000)
            await asyncio.sleep(max(0, due - now()) / 1_000_000)
            text = f"{due:012x} "
            said += text
            yield TextDelta(text=text)
        whole = Assistant(parts=(Text(text=said),), model=f"scripted:{CLOCK}")
        yield Replied(events=(whole,), usage=Usage(), finish="stop", model=CLOCK)

    async def count(self, body: dict[str, Any], **more: Any) -> int | None:
        return await self._scripted.count(body, **more)

    async def close(self) -> None:
        await self._scripted.close()


_connect = scripted_client.connect


async def _serve(address: str) -> None:
    options = Options(
        store=address,
        port=0,
        allowance=BOUNDLESS,
        settings={"model": f"scripted:{ECHO}", "memory": False},
    )
    at = listening_socket(options)

    def began() -> None:
        print(at.getsockname()[1], flush=True)

    if address == "bare":
        config = configured(bare(), options)
        at.listen(BACKLOG)
        began()
        await uvicorn.Server(config).serve(sockets=[at])
        return
    with patch.object(scripted_client, "connect", Clock):
        await serve(options, at, began=began)


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
