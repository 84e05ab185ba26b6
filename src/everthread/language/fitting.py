"""Choosing what fits into a number of tokens, one candidate after another."""

from __future__ import annotations


class Fitting:
    """Takes what still fits. It is full once more than `misses` in a row did not."""

    def __init__(self, tokens: int, *, misses: int) -> None:
        self._left, self._most_misses, self._misses = tokens, misses, 0

    @property
    def is_full(self) -> bool:
        return self._misses > self._most_misses

    def takes(self, cost: int) -> bool:
        if cost > self._left:
            self._misses += 1
            return False
        self._left, self._misses = self._left - cost, 0
        return True
