"""Values: what the verbs return. Each has one form as plain data, which any JSON library can write, and comes back from
it equal to what it was. The forms are described in docs/howto/json.md; people reach them through `everthread.wire`.

A form is an object with the names of the value's fields. Times are ISO 8601 in UTC, ending in Z; bytes are base64; what
is one of several kinds says which, under `kind` (parts of messages: `type`). Reading passes over keys that it does not
know: a newer Everthread may have written them.

JSON that others can read holds no lone surrogates, but what people say may. Such a value is written with U+FFFD in
their place, and beside that, under `wtf8`, its exact form: base64 of the same object as JSON in UTF-8 that admits them.

FastAPI and Pydantic find the hooks of `Value` by themselves; nothing of theirs is imported before they ask.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Hashable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, overload

import msgspec

from everthread.errors import BadValue

T = TypeVar("T")

EXACT = "wtf8"


class Value:
    """A mixin for frozen structs: what has a form, by default an object with the names of the fields.

    `dict(value)` is that form, too: what FastAPI asks of the result of a handler that has no return type.
    """

    __slots__ = ()

    def _form(self) -> dict[str, Any]:
        return form_of(self)

    @classmethod
    def _of_form(cls, form: dict[str, Any]) -> Any:
        return struct_of(cls, form)

    @classmethod
    def _fits(cls, form: dict[str, Any]) -> bool:
        """Whether this is a form of this class, among those of a union."""
        field, tag = _tag_of(cls)
        return not field or form.get(field) == tag

    @classmethod
    def _schema(cls) -> dict[str, Any]:
        from everthread.core.value_schemas import object_schema

        return object_schema(cls)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(plain(self).items())

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core import core_schema

        def checked(given: Any) -> Any:
            try:
                return given if isinstance(given, cls) else read(cls, given)
            except BadValue as problem:
                raise ValueError(str(problem)) from None

        named = f"{cls.__module__}.{cls.__qualname__}:{id(cls)}"  # as Pydantic names its own: it stands there once
        return core_schema.no_info_plain_validator_function(checked, ref=named, serialization=_written())

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Callable[[Any], Any]) -> dict[str, Any]:
        return cls._schema()

    @property
    def __pydantic_serializer__(self) -> Any:
        """What Pydantic asks a value that stands where it expected nothing in particular (`dict[str, Any]`)."""
        return _serializer()


class Family:
    """Beside a union of values, as in `Annotated[Mark | Pin, Family("an event")]`: what one of them is called. To
    Pydantic they are one thing, so that what is wrong with a form is told once, and not once for each of them."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core import core_schema

        def checked(given: Any, _: Any) -> Any:
            try:
                return given if isinstance(given, source) else read(Annotated[source, self], given)
            except BadValue as problem:
                raise ValueError(str(problem)) from None

        return core_schema.no_info_wrap_validator_function(checked, handler(source), serialization=_written())


def _written() -> Any:
    from pydantic_core import core_schema

    return core_schema.plain_serializer_function_ser_schema(plain, when_used="json")


@cache
def _serializer() -> Any:
    from pydantic_core import SchemaSerializer, core_schema

    return SchemaSerializer(core_schema.any_schema(serialization=_written()))


# -- to plain data -----------------------------------------------------------------------------------------


