"""Finding the route of a request by the shape of its path, and not by trying one route after another: there are a
hundred of them, and each would be a regular expression.

A shape is a path with its parameters left blank: `/api/conversations/{}/before`. Of each length there are a few places
where parameters can be, so a path has a few shapes that it may be of. What stands in the blanks are its parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from starlette.routing import Route, WebSocketRoute
from starlette.types import Scope

AnyRoute = Route | WebSocketRoute
Blanks = tuple[int, ...]  # the places of the parameters in a path
SOCKET = "a WebSocket"  # in place of a method


class Found(NamedTuple):
    """A route, and what its path's parameters are. Not `fits`: it is asked by another method."""

    route: AnyRoute
    parameters: dict[str, str]
    fits: bool


class ByPath:
    """Many routes, of which the one is found that fits."""

    def __init__(self, routes: Sequence[AnyRoute]) -> None:
        self._routes: dict[tuple[str, ...], list[_Known]] = {}
        self._blanks: dict[int, list[Blanks]] = {}
        for route in routes:
            parts = route.path.split("/")
            blanks = tuple(place for place, part in enumerate(parts) if part.startswith("{"))
            self._routes.setdefault(_shape(parts, blanks), []).append(_known(route, parts, blanks))
            known = self._blanks.setdefault(len(parts), [])
            if blanks not in known:
                known.append(blanks)
        for known in self._blanks.values():
            known.sort(key=len)  # what is named goes before what is any

    def find(self, scope: Scope) -> Found | None:
        """The first route that fits; else the first that would by another method; None where there is neither."""
        method, partly = _method(scope), None
        parts = _path(scope).split("/") if method else []
        for blanks in self._blanks.get(len(parts), ()):
            for one in self._routes.get(_shape(parts, blanks), ()):
                if one.is_socket is (method == SOCKET) and (found := one.found(parts, method)) is not None:
                    if found.fits:
                        return found
                    partly = partly or found
        return partly

    def allowed(self, scope: Scope) -> str:
        """How an address can be asked, by whichever of its routes."""
        parts, methods = _path(scope).split("/"), set[str]()
        for blanks in self._blanks.get(len(parts), ()):
            for one in self._routes.get(_shape(parts, blanks), ()):
                methods |= one.methods - {SOCKET} if one.found(parts, "") else set()
        return ", ".join(sorted(methods))


class _Known(NamedTuple):
    """A route, the names and places of its parameters, and how it is asked."""

    route: AnyRoute
    names: tuple[tuple[str, int], ...]
    methods: frozenset[str]
    is_socket: bool

    def found(self, parts: Sequence[str], method: str) -> Found | None:
        """None: a parameter is empty."""
        parameters = {name: parts[place] for name, place in self.names}
        return None if "" in parameters.values() else Found(self.route, parameters, method in self.methods)


def _known(route: AnyRoute, parts: Sequence[str], blanks: Blanks) -> _Known:
    names = tuple((parts[place][1:-1], place) for place in blanks)
    if isinstance(route, WebSocketRoute):
        return _Known(route, names, frozenset({SOCKET}), is_socket=True)
    return _Known(route, names, frozenset(route.methods or ()), is_socket=False)


def _method(scope: Scope) -> str:
    """How an address is asked; empty for what is no request."""
    kind = scope["type"]
    return str(scope["method"]) if kind == "http" else SOCKET if kind == "websocket" else ""


def _path(scope: Scope) -> str:
    """The path below where the service is mounted."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path[len(root) :] if root and (path == root or path.startswith(root + "/")) else path


def _shape(parts: Sequence[str], blanks: Blanks) -> tuple[str, ...]:
    if not blanks:
        return tuple(parts)
    shape = list(parts)
    for place in blanks:
        shape[place] = "{}"
    return tuple(shape)
