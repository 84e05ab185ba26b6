"""The JSON Schema of the forms of values: for OpenAPI, and for the tables in the documentation.

Each schema is whole, without references, so that it can stand in any document.
"""

from __future__ import annotations

import inspect
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from everthread.core.values import Value

_SIMPLE: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    datetime: {"type": "string", "format": "date-time"},
}


class FormOf(NamedTuple):
    """Beside a type, as in `Annotated[dict[str, Any], FormOf(Change)]`: of what it is the form. So a verb that reads it
    by itself is described all the same."""

    type: Any


def schema_of(wanted: Any) -> dict[str, Any]:
    """The schema of the forms of a type."""
    origin, given = get_origin(wanted), get_args(wanted)
    if origin is Annotated:
        return schema_of(next((one.type for one in given[1:] if isinstance(one, FormOf)), given[0]))
    if origin in (Union, UnionType):
        return _one_of([schema_of(one) for one in given])
    if origin is Literal:
        return {"enum": list(given)}
    if origin in (list, tuple):
        return {"type": "array", "items": schema_of(given[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(given[1])}
    if isinstance(wanted, type) and issubclass(wanted, Value):
        return wanted._schema()
    if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        return object_schema(wanted)
    return dict(_SIMPLE.get(wanted, {}))


def _one_of(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    different = [one for place, one in enumerate(schemas) if one not in schemas[:place]]
    return different[0] if len(different) == 1 else {"anyOf": different}


def object_schema(cls: Any) -> dict[str, Any]:
    """The schema of a struct: its tag and its fields."""
    config, fields = cls.__struct_config__, msgspec.structs.fields(cls)
    tagged = {} if config.tag is None else {config.tag_field: {"const": config.tag}}
    properties = tagged | {field.name: schema_of(field.type) for field in fields}
    always = [field.name for field in fields if field.required or not config.omit_defaults]
    return _titled(cls, properties, [*tagged, *always])


def described(cls: type, fields: dict[str, Any]) -> dict[str, Any]:
    """The schema of a form with these fields, all of which are always there."""
    return _titled(cls, {name: schema_of(wanted) for name, wanted in fields.items()}, list(fields))


def _titled(cls: type, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    about = " ".join((inspect.getdoc(cls) or "").split())
    schema: dict[str, Any] = {"title": cls.__name__, "type": "object", "properties": properties, "required": required}
    return {"description": about, **schema} if about else schema
