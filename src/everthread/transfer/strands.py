"""What a data export tells: a tree of messages, as strands that fork from one another.

The first strand follows the first reply to every message. Every other reply (an edit, a regeneration) begins a
strand of its own, which shares what came before it with its parent: the strand that holds the message it
answers. A message that says nothing leaves no trace; whatever answers it answers the one before. Where strands
go from here is left to whoever writes them down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from everthread.core.events import Event
from everthread.errors import BadFormat

Timed = tuple[datetime | None, Event]  # None where the export does not say
MOST = 253_402_300_800_000_000  # microseconds until the end of the year 9999, beyond which there are no dates


class Strand(msgspec.Struct, frozen=True, kw_only=True):
    """`at`: how many events of its parent's line, counted from the very first, come before its own."""

    parent: int | None = None
    at: int = 0
    events: tuple[Timed, ...] = ()


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation of an export; parents come before the strands that fork from them."""

    name: str = ""
    began: datetime | None = None
    strands: tuple[Strand, ...] = (Strand(),)
    current: int = 0


class _Point(NamedTuple):
    """After `at` events, the last of which is stored on `strand`."""

    strand: int
    at: int


class Tree:
    """Strands while they grow, message by message, each after the one that it answers."""

    def __init__(self) -> None:
        self._strands: list[tuple[int | None, int, list[Timed]]] = [(None, 0, [])]
        self._points: dict[str | None, _Point] = {None: _Point(0, 0)}

    def add(self, id: str, after: str | None, events: Sequence[Timed]) -> None:
        strand, at = self._points[after]
        if events:
            _, shared, own = self._strands[strand]
            if shared + len(own) != at:  # it has a reply already
                strand, own = len(self._strands), []
                self._strands.append((self._points[after].strand, at, own))
            own.extend(events)
        self._points[id] = _Point(strand, at + len(events))

    def holding(self, id: str) -> int:
        """The strand of a message."""
        return self._points[id].strand

    def newest(self) -> int:
        """The strand of the newest message; the first where no times are known."""
        newest = [max((time for time, _ in own if time is not None), default=-1) for _, _, own in self._strands]
        return newest.index(max(newest))

    def strands(self) -> tuple[Strand, ...]:
        return tuple(Strand(parent=parent, at=at, events=tuple(own)) for parent, at, own in self._strands)


def ordered(parents: Mapping[str, str | None], where: Callable[[str], str]) -> list[tuple[str, str | None]]:
    """Ids with their parents, parents first and siblings as they are given; `where` is the place of an id's parent.

    A parent that is not there is an error, because what it said would be lost. Where every message has a parent and
    only one parent is missing, that one is how the export writes the beginning.
    """
    below = _children(parents, where)
    found: list[tuple[str, str | None]] = []
    todo: list[tuple[str, str | None]] = [(id, None) for id in reversed(below.get(None, []))]
    while todo:
        id, parent = todo.pop()
        found.append((id, parent))
        todo += [(child, id) for child in reversed(below.get(id, []))]
    reached = dict(found)
    for id in parents:
        if id not in reached:
            raise BadFormat("found parents that lead round in a circle", where=where(id))
    return found


def _children(parents: Mapping[str, str | None], where: Callable[[str], str]) -> dict[str | None, list[str]]:
    """The ids by their parent; None is the parent of those at the beginning."""
    absent = set(parents.values()) - parents.keys()  # with None, where a message has no parent
    beginning = next(iter(absent)) if len(absent) == 1 else None
    below: dict[str | None, list[str]] = {}
    for id, parent in parents.items():
        if parent in absent and parent != beginning:
            raise BadFormat(f"found the parent {parent!r}, which is not there", where=where(id))
        below.setdefault(None if parent == beginning else parent, []).append(id)
    return below
