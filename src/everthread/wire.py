"""The JSON form of every value that a public verb returns, and back: for services, queues, files, other languages.

    from everthread import wire

    body = wire.dumps(await talk.recall("allergies"))      # bytes of JSON
    hits = wire.loads(list[Hit], body)                      # equal to what was recalled
    wire.plain(context)                                     # dicts, lists, texts, numbers: for a library of your own

The forms are a contract, described in docs/howto/json.md. `read` and `loads` take a class, a union of classes
(`Logged | Delta` is what `talk.listen` gives, `Event` any event), or a list or dict of them. Of a `Context` there comes
back a `FrozenContext`: the same attributes, without what it was made from.

What a form holds is a copy that forgetting does not reach: whoever keeps one has to forget it, too.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, TypeVar, overload

import msgspec
from msgspec.structs import astuple

from everthread.context.frozen import FrozenContext
from everthread.core.deltas import ReasoningDelta, TextDelta
from everthread.core.logged import Logged, as_json
from everthread.core.told import Told
from everthread.core.value_schemas import schema_of
from everthread.core.values import plain, read
from everthread.errors import BadValue

__all__ = ["FrozenContext", "dumps", "loads", "plain", "read", "schema_of"]

T = TypeVar("T")
_WORDS = (TextDelta, ReasoningDelta)  # whose form is what msgspec makes of them


def dumps(value: object) -> bytes:
    """The form of a value, or of a list or dict of values, as JSON in UTF-8."""
    if isinstance(value, list) and set(map(type, value)) == {Logged}:
        with suppress(ValueError):  # of lone surrogates, or of damage, which is told of below
            return as_json(map(astuple, value))
    if type(value) is Told and type(value.item) in _WORDS:  # of which very many are written
        with suppress(UnicodeEncodeError):
            return msgspec.json.encode(value)
    form = plain(value)
    try:
        return msgspec.json.encode(form)
    except UnicodeEncodeError:  # a lone surrogate in a bare text, which only an escape can say
        return json.dumps(form, separators=(",", ":")).encode()


@overload
def loads(wanted: type[T], body: bytes | str) -> T: ...
@overload
def loads(wanted: Any, body: bytes | str) -> Any: ...
def loads(wanted: Any, body: bytes | str) -> Any:
    """The value of which this is the form, as JSON."""
    try:
        form = json.loads(body)
    except (ValueError, RecursionError) as problem:
        raise BadValue("the form", body, f"JSON ({problem})") from None
    return read(wanted, form)
