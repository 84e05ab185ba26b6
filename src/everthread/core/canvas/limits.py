"""How much the canvas may hold. Whoever would put more on it is told what to do instead, and nothing is changed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from difflib import get_close_matches

from everthread.core.canvas.changes import Change, Fill, Mode, Put, Remove, Tick, Update
from everthread.core.canvas.elements import Cell, Element, Field, Form, List, changed
from everthread.core.canvas.fold import Canvas, fold
from everthread.core.events.kinds import dump
from everthread.core.values import stored_form
from everthread.errors import BadValue

ELEMENTS_MOST = 40
ELEMENT_BYTES = 65_536
CANVAS_BYTES = 524_288
ID_MOST = 64


def checked(canvas: Canvas, changes: Sequence[Change]) -> Canvas:
    """The canvas after these changes. BadValue: one of them cannot be made, so none of them is. One that is too full
    already, because an event that emptied it was redacted, may become less so."""
    before = canvas
    for change in changes:
        _check(canvas, change)
        canvas = fold(canvas, [change])
    if max(ELEMENTS_MOST, len(before.shown)) < len(canvas.shown):
        expected = f"at most {ELEMENTS_MOST} elements: remove some that are no longer needed, or change one"
        raise BadValue("canvas", f"{len(canvas.shown)} elements", expected)
    if (size := _whole(canvas)) > CANVAS_BYTES and size > _whole(before):
        raise BadValue("canvas", f"{size:,} bytes", f"at most {CANVAS_BYTES:,} bytes: remove or shorten elements")
    return canvas


def _check(canvas: Canvas, change: Change) -> None:
    match change:
        case Put(element=element):
            _check_element(element)
        case Update(id=id, type=type, fields=fields):
            element = _there(canvas, id)
            if element.__struct_config__.tag != type:
                raise BadValue("type", type, f"{element.__struct_config__.tag}, which the element {id!r} is")
            _check_element(changed(element, fields))
        case Remove(id=id):
            _there(canvas, id)
        case Tick(id=id, item=item):
            _check_tick(_there(canvas, id), item)
        case Fill(id=id, values=values):
            _check_fill(_there(canvas, id), values)
        case Mode():
            pass


def _check_element(element: Element) -> None:
    if not element.id or len(element.id) > ID_MOST or not element.id.isprintable() or "`" in element.id:
        raise BadValue("id", element.id, f"1 to {ID_MOST} characters that can be printed, without `")
    if (size := _size(element)) > ELEMENT_BYTES:
        raise BadValue("element", f"{size:,} bytes", f"at most {ELEMENT_BYTES:,} bytes: shorten it, or split it in two")


def _there(canvas: Canvas, id: str) -> Element:
    if (found := canvas.find(id)) is not None:
        return found.element
    ids = [one.element.id for one in canvas.shown]
    raise BadValue("id", id, f"that of an element on the canvas ({_named(id, ids)})")


def _check_tick(element: Element, item: str) -> None:
    if not isinstance(element, List) or not element.boxes:
        raise BadValue("id", element.id, "that of a list with boxes")
    if item not in element.ids:
        raise BadValue("item", item, f"one of the list's items ({_named(item, element.ids)})")


def _check_fill(element: Element, values: dict[str, Cell]) -> None:
    if not isinstance(element, Form):
        raise BadValue("id", element.id, "that of a form")
    fields = {field.name: field for field in element.fields}
    for name, value in values.items():
        if name not in fields:
            raise BadValue("field", name, f"one of the form's fields ({_named(name, [*fields])})")
        if value is not None:
            _check_value(fields[name], value)


def _check_value(field: Field, value: Cell) -> None:
    """Whether a value fits its field."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match field.kind:
        case "choice" if field.choices and value not in field.choices:
            raise BadValue(field.name, value, f"one of {', '.join(map(repr, field.choices[:12]))}")
        case "number" if not number:
            raise BadValue(field.name, value, "a number")
        case "check" if not isinstance(value, bool):
            raise BadValue(field.name, value, "true or false")
        case "date" if not _is_date(value):
            raise BadValue(field.name, value, "a date, such as 2027-05-03")
        case "text" | "long" if not isinstance(value, str):
            raise BadValue(field.name, value, "text")


def _is_date(value: Cell) -> bool:
    try:
        return isinstance(value, str) and bool(date.fromisoformat(value))
    except ValueError:
        return False


def _named(given: str, there: list[str]) -> str:
    if not there:
        return "there is none"
    near = get_close_matches(given, there, n=1)
    return f"did you mean {near[0]!r}?" if near else ", ".join(map(repr, there[:12]))


def _size(element: Element) -> int:
    return len(dump(stored_form(element)).encode("utf-8", "surrogatepass"))


def _whole(canvas: Canvas) -> int:
    return sum(map(_size, canvas.elements))
