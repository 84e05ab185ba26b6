"""Conversations out of a service and into one, as JSON Lines: bit by bit, however many there are.

An export is whole where it ends without an error: the service has made all of it before it sends the first line. An
import is sent as the file is, and read and checked by the service, which writes all of it or nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from everthread import wire
from everthread.client.connection import Asked
from everthread.client.visit import Visit
from everthread.errors import BadFormat
from everthread.transfer.importing import Imported, OnProgress

PIECE = 256 * 1024  # bytes that are sent at once


async def exported(visit: Visit, asked: Asked) -> AsyncIterator[bytes]:
    """The lines of an export, each with its end."""
    async for line in visit.connection.lines(asked):
        yield line + b"\n"


async def imported(visit: Visit, asked: Asked, path: Path, progress: OnProgress | None) -> Imported:
    """What the service has imported of a file. BadFormat: nothing, because it cannot be read or understood."""
    try:
        answer = await visit.connection.send(asked, lambda: _pieces(path, progress))
    except OSError as problem:
        raise BadFormat(f"cannot be read ({problem.strerror})", where=str(path)) from None
    return wire.loads(Imported, answer.body)


async def _pieces(path: Path, progress: OnProgress | None) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(path.open, "rb") as file:
        done, total = 0, os.fstat(file.fileno()).st_size
        while piece := await asyncio.to_thread(file.read, PIECE):
            yield piece
            done += len(piece)
            if progress:
                progress("sending", done, total)
