"""Server-sent events as they come over a connection, in whichever pieces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from everthread.client.events import ServerEvent, events_in

STREAM = b': still here\n\nevent: told\r\nid: 7\r\ndata: {"a":\r\ndata: "\xe2\x80\xa8"}\r\n\r\ndata: last\n\ndata: cut'
EVENTS = [ServerEvent("told", b'{"a":\n"\xe2\x80\xa8"}', "7"), ServerEvent("message", b"last")]


class Counted(bytes):
    """Bytes that count how many of them were copied or looked at, themselves and whatever is made of them."""

    looked_at = 0

    def __add__(self, other: Any) -> Counted:
        return self._count(bytes.__add__(self, other))

    def __radd__(self, other: bytes) -> Counted:
        return self._count(bytes.__add__(other, self))

    def replace(self, *given: Any) -> Counted:
        return self._count(bytes.replace(self, *given))

    def removeprefix(self, given: Any) -> Counted:
        return self._count(bytes.removeprefix(self, given))

    def split(self, *given: Any) -> Any:
        Counted.looked_at += len(self)
        return [Counted(one) for one in bytes.split(self, *given)]

    def partition(self, *given: Any) -> Any:
        Counted.looked_at += len(self)
        return tuple(map(Counted, bytes.partition(self, *given)))

    @staticmethod
    def _count(made: bytes) -> Counted:
        Counted.looked_at += len(made)
        return Counted(made)


async def _stream(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def _heard(pieces: Iterable[bytes]) -> list[ServerEvent]:
    return [event async for event in events_in(_stream(pieces))]


@pytest.mark.parametrize("size", [1, 2, 3, 7, len(STREAM)])
async def test_events_are_the_same_in_whichever_pieces_they_come(size: int) -> None:
    assert await _heard(STREAM[at : at + size] for at in range(0, len(STREAM), size)) == EVENTS


async def test_an_event_in_many_pieces_is_not_read_again_from_its_beginning_with_each() -> None:
    count, size = 500, 40
    Counted.looked_at = 0
    pieces = [Counted(b"data: "), *[Counted(b"x" * size)] * count, Counted(b"\n\n")]
    [event] = await _heard(pieces)
    assert event.data == b"x" * size * count
    assert Counted.looked_at <= 4 * size * count


async def test_an_event_of_many_lines_is_not_copied_with_each() -> None:
    count = 500
    Counted.looked_at = 0
    [event] = await _heard([Counted(b"data: line\n" * count + b"\n")])
    assert event.data == b"\n".join([b"line"] * count)
    assert Counted.looked_at <= 4 * len("data: line\n") * count
