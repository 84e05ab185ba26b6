"""Server-sent events as they come over a connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple


class ServerEvent(NamedTuple):
    """`id`: from where to go on; empty where the event does not say."""

    name: str
    data: bytes
    id: str = ""


async def events_in(pieces: AsyncIterator[bytes]) -> AsyncIterator[ServerEvent]:
    """The events of a stream. Comments are signs of life, and what was cut off in the middle is no event."""
    lines: list[bytes] = []
    async for line in lines_in(pieces):
        if line:
            lines.append(line)
            continue
        if event := _event(lines):
            yield event
        lines = []


async def lines_in(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines of a stream, without their ends. One that comes in many pieces is put together once, when it has
    ended; what comes after the last end is none."""
    begun: list[bytes] = []
    async for piece in pieces:
        # By this and nothing else: JSON may hold what Unicode takes for the end of a line.
        rest, *more = piece.split(b"\n")
        begun.append(rest)
        for next_one in more:
            yield b"".join(begun).removesuffix(b"\r")
            begun = [next_one]


def _event(lines: list[bytes]) -> ServerEvent | None:
    data: list[bytes] = []
    fields: dict[bytes, bytes] = {}
    for line in lines:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        fields[name] = value
    if not data:
        return None
    return ServerEvent(fields.get(b"event", b"message").decode(), b"\n".join(data), fields.get(b"id", b"").decode())
