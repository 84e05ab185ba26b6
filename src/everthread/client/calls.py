"""From a verb's arguments to a request, and from its answer to what the verb gives: by the table of routes, which the
service answers by as well.

What can only be used in the process that runs the turn, functions above all, is refused here, before anything is sent.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, get_args, get_origin
from urllib.parse import quote

from everthread import arguments as check
from everthread import wire
from everthread.client.connection import Answer, Asked
from everthread.core.metadata import check_metadata
from everthread.core.values import inner_form
from everthread.errors import BadValue
from everthread.routes import ROUTES, Argument, Route

TABLE: dict[str, Route] = {route.name: route for route in ROUTES}
LOCAL = ("talk.schedule", "talk.change_schedule")  # whose times may be those of a zone that is named beside them
WHOSE = ("self", "user", "tenant")
THERE = "left out: it is for the process that runs the turns, which is the service's"
TOOLS = "left out: tools live in the service's process, and are given to it there (its agents, their MCP servers)"
AS_JSON = "what JSON can say: functions and tools live in the service's process, and are given to it there"


def request_of(route: Route, where: Mapping[str, str], given: Mapping[str, Any], *, branch: int | None = None) -> Asked:
    """The request that asks for a verb. `where`: what the path names beside the verb's own arguments. `given`: the
    verb's arguments by name."""
    check_stays_here(route, given)
    named = {**where}
    query: dict[str, str] = {} if branch is None else {"branch": str(branch)}
    body: dict[str, Any] = {}
    for one in route.arguments:
        if one.name not in given or (given[one.name] is None and one.where == "query"):
            continue
        value = _form(one, given[one.name], local=route.name in LOCAL)
        match one.where:
            case "path":
                named[one.name] = in_path(one.name, value)
            case "query":
                query[one.name] = _text(value)
            case "body":
                body[one.name] = value
    has_body = any(one.where == "body" for one in route.arguments)
    return Asked(route.method, route.path.format_map(named), query, body if has_body else None)


def arguments_of(route: Route, given: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by their names, as Python binds them."""
    signature = _signature(route)
    bound = signature.bind(None, *given, **named).arguments
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            bound.update(bound.pop(name, {}))
    return bound


@cache
def _signature(route: Route) -> inspect.Signature:
    return inspect.signature(route.verb)


def value_of(route: Route, answer: Answer) -> Any:
    """What a verb gives, from the answer."""
    return None if not answer.body else wire.read(route.gives, answer.form)


def check_stays_here(route: Route, given: Mapping[str, Any]) -> None:
    """BadValue: an argument that no request can carry."""
    sent = {one.name for one in route.arguments}
    for name, value in given.items():
        if name not in sent and name not in (*WHOSE, "detached") and value is not None:
            shown = value if name == "tools" else type(value)  # a header may be a secret
            raise BadValue(name, shown, TOOLS if name == "tools" else THERE)


def _form(one: Argument, value: Any, *, local: bool) -> Any:
    """An argument as JSON. `local`: a time that has no zone gets none here."""
    if local and isinstance(value, datetime) and value.tzinfo is None:
        return value.isoformat()
    if _takes(one.type, datetime) and value is not None:
        check.micros(one.name, value, 0)
    if one.name == "metadata":
        check_metadata(value)
    elif isinstance(value, Mapping):
        _check_plain(one.name, value)
    if _lists(one.type) and isinstance(value, Iterable) and not isinstance(value, Mapping):
        value = [value] if isinstance(value, str) else list(value)
    try:
        return inner_form(value)
    except BadValue:
        raise BadValue(one.name, value, TOOLS if one.name == "tools" else AS_JSON) from None


def _check_plain(name: str, value: Any) -> None:
    """Refuse what JSON would make something else of."""
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise BadValue(name, value, "a JSON object: its keys are text")
        value = list(value.values())
    if isinstance(value, set | frozenset):
        raise BadValue(name, value, "plain JSON: a list in place of a set")
    for one in value if isinstance(value, list | tuple) else ():
        _check_plain(name, one)


def _lists(wanted: Any) -> bool:
    return get_origin(wanted) is list or any(get_origin(one) is list for one in get_args(wanted))


def _takes(wanted: Any, kind: type) -> bool:
    return wanted is kind or kind in get_args(wanted)


def _text(form: Any) -> str:
    return form if isinstance(form, str) else json.dumps(form)


def in_path(name: str, form: Any) -> str:
    """A name or id as a part of a path."""
    text = _text(form)
    if text in ("", ".", ".."):
        raise BadValue(name, form, "a name or id")
    return quote(text, safe="", errors="surrogatepass")
