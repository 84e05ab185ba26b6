"""From a request to the arguments of a verb: what the path, the query and the JSON body say, as the types that the verb
takes. What does not fit is refused by its name, before anything happens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import cache
from math import isfinite
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, HTTPConnection, Request

from everthread.core.values import inside
from everthread.errors import BadRequest, BadValue, TooLarge, TooSlow
from everthread.routes import Argument, Route
from everthread.server.tokens import Secret

BODY_SECONDS = 30.0  # for a whole body to come
JSON = "application/json"
SECRET = frozenset({"password", "old", "key"})  # arguments that no error repeats


class Arguments(NamedTuple):
    """The arguments of a verb: those that stand one after another, and those that have names."""

    several: list[Any]
    named: dict[str, Any]


async def arguments_of(route: Route, request: Request, query: Mapping[str, str], *, most: int) -> Arguments:
    """The arguments that a request gives. `most`: bytes of its body."""
    body = await json_body(request, most) if _names(route, "body") else {}
    _check_names(route, body, "body")
    _check_names(route, query, "query")
    texts = {**query, **request.path_params}

    def value(one: Argument) -> Any:
        if one.where == "body":
            return _of_json(one, body[one.name]) if one.name in body else _absent(one)
        return _of_text(one, texts[one.name]) if one.name in texts else _absent(one)

    return _gathered(route, value)


def query_of(request: HTTPConnection) -> dict[str, str]:
    """What stands in the query, the last where a name comes twice. Once for each request: Starlette's own takes longer
    than the rest of the arguments do."""
    raw = request.scope["query_string"].decode("latin-1")
    if "%" in raw or "+" in raw:
        return dict(parse_qsl(raw, keep_blank_values=True))
    return {name: value for name, _, value in [one.partition("=") for one in raw.split("&") if one]}


def arguments_in(route: Route, form: dict[str, Any]) -> Arguments:
    """The arguments that one JSON object gives, wherever a request has them: a message of a WebSocket."""
    _check_names(route, form)
    return _gathered(
        route, lambda one: _of_json(one, form[one.name]) if one.name in form else _absent(one, "arguments")
    )


def _check_names(route: Route, form: Mapping[str, Any], where: str = "") -> None:
    known = _names(route, where)
    for name in form:
        if name not in known:
            raise BadValue("an argument", name, f"one of those there are: {', '.join(known) or 'none'}")


@cache
def _names(route: Route, where: str) -> dict[str, None]:
    """The names of the arguments that may stand there; of all of them where no place is named."""
    known = sorted(one.name for one in route.arguments if not where or one.where == where)
    return dict.fromkeys(known + (["branch"] if where == "query" and route.of == "talk" else []))


def _gathered(route: Route, value: Callable[[Argument], Any]) -> Arguments:
    found = Arguments([], {})
    for one in route.arguments:
        given = value(one)
        if given is not _NONE and one.many:
            found.several.extend(given)
        elif given is not _NONE:
            found.named[one.name] = given
    return found


_NONE = object()


def _absent(one: Argument, where: str = "") -> Any:
    if one.required:
        raise BadValue(one.name, None, f"given in the {where or one.where}")
    return _NONE


def _of_text(one: Argument, text: str) -> Any:
    try:
        if _has(one.type, dict):
            return loads(text)
        return msgspec.convert(text, one.type, strict=False)
    except (ValueError, RecursionError, msgspec.ValidationError) as problem:
        raise BadValue(one.name, _shown(one, text), f"of another form ({problem})") from None


def _of_json(one: Argument, form: Any) -> Any:
    try:
        return _read(one.type, form)
    except (ValueError, TypeError, KeyError, RecursionError) as problem:  # those of msgspec are ValueErrors
        why = f"{problem} is missing" if isinstance(problem, KeyError) else problem
        raise BadValue(one.name, _shown(one, form), f"of another form ({why})") from None


def _shown(one: Argument, value: Any) -> Any:
    """A value as an error may show it: what may be a secret is not."""
    return Secret() if one.name in SECRET else value


def _read(wanted: Any, form: Any) -> Any:
    if isinstance(form, str) and _has(wanted, str):
        return form
    if get_origin(wanted) is list and isinstance(form, list):
        return [_read(get_args(wanted)[0], each) for each in form]
    return inside(wanted, form)


def _has(wanted: Any, kind: type) -> bool:
    """Whether a type is this one, or a union with it."""
    if get_origin(wanted) in (Union, UnionType):
        return any(_has(each, kind) for each in get_args(wanted))
    return wanted is kind or get_origin(wanted) is kind


def loads(text: str | bytes) -> Any:
    """What JSON says, if it says one thing only: no name twice, no number that is none. Escapes of lone surrogates are
    taken, because our own forms may have them. ValueError, RecursionError."""
    return json.loads(text, parse_constant=_no_number, parse_float=_finite, object_pairs_hook=_once)


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _finite(text: str) -> float:
    found = float(text)
    return found if isfinite(found) else _no_number("a number beyond all measure")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands in an object twice")
    return found


# -- bodies ------------------------------------------------------------------------------------------------------


async def json_body(request: Request, most: int) -> dict[str, Any]:
    """The body, a JSON object; empty where there is none."""
    body = await whole_body(request, most)
    if not body:
        return {}
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != JSON:
        raise BadRequest(f"its body must be {JSON}, and its Content-Type must say so")
    try:
        found = loads(body)
    except (ValueError, RecursionError) as problem:
        raise BadRequest(f"its body is no JSON ({problem})") from None
    if not isinstance(found, dict):
        raise BadRequest("its body must be a JSON object")
    return found


def check_length(request: Request, most: int) -> None:
    """TooLarge: it is said beforehand that the body will be."""
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > most):
        raise TooLarge(most)


async def whole_body(request: Request, most: int) -> bytes:
    """All of a body, if it is not too large and comes in time."""
    check_length(request, most)
    pieces, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                size += len(piece)
                if size > most:
                    raise TooLarge(most)
                pieces.append(piece)
    except TimeoutError:
        raise TooSlow(BODY_SECONDS) from None
    except ClientDisconnect:
        raise BadRequest("it broke off") from None
    return b"".join(pieces)
