"""The application: every route of the service, put together for a web server to run.

    application(service)      an ASGI application

A route of the table is answered by `calls`; beside these there are the streams, the sign-in, what programs that watch
over the service ask for, and the page. A new route belongs into the table (`everthread.routes`, or `office` for what is
the service's own), where the tests of isolation find it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from functools import cache, partial
from importlib.metadata import version
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as Served
from starlette.routing import WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from everthread.errors import EverthreadError, NoSuchMethod, NoSuchRoute, StoreError
from everthread.problems import TYPE, body_of, status_of
from everthread.routes import PREFIX, ROUTES, TALK, Route
from everthread.server.by_path import ByPath, Found
from everthread.server.calls import answer, listen
from everthread.server.entrance import sign_in, sign_out, who
from everthread.server.files import blob, export_all, export_one, upload
from everthread.server.importing import import_all
from everthread.server.metrics import metrics
from everthread.server.office import OFFICE
from everthread.server.openapi import described
from everthread.server.pages import page
from everthread.server.service import Service
from everthread.server.watched import ROUTE, Watched
from everthread.server.ws import converse

_log = logging.getLogger("everthread.server")

Endpoint = Callable[[Service, Request], Awaitable[Response]]

READY_SECONDS = 2.0  # for the store to answer


def application(service: Service) -> ASGIApp:
    """The service as an ASGI application."""
    return Watched(Routed(service), service)


class Routed:
    """Hands each request to its route, and tells what went wrong as problem details. It stands in for Starlette's own
    application, whose layers take longer than most answers of ours."""

    def __init__(self, service: Service) -> None:
        self._service, self._routes = service, ByPath(routes_of(service))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._routes.find(scope)
        scope["path_params"] = found.parameters if found else {}
        if scope["type"] == "websocket":
            await (found.route.app if found else WebSocketClose())(scope, receive, send)
            return
        request, answers = Request(scope, receive, send), False
        try:
            response = await self._answered(request, found)
            answers = True
            await response(scope, receive, send)
        except Exception as problem:  # ours, or that of a caller who went away in the middle
            response = _failed(self._service, request, problem)
            if not answers:
                await response(scope, receive, send)
            raise

    async def _answered(self, request: Request, found: Found | None) -> Response:
        try:
            if found is None:
                raise NoSuchRoute(request.url.path)
            if not found.fits:
                raise NoSuchMethod(request.method, self._routes.allowed(request.scope))
            response: Response = await found.route.endpoint(request)
        except EverthreadError as problem:
            return _failed(self._service, request, problem)
        return response


def routes_of(service: Service) -> list[Served | WebSocketRoute]:
    """All addresses that the service answers at."""
    served: list[Served | WebSocketRoute] = [_served(service, route) for route in TABLE]
    served += [_plain(service, *row) for row in BESIDE]
    for path in (f"{PREFIX}/live", f"{PREFIX}{TALK}/live"):
        served.append(WebSocketRoute(path, partial(_converse, service, path)))
    return served


def _served(service: Service, route: Route) -> Served:
    async def endpoint(request: Request) -> Response:
        request.scope[ROUTE] = PREFIX + route.path
        return await answer(service, route, request)

    return Served(PREFIX + route.path, endpoint, methods=[route.method], name=route.name)


def _plain(service: Service, method: str, path: str, endpoint: Endpoint) -> Served:
    async def answered(request: Request) -> Response:
        request.scope[ROUTE] = path
        return await endpoint(service, request)

    return Served(path, answered, methods=[method], name=endpoint.__name__)


async def _converse(service: Service, path: str, socket: Any) -> None:
    socket.scope[ROUTE] = path
    await converse(service, socket)


# -- what watches over the service asks for --------------------------------------------------------------------------


async def openapi(service: Service, request: Request) -> Response:
    """The service described for other programs: OpenAPI 3.1."""
    return Response(_described(), media_type="application/json")


@cache
def _described() -> bytes:
    return json.dumps(described(TABLE, BESIDE, version("everthread"))).encode()


async def health(service: Service, request: Request) -> Response:
    """Whether the process answers at all."""
    return JSONResponse({"status": "ok"})


async def ready(service: Service, request: Request) -> Response:
    """Whether it takes requests: the store answers, and it is not about to end."""
    if service.leaving.is_set():
        return _not_ready("leaving")
    try:
        async with asyncio.timeout(READY_SECONDS):
            await service.et.log.calibrations.all()  # a small table
    except TimeoutError:
        full = getattr(service.et.log._engine, "is_full", False)  # which one that has a pool says
        return _not_ready("all connections to the store are in use" if full else "the store does not answer")
    except StoreError as problem:  # whose sentence names servers and files
        service.note(problem)
        return _not_ready(f"the store cannot be used now ({type(problem).__name__})")
    return JSONResponse({"status": "ready"})


def _not_ready(why: str) -> Response:
    return JSONResponse({"status": why}, status_code=503, headers={"retry-after": "1"})


TABLE: tuple[Route, ...] = (*ROUTES, *OFFICE)
BESIDE: tuple[tuple[str, str, Endpoint], ...] = (
    ("GET", f"{PREFIX}{TALK}/listen", listen),
    ("POST", f"{PREFIX}{TALK}/blobs", upload),
    ("GET", f"{PREFIX}{TALK}/blobs/{{hash}}", blob),
    ("GET", f"{PREFIX}{TALK}/export", export_one),
    ("GET", f"{PREFIX}/export", export_all),
    ("POST", f"{PREFIX}/import", import_all),
    ("POST", f"{PREFIX}/sign-in", sign_in),
    ("GET", f"{PREFIX}/sign-in", who),
    ("DELETE", f"{PREFIX}/sign-in", sign_out),
    ("GET", "/", page),
    ("GET", "/page/{file}", page),
    ("GET", "/openapi.json", openapi),
    ("GET", "/health", health),
    ("GET", "/ready", ready),
    ("GET", "/metrics", metrics),
)


# -- errors ------------------------------------------------------------------------------------------------------------


def _failed(service: Service, request: Request, problem: Exception) -> Response:
    """What went wrong, as problem details."""
    status = status_of(problem)
    service.metrics.problem(problem)
    if not isinstance(problem, EverthreadError) or status == 500:
        _log.error("%s failed", request.scope.get(ROUTE, request.method), exc_info=problem)
    headers = {}
    if (seconds := getattr(problem, "seconds", None)) and status in (429, 503):
        headers["retry-after"] = str(max(1, round(seconds)))
    if isinstance(problem, NoSuchMethod):
        headers["allow"] = problem.allowed
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return Response(body_of(problem), status_code=status, media_type=TYPE, headers=headers)
