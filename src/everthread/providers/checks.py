"""Asking a decoded JSON value to be what a format says it is.

Each check gives the value back with its type known, or raises `BadFormat` with the place, what was found
there and what would be understood.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from everthread.errors import BadFormat

_NAMES = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
}


def an_object(value: object, where: str) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise unexpected(value, "an object", where)


def a_list(value: object, where: str) -> list[Any]:
    if isinstance(value, list):
        return value
    raise unexpected(value, "a list", where)


def objects(value: object, where: str) -> Iterator[tuple[dict[str, Any], str]]:
    """The objects of a list, each with its place."""
    for index, given in enumerate(a_list(value, where)):
        here = f"{where}[{index}]"
        yield an_object(given, here), here


def a_string(value: object, where: str, *, understood: str = "a string") -> str:
    if isinstance(value, str):
        return value
    raise unexpected(value, understood, where)


def unexpected(value: object, understood: str, where: str) -> BadFormat:
    found = "nothing" if value is None else _NAMES.get(type(value), f"a {type(value).__name__}")
    return BadFormat(f"found {found}, but what is understood here is {understood}", where=where)


def unknown(what: str, value: object, understood: tuple[str, ...], where: str) -> BadFormat:
    """For a name (a role, a type) that is none of those understood."""
    shown = f"no {what}" if value is None else f"the {what} {str(value)[:60]!r}"
    return BadFormat(f"found {shown}, but what is understood here is one of: {', '.join(understood)}", where=where)
