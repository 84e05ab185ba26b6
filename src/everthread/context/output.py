"""What a reply is asked to be: a type of the caller's, or a JSON Schema; and the value that a reply's text spells.

A Pydantic model, a dataclass, a msgspec struct, a TypedDict or any other type that these libraries know becomes a JSON
Schema, which travels as the setting `output`: how a provider takes it is `providers.shapes`. Whatever the provider did
with it, the reply is checked here. Pydantic is used where something of it is given, and never imported otherwise. A
schema that is not of an object is asked for inside one, because providers take nothing else.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, get_origin

import msgspec

from everthread.core.schemas import meant, problem_of, unknown_types, without_nulls
from everthread.errors import BadOutput, BadValue

VALUE = "value"  # under which what is no object is asked for
TOLD = (
    "Reply with one JSON value and nothing else: no words before or after it, and no code fence. It must follow this "
    "JSON Schema:\n"
)
_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)\n?\s*```", re.DOTALL | re.IGNORECASE)
_UNSAYABLE = (TypeError, NotImplementedError, AttributeError, NameError, ValueError, RuntimeError)  # Pydantic's, too
_ALLOWED = (
    "a Pydantic model, a dataclass, a msgspec Struct, a TypedDict, another type that they know, or a JSON Schema as a "
    "mapping"
)


class Output(NamedTuple):
    """`schema`: what is asked for. `wrapped`: whether the value stands inside an object. `read`: from JSON to the
    value; raises what is wrong with it."""

    schema: dict[str, Any]
    wrapped: bool
    read: Callable[[Any], Any]

    @property
    def setting(self) -> str:
        return json.dumps(self.schema, ensure_ascii=False)

    def parse(self, text: str, finish: str = "") -> Any:
        """The value that a reply spells. Raises BadOutput, which says why there is none. `finish`: how it ended."""
        if finish == "refused":
            raise BadOutput("the model refused to reply", text)
        try:
            found = without_nulls(_decoded(text), self.schema, self.schema)
            return self.read(found[VALUE] if self.wrapped else found)
        except Exception as problem:
            cut = "it came to its limit: raise reply_tokens" if finish == "length" else ""
            raise BadOutput(cut or _why(problem), text) from problem


def output_of(given: Any) -> Output:
    """What was given for `output`. Raises BadValue."""
    if isinstance(given, Mapping):
        if unknown := unknown_types(given):
            raise BadValue("output", given, f"{_ALLOWED} (which has no type {', '.join(sorted(unknown))})")
        return _of_schema(dict(given))
    try:
        schema, read = _pydantic(given) or _known_to_msgspec(given)
    except _UNSAYABLE as problem:
        raise BadValue("output", given, f"{_ALLOWED} ({problem})") from None
    return _asked(schema, read)


def of_setting(schema: str) -> Output | None:
    """What the setting `output` asks for; None where it asks for nothing."""
    return _of_schema(msgspec.json.decode(schema)) if schema else None


def _of_schema(schema: dict[str, Any]) -> Output:
    try:
        schema = msgspec.json.decode(msgspec.json.encode(schema))
    except (TypeError, ValueError, msgspec.MsgspecError) as problem:
        raise BadValue("output", schema, f"{_ALLOWED} ({problem})") from None

    def read(value: Any) -> Any:
        if problem := problem_of(value, schema, schema):
            raise ValueError(problem)
        return value

    return _asked(schema, read)


def _asked(schema: dict[str, Any], read: Callable[[Any], Any]) -> Output:
    root: dict[str, Any] = dict(schema)
    if isinstance(reference := root.pop("$ref", None), str):
        root = dict(meant(reference, schema) or {}) | root
    if root.get("type") == "object" or "properties" in root:
        return Output(root, wrapped=False, read=read)
    defined = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    inner = {key: value for key, value in schema.items() if key not in defined}
    whole: dict[str, Any] = {"type": "object", "properties": {VALUE: inner}, "required": [VALUE]}
    return Output(whole | defined | {"additionalProperties": False}, wrapped=True, read=read)


Known = tuple[dict[str, Any], Callable[[Any], Any]]


def _pydantic(given: Any) -> Known | None:
    """A model, a dataclass of pydantic's, or a TypeAdapter; None for anything else."""
    if isinstance(given, type) and hasattr(given, "model_json_schema"):
        return given.model_json_schema(), given.model_validate  # type: ignore[attr-defined]
    if hasattr(given, "__pydantic_validator__") and isinstance(given, type):
        return _adapted(given)
    if hasattr(given, "json_schema") and hasattr(given, "validate_python"):
        return given.json_schema(), given.validate_python
    return None


def _adapted(given: Any) -> Known:
    from pydantic import TypeAdapter  # which is there: the type is one of its own, or holds one

    adapter = TypeAdapter(given)
    return adapter.json_schema(), adapter.validate_python


def _known_to_msgspec(given: Any) -> Known:
    if not isinstance(given, type) and get_origin(given) is None:
        raise TypeError("it is no type")
    try:
        schema = msgspec.json.schema(given)
    except _UNSAYABLE:
        if "pydantic" in sys.modules:  # a list of models, say
            with suppress(*_UNSAYABLE):
                return _adapted(given)
        raise
    return schema, lambda value: msgspec.convert(value, given, str_keys=True)


def plain_of(value: Any) -> Any:
    """A value that was asked for, as plain data."""
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_dumped)


def _dumped(value: Any) -> Any:
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json")
    raise BadValue("the value", value, "one of a type that `output` takes")


# -- from text to JSON -------------------------------------------------------------------------------------


def _decoded(text: str) -> Any:
    """The JSON of a reply: all of it, or what stands in its only code fence."""
    try:
        return json.loads(text)
    except ValueError:
        fenced = _FENCED.findall(text)
        if len(fenced) != 1:
            raise ValueError("it is not JSON") from None
    try:
        return json.loads(fenced[0])
    except ValueError:
        raise ValueError("it is not JSON") from None


def _why(problem: Exception) -> str:
    if isinstance(problem, LookupError | TypeError):
        return "it is not the object that was asked for"
    if callable(errors := getattr(problem, "errors", None)):  # Pydantic's own sentence repeats what the model wrote
        return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'it'}: {one['msg']}" for one in errors()[:5])
    return " ".join(str(problem).split()) or type(problem).__name__
