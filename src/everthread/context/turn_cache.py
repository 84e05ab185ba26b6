"""Turns that were folded before: the next request mostly says the same as the last, and one thing more.

Folding a turn into items is a pure function of its events, so its result may be kept, in memory and for a while.
What is kept is used only when the log gives the very same events again, byte for byte: a redaction shows at
once. Only turns that needed no repair, and nothing put in, are kept; the others depend on what stands around them.
With them are kept the texts of memory as they were last told: a brief stays the same from step to step.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from everthread.context.items import Items
from everthread.core.logged import Logged
from everthread.core.request import Item, Ways

MOST = 8_000_000  # bytes of events, as they are stored
TOLD = 64  # texts of memory

Name = tuple[str, Ways]


class CachedTurn(NamedTuple):
    events: list[Logged]
    items: list[Item]
    calls: dict[str, str]  # names by their ids
    size: int
    simple: bool  # see `Items`


class TurnCache:
    def __init__(self, most: int = MOST) -> None:
        self._kept: OrderedDict[Name, CachedTurn] = OrderedDict()
        self._most = most
        self._size = 0
        self._told: OrderedDict[tuple[Any, ...], str] = OrderedDict()
        self.forgotten = 0  # times

    def fold(self, items: Items, events: list[Logged]) -> list[Item]:
        """The items of a turn that is over, folded by `items` unless they are known."""
        if not events:
            return []
        name = events[0].id, items.ways
        kept = self._kept.get(name)
        if kept is not None and kept.events == events and items.admit(kept.calls):
            self._kept.move_to_end(name)
            items.simple = items.simple and kept.simple
            return kept.items.copy()
        repairs, added, simple = sum(items.repaired.values()), items.added, items.simple
        items.simple = True
        made = items.of(events, full=False)
        if items.plain and sum(items.repaired.values()) == repairs and items.added == added:
            calls = {call.id: call.name for call in items.fresh}
            size = sum([len(event.body) for event in events])
            self._keep(name, CachedTurn(events, made.copy(), calls, size, items.simple))
        items.simple = items.simple and simple
        return made

    def told(self, tell: Callable[..., str], *given: Any) -> str:
        """What `tell`, a pure function, makes of what it is given, unless that is known."""
        if (known := self._told.get(given)) is not None:
            self._told.move_to_end(given)
            return known
        self._told[given] = made = tell(*given)
        if len(self._told) > TOLD:
            self._told.popitem(last=False)
        return made

    def forget(self) -> None:
        """Everything, at once: somebody asked for something to be gone."""
        self._kept.clear()
        self._told.clear()
        self._size = 0
        self.forgotten += 1

    def _keep(self, name: Name, kept: CachedTurn) -> None:
        old = self._kept.pop(name, None)
        self._kept[name] = kept
        self._size += kept.size - (old.size if old else 0)
        while self._size > self._most:
            _, oldest = self._kept.popitem(last=False)
            self._size -= oldest.size
