"""Server-sent events as they come over a connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

EVENTS = "text/event-stream"


class ServerEvent(NamedTuple):
    """`id`: from where to go on; empty where the event does not say."""

    name: str
    data: bytes
    id: str = ""


async def events_in(pieces: AsyncIterator[bytes]) -> AsyncIterator[ServerEvent]:
    """The events of a stream. Comments are signs of life, and what was cut off in the middle is no event."""
    rest = b""
    async for piece in pieces:
        *whole, rest = (rest + piece).replace(b"\r\n", b"\n").split(b"\n\n")
        for text in whole:
            if event := _event(text):
                yield event


def _event(text: bytes) -> ServerEvent | None:
    fields: dict[bytes, bytes] = {}
    for line in text.split(b"\n"):  # and by nothing else: JSON may hold what Unicode takes for the end of a line
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        fields[name] = fields[name] + b"\n" + value if name == b"data" and name in fields else value
    if b"data" not in fields:
        return None
    return ServerEvent(fields.get(b"event", b"message").decode(), fields[b"data"], fields.get(b"id", b"").decode())
