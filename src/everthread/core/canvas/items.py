"""Ids of the items of a list. Whoever writes gives one to each item that has none, so that a tick means the same item
for ever: by its number it would mean another one as soon as the list was replaced, or what replaced it was redacted.

An id says nothing of its item: a tick repeats it, and must not repeat what the list says. An item that a new list has
in common with the one before, by its text, keeps its id.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from everthread.core.canvas.changes import Change, Put, Tick, Update
from everthread.core.canvas.elements import List
from everthread.core.canvas.fold import Canvas, fold

MakeId = Callable[[], str]


def with_ids(canvas: Canvas, changes: Sequence[Change], make: MakeId) -> list[Change]:
    """The changes as they are written: with an id for each item of a list, and ticks by these. `make`: a new id."""
    done: list[Change] = []
    for change in changes:
        done.append(_with_ids(canvas, change, make))
        canvas = fold(canvas, done[-1:])
    return done


def _with_ids(canvas: Canvas, change: Change, make: MakeId) -> Change:
    match change:
        case Put(element=List() as new):
            names = _names(_there(canvas, new.id), [(one.text, one.id) for one in new.items], make)
            items = [msgspec.structs.replace(one, id=id) for one, id in zip(new.items, names, strict=True)]
            return msgspec.structs.replace(change, element=msgspec.structs.replace(new, items=tuple(items)))
        case Update(id=id, type="list", fields={"items": list() as given}) if all(map(_is_item, given)):
            names = _names(_there(canvas, id), [(one["text"], one.get("id", "")) for one in given], make)
            plain = [{**one, "id": name} for one, name in zip(given, names, strict=True)]
            return msgspec.structs.replace(change, fields={**change.fields, "items": plain})
        case Tick(id=id, item=item) if (found := _there(canvas, id)) and item not in found.ids:
            return msgspec.structs.replace(change, item=_by_number(found, item))
        case _:
            return change


def _there(canvas: Canvas, id: str) -> List | None:
    shown = canvas.find(id)
    return shown.element if shown and isinstance(shown.element, List) else None


def _names(before: List | None, items: Sequence[tuple[str, str]], make: MakeId) -> list[str]:
    """An id for each item, of which text and id are given: its own, that of the item before with its text, or a new
    one."""
    taken = {id for _, id in items if id}
    left = list(zip(before.ids, before.items, strict=True)) if before else []
    left = [(id, one) for id, one in left if id not in taken]
    names: list[str] = []
    for text, id in items:
        same = next(((known, one) for known, one in left if one.text == text and not id), None)
        if same:
            left.remove(same)
        names.append(id or (same[0] if same else _new(taken, make)))
        taken.add(names[-1])
    return names


def _new(taken: set[str], make: MakeId) -> str:
    while (id := make()) in taken:
        pass
    return id


def _is_item(given: Any) -> bool:
    return isinstance(given, dict) and isinstance(given.get("text"), str) and isinstance(given.get("id", ""), str)


def _by_number(found: List, item: str) -> str:
    """The id of the item that stands in a place of the list; what was given where there is none."""
    place = int(item) if item.isascii() and item.isdecimal() and len(item) < 10 else 0
    return found.ids[place - 1] if 0 < place <= len(found.items) else item
