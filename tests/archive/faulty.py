"""A store that misbehaves: in front of an S3-compatible one, its answers are lost, cut short, or errors."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import urlsplit

Fault = Literal["error", "lost", "cut"]


class Faults:
    """What goes wrong with the next requests of a method: an error without effect, an effect whose answer is lost, so
    that it is asked for twice, or a connection that is cut after half of the answer. `always`: with every one."""

    def __init__(self) -> None:
        self.next: dict[str, list[Fault]] = {}
        self.always: dict[str, Fault] = {}
        self.seen: list[str] = []

    def of(self, method: str) -> Fault | None:
        self.seen.append(method)
        if method in self.always:
            return self.always[method]
        waiting = self.next.get(method)
        return waiting.pop(0) if waiting else None


@contextmanager
def faulty(inner: str) -> Iterator[tuple[str, Faults]]:
    """The address of such a store, and what it does wrong."""
    faults, behind = Faults(), urlsplit(inner)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            fault = faults.of(self.command)
            if fault == "error":
                self._answer(500, [], b"")
                return
            connection = http.client.HTTPConnection(behind.hostname or "", behind.port or 80)
            try:
                headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
                connection.request(self.command, self.path, body, headers)
                found = connection.getresponse()
                data, told = found.read(), found.getheaders()
            finally:
                connection.close()
            if fault == "lost":
                self._answer(503, [], b"")
                return
            if fault == "cut":
                self.send_response(found.status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data[: len(data) // 2])
                self.close_connection = True
                return
            self._answer(found.status, told, data)

        def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
            self.send_response(status)
            length = str(len(data))
            for name, value in headers:
                if name.lower() == "content-length" and self.command == "HEAD":
                    length = value
                elif name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                    self.send_header(name, value)
            self.send_header("content-length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_GET = do_PUT = do_DELETE = do_HEAD = do_POST = _pass_on  # noqa: N815

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", faults
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