def plain(value: object) -> Any:
    """The form of a value, or of a list or dict of values: dicts, lists, texts, numbers, True, False, None."""
    match value:
        case Value():
            return _sayable(value._form())
        case Mapping():
            return {_key(key): plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case _:
            return inner_form(value)


def form_of(struct: Any) -> dict[str, Any]:
    """All fields of a struct by their names, after its tag."""
    field, tag = _tag_of(type(struct))
    fields = {name: inner_form(getattr(struct, name)) for name in struct.__struct_fields__}
    return {field: tag, **fields} if field else fields


def stored_form(struct: msgspec.Struct) -> dict[str, Any]:
    """A struct as it is stored: without the fields that are as they would be anyway."""
    form: dict[str, Any] = inner_form(msgspec.to_builtins(struct))
    return form


def _tag_of(cls: Any) -> tuple[str, Any]:
    """The name under which a struct says of which kind it is, and that kind; nothing where it does not."""
    config = cls.__struct_config__
    return ("", None) if config.tag is None else (config.tag_field, config.tag)


def inner_form(value: object) -> Any:
    """The form of what stands inside a value."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case datetime():
            return iso(value)
        case bytes():
            return base64.b64encode(value).decode()
        case Value():
            return value._form()
        case msgspec.Struct():
            return form_of(value)
        case Mapping():
            return {_key(key): inner_form(one) for key, one in value.items()}
        case list() | tuple() | set() | frozenset():
            return [inner_form(one) for one in value]
        case _:
            raise BadValue("the value", value, "one that a verb returns; of a talk, its `conversation`")


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC, ending in Z."""
    return moment.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def _key(key: object) -> str:
    return key if isinstance(key, str) else str(key)


def _sayable(form: dict[str, Any]) -> dict[str, Any]:
    """The form as every JSON library can write it."""
    if EXACT not in form and _is_sayable(form):
        return form
    exact = json.dumps(form, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return {**_readable(form), EXACT: base64.b64encode(exact).decode()}


def _is_sayable(form: dict[str, Any]) -> bool:
    try:
        msgspec.json.encode(form)
    except UnicodeEncodeError:
        return False
    except OverflowError:  # a whole number of more than 64 bits: right rather than fast
        return not any(map("\ud800".__le__, json.dumps(form, ensure_ascii=False)))
    return True


def _readable(data: Any) -> Any:
    match data:
        case str():
            return data.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case dict():
            return {_readable(key): _readable(one) for key, one in data.items()}
        case list():
            return [_readable(one) for one in data]
        case _:
            return data


# -- and back ----------------------------------------------------------------------------------------------


@overload
def read(wanted: type[T], form: object) -> T: ...
@overload
def read(wanted: Any, form: object) -> Any: ...
def read(wanted: Any, form: object) -> Any:
    """The value of which this is the form. `wanted`: its class, a union of classes, a list or dict of them."""
    try:
        return _read(wanted, form, outermost=True)
    except (ValueError, TypeError, KeyError, RecursionError) as problem:  # those of msgspec and base64 are ValueErrors
        why = f"{problem} is missing" if isinstance(problem, KeyError) else problem
        raise BadValue(f"the form of {_called(wanted, form)}", form, f"as everthread.wire writes it ({why})") from None


def _called(wanted: Any, form: object) -> str:
    """What an error calls something that could not be read."""
    for one in getattr(wanted, "__metadata__", ()):
        if isinstance(one, Family):
            kind = form.get("kind") if isinstance(form, dict) else None
            return one.name if kind is None else f"{one.name} of the kind {kind!r:.80}"
    return wanted.__name__ if isinstance(wanted, type) else str(wanted)


def inside(wanted: Any, form: object) -> Any:
    """What stands inside a value, from its form."""
    return _read(wanted, form, outermost=False)


def struct_of(cls: type[T], form: object) -> T:
    """A struct from its fields by name."""
    if not isinstance(form, dict):
        return msgspec.convert(form, cls)
    types, needed = _fields(cast("Hashable", cls))
    if missing := [name for name in needed if name not in form]:
        raise ValueError(f"{missing[0]!r} is missing")
    return cls(**{name: inside(wanted, form[name]) for name, wanted in types.items() if name in form})


@cache
def _fields(cls: Any) -> tuple[dict[str, Any], list[str]]:
    """The types of a struct's fields by name, and which of them it cannot do without."""
    fields = msgspec.structs.fields(cls)
    types = {field.name: Any if isinstance(field.type, TypeVar) else field.type for field in fields}
    return types, [field.name for field in fields if field.required]


def _read(wanted: Any, form: Any, *, outermost: bool) -> Any:
    origin, given = get_origin(wanted), get_args(wanted)
    if origin is Annotated:
        return _read(given[0], form, outermost=outermost)
    if origin in (Union, UnionType):
        return _one_of(given, form, outermost=outermost)
    if origin in (list, tuple) and isinstance(form, list):
        return origin(_read(given[0], one, outermost=outermost) for one in form)
    if origin is dict and isinstance(form, dict):
        return {key: _read(given[1], one, outermost=outermost) for key, one in form.items()}
    if _is(wanted, Value):
        return _formed((wanted,), form, outermost=outermost)
    return struct_of(wanted, form) if _is(wanted, msgspec.Struct) else msgspec.convert(form, wanted)


def _one_of(types: tuple[Any, ...], form: Any, *, outermost: bool) -> Any:
    classes = tuple(one for one in types if _is(one, Value))
    if classes and not (form is None and NoneType in types):
        return _formed(classes, form, outermost=outermost)
    return msgspec.convert(form, Union[types])  # noqa: UP007 — the types are known only here


def _formed(classes: tuple[Any, ...], form: Any, *, outermost: bool) -> Any:
    if not isinstance(form, dict):
        raise TypeError(f"{type(form).__name__} in place of an object")
    if outermost and isinstance(form.get(EXACT), str):
        form = _exact(form)
    for cls in classes:
        if cls._fits(form):
            return cls._of_form(form)
    raise ValueError(f"there is none of the kind {form.get('kind', form.get('type'))!r}")


def _exact(form: dict[str, Any]) -> Any:
    """The exact form. What can be read beside it must say the same: somebody may have taken something out there."""
    exact = json.loads(base64.b64decode(form[EXACT], validate=True).decode("utf-8", "surrogatepass"))
    told = _readable(exact)
    if not isinstance(told, dict) or any(form.get(name) != told[name] for name in told if name != EXACT):
        raise ValueError(f"`{EXACT}` says something else than what stands beside it")
    return exact


def _is(wanted: Any, base: type) -> bool:
    return isinstance(wanted, type) and issubclass(wanted, base)
