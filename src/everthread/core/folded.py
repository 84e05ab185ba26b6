"""Turns that were folded before: the next request mostly says the same as the last, and one thing more.

Folding a turn into items is a pure function of its events, so its result may be kept, in memory and for a while.
What is kept is used only when the log gives the very same events again, byte for byte: a redaction shows at
once. Only turns that needed no repair are kept; the others depend on what stands around them.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from everthread.core.items import Items
from everthread.core.logged import Logged
from everthread.core.request import Item

MOST = 8_000_000  # bytes of events, as they are stored


class Kept(NamedTuple):
    events: list[Logged]
    items: list[Item]
    calls: dict[str, str]  # names by their ids
    size: int
    simple: bool  # see `Items`


class Folded:
    def __init__(self, most: int = MOST) -> None:
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._most = most
        self._size = 0
        self.forgotten = 0  # times

    def fold(self, items: Items, events: list[Logged]) -> list[Item]:
        """The items of a turn that is over, folded by `items` unless they are known."""
        if not events:
            return []
        kept = self._kept.get(events[0].id)
        if kept is not None and kept.events == events and items.admit(kept.calls):
            self._kept.move_to_end(events[0].id)
            items.simple = items.simple and kept.simple
            return kept.items.copy()
        repairs, simple = sum(items.repaired.values()), items.simple
        items.simple = True
        made = items.of(events, full=False)
        if items.plain and sum(items.repaired.values()) == repairs:
            calls = {call.id: call.name for call in items.fresh}
            self._keep(Kept(events, made.copy(), calls, sum([len(event.body) for event in events]), items.simple))
        items.simple = items.simple and simple
        return made

    def forget(self) -> None:
        """Everything, at once: somebody asked for something to be gone."""
        self._kept.clear()
        self._size = 0
        self.forgotten += 1

    def _keep(self, kept: Kept) -> None:
        old = self._kept.pop(kept.events[0].id, None)
        self._kept[kept.events[0].id] = kept
        self._size += kept.size - (old.size if old else 0)
        while self._size > self._most:
            _, oldest = self._kept.popitem(last=False)
            self._size -= oldest.size
