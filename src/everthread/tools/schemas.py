"""Schemas that every provider takes, and arguments that fit them.

A function's type hints become the JSON Schema of its arguments, and what a model wrote becomes the values that the
function expects: dates, enumerations, dataclasses and so on. A parameter without a hint takes any JSON value; one
that may be None need not be given. Whatever schema a tool has, its references are written out and what some provider
refuses is said in another way: `$defs` are gone, a union with null stays only where null says something that leaving
the argument out does not.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import msgspec

from everthread.core.schemas import TYPES, is_of
from everthread.errors import BadTool
from everthread.tools.context import ToolContext
from everthread.tools.docstrings import parsed

_EMPTY = inspect.Parameter.empty
_STARRED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")  # Anthropic's rule, the narrowest
_TALK = ("Talk", "ToolContext")  # as a hint may name it
_UNSAYABLE = (TypeError, NotImplementedError, AttributeError, NameError, RecursionError)  # of hints
_LARGEST = 10_000  # pieces of a schema once its references are written out


class Misfit(ValueError):
    """A tool does not take these arguments. The message says why, for the model to read."""


# -- functions ---------------------------------------------------------------------------------------------


class Arguments(NamedTuple):
    """What a function takes: its schema, and how what a model wrote becomes arguments.

    `talk` is the parameter that is given the conversation, empty where there is none: the model knows nothing of it.
    """

    schema: dict[str, Any]
    description: str
    talk: str
    form: type[msgspec.Struct]
    defaults: dict[str, Any]

    def bind(self, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name, absent ones with their defaults. Raises Misfit."""
        try:
            found = _converted(given, self.form, strict=True)
        except msgspec.ValidationError as problem:
            try:
                found = _converted(given, self.form, strict=False)  # a model may well write "5" for 5
            except msgspec.ValidationError:
                raise Misfit(str(problem)) from None
        values = msgspec.structs.asdict(found)
        return self.defaults | {name: value for name, value in values.items() if value is not msgspec.UNSET}


def arguments_of(function: Callable[..., Any], name: str) -> Arguments:
    """What a function takes, from its hints and its docstring. Raises BadTool."""
    described_by = parsed(inspect.getdoc(_unwrapped(function)) or "")
    talk, hints, defaults = "", dict[str, Any](), dict[str, Any]()
    for parameter in _parameters(function, name):
        hint = _hint(function, parameter, name)
        if _is_talk(parameter.name, hint):
            talk = parameter.name
            continue
        hints[parameter.name] = _with_description(hint, described_by.parameters.get(parameter.name, ""))
        if (default := _default(parameter, hint)) is not _EMPTY:
            defaults[parameter.name] = default
    form = _form(hints, defaults)
    schema = _schema(form, hints, name)
    for key, value in defaults.items():
        schema["properties"][key] |= _told_default(value)
    return Arguments(accepted(schema, name), described_by.text, talk, form, defaults)


def _unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that a functools.partial was made of."""
    return _unwrapped(function.func) if isinstance(function, partial) else function


def _default(parameter: inspect.Parameter, hint: Any) -> Any:
    """What is taken for an argument that is left out; `_EMPTY` where it may not be."""
    return None if parameter.default is _EMPTY and _may_be_none(hint) else parameter.default


def _told_default(value: object) -> dict[str, Any]:
    """The default as a schema shows it; nothing where JSON cannot say it."""
    plain = value.value if isinstance(value, Enum) else value
    finite = type(plain) is float and math.isfinite(plain)
    return {"default": plain} if finite or type(plain) in (str, int, bool, type(None)) else {}


def _parameters(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise BadTool(name, "its parameters cannot be read; wrap it in a function with type hints") from None
    for parameter in found:
        if parameter.kind in _STARRED:
            raise BadTool(name, f"a model cannot fill {parameter}; name each parameter, or wrap it in a function")
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise BadTool(name, f"{parameter.name} can be given by its place only; wrap it in a function")
    return found


def _hint(function: Callable[..., Any], parameter: inspect.Parameter, name: str) -> Any:
    """The parameter's hint; as text where it names the conversation's type, which need not be imported."""
    hint = parameter.annotation
    if hint is _EMPTY:
        return Any
    plain = inspect.unwrap(_unwrapped(function))
    known = getattr(plain, "__globals__", None) or vars(sys.modules.get(type(plain).__module__, sys))
    while isinstance(hint, str) and not _is_talk(parameter.name, hint):
        try:
            hint = eval(hint, known)  # what typing.get_type_hints does, for one parameter
        except Exception as problem:  # noqa: BLE001 - a hint is an expression, and may fail as any other
            todo = "define it at the top of the module"
            raise BadTool(name, f"the hint {hint!r} of {parameter.name} means nothing ({problem}); {todo}") from None
    return hint


def _is_talk(name: str, hint: Any) -> bool:
    """Whether a parameter wants the conversation: by its type, or by its name where it has none."""
    if isinstance(hint, str):
        return hint.split("|")[0].strip().rpartition(".")[2] in _TALK
    if hint is Any:
        return name == "talk"
    return any(ToolContext in getattr(kind, "__mro__", ()) for kind in get_args(hint) or (hint,))


def _may_be_none(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return hint is None or type(None) in get_args(hint)


def _with_description(hint: Any, text: str) -> Any:
    """The hint with a description that a schema can show: `Annotated[str, "…"]`, else the docstring's."""
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
        metas = [note for note in notes if isinstance(note, msgspec.Meta)]
        for meta in metas:
            hint = Annotated[hint, meta]
        own = [note for note in notes if isinstance(note, str)]
        text = next(filter(None, (*own, *(meta.description for meta in reversed(metas)), text)), "")
    return Annotated[hint, msgspec.Meta(description=text)] if text else hint


