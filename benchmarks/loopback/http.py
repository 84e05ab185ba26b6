"""A small HTTP server on the loopback interface that can be told to misbehave.

It speaks enough of HTTP/1.1 for the providers' SDKs: keep-alive, replies of known length and streamed ones. Each
request takes the next fault from `faults`, if there is one; a fault may answer in the provider's stead, wait, change
the bytes of the reply, or drop the connection after any number of them. A client that leaves in the middle of a reply
is noticed and counted in `dropped`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit

import msgspec

_GLANCE = 0.01  # seconds between two looks whether a client that waits is still there


class Asked(NamedTuple):
    """A request as it came over the wire. Header names are in lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Answer(NamedTuple):
    """A reply: of known length where `body` is bytes, streamed where it is a list of chunks, `pace` seconds apart."""

    status: int = 200
    body: bytes | Sequence[bytes] = b""
    headers: Mapping[str, str] = {}
    pace: float = 0.0


class Fault(NamedTuple):
    """What goes wrong with one request.

    `answer`: sent instead of the provider's. `wait`: seconds before anything is sent. `cut`: the connection is dropped
    after so many bytes of the reply's body. `change`: what becomes of the reply. `hang_up`: the connection is dropped
    before any of it.
    """

    answer: Answer | None = None
    wait: float = 0.0
    cut: int | None = None
    change: Callable[[Answer], Answer] | None = None
    hang_up: bool = False


class Server:
    """`answer` is asked for the reply to each request; `asked` keeps the requests, oldest first."""

    def __init__(self, answer: Callable[[Asked], Answer]) -> None:
        self._answer = answer
        self.asked: list[Asked] = []
        self.faults: deque[Fault | None] = deque()
        self.dropped = 0  # connections that the client closed in the middle of a reply
        self.connections = 0  # that were opened so far
        self.came, self.left = asyncio.Event(), asyncio.Event()  # a first request; a client in the middle of a reply
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=64 * 1024 * 1024)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        serving = list(self._serving)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        self.connections += 1
        try:
            while asked := await _read(reader):
                self.asked.append(asked)
                self.came.set()
                if not await self._reply(asked, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            self.dropped += 1
            self.left.set()
        except asyncio.CancelledError:
            pass  # the server closes: nobody is to be told
        finally:
            self._serving.discard(task)
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _reply(self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection can be used again."""
        fault = self.faults.popleft() if self.faults else None
        fault = fault or Fault()
        await _pause(fault.wait, reader)
        if fault.hang_up:
            return False
        answer = fault.answer or self._answer(asked)
        if fault.change:
            answer = fault.change(answer)
        streamed = not isinstance(answer.body, bytes)
        chunks = [answer.body] if isinstance(answer.body, bytes) else answer.body
        writer.write(_head(answer, None if streamed else len(chunks[0])))
        left = fault.cut
        for chunk in chunks:
            sent = chunk if left is None else chunk[:left]
            if sent:
                writer.write(b"%x\r\n%b\r\n" % (len(sent), sent) if streamed else sent)
                await writer.drain()
            if left is not None:
                left -= len(sent)
                if not left:
                    return False
            await _pause(answer.pace, reader)
        if streamed:
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


def _head(answer: Answer, length: int | None) -> bytes:
    """The lines before the body, which is streamed where it has no length."""
    framing = {"transfer-encoding": "chunked"} if length is None else {"content-length": str(length)}
    kind = {"content-type": "text/event-stream" if length is None else "application/json"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in {**kind, **framing, **answer.headers}.items())
    return f"HTTP/1.1 {answer.status} Status\r\n{lines}\r\n".encode()


async def _pause(seconds: float, reader: asyncio.StreamReader) -> None:
    """Wait, but not for a client that has gone."""
    until = asyncio.get_running_loop().time() + seconds
    while (left := until - asyncio.get_running_loop().time()) > 0:
        await asyncio.sleep(min(left, _GLANCE))
        if reader.at_eof():
            raise ConnectionResetError("the client has gone")


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    """The next request, or None where the client has gone."""
    line = (await reader.readline()).decode("latin-1")
    if not line.strip():
        return None
    method, target, _ = line.split(" ", 2)
    headers: dict[str, str] = {}
    while field := (await reader.readline()).decode("latin-1").strip():
        name, _, value = field.partition(":")
        headers[name.lower()] = value.strip()
    if headers.get("transfer-encoding", "") == "chunked":
        body = await _chunked(reader)
    else:
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    where = urlsplit(target)
    return Asked(method, where.path, dict(parse_qsl(where.query)), headers, body)


async def _chunked(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


def sse(data: object, event: str = "") -> bytes:
    """One server-sent event."""
    named = f"event: {event}\n" if event else ""
    text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
    return f"{named}data: {text}\n\n".encode()
