"""Values of any type that verbs return, made from the types of their fields."""

from __future__ import annotations

from datetime import UTC, datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from everthread.core.canvas.elements import LINKS, Card, Picture
from everthread.core.events import Command, Event, Other, SettingsChanged, encode
from everthread.core.happenings import HAPPENINGS, Happening
from everthread.core.logged import Logged
from everthread.core.quotes import Quote

TEXTS = st.text(st.characters(exclude_categories=()), max_size=8)  # NUL and lone surrogates among them
NAMES = st.from_regex(r"app\.[a-z]{1,8}", fullmatch=True)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries((TEXTS | st.just("wtf8")).filter(lambda key: key != "kind"), JSON, max_size=3)

_SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXTS,
    int: st.integers(-(2**62), 2**62),
    float: NUMBERS,
    bool: st.booleans(),
    bytes: st.binary(max_size=8),
    datetime: st.datetimes(timezones=st.just(UTC)),
    NoneType: st.none(),
    Any: JSON,
}


def values(wanted: Any) -> st.SearchStrategy[Any]:
    """Values of a type."""
    origin, given = get_origin(wanted), get_args(wanted)
    if origin is Annotated:
        return values(given[0])
    if origin in (Union, UnionType):
        return st.one_of(*map(values, given))
    if origin is Literal:
        return st.sampled_from(given)
    if origin is list:
        return st.lists(values(given[0]), max_size=3)
    if origin is tuple:
        return st.lists(values(given[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(values(given[0]), values(given[1]), max_size=3)
    if isinstance(wanted, TypeVar):  # what `output` asks for
        return values(Any)
    return _SIMPLE[wanted] if wanted in _SIMPLE else _structs(wanted)


def _structs(cls: Any) -> st.SearchStrategy[Any]:
    if cls in _OWN:
        return _OWN[cls]
    if issubclass(cls, Happening):
        texts = {name: TEXTS for name in cls.__struct_fields__ if name != "data"}
        own = OBJECTS.map(lambda data: {name: said for name, said in data.items() if name not in texts})
        return st.builds(cls, data=own, **texts)
    return st.builds(cls, **_fields(cls))


def _fields(cls: Any) -> dict[str, st.SearchStrategy[Any]]:
    return {field.name: values(field.type) for field in msgspec.structs.fields(cls)}


def _placed(event: Any, **columns: Any) -> Logged:
    return Logged(kind=event.kind, body=encode(event), **columns)


def logged(events: st.SearchStrategy[Any]) -> st.SearchStrategy[Logged]:
    whole = st.integers(0, 2**31 - 1)
    columns = dict.fromkeys(("branch", "seq", "turn", "session", "tokens", "settled"), whole)
    return st.builds(_placed, events, id=TEXTS, micros=st.integers(0, 2**53), **columns)


_SCALARS = st.dictionaries(TEXTS, st.none() | st.booleans() | st.integers(-(2**62), 2**62) | TEXTS, max_size=3)
_ADDRESSES = st.just("") | st.builds("".join, st.tuples(st.sampled_from(LINKS), TEXTS))
_OWN: dict[Any, st.SearchStrategy[Any]] = {
    Logged: st.deferred(lambda: logged(values(Event))),
    Card: st.builds(Card, **(_fields(Card) | {"link": _ADDRESSES})),
    Picture: st.builds(Picture, **(_fields(Picture) | {"url": _ADDRESSES})),
    Happening: st.sampled_from(sorted(HAPPENINGS)).flatmap(lambda kind: _structs(HAPPENINGS[kind])),
    Other: st.builds(Other, kind=NAMES, data=OBJECTS),
    Quote: st.builds(Quote, st.just("01M7F8X1NFWF5G5Z7TBXHQ6334"), st.integers(1, 99), st.integers(1, 99)),
    Command: st.builds(Command, name=TEXTS, arguments=_SCALARS),
    SettingsChanged: st.builds(SettingsChanged, values=_SCALARS),
}
