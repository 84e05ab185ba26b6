"""The schema of a reply, as a provider takes it: its shape.

Each provider takes a part of JSON Schema, its dialect, and refuses the rest. A shape says the same as the schema, or
less, in the words of the dialect: objects are closed, references written out unless they lead back to themselves,
unions spelt as `anyOf`; a property that may be left out may be null instead, where all are required. A limit that the
dialect has no word for is told in the description. What cannot be said at all (an object of any names, say) leaves no
shape, and `why` says so: then the schema is told to the model in words. Whoever reads the reply checks it by the
schema, so it does not matter that a shape allows more. Shapes are kept for a while, in this process alone, until
something is redacted or erased: a schema may be a setting of a branch, and so what somebody wrote in a conversation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from everthread.core.schemas import meant

Schema = dict[str, Any]

_LARGEST = 5_000  # pieces of a schema once its references are written out
FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))
# Limits, by the type that they hold for.
LIMITS = {
    "string": ("pattern", "format", "minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("minItems", "maxItems", "uniqueItems"),
}
LIMITS["integer"] = LIMITS["number"]
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


class Dialect(NamedTuple):
    """`limits`: which are understood. `required`: all properties must be. `closed`: an object must name its
    properties. `recursive`: a schema may lead back to itself. `optional` to `values`: the most of each, 0 for any.
    `refused`: why the provider takes no schema at all from this request."""

    limits: frozenset[str] = frozenset()
    formats: frozenset[str] = FORMATS
    required: bool = False
    closed: bool = True
    recursive: bool = False
    least_items: int = 1_000_000_000
    optional: int = 0
    unions: int = 0
    depth: int = 0
    properties: int = 0
    values: int = 0
    refused: str = ""


class Shape(NamedTuple):
    """`text`: JSON, empty where there is none; `why`: then, why not."""

    text: str = ""
    why: str = ""


class _Unsayable(ValueError):
    """A dialect has no words for a schema. The message says what it is."""


@lru_cache(maxsize=256)
def shape_of(schema: str, dialect: Dialect) -> Shape:
    """The shape of a schema, both as JSON."""
    if dialect.refused:
        return Shape(why=dialect.refused)
    try:
        return Shape(json.dumps(_Shaping(msgspec.json.decode(schema), dialect).whole(), ensure_ascii=False))
    except _Unsayable as problem:
        return Shape(why=str(problem))
    except RecursionError:
        return Shape(why="it is too large")
    except (TypeError, AttributeError):
        return Shape(why="it is no JSON Schema")


class _Forgotten:
    times = 0


def forget() -> None:
    """Drop the shapes that were made: a setting of a branch may be redacted, and its schema with it."""
    _Forgotten.times += 1
    shape_of.cache_clear()


@contextmanager
def reading() -> Iterator[None]:
    """Where a log is read and a schema of its settings shaped: of what may have been read before something was
    forgotten, and shaped after that, nothing stays."""
    before = _Forgotten.times
    try:
        yield
    finally:
        if _Forgotten.times != before:
            shape_of.cache_clear()


class _Shaping:
    """Shapes the schemas within `whole`, and counts what this makes. `inside`: the references that a schema stands in;
    `depth`: the objects."""

    def __init__(self, whole: Schema, dialect: Dialect) -> None:
        self._whole, self._dialect = whole, dialect
        self._pieces = 0
        self._counts = {"optional": 0, "unions": 0, "depth": 0, "properties": 0, "values": 0}
        self._leads_back: dict[str, str] = {}  # references that do, and the names of their definitions

    def whole(self) -> Schema:
        made = self._schema(self._whole, (), 1)
        if made.get("type") != "object":
            raise _Unsayable("it is not of an object")
        defined: Schema = {}
        while left := [one for one, name in self._leads_back.items() if name not in defined]:
            for reference in left:
                defined[self._leads_back[reference]] = self._schema(self._meant(reference), (reference,), 1)
        for name, count in self._counts.items():
            if 0 < getattr(self._dialect, name) < count:
                raise _Unsayable("it is too large")
        return {**made, "$defs": defined} if defined else made

    def _schema(self, given: Any, inside: tuple[str, ...], depth: int) -> Schema:
        self._pieces += 1
        if self._pieces > _LARGEST:
            raise _Unsayable("it is too large")
        if not isinstance(given, Mapping):
            raise _Unsayable("a part of it allows anything, or nothing")
        if isinstance(reference := given.get("$ref"), str):
            return self._referred(given, reference, inside, depth)
        if parts := given.get("allOf"):
            return self._schema(self._joined(given, parts), inside, depth)
        if choices := given.get("anyOf") or given.get("oneOf"):
            beside = {key: value for key, value in given.items() if key not in ("anyOf", "oneOf")}
            return self._union([_both(beside, one) for one in choices], given, inside, depth)
        if "const" in given or isinstance(given.get("enum"), list):
            return self._values(given)
        if isinstance(kinds := given.get("type"), list):
            return self._union([{**given, "type": kind} for kind in kinds], given, inside, depth)
        return self._typed(given, kinds or _guessed(given), inside, depth)

    def _referred(self, given: Mapping[str, Any], reference: str, inside: tuple[str, ...], depth: int) -> Schema:
        if reference not in inside:
            beside = {key: value for key, value in given.items() if key not in ("$ref", "$defs", "definitions")}
            return self._schema(_both(self._meant(reference), beside), (*inside, reference), depth)
        if not self._dialect.recursive:
            raise _Unsayable("it leads back to itself")
        name = self._leads_back.setdefault(reference, f"Type{len(self._leads_back) + 1}")
        return {"$ref": f"#/$defs/{name}"}

    def _meant(self, reference: str) -> Mapping[str, Any]:
        if (found := meant(reference, self._whole)) is None:
            raise _Unsayable(f"the reference {reference!r:.60} points nowhere")
        return found

    def _joined(self, given: Mapping[str, Any], parts: list[Any]) -> Schema:
        joined: Schema = {key: value for key, value in given.items() if key != "allOf"}
        for part in parts:
            while isinstance(part, Mapping) and isinstance(reference := part.get("$ref"), str):
                self._pieces += 1
                if self._pieces > _LARGEST:
                    raise _Unsayable("it leads back to itself")
                part = _both(self._meant(reference), {key: part[key] for key in part if key != "$ref"})
            joined = _both(joined, part)
        return joined

    def _union(self, choices: list[Any], given: Mapping[str, Any], inside: tuple[str, ...], depth: int) -> Schema:
        made: list[Schema] = []
        for one in choices:
            shape = self._schema(one, inside, depth)
            beside = shape.get("anyOf", [shape])  # a union in a union is one
            self._counts["unions"] -= "anyOf" in shape
            made += [each for each in beside if each not in made]
        if not made:
            raise _Unsayable("a union in it has no choices")
        return made[0] if len(made) == 1 else self._any_of(made, given)

    def _any_of(self, choices: list[Schema], given: Mapping[str, Any]) -> Schema:
        self._counts["unions"] += 1
        return {"anyOf": [_untold(one, given) for one in choices], **_told(given)}

    def _values(self, given: Mapping[str, Any]) -> Schema:
        """One of a few values, by their types; true and false are a type of their own."""
        few = [given["const"]] if "const" in given else given["enum"]
        by_type: dict[str, list[Any]] = {}
        for value in few:
            if type(value) not in _TYPES:
                raise _Unsayable("a value that it names is neither text nor a number")
            by_type.setdefault(_TYPES[type(value)], []).append(value)
        plain = ("boolean", "null")
        made: list[Schema] = [{"type": kind} | ({} if kind in plain else {"enum": by_type[kind]}) for kind in by_type]
        self._counts["values"] += len(few)
        if not made:
            raise _Unsayable("a part of it allows nothing")
        return {**made[0], **_told(given)} if len(made) == 1 else self._any_of(made, given)

    def _typed(self, given: Mapping[str, Any], kind: Any, inside: tuple[str, ...], depth: int) -> Schema:
        match kind:
            case "object":
                return self._object(given, inside, depth)
            case "array":
                return self._array(given, inside, depth)
            case "string" | "number" | "integer" | "boolean" | "null":
                return self._limited({"type": kind}, given)
            case _:
                raise _Unsayable("a part of it allows anything, or nothing")

    def _object(self, given: Mapping[str, Any], inside: tuple[str, ...], depth: int) -> Schema:
        properties, required = given.get("properties"), list(dict.fromkeys(given.get("required", ())))
        named = isinstance(properties, Mapping) and set(required) <= properties.keys()
        if not named and self._dialect.closed:
            raise _Unsayable("an object in it may have any names")
        own: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
        made = {name: self._schema(inner, inside, depth + 1) for name, inner in own.items()}
        self._counts["depth"] = max(self._counts["depth"], depth + bool(made))
        self._counts["properties"] += len(made)
        self._counts["optional"] += len(made) - len(required)
        if self._dialect.required:
            made = {name: one if name in required else self._nullable(one) for name, one in made.items()}
            required = list(made)
        if not named:
            more = given.get("additionalProperties")
            beside = (
                {"additionalProperties": self._schema(more, inside, depth + 1)} if isinstance(more, Mapping) else {}
            )
            return {"type": "object", **_told(given), **beside}
        shape: Schema = {"type": "object", **_told(given), "properties": made, "required": required}
        return {**shape, "additionalProperties": False}

    def _nullable(self, schema: Schema) -> Schema:
        choices = schema.get("anyOf", [schema])
        if {"type": "null"} in [_untold(one, {"description": 1}) for one in choices]:
            return schema
        if "anyOf" in schema:
            return {**schema, "anyOf": [*choices, {"type": "null"}]}
        return self._any_of([schema, {"type": "null"}], schema)

    def _array(self, given: Mapping[str, Any], inside: tuple[str, ...], depth: int) -> Schema:
        """A list; one of fixed places is said as one of any of them, because dialects have no word for it."""
        places = given.get("prefixItems") or []
        items = given.get("items")
        if places:
            items = {"anyOf": [*places, *([items] if isinstance(items, Mapping) else [])]}
        return self._limited({"type": "array", "items": self._schema(items, inside, depth)}, given)

    def _limited(self, made: Schema, given: Mapping[str, Any]) -> Schema:
        """With its limits: as such where the dialect knows them, else in words."""
        limits = {key: given[key] for key in LIMITS.get(made["type"], ()) if key in given}
        kept = {key: value for key, value in limits.items() if self._knows(key, value)}
        words = ", ".join(f"{key}: {json.dumps(value)}" for key, value in limits.items() if key not in kept)
        told = "; ".join(filter(None, (_told(given).get("description", ""), words and f"({words})")))
        return {**made, **kept, **({"description": told} if told else {})}

    def _knows(self, limit: str, value: Any) -> bool:
        if limit not in self._dialect.limits:
            return False
        match limit:
            case "format":
                return value in self._dialect.formats
            case "pattern":
                return "(?" not in str(value)  # no looking ahead or behind
            case "minItems":
                return bool(value <= self._dialect.least_items)
            case _:
                return True


def _told(given: Mapping[str, Any]) -> Schema:
    return {"description": given["description"]} if isinstance(given.get("description"), str) else {}


def _untold(schema: Schema, given: Mapping[str, Any]) -> Schema:
    """Without the description, where the union that it stands in has it."""
    return {key: schema[key] for key in schema if key != "description"} if "description" in given else schema


def _guessed(given: Mapping[str, Any]) -> str:
    kinds = {"properties": "object", "items": "array", "prefixItems": "array"}
    return next((kind for key, kind in kinds.items() if key in given), "")


def _both(one: Mapping[str, Any], other: Any) -> Schema:
    """Two schemas as one that says both, where that is a matter of adding; what the second says counts."""
    if not isinstance(other, Mapping):
        raise _Unsayable("a part of it allows anything, or nothing")
    both: Schema = {**one, **other}
    if "properties" in one and "properties" in other:
        both["properties"] = {**one["properties"], **other["properties"]}
    if "required" in one and "required" in other:
        both["required"] = [*one["required"], *other["required"]]
    if one.get("type", other.get("type")) != other.get("type", one.get("type")):
        raise _Unsayable("parts of it exclude each other")
    return both
