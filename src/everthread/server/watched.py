"""What is noted of every request, whichever route answers it: figures, a line of the log, a span.

It is also where requests are refused once the process is about to end.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from everthread.core.ids import is_id
from everthread.errors import GoingAway
from everthread.problems import TYPE, body_of
from everthread.routes import EVENTS, LEAVING
from everthread.server.logs import note

if TYPE_CHECKING:
    from everthread.server.service import Service

ROUTE, CALLER = "everthread.route", "everthread.caller"  # of a scope: which template answers, and who called
UNMATCHED = "unmatched"
ALWAYS = ("/health", "/ready", "/metrics")  # answered to the last
QUIET = frozenset(ALWAYS)  # asked for every few seconds: no line of the log for each


class Watched:
    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._request(scope, receive, send)
            case "websocket":
                await self._socket(scope, receive, send)
            case _:
                await self._app(scope, receive, send)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        service, began, method = self._service, time.perf_counter(), scope["method"]
        status, streamed = 500, False

        async def noted(message: Message) -> None:
            nonlocal status, streamed
            if message["type"] == "http.response.start":
                status, streamed = message["status"], _is_stream(message)
                if streamed:
                    service.metrics.streams.inc()
            await send(message)

        traces = service.traces
        try:
            with traces.request(method, scope["headers"]) if traces else nullcontext() as span:
                try:
                    await self._answer(scope, receive, noted)
                finally:
                    if traces and span:
                        traces.answered(span, method, _route(scope), status)
        finally:
            if streamed:
                service.metrics.streams.dec()
            seconds = time.perf_counter() - began
            service.metrics.request(method, _route(scope), status, seconds, streamed=streamed)
            _write_line("request", scope, seconds, status)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse: what comes when the process is about to end, and what is not done when it has to."""
        begun, leaving = False, self._service.leaving

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        if leaving.is_set() and scope["path"] not in ALWAYS:
            await _refuse(scope, receive, send)
            return
        try:
            await self._app(scope, receive, noted)
        except asyncio.CancelledError:  # by the web server, which would answer with a fault of ours
            if begun or not leaving.is_set():
                raise
            await _refuse(scope, receive, send)

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
    return any(name == b"content-type" and value.startswith(EVENTS.encode()) for name, value in message["headers"])


def _route(scope: Scope) -> str:
    return str(scope.get(ROUTE, UNMATCHED))


def _write_line(type: str, scope: Scope, seconds: float, status: int | None = None) -> None:
    route, caller = _route(scope), scope.get(CALLER)
    if route in QUIET and status == 200:
        return
    whose: dict[str, Any] = {"tenant": caller.tenant, "user": caller.user, "via": caller.via} if caller else {}
    whose |= {"entered_by": caller.entered_by} if caller and caller.entered_by else {}
    named = (scope.get("path_params") or {}).get("conversation", "")
    conversation = named if is_id(named) else ""  # a caller may write anything there
    told = {"method": scope.get("method"), "route": route, "status": status, "ms": round(seconds * 1000, 1)}
    note(type, {**told, **whose, "conversation": conversation})
