"""The last window that was read of each branch, so that the next context reads only what is new.

An event is never changed, so a window stays true until something of its conversation is redacted. Whoever redacts or
erases in this process drops all windows, and one that was being read meanwhile is not kept. A redaction by another
process shows in the conversation's count of redactions, which is read before a window is used again. When the windows
together take more than `MOST`, those that were read longest ago are dropped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from everthread.core.branches import Line
from everthread.core.logged import Logged
from everthread.store.scripts.outlook import LastRead

MOST = 8_000_000  # bytes of events, as they are stored


class Windows:
    """The last windows of all branches, of at most `most` bytes together."""

    def __init__(self, most: int = MOST) -> None:
        self._read: OrderedDict[tuple[str, str, int], LastRead] = OrderedDict()
        self._most, self._size = most, 0
        self.forgets = 0  # how often all of them were forgotten

    def of(self, line: Line) -> LastRead | None:
        """What was read last of a branch."""
        return self._read.get(_key(line))

    def keep(self, line: Line, read: LastRead) -> None:
        """Keep a window in place of the one before, and drop those that were read longest ago."""
        self._drop(_key(line))
        size = _size([*read.outlook.opening, *read.messages, *read.beside.markers])
        self._read[_key(line)] = read = read._replace(size=size)
        self._size += read.size
        while self._size > self._most:
            self._drop(next(iter(self._read)))

    @contextmanager
    def forgotten(self) -> Iterator[None]:
        """Forget everything, before something is taken out of the log and after it: a window that is read meanwhile may
        still have it."""
        self.forget()
        try:
            yield
        finally:
            self.forget()

    def forget(self) -> None:
        self._read.clear()
        self._size = 0
        self.forgets += 1

    def _drop(self, key: tuple[str, str, int]) -> None:
        if (old := self._read.pop(key, None)) is not None:
            self._size -= old.size


def _key(line: Line) -> tuple[str, str, int]:
    return line.tenant, line.conversation, line.branch.number


def _size(messages: list[Logged]) -> int:
    return sum([len(event.body) for event in messages])
