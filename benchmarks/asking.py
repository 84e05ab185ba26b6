"""Clients that cost next to nothing, so that the service is what is measured: sockets, and no more of HTTP than it
answers with.

`Kept` asks one thing after another over one connection. `Wire` is the same without waiting, for very many; `Stream`
hears server-sent events, and notes how long each delta of the model `clock` was on its way; `Socket` opens a WebSocket
and lets it be.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from benchmarks.clocked import moment, now

USER = "ana"
_LENGTH = re.compile(rb"content-length: (\d+)")
_STAMP = len(f"{0:012x} ")
_UPGRADE = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: {}\r\n"
PING, PONG = 9, 10
_NONCE = "dGhlIHNhbXBsZSBub25jZQ=="


class Answer(NamedTuple):
    status: int
    body: bytes


class Asking(NamedTuple):
    """A request as it is sent. `key`: an API key, for the user ana."""

    method: str
    path: str
    key: str = ""
    body: object = None
    more: str = ""

    def written(self) -> bytes:
        head = f"{self.method} {self.path} HTTP/1.1\r\nhost: localhost\r\n{self.more}"
        if self.key:
            head += f"authorization: Bearer {self.key}\r\neverthread-user: {USER}\r\n"
        body = b"" if self.body is None else json.dumps(self.body).encode()
        if body:
            head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        return f"{head}\r\n".encode() + body


def streaming(asking: Asking) -> Asking:
    return asking._replace(more="accept: text/event-stream\r\n")


class Kept:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._room = memoryview(bytearray(1 << 18))  # what is read into a new buffer takes longer than the answer

    def ask(self, request: bytes) -> Answer:
        self._socket.sendall(request)
        there = 0
        while True:
            there += self._some(there)
            if (end := bytes(self._room[:there]).find(b"\r\n\r\n")) >= 0:
                break
        head = bytes(self._room[: end + 4])
        length = _length(head)
        while there < end + 4 + length:
            there += self._some(there)
        return Answer(int(head[9:12]), bytes(self._room[end + 4 : there]))

    def _some(self, there: int) -> int:
        if not (more := self._socket.recv_into(self._room[there:])):
            raise ConnectionResetError("the service has closed the connection")
        return more

    def close(self) -> None:
        self._socket.close()


def _length(head: bytes) -> int:
    found = _LENGTH.search(head.lower())
    return int(found[1]) if found else 0


class Connection(asyncio.Protocol):
    """One of many connections."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def close(self) -> None:
        self.transport.close()


class Wire(Connection):
    """Asks for one thing after another: an answer with a length, or a stream to its end."""

    def __init__(self) -> None:
        self._heard = bytearray()
        self._answer: asyncio.Future[Answer] | None = None

    async def ask(self, request: bytes) -> Answer:
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self._answer

    def data_received(self, data: bytes) -> None:
        self._heard += data
        end = self._heard.find(b"\r\n\r\n")
        if end < 0 or self._answer is None:
            return
        head = bytes(self._heard[:end]).lower()
        streams = b"chunked" in head
        if self._heard.endswith(b"0\r\n\r\n") if streams else len(self._heard) >= end + 4 + _length(head):
            answer, self._answer = self._answer, None
            answer.set_result(Answer(int(head[9:12]), bytes(self._heard[end + 4 :])))
            self._heard.clear()

    def connection_lost(self, problem: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError("the service has closed the connection"))


class Stream(Connection):
    """Somebody who listens by server-sent events. `joined`: the snapshot has come; `done`: a turn is over; `late`: for
    how many microseconds each delta was on its way."""

    def __init__(self, asking: Asking) -> None:
        self._asking, self._heard, self._headed = asking, bytearray(), False
        self.joined, self.done = asyncio.Event(), asyncio.Event()
        self.late: list[int] = []
        self._rest = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.write(self._asking.written())

    def data_received(self, data: bytes) -> None:
        came = now()
        self._heard += data
        if not self._headed and (end := self._heard.find(b"\r\n\r\n")) >= 0:
            self._headed = True
            del self._heard[: end + 4]
        while self._headed and (chunk := self._next()) is not None:
            for event in chunk.split(b"\n\n"):
                self._take(event, came)

    def _next(self) -> bytes | None:
        """The next chunk: an event, or several."""
        end = self._heard.find(b"\r\n")
        if end < 0:
            return None
        size = int(self._heard[:end], 16)
        if len(self._heard) < end + 2 + size + 2:
            return None
        chunk = bytes(self._heard[end + 2 : end + 2 + size])
        del self._heard[: end + 2 + size + 2]
        return chunk

    def _take(self, event: bytes, came: int) -> None:
        if event.startswith(b"event: snapshot"):
            self.joined.set()
        elif b'"item":{"kind":"text"' in event:
            text = json.loads(event.split(b"\ndata: ", 1)[1])["item"]["text"]
            self._note(text, came)
        elif self.late and b'"item":{"kind":"done"' in event:  # of this turn, not of the one before
            self.done.set()

    def _note(self, text: str, came: int) -> None:
        """On their way deltas are joined, and may be cut anywhere."""
        text = self._rest + text
        whole = len(text) - len(text) % _STAMP
        self.late += [came - moment(text[start : start + _STAMP]) for start in range(0, whole, _STAMP)]
        self._rest = text[whole:]


class Socket(Connection):
    """A WebSocket that is opened and then let be, but for the pings that it answers. `open`: it was accepted, and told
    what it waits to be told."""

    def __init__(self, asking: Asking, *, until: bytes = b"") -> None:
        self._asking, self._until, self._heard, self._accepted = asking, until, bytearray(), False
        self.open: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.write(self._asking._replace(more=_UPGRADE.format(_NONCE)).written())

    def data_received(self, data: bytes) -> None:
        self._heard += data
        if not self._accepted and (end := self._heard.find(b"\r\n\r\n")) >= 0:
            self._accepted = True
            del self._heard[: end + 4]
            self._told(b"")
        while self._accepted and (frame := self._next()) is not None:
            code, payload = frame
            if code == PING:
                self.transport.write(bytes([0x80 | PONG, 0x80 | len(payload)]) + bytes(4) + payload)  # masked with 0
            self._told(payload)

    def _next(self) -> tuple[int, bytes] | None:
        """The next frame, with the code that says what it is."""
        if len(self._heard) < 4:
            return None
        first = self._heard[1]
        at = {126: 4, 127: 10}.get(first, 2)
        size = first if at == 2 else int.from_bytes(self._heard[2:at], "big")
        if len(self._heard) < at + size:
            return None
        frame = self._heard[0] & 15, bytes(self._heard[at : at + size])
        del self._heard[: at + size]
        return frame

    def _told(self, payload: bytes) -> None:
        if not self.open.done() and self._until in payload:
            self.open.set_result(None)

    def connection_lost(self, problem: Exception | None) -> None:
        if not self.open.done():
            self.open.set_exception(ConnectionResetError(f"the service has closed it: {bytes(self._heard)!r:.300}"))


P = TypeVar("P", bound=Connection)


async def connected(port: int, makers: Iterable[P]) -> list[P]:
    """All of these, connected one after another."""
    loop = asyncio.get_running_loop()
    return [(await loop.create_connection(lambda one=one: one, "127.0.0.1", port))[1] for one in makers]  # type: ignore[misc]
