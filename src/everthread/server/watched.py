"""What is noted of every request, whichever route answers it: figures, a line of the log, a span.

It is also where requests are refused once the process is about to end, and where every response is given the headers
that browsers ask for safety's sake.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from everthread.core.ids import is_id
from everthread.errors import GoingAway
from everthread.problems import TYPE, body_of
from everthread.routes import EVENTS, LEAVING
from everthread.server.logs import note, notes

if TYPE_CHECKING:
    from everthread.server.metrics import Metrics
    from everthread.server.service import Service
    from everthread.server.tracing import Tracing

ROUTE, CALLER = "everthread.route", "everthread.caller"  # of a scope: which template answers, and who called
UNMATCHED = "unmatched"
ALWAYS = ("/health", "/ready", "/metrics")  # answered to the last
QUIET = frozenset(ALWAYS)  # asked for every few seconds: no line of the log for each


POLICY = (
    "default-src 'self'; img-src 'self' blob:; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
NOT_KEPT = (b"cache-control", b"no-store")
_ALL = (*HEADERS, NOT_KEPT)
_EVENTS = EVENTS.encode()
_NAMES = frozenset(name for name, _ in _ALL)


class Outgoing:
    """What is sent of an answer, on its way out: its headers are made complete and its status is noted."""

    __slots__ = ("_metrics", "_send", "begun", "status", "streamed")

    def __init__(self, send: Send, metrics: Metrics) -> None:
        self._send, self._metrics = send, metrics
        self.status, self.streamed, self.begun = 500, False, False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._begin(message)
        await self._send(message)

    def _begin(self, message: Message) -> None:
        self.begun, self.status = True, message["status"]
        headers = message["headers"]
        there = {name.lower() for name, _ in headers}
        more = _ALL if there.isdisjoint(_NAMES) else [one for one in _ALL if one[0] not in there]
        message["headers"] = [*headers, *more]
        if _is_stream(message):
            self.streamed = True
            self._metrics.streams.inc()

    def end(self) -> None:
        if self.streamed:
            self._metrics.streams.dec()


class Watched:
    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._request(scope, receive, send)
            case "websocket":
                await self._socket(scope, receive, send)
            case other:  # a web server that asks for the lifespan goes on without
                raise ValueError(f"The service answers http and websocket, and no {other}")

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        service, began = self._service, time.perf_counter()
        outgoing = Outgoing(send, service.metrics)
        try:
            if service.traces:
                await self._traced(service.traces, scope, receive, outgoing)
            else:
                await self._answer(scope, receive, outgoing)
        finally:
            outgoing.end()
            seconds, route = time.perf_counter() - began, _route(scope)
            service.metrics.request(scope["method"], route, outgoing.status, seconds, streamed=outgoing.streamed)
            _write_line("request", scope, seconds, outgoing.status)

    async def _traced(self, traces: Tracing, scope: Scope, receive: Receive, outgoing: Outgoing) -> None:
        with traces.request(scope["method"], scope["headers"]) as span:
            try:
                await self._answer(scope, receive, outgoing)
            finally:
                traces.answered(span, scope["method"], _route(scope), outgoing.status)

    async def _answer(self, scope: Scope, receive: Receive, outgoing: Outgoing) -> None:
        """Answer, or refuse: what comes when the process is about to end, and what is not done when it has to."""
        leaving = self._service.leaving
        if leaving.is_set() and scope["path"] not in ALWAYS:
            await _refuse(scope, receive, outgoing)
            return
        try:
            await self._app(scope, receive, outgoing)
        except asyncio.CancelledError:  # by the web server, which would answer with a fault of ours
            if outgoing.begun or not leaving.is_set():
                raise
            await _refuse(scope, receive, outgoing)

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._service.leaving.is_set():
            await receive()
            await send({"type": "websocket.close", "code": LEAVING})
            return
        began = time.perf_counter()
        self._service.metrics.sockets.inc()
        try:
            await self._app(scope, receive, send)
        finally:
            self._service.metrics.sockets.dec()
            _write_line("socket", scope, time.perf_counter() - began)


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    problem = GoingAway()
    headers = {"retry-after": str(round(problem.seconds)), "connection": "close"}
    await Response(body_of(problem), 503, headers, TYPE)(scope, receive, send)


def _is_stream(message: Message) -> bool:
    for name, value in message["headers"]:
        if name == b"content-type":
            return bool(value.startswith(_EVENTS))
    return False


def _route(scope: Scope) -> str:
    return str(scope.get(ROUTE, UNMATCHED))


def _write_line(type: str, scope: Scope, seconds: float, status: int | None = None) -> None:
    if not notes():
        return
    route, caller = _route(scope), scope.get(CALLER)
    if route in QUIET and status == 200:
        return
    whose: dict[str, Any] = {"tenant": caller.tenant, "user": caller.user, "via": caller.via} if caller else {}
    whose |= {"entered_by": caller.entered_by} if caller and caller.entered_by else {}
    named = (scope.get("path_params") or {}).get("conversation", "")
    conversation = named if is_id(named) else ""  # a caller may write anything there
    told = {"method": scope.get("method"), "route": route, "status": status, "ms": round(seconds * 1000, 1)}
    note(type, {**told, **whose, "conversation": conversation})