def _form(hints: Mapping[str, Any], defaults: Mapping[str, Any]) -> type[msgspec.Struct]:
    """A struct of the arguments. Absent ones are told apart from every value, so defaults can be anything."""
    absent = msgspec.field(default_factory=lambda: msgspec.UNSET)
    fields = [(key, hint, absent) if key in defaults else (key, hint) for key, hint in hints.items()]
    return msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)


def _schema(form: type[msgspec.Struct], hints: Mapping[str, Any], name: str) -> dict[str, Any]:
    try:
        return written_out(*_components(form))
    except _UNSAYABLE as problem:
        for key, hint in hints.items():
            try:
                _components(hint)
            except _UNSAYABLE as why:
                hint_text = getattr(hint, "__name__", hint)
                raise BadTool(name, f"the hint {hint_text} of {key} cannot be told to a model ({why})") from None
        raise BadTool(name, f"its hints cannot be told to a model ({problem})") from None


def _components(kind: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    (schema,), defined = msgspec.json.schema_components([kind], schema_hook=_schema_of, ref_template="#/$defs/{name}")
    return schema, {"$defs": defined}


def _schema_of(kind: type) -> dict[str, Any]:
    """The schema of types that msgspec does not know: paths and pydantic's models."""
    if kind is Path:
        return {"type": "string"}
    if hasattr(kind, "model_json_schema"):
        whole = kind.model_json_schema()
        return written_out(whole, whole)
    raise NotImplementedError


def _value_of(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    raise NotImplementedError


def _converted(given: dict[str, Any], form: type[msgspec.Struct], *, strict: bool) -> msgspec.Struct:
    try:
        return msgspec.convert(given, form, strict=strict, str_keys=True, dec_hook=_value_of)
    except msgspec.ValidationError:
        raise
    except BaseException as problem:  # a type of the tool's own may raise anything, and may not end the program either
        raise Misfit(f"{type(problem).__name__}: {problem}") from problem


# -- schemas that come from elsewhere ----------------------------------------------------------------------


def check(schema: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raises Misfit where an argument is missing or plainly of the wrong type; the rest is the tool's to say."""
    for name in schema.get("required", ()):
        if name not in given:
            raise Misfit(f"the argument `{name}` is missing")
    properties = schema.get("properties", {})
    closed = properties and schema.get("additionalProperties") is False
    for name, value in given.items():
        if isinstance(said := properties.get(name), Mapping):
            _check_value(name, value, said)
        elif closed and said is None:
            raise Misfit(f"there is no argument `{name}`; there are: {', '.join(properties)}")


def _check_value(name: str, value: object, schema: Mapping[str, Any]) -> None:
    kind, few = schema.get("type"), schema.get("enum")
    if isinstance(kind, str) and not is_of(value, kind):
        raise Misfit(f"the argument `{name}` must be of the type {kind}")
    if isinstance(few, list) and value not in few:
        raise Misfit(f"the argument `{name}` must be one of {few}")


def accepted(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A tool's schema as every provider takes it. Raises BadTool where there is no such form."""
    try:
        found = written_out(schema, schema)
    except RecursionError:
        raise BadTool(name, "its schema is larger than any provider takes") from None
    for choice in ("anyOf", "oneOf", "allOf"):
        found.pop(choice, None)  # refused at the top by some; the tool itself says what does not fit
    found = {"type": "object", "properties": {}} | found
    for key in found["properties"]:
        if not _PROPERTY.fullmatch(key):
            raise BadTool(name, f"its argument {key!r} must be named with a to z, digits, _, . and -, at most 64")
    return found


_SCHEMAS_BY_NAME = ("properties", "patternProperties", "dependentSchemas")
_LISTS_OF_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMAS = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
_LEFT_OUT = ("$ref", "$defs", "definitions", "$schema", "$id", "$anchor", "$comment", "title")


def written_out(schema: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, Any]:
    """A schema without references: each is replaced by what it means, and one to itself by its bare type.

    Raises RecursionError where that would be without end.
    """
    made: dict[str, Any] = _WritingOut(whole).schema(schema, ())
    return made


class _WritingOut:
    """Writes out the schemas within `whole`, and counts the pieces that this makes. `inside`: the references that a
    schema stands in."""

    def __init__(self, whole: Mapping[str, Any]) -> None:
        self._whole, self._pieces = whole, 0

    def schema(self, given: Any, inside: tuple[str, ...]) -> Any:
        self._pieces += 1
        if self._pieces > _LARGEST:
            raise RecursionError
        if not isinstance(given, Mapping):
            return given
        if isinstance(reference := given.get("$ref"), str):
            return self.schema(self._replaced(given, reference, inside), (*inside, reference))
        kept = {key: value for key, value in given.items() if key not in _LEFT_OUT}
        return _mended({key: self._beneath(key, value, inside) for key, value in kept.items()})

    def _replaced(self, given: Mapping[str, Any], reference: str, inside: tuple[str, ...]) -> dict[str, Any]:
        """What a reference means, with what is said beside it."""
        meant = _meant(reference, self._whole)
        if reference in inside:
            meant = {key: value for key, value in meant.items() if key == "type"}
        return {**meant, **{key: value for key, value in given.items() if key != "$ref"}}

    def _beneath(self, key: str, value: Any, inside: tuple[str, ...]) -> Any:
        """What stands under a keyword: schemas by name, a list of them, one, or something else."""
        if key in _SCHEMAS_BY_NAME and isinstance(value, Mapping):
            return {name: self.schema(one, inside) for name, one in value.items()}
        if key in _LISTS_OF_SCHEMAS and isinstance(value, list):
            return [self.schema(one, inside) for one in value]
        return self.schema(value, inside) if key in _SCHEMAS else value


def _meant(reference: str, whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a reference within the schema points at; an empty schema, which allows anything, if it points elsewhere."""
    place: Any = whole if reference.startswith("#") else {}
    for step in reference.partition("#")[2].split("/")[1:]:
        place = place.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(place, Mapping) else None
    return place if isinstance(place, Mapping) else {}


def _mended(schema: dict[str, Any]) -> dict[str, Any]:
    """The same schema, in words that every provider takes."""
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    if schema.get("items") is False:  # beside prefixItems: no more than these
        del schema["items"]
    if isinstance(schema.get("enum"), list) and "type" not in schema:
        schema |= _type_of(schema["enum"])
    if schema.get("default", _EMPTY) is None:
        del schema["default"]
        schema = _without_null(schema)
    return schema


def _type_of(values: list[Any]) -> dict[str, Any]:
    """The type that all of these values have, as a schema says it; nothing where they have several."""
    kinds = {type(value) for value in values}
    return next(({"type": word} for word, types in TYPES.items() if kinds == set(types[:1])), {})


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The same schema without null: where null is the default, leaving the argument out says the same."""
    kinds, choices = schema.get("type"), schema.get("anyOf")
    if isinstance(kinds, list):
        left = [kind for kind in kinds if kind != "null"]
        return {**schema, "type": left[0] if len(left) == 1 else left}
    if isinstance(choices, list):
        left = [one for one in choices if one != {"type": "null"}]
        beside = {key: value for key, value in schema.items() if key != "anyOf"}
        return {**left[0], **beside} if len(left) == 1 else {**beside, "anyOf": left}
    return schema
