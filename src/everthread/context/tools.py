"""Tools as the caller gives them, made into one form, in the order of their names.

That form is name, description and schema. Tools made for OpenAI or Anthropic may be given as they are: what they say
beyond these three concerns only that provider and is left out. Tools that a provider runs itself are not taken.
The order is fixed, because tools stand first in a request: in another order the whole prompt cache would be lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from everthread.core.request import Tool
from everthread.errors import BadValue

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")  # what every provider takes
_FORM = "a tool with name, description and schema, or in OpenAI's or Anthropic's form"
_ONE = "one of the tools"
_OBJECT: dict[str, Any] = {"type": "object", "properties": {}}
_CHOICES = ("anyOf", "oneOf", "allOf")
_NOT_AT_THE_TOP = (*_CHOICES, "enum", "not")
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
# Where schemas stand within a schema: by name, in a list, or alone (`items` may be a list of old).
_NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_INSIDE = (*_CHOICES, "prefixItems", "items", "additionalProperties", "contains", "not", "if", "then", "else")


class _Form(NamedTuple):
    """A provider's form of a tool: whose it is, where the schema stands, and which other keys it may have."""

    whose: str
    schema: str
    others: frozenset[str]


_CHAT = _Form("OpenAI's", "parameters", frozenset({"strict"}))
_RESPONSES = _Form(
    "OpenAI's",
    "parameters",
    frozenset({"type", "strict", "defer_loading", "allowed_callers", "async", "output_schema"}),
)
_ANTHROPIC = _Form(
    "Anthropic's",
    "input_schema",
    frozenset({"type", "strict", "cache_control", "defer_loading", "allowed_callers"})
    | {"input_examples", "eager_input_streaming"},
)


def tools_of(given: Any) -> tuple[Tool, ...]:
    """The tools of a list, which may be None."""
    if given is None:
        return ()
    if isinstance(given, str | bytes | Mapping | Tool) or not isinstance(given, Iterable):
        raise BadValue("tools", given, f"a list, of which each is {_FORM}")
    found = sorted(map(_tool, given), key=lambda tool: tool.name)
    for one, other in pairwise(found):
        if one.name == other.name:
            raise BadValue(_ONE, one.name, "named like no other; there are two of this name")
    return tuple(found)


def _tool(given: object) -> Tool:
    if isinstance(given, Tool):
        given = msgspec.structs.asdict(given)  # its types were not looked at when it was made
    if not isinstance(given, Mapping):
        raise BadValue(_ONE, given, _FORM)
    try:
        tool = msgspec.convert(_in_our_form(given), Tool)
        json.dumps([tool.description, tool.schema], ensure_ascii=False, allow_nan=False).encode()
        mended = _taken(tool.schema)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as problem:
        raise BadValue(_ONE, given, f"{_FORM} ({problem})") from None
    if not _NAME.fullmatch(tool.name):
        named = "named with a to z, digits, _ and -, at most 64, of which the first is a letter or _"
        raise BadValue(_ONE, tool.name, named)
    if tool.schema.get("type", "object") != "object":
        raise BadValue(f"the schema of the tool {tool.name}", tool.schema, "of the type 'object': arguments have names")
    return msgspec.structs.replace(tool, schema=mended)


def _taken(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema that every provider takes: OpenAI and Anthropic want its type, OpenAI its properties and what is in a
    list, and refuses what is no schema; and both refuse a choice at the top."""
    kept = {key: value for key, value in _mended(schema).items() if key not in _NOT_AT_THE_TOP}
    return kept if not schema or _OBJECT.keys() <= kept.keys() else {**_OBJECT, **kept}


def _mended(schema: Any) -> Any:
    """The same schema, in which every list says what is in it: anything, where it said nothing; and without what no
    schema can say."""
    if isinstance(schema, list):
        return [_mended(one) for one in schema]
    if not isinstance(schema, dict):
        return schema if isinstance(schema, bool) else {}
    made = {key: _inner(key, value) for key, value in schema.items()}
    made = {key: value for key, value in made.items() if key not in _TYPED or value is not None}
    kind = made.get("type")
    is_list = kind == "array" or (isinstance(kind, list) and "array" in kind)
    return {**made, "items": {}} if is_list and "items" not in made else made


def _type(kind: Any) -> Any:
    """One or several that are known; nothing, which may be anything, where none is."""
    if isinstance(kind, list | tuple):
        return [one for one in kind if isinstance(one, str) and one in _TYPES] or None
    return kind if isinstance(kind, str) and kind in _TYPES else None


def _required(names: Any) -> list[str] | None:
    return [name for name in names if isinstance(name, str)] if isinstance(names, list | tuple) else None


_TYPED: dict[str, Callable[[Any], Any]] = {"type": _type, "required": _required}


def _inner(key: str, value: Any) -> Any:
    """What a schema says under a key; what is no schema, such as a default, stays as it is."""
    if key in _TYPED:
        return _TYPED[key](value)
    if key in _NAMED:
        return {name: _mended(one) for name, one in value.items()} if isinstance(value, dict) else {}
    return _mended(value) if key in _INSIDE else value


def _in_our_form(given: Mapping[str, Any]) -> dict[str, Any]:
    """The tool in our form, from whichever it has."""
    kind = given.get("type")
    if kind == "function" and "function" in given:
        if beside := [key for key in given if key not in ("type", "function")]:
            raise ValueError(f"OpenAI's have no {beside[0]!r} beside the function")
        return _from(_CHAT, given["function"])
    if kind == "function":
        return _from(_RESPONSES, given)
    if kind in (None, "custom") and "input_schema" in given:
        return _from(_ANTHROPIC, given)
    if kind is not None:
        own = f"a function of your application; what has the type {kind!r} is a provider's own"
        raise BadValue(_ONE, given, f"{own}, to be added to the request that comes of it")
    return dict(given)


def _from(form: _Form, given: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise TypeError("the function is no object")
    for key in given:
        if key not in ("name", "description", form.schema) and key not in form.others:
            raise ValueError(f"{form.whose} have no {key!r}")
    said = {"name": given.get("name"), "description": given.get("description"), "schema": given.get(form.schema)}
    return {key: value for key, value in said.items() if value is not None}
