"""Finding the route of a request by the shape of its path, and not by trying one route after another: there are a
hundred of them, and each would be a regular expression.

A shape is a path with its parameters left blank: `/api/conversations/{}/before`. Of each length there are a few places
where parameters can be, so a path has a few shapes that it may be of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from starlette.routing import BaseRoute, Match, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send

Blanks = tuple[int, ...]  # the places of the parameters in a path
FOUND = "everthread.found"


class ByPath(BaseRoute):
    """Many routes as one."""

    def __init__(self, routes: Sequence[Route | WebSocketRoute]) -> None:
        self._routes: dict[tuple[str, ...], list[Route | WebSocketRoute]] = {}
        self._blanks: dict[int, list[Blanks]] = {}
        for route in routes:
            parts = route.path.split("/")
            blanks = tuple(place for place, part in enumerate(parts) if part.startswith("{"))
            self._routes.setdefault(_shape(parts, blanks), []).append(route)
            known = self._blanks.setdefault(len(parts), [])
            if blanks not in known:
                known.append(blanks)
        for known in self._blanks.values():
            known.sort(key=len)  # what is named goes before what is any

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        partial: tuple[Match, Scope] = (Match.NONE, {})
        for route in self._candidates(scope):
            match, more = route.matches(scope)
            if match is Match.FULL:
                return match, {**more, FOUND: route}
            if match is Match.PARTIAL and partial[0] is Match.NONE:
                partial = match, {**more, FOUND: route}
        return partial

    def _candidates(self, scope: Scope) -> Iterator[Route | WebSocketRoute]:
        if scope["type"] in ("http", "websocket"):
            parts = scope["path"].split("/")
            for blanks in self._blanks.get(len(parts), ()):
                yield from self._routes.get(_shape(parts, blanks), ())

    def allowed(self, scope: Scope) -> str:
        """How an address can be asked, by whichever of its routes."""
        there = [route for route in self._candidates(scope) if route.matches(scope)[0] is not Match.NONE]
        return ", ".join(sorted({method for route in there for method in getattr(route, "methods", None) or ()}))

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await scope[FOUND].handle(scope, receive, send)


def _shape(parts: Sequence[str], blanks: Blanks) -> tuple[str, ...]:
    shape = list(parts)
    for place in blanks:
        shape[place] = "{}"
    return tuple(shape)
