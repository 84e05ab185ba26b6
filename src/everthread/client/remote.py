"""The verbs of a class of the library, asked of a service: made from the table of routes.

    @remote("talk")
    class Talk(Remote, everthread.talk.Talk): ...

has every verb of the table that is the library class's and that it does not define itself, with that verb's name,
signature and docstring. It stays a class of the library's, so that programs and type checkers take it for one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from everthread.client.calls import TABLE, arguments_of, request_of, value_of
from everthread.client.connection import Answer
from everthread.client.visit import Visit
from everthread.routes import Of, Route

C = TypeVar("C", bound=type)
Given = dict[str, Any]


class Remote:
    """What verbs are asked about, and of which service. `_before` and `_after` are what a class has to add."""

    __slots__ = ()

    _of: Of
    _visit: Visit

    @property
    def _where(self) -> Mapping[str, str]:
        """What the paths of its routes name."""
        return {}

    @property
    def _on(self) -> int | None:
        """The branch that its verbs are about; None for whichever is current."""
        return None

    def _for(self, given: Given) -> str:
        """The user whom the request has to name."""
        return self._visit.acting_for()

    def _before(self, verb: str, given: Given) -> Given:
        """The arguments as they are sent."""
        return given

    async def _after(self, verb: str, given: Given, value: Any, answer: Answer) -> Any:
        """What the verb gives, from what its JSON form says."""
        return value

    async def _call(self, verb: str, *several: Any, **named: Any) -> Any:
        """Ask for a verb of the table."""
        route = TABLE[f"{self._of}.{verb}"]
        given = arguments_of(route, several, named)
        asked = request_of(route, self._where, self._before(verb, given), branch=self._on)
        answer = await self._visit.connection.ask(asked._replace(user=self._for(given)))
        return await self._after(verb, given, value_of(route, answer), answer)


def remote(of: Of) -> Callable[[C], C]:
    """Give a class the verbs of the table."""

    def give(cls: C) -> C:
        cls._of = of  # type: ignore[attr-defined]
        for route in TABLE.values():
            name = route.verb.__name__
            if route.of == of and hasattr(cls, name) and name not in vars(cls):
                setattr(cls, name, _turn(route) if route.runs else _verb(route))
        return cls

    return give


def _verb(route: Route) -> Callable[..., Any]:
    @wraps(route.verb)
    async def verb(self: Remote, *several: Any, **named: Any) -> Any:
        return await self._call(route.verb.__name__, *several, **named)

    return verb


def _turn(route: Route) -> Callable[..., Any]:
    @wraps(route.verb)
    def verb(self: Any, *several: Any, **named: Any) -> Any:
        return self._begin(route, arguments_of(route, several, named))

    return verb
