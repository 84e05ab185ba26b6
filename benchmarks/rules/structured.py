"""What the providers refuse of the schema that a reply must follow.

OpenAI's strict mode and Anthropic take a part of JSON Schema and refuse the rest; Gemini says that it passes over what
it does not know, and has been seen to refuse it: here it refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks.rules.shared import Json, Refusals

_EVERY = "type enum const anyOf properties required additionalProperties items $ref $defs description title"
_BOUNDS = "maximum exclusiveMaximum minimum exclusiveMinimum"
_FORMATS = "date-time time date duration email hostname ipv4 ipv6 uuid"


class Taken(NamedTuple):
    """What a provider takes. `all_required`: every property must be; `recursive`: a schema may refer to itself.
    `most_least`: the greatest minItems. The rest are limits for a whole schema, 0 for none."""

    keywords: frozenset[str]
    formats: frozenset[str]
    closed: bool = True
    all_required: bool = False
    recursive: bool = False
    most_least: int = 10**9
    optional: int = 0
    unions: int = 0
    depth: int = 0
    properties: int = 0
    values: int = 0


OPENAI = Taken(
    frozenset(f"{_EVERY} pattern format multipleOf {_BOUNDS} minItems maxItems".split()),
    frozenset(_FORMATS.split()),
    all_required=True,
    recursive=True,
    depth=10,
    properties=5_000,
    values=1_000,
)
ANTHROPIC = Taken(
    frozenset(f"{_EVERY} allOf definitions default format minItems".split()),
    frozenset(f"{_FORMATS} uri text".split()),
    most_least=1,
    optional=24,
    unions=16,
)
_GEMINIS = (
    "$id $defs $ref $anchor type format title description enum items prefixItems minItems maxItems minimum maximum "
    "anyOf oneOf properties additionalProperties required propertyOrdering"
)
GOOGLE = Taken(frozenset(_GEMINIS.split()), frozenset(("date-time", "date", "time")), closed=False, recursive=True)


def structured(wrong: Refusals, schema: Any, taken: Taken, where: str) -> None:
    """The schema of a reply."""
    if not wrong.unless(isinstance(schema, dict), f"{where} must be a schema"):
        return
    if taken.closed:
        wrong.unless(schema.get("type") == "object", f"{where}: the schema must be of an object at the top level")
        wrong.unless("anyOf" not in schema, f"{where}: the schema must not have anyOf at the top level")
    found = list(_within(schema, where, 1))
    for place, inner, _ in found:
        _node(wrong, inner, taken, place)
        _reference(wrong, inner, schema, place)
    _limits(wrong, found, taken, where)
    wrong.unless(taken.recursive or not _recursive(schema), f"{where}: recursive schemas are not supported")


def _within(schema: Any, where: str, depth: int) -> Iterator[tuple[str, Any, int]]:
    """Every schema in a schema, with its place and its depth in objects."""
    yield where, schema, depth
    if not isinstance(schema, dict):
        return
    for key in ("properties", "$defs", "definitions"):
        named = schema.get(key)
        for name, inner in named.items() if isinstance(named, dict) else ():
            yield from _within(inner, f"{where}.{key}.{name}", depth + (key == "properties"))
    for key in ("anyOf", "allOf", "oneOf", "prefixItems"):
        for index, inner in enumerate(schema.get(key) or ()):
            yield from _within(inner, f"{where}.{key}[{index}]", depth)
    if "items" in schema:
        yield from _within(schema["items"], f"{where}.items", depth)


def _node(wrong: Refusals, schema: Any, taken: Taken, where: str) -> None:
    if not wrong.unless(isinstance(schema, dict), f"{where} must be a schema, not {schema!r:.40}"):
        return
    unknown = sorted(schema.keys() - taken.keywords)
    wrong.unless(not unknown, f"{where}: {', '.join(unknown)} is not permitted")
    if "$ref" in schema:
        wrong.unless(len(schema.keys() - {"$defs"}) == 1, f"{where}: $ref cannot have keywords beside it")
        return
    typed = isinstance(schema.get("type"), str) or "anyOf" in schema
    wrong.unless(typed, f"{where}: schema must have a 'type' key")
    if "anyOf" in schema:
        wrong.unless(schema["anyOf"], f"{where}: anyOf must not be empty")
    formatted = "format" not in schema or schema["format"] in taken.formats
    wrong.unless(formatted, f"{where}: the format {schema.get('format')!r:.40} is not supported")
    wrong.unless("(?" not in str(schema.get("pattern")), f"{where}: the pattern has what is not supported")
    for value in schema.get("enum", ()):
        plain = value is None or isinstance(value, str | int | float)
        wrong.unless(plain, f"{where}: enum may hold only text, numbers, booleans and null")
    match schema.get("type"):
        case "object":
            _object(wrong, schema, taken, where)
        case "array":
            wrong.unless("items" in schema, f"{where}: array schema missing items")
            wrong.unless(schema.get("minItems", 0) <= taken.most_least, f"{where}: minItems may be 0 or 1 only")


def _object(wrong: Refusals, schema: Json, taken: Taken, where: str) -> None:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not taken.closed:
        return
    closed = schema.get("additionalProperties") is False
    wrong.unless(closed, f"{where}: 'additionalProperties' is required to be supplied and to be false")
    wrong.unless(set(required) <= properties.keys(), f"{where}: required names a property that there is not")
    everything = not taken.all_required or set(required) == properties.keys()
    wrong.unless(everything, f"{where}: 'required' must be an array including every key in properties")


def _limits(wrong: Refusals, found: list[tuple[str, Any, int]], taken: Taken, where: str) -> None:
    schemas = [schema for _, schema, _ in found if isinstance(schema, dict)]
    objects = [schema for schema in schemas if isinstance(schema.get("properties"), dict)]
    counts = {
        "optional": sum(len(one["properties"].keys() - set(one.get("required", ()))) for one in objects),
        "unions": sum("anyOf" in schema for schema in schemas),
        "depth": max((depth for _, _, depth in found), default=0),
        "properties": sum(len(one["properties"]) for one in objects),
        "values": sum(len(schema.get("enum", ())) for schema in schemas),
    }
    for name, count in counts.items():
        most = getattr(taken, name)
        wrong.unless(not most or count <= most, f"{where}: too complex: {name} {count} > {most}")


def _reference(wrong: Refusals, schema: Any, whole: Json, where: str) -> None:
    reference = schema.get("$ref") if isinstance(schema, dict) else None
    if reference is not None:
        found = re.fullmatch(r"#/(\$defs|definitions)/([^/]+)", str(reference))
        known = found and isinstance(whole.get(found[1]), dict) and found[2] in whole[found[1]]
        wrong.unless(known, f"{where}: the reference {reference!r:.60} points nowhere")


def _recursive(schema: Json) -> bool:
    """Whether a definition leads back to itself."""
    defined: Json = {**(schema.get("definitions") or {}), **(schema.get("$defs") or {})}
    leads = {
        name: {str(one["$ref"]).rpartition("/")[2] for _, one, _ in _within(inner, "", 0) if _refers(one)}
        for name, inner in defined.items()
    }
    for _ in leads:
        for name, to in leads.items():
            leads[name] = to.union(*(leads.get(one, set()) for one in to))
    return any(name in to for name, to in leads.items())


def _refers(schema: Any) -> bool:
    return isinstance(schema, dict) and "$ref" in schema
