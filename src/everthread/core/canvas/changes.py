"""Changes of the canvas, as an event holds them: a list of JSON objects, each of which says under `do` what it does.

An agent puts, updates and removes elements and sets the mode. What a user does on the canvas is a change as well: a box
is ticked, a form filled in, an element closed. Each says as little as it can (one box, not the whole list), so that
two who change the canvas at the same time do not undo each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from everthread.core.canvas.elements import Cell, Element
from everthread.core.canvas.wrong import wrong
from everthread.core.values import Value, stored_form
from everthread.errors import BadValue

ModeName = Literal["chat", "split", "full", "clear"]


class _Change(
    msgspec.Struct, Value, frozen=True, kw_only=True, tag_field="do", omit_defaults=True, forbid_unknown_fields=True
):
    def _form(self) -> dict[str, Any]:
        return stored_form(self)


class Put(_Change, tag="put", frozen=True, kw_only=True):
    """Shows an element, in the place of the one with the same id, if there is one. `before`: the id of the element that
    a new one stands before; it stands last where there is none."""

    element: Element
    before: str = ""


class Update(_Change, tag="update", frozen=True, kw_only=True):
    """Sets some fields of an element, if it is still of this type."""

    id: str
    type: str
    fields: dict[str, Any]


class Remove(_Change, tag="remove", frozen=True, kw_only=True):
    id: str


class Mode(_Change, tag="mode", frozen=True, kw_only=True):
    """How much of the screen it has. `clear` empties it, and leaves the screen to the talk."""

    mode: ModeName


class Tick(_Change, tag="tick", frozen=True, kw_only=True):
    """Ticks an item of a list, or takes the tick away. `item`: its id; or its number in the list as it is now, which
    is written down as its id."""

    id: str
    item: str
    done: bool = True


class Fill(_Change, tag="fill", frozen=True, kw_only=True):
    """Fills in fields of a form, by their names."""

    id: str
    values: dict[str, Cell]


Change = Put | Update | Remove | Mode | Tick | Fill


def change_of(given: object) -> Change:
    """A change; an element is one that puts it there. From plain JSON as well. BadValue: it is none."""
    if isinstance(given, Change):
        return given
    if isinstance(given, Element):
        return Put(element=given)
    try:
        found: Change = msgspec.convert(given, Change)
    except msgspec.ValidationError as problem:
        raise BadValue("change", given, f"a change of the canvas ({wrong(Change, given, problem)})") from None
    return found


def read_changes(stored: object) -> list[Change]:
    """The changes that an event holds. What is none, or was written by a later version, is passed over."""
    found: list[Change] = []
    for one in stored if isinstance(stored, Sequence) and not isinstance(stored, str) else ():
        try:
            found.append(msgspec.convert(one, Change))
        except (msgspec.ValidationError, BadValue):
            continue
    return found
