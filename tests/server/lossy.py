"""A connection that breaks: between a client and the service, and cut at will."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Lossy:
    """`port`: where clients connect. `taken`: how many connections there were."""

    def __init__(self, to: int) -> None:
        self._to, self.port, self.taken = to, 0, 0
        self._open: set[asyncio.StreamWriter] = set()

    def cut(self) -> None:
        """Break every connection that is open, without a word."""
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.taken += 1
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        both = {writer, back}
        self._open |= both
        try:
            await asyncio.gather(_pipe(reader, back), _pipe(there, writer))
        finally:
            self._open -= both
            for one in both:
                one.close()
            for one in both:
                with suppress(OSError):
                    await one.wait_closed()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(65_536):
            writer.write(piece)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def lossy(to: int) -> AsyncIterator[Lossy]:
    """In front of a port of this machine, until the end of the block."""
    made = Lossy(to)
    server = await asyncio.start_server(made._serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        made.cut()
        while made._open:  # noqa: ASYNC110 -- which nobody tells of
            await asyncio.sleep(0.01)
