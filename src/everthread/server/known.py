"""Callers that were looked up a moment ago, so that a request costs no round trip of its own.

What changes in this process is forgotten at once (`clear`), and what is being looked up at that moment is not kept; of
what changes in another process this one knows after `FRESH` seconds at most.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

FRESH = 5.0  # seconds
MOST = 10_000

T = TypeVar("T")


class _Kept(NamedTuple, Generic[T]):
    value: T
    fresh_until: float
    until: int


class Known(Generic[T]):
    def __init__(self, now: Callable[[], int], *, clock: Callable[[], float] = time.monotonic) -> None:
        """`now`: the store's clock, by which what is known runs out; `clock`: the one by which it grows old."""
        self._now, self._clock = now, clock
        self._kept: dict[Hashable, _Kept[T]] = {}
        self._changes = 0

    async def get(self, key: Hashable, look: Callable[[], Awaitable[tuple[T, int]]]) -> T:
        """What is known under a key; else what is looked up, with the time, by the store's clock, when it runs out."""
        kept = self._kept.get(key)
        if kept and self._clock() < kept.fresh_until and self._now() < kept.until:
            return kept.value
        changes = self._changes
        value, until = await look()
        if changes == self._changes:
            self._kept.pop(key, None)
            self._kept[key] = _Kept(value, self._clock() + FRESH, until)
            if len(self._kept) > MOST:
                del self._kept[next(iter(self._kept))]
        return value

    def clear(self) -> None:
        self._kept.clear()
        self._changes += 1
