"""Routes are found by the shape of their path: the same ones as when they are tried one after another."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route, WebSocketRoute
from starlette.websockets import WebSocket

from everthread.server.app import routes_of
from everthread.server.by_path import ByPath


async def _nothing(request: Request) -> Response:
    return Response()


async def _silence(socket: WebSocket) -> None:
    await socket.close()


def _scope(method: str, path: str) -> dict[str, Any]:
    kind = "websocket" if method == "WS" else "http"
    return {"type": kind, "method": method, "path": path, "root_path": "", "headers": []}


def _one_by_one(routes: list[Any], scope: dict[str, Any]) -> tuple[Match, Any]:
    matched = [(route.matches(scope)[0], route) for route in routes]
    for wanted in (Match.FULL, Match.PARTIAL):
        for match, route in matched:
            if match is wanted:
                return match, route
    return Match.NONE, None


ROUTES: list[Any] = [
    Route("/things", _nothing, methods=["GET"]),
    Route("/things", _nothing, methods=["POST"]),
    Route("/things/newest", _nothing, methods=["PUT"]),
    Route("/things/{id}", _nothing, methods=["GET"]),
    Route("/things/{id}/parts/{part}", _nothing, methods=["DELETE"]),
    WebSocketRoute("/things/{id}/live", _silence),
    Route("/", _nothing, methods=["GET"]),
]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "WS"])
@pytest.mark.parametrize(
    "path",
    ["/", "", "/things", "/things/", "/things/3", "/things/newest", "/things/3/parts/4", "/things/3/live", "/other",
     "/things/{}", "/things//parts/4", "/things/3/parts"],
)  # fmt: skip
def test_the_same_route_is_found_as_one_by_one(method: str, path: str) -> None:
    scope = _scope(method, path)
    match, route = _one_by_one(ROUTES, scope)
    found = ByPath(ROUTES).find(scope)
    if match is Match.NONE:
        assert found is None
    else:
        assert found == (route, route.matches(scope)[1]["path_params"], match is Match.FULL)


def test_every_route_of_the_service_is_found() -> None:
    routes = routes_of(None)  # type: ignore[arg-type]  # nobody calls them
    by_path = ByPath(routes)
    for route in routes:
        method = "WS" if isinstance(route, WebSocketRoute) else sorted(route.methods or ())[0]
        found = by_path.find(_scope(method, route.path.replace("{", "a").replace("}", "b")))
        assert found is not None
        assert (found.route, found.fits) == (route, True)


def test_what_is_no_request_is_no_route_s() -> None:
    assert ByPath(ROUTES).find({"type": "lifespan"}) is None


@pytest.mark.parametrize("path", ["/below/things/3", "/below", "/belowthings/3", "/things/3"])
def test_a_service_that_is_mounted_below_a_path_is_found_there(path: str) -> None:
    scope = {**_scope("GET", path), "root_path": "/below"}
    _, route = _one_by_one(ROUTES, scope)
    found = ByPath(ROUTES).find(scope)
    assert (found.route if found else None) == route
