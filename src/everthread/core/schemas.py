"""JSON Schema as far as replies need it: what a reference means, what is wrong with a value, and which nulls stand for
something that was left out.

What is checked are types, values, limits and what objects and lists hold; keywords beyond these are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Schema = Mapping[str, Any]

TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
# Of each limit, the type that it holds for and whether a value keeps it.
_LIMITS: dict[str, tuple[type | tuple[type, ...], Callable[[Any, Any], bool]]] = {
    "minimum": ((int, float), lambda value, most: value >= most),
    "maximum": ((int, float), lambda value, most: value <= most),
    "exclusiveMinimum": ((int, float), lambda value, most: value > most),
    "exclusiveMaximum": ((int, float), lambda value, most: value < most),
    "multipleOf": ((int, float), lambda value, step: not step or value / step == round(value / step)),
    "minLength": (str, lambda value, least: len(value) >= least),
    "maxLength": (str, lambda value, most: len(value) <= most),
    "pattern": (str, lambda value, pattern: re.search(pattern, value) is not None),
    "minItems": (list, lambda value, least: len(value) >= least),
    "maxItems": (list, lambda value, most: len(value) <= most),
}
_DEEPEST = 200  # references, one in another


def meant(reference: str, whole: Schema) -> Schema | None:
    """What a reference within a schema points at; None where it points elsewhere."""
    place: Any = whole if reference.startswith("#") else None
    for step in reference.partition("#")[2].split("/")[1:]:
        place = place.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(place, Mapping) else None
    return place if isinstance(place, Mapping) else None


def is_of(value: object, kind: str) -> bool:
    """Whether a value is of a type that schemas know; any value is of one that they do not."""
    if kind not in TYPES:
        return True
    if isinstance(value, bool):  # which Python takes for a number
        return kind == "boolean"
    return isinstance(value, TYPES[kind]) or (kind == "integer" and isinstance(value, float) and value.is_integer())


def unknown_types(schema: Any) -> set[str]:
    """The types that a schema, or one within it, names and that JSON does not have."""
    if not isinstance(schema, Mapping):
        return set()
    named = schema.get("type")
    found = {str(kind) for kind in (named if isinstance(named, list) else [named]) if named and kind not in TYPES}
    for key in ("properties", "$defs", "definitions", "patternProperties"):
        found.update(*map(unknown_types, schema[key].values() if isinstance(schema.get(key), Mapping) else ()))
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        found.update(*map(unknown_types, schema[key] if isinstance(schema.get(key), list) else ()))
    return found.union(*(unknown_types(schema.get(key)) for key in ("items", "additionalProperties", "not")))


# -- what is wrong with a value ----------------------------------------------------------------------------


def problem_of(value: Any, schema: Any, whole: Schema, where: str = "it") -> str:
    """What is wrong with a value, in words; nothing where it follows the schema."""
    schema = _resolved(schema, whole)
    if not isinstance(schema, Mapping):
        return f"{where} may not be there" if schema is False else ""
    return (
        _of_itself(value, schema, where)
        or _of_parts(value, schema, whole, where)
        or (_of_object(value, schema, whole, where) if isinstance(value, dict) else "")
        or (_of_list(value, schema, whole, where) if isinstance(value, list) else "")
    )


def _resolved(schema: Any, whole: Schema) -> Any:
    """The schema with what its reference means; what stands beside that counts."""
    for _ in range(_DEEPEST):
        if not isinstance(schema, Mapping) or not isinstance(reference := schema.get("$ref"), str):
            return schema
        schema = {**(meant(reference, whole) or {}), **{key: schema[key] for key in schema if key != "$ref"}}
    return True


def _of_itself(value: Any, schema: Schema, where: str) -> str:
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(is_of(value, kind) for kind in kinds):
        return f"{where} is not of the type {' or '.join(map(str, kinds))}"
    few = [schema["const"]] if "const" in schema else schema.get("enum")
    if few is not None and not any(same(value, one) for one in few):
        return f"{where} is not one of {few!r:.200}"
    for name, (kind, keeps) in _LIMITS.items():
        held = name in schema and isinstance(value, kind) and not isinstance(value, bool)
        if held and not keeps(value, schema[name]):
            return f"{where} does not keep to {name}: {schema[name]}"
    return ""


def same(value: Any, other: Any) -> bool:
    """Whether two JSON values are equal. True is not 1, however deep it stands."""
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(same(value[name], other[name]) for name in value)
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(same, value, other))
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


def _of_parts(value: Any, schema: Schema, whole: Schema, where: str) -> str:
    for part in schema.get("allOf", ()):
        if problem := problem_of(value, part, whole, where):
            return problem
    for key in ("anyOf", "oneOf"):
        problems = [problem_of(value, part, whole, where) for part in schema.get(key, ())]
        if problems and all(problems):
            return problems[0]
    return ""


def _of_object(value: dict[str, Any], schema: Schema, whole: Schema, where: str) -> str:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            return f"{name} is missing in {where}"
    more = schema.get("additionalProperties", True)
    for name, one in value.items():
        if name not in properties and more is False:
            return f"{where} has {name!r:.60}, which there is not"
        if problem := problem_of(one, properties.get(name, more), whole, f"{name} in {where}"):
            return problem
    return ""


def _of_list(value: list[Any], schema: Schema, whole: Schema, where: str) -> str:
    places, items = schema.get("prefixItems", ()), schema.get("items", True)
    for number, one in enumerate(value):
        inner = places[number] if number < len(places) else items
        if problem := problem_of(one, inner, whole, f"item {number + 1} of {where}"):
            return problem
    return ""


# -- nulls that stand for what was left out ----------------------------------------------------------------


def without_nulls(value: Any, schema: Any, whole: Schema) -> Any:
    """The value without the nulls of properties that need not be there and may not be null. Where a provider wants
    every property in a reply, null is how a model leaves one out."""
    choices = _objects(schema, whole)
    if isinstance(value, list):
        items = [item for one in choices for item in ([one["items"]] if "items" in one else one.get("prefixItems", ()))]
        return [without_nulls(one, {"anyOf": items}, whole) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {name: one for name, one in value.items() if one is not None or not _absent(name, choices, whole)}
    return {name: without_nulls(one, {"anyOf": _named(name, choices)}, whole) for name, one in kept.items()}


def _objects(schema: Any, whole: Schema, deep: int = 0) -> list[Schema]:
    """The schemas that a value may follow."""
    schema = _resolved(schema, whole)
    if not isinstance(schema, Mapping) or deep > _DEEPEST:
        return []
    parts = [part for key in ("anyOf", "oneOf", "allOf") for part in schema.get(key, ())]
    return [schema, *(found for part in parts for found in _objects(part, whole, deep + 1))]


def _named(name: str, choices: list[Schema]) -> list[Any]:
    return [one["properties"][name] for one in choices if name in one.get("properties", {})]


def _absent(name: str, choices: list[Schema], whole: Schema) -> bool:
    """Whether null can only mean that the property was left out."""
    named = [one for one in choices if name in one.get("properties", {})]
    required = any(name in one.get("required", ()) for one in named)
    nullable = any(not problem_of(None, one["properties"][name], whole) for one in named)
    return bool(named) and not required and not nullable
