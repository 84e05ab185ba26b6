"""The state of the canvas, folded from the events that changed it. The page folds the same events in the same way:
`canvas-vectors.json` says what must come out.

A fold never fails. A change that fits nothing (a box that is gone, an element of another type by now) changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from everthread.core.canvas.changes import Change, Fill, Mode, Put, Remove, Tick, Update
from everthread.core.canvas.elements import Element, Form, List, changed
from everthread.core.events.kinds import dump
from everthread.core.values import Value, stored_form
from everthread.errors import BadValue


class Shown(msgspec.Struct, Value, frozen=True):
    """An element on the canvas. `made` and `changed`: the seqs of the events that put it there and changed it last.
    `by`: who changed it, empty for the agent."""

    element: Element
    made: int = 0
    changed: int = 0
    by: str = ""


class Canvas(msgspec.Struct, Value, frozen=True):
    """What is on the canvas, in its order, and how much of the screen it has: chat, split or full."""

    shown: tuple[Shown, ...] = ()
    mode: str = "chat"

    def __bool__(self) -> bool:
        return bool(self.shown)

    def find(self, id: str) -> Shown | None:
        return next((one for one in self.shown if one.element.id == id), None)

    @property
    def elements(self) -> tuple[Element, ...]:
        return tuple([one.element for one in self.shown])


EMPTY = Canvas()


def encode(canvas: Canvas) -> bytes:
    """As it is kept beside the log."""
    return dump(stored_form(canvas)).encode("utf-8", "surrogatepass")


def decode(body: bytes) -> Canvas:
    found: Canvas = msgspec.convert(json.loads(body.decode("utf-8", "surrogatepass")), Canvas)
    return found


def fold(canvas: Canvas, changes: Iterable[Change], *, seq: int = 0, by: str = "") -> Canvas:
    """The canvas after these changes, which event `seq` holds."""
    for change in changes:
        canvas = _after(canvas, change, seq, by)
    return canvas


def _after(canvas: Canvas, change: Change, seq: int, by: str) -> Canvas:
    match change:
        case Put():
            return _with(canvas, change, seq, by)
        case Update(id=id) | Tick(id=id) | Fill(id=id):
            return _replaced(canvas, id, change, seq, by)
        case Remove(id=id):
            return msgspec.structs.replace(canvas, shown=tuple([one for one in canvas.shown if one.element.id != id]))
        case Mode(mode="clear"):
            return EMPTY
        case Mode(mode=mode):
            return msgspec.structs.replace(canvas, mode=mode)


def _with(canvas: Canvas, put: Put, seq: int, by: str) -> Canvas:
    """With an element, in the place that it has or is given."""
    shown, new = list(canvas.shown), Shown(put.element, seq, seq, by)
    ids = [one.element.id for one in shown]
    if new.element.id in ids:
        place = ids.index(new.element.id)
        shown[place] = msgspec.structs.replace(new, made=shown[place].made)
    else:
        shown.insert(ids.index(put.before) if put.before in ids else len(shown), new)
    return msgspec.structs.replace(canvas, shown=tuple(shown))


def _replaced(canvas: Canvas, id: str, change: Update | Tick | Fill, seq: int, by: str) -> Canvas:
    """With another element in the place of the one that is meant."""
    before = canvas.find(id)
    after = _changed(before.element, change) if before else None
    if before is None or after is None or after == before.element:
        return canvas
    now = Shown(after, before.made, seq, by)
    return msgspec.structs.replace(canvas, shown=tuple([now if one is before else one for one in canvas.shown]))


def _changed(element: Element, change: Update | Tick | Fill) -> Element | None:
    """The element after a change; None where it does not fit."""
    match element, change:
        case _, Update(type=type, fields=fields) if element.__struct_config__.tag == type:
            try:
                return changed(element, fields)
            except BadValue:
                return None
        case List(), Tick(item=item, done=done) if item in element.ids:
            items, place = list(element.items), element.ids.index(item)
            items[place] = msgspec.structs.replace(items[place], done=done)
            return msgspec.structs.replace(element, items=tuple(items))
        case Form(), Fill(values=values):
            return msgspec.structs.replace(element, fields=tuple([_filled(one, values) for one in element.fields]))
        case _:
            return None


def _filled(field: Any, values: dict[str, Any]) -> Any:
    return msgspec.structs.replace(field, value=values[field.name]) if field.name in values else field
