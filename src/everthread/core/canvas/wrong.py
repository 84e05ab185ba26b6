"""What is wrong with a change of the canvas, and what would be right in its place: the values that are allowed there,
or the fields that there are."""

from __future__ import annotations

import re
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

_STEP = re.compile(r"\.(\w+)|\[[^\]]*\]")


def wrong(wanted: Any, form: object, problem: msgspec.ValidationError) -> str:
    """The problem that was found with a form of a type, and what is allowed where it was found."""
    said, _, path = str(problem).partition(" - at `$")
    for step in _STEP.finditer(path):
        name = step[1] or ""
        if name and name == _tag_field(wanted):
            break  # the path leads to what says of which kind it is
        wanted, form = _inside(wanted, form, name)
    right = _right(wanted, form)
    where = f" at {path.strip('`.')}" if path else ""
    return f"{said}{where}; {right}" if right else f"{said}{where}"


def _inside(wanted: Any, form: object, name: str) -> tuple[Any, object]:
    """The type of a field, or of the items of a list; and what the form has there, where that can be told."""
    if not name:
        return next((one for one in get_args(wanted) if one is not Ellipsis), None), None
    kinds = [field.type for cls in _meant(wanted, form) for field in msgspec.structs.fields(cls) if field.name == name]
    return next(iter(kinds), None), form.get(name) if isinstance(form, dict) else None


def _right(wanted: Any, form: object) -> str:
    if get_origin(wanted) is Literal:
        return f"it is one of {', '.join(map(repr, get_args(wanted)))}"
    meant = _meant(wanted, form)
    if len(meant) == 1:
        return f"its fields are {', '.join(field.name for field in msgspec.structs.fields(meant[0]))}"
    return f"{_tag_field(wanted)} is one of {', '.join(repr(_tag(cls)) for cls in meant)}" if meant else ""


def _meant(wanted: Any, form: object) -> list[Any]:
    """The structs that the form may be one of: the one of which it says it is, else all of them."""
    classes = _structs(wanted)
    says = form.get(_tag_field(wanted)) if isinstance(form, dict) else None
    return [cls for cls in classes if _tag(cls) == says] or classes


def _structs(wanted: Any) -> list[Any]:
    several = get_args(wanted) if get_origin(wanted) in (Union, UnionType) else (wanted,)
    return [one for one in several if isinstance(one, type) and issubclass(one, msgspec.Struct)]


def _tag_field(wanted: Any) -> str:
    """The name under which a form says of which kind it is."""
    return next((cls.__struct_config__.tag_field or "" for cls in _structs(wanted)), "")


def _tag(cls: Any) -> object:
    return cls.__struct_config__.tag
