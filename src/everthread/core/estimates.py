"""What a model makes of sizes: its own count where an encoding is exact, else a factor on the canonical size.

The canonical size of an event is in the log already, so an estimate adds up numbers and counts only what is
not from the log. Two measures look at the texts themselves: an older encoding of OpenAI's, and four bytes a
token where nothing is known of the model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import msgspec

from everthread.core.logged import Logged
from everthread.core.tokens import Counter, count, four_bytes, sizes

__all__ = ["Measure", "Uncountable", "cl100k", "counted", "counting", "four_bytes", "rounded", "uncounted"]

TWENTIETHS = 20  # a factor is rounded up to twentieths, so that a slightly better one changes nothing


class Uncountable(Exception):
    """A text could not be counted, not even at four bytes a token."""


def rounded(factor: float) -> float:
    """A factor rounded up to a twentieth."""
    return math.ceil(round(factor * TWENTIETHS, 6)) / TWENTIETHS


def uncounted(text: str) -> int:
    """The counter for a request that is built although nothing can be counted."""
    return 0


def cl100k(text: str) -> int:
    return count(text, "cl100k")


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """`factor` is on canonical sizes. `counter`: count the texts themselves instead, for this measure alone; `own`: it
    is the application's."""

    factor: float = 1.0
    exact: bool = False
    counter: Counter | None = None
    own: bool = False

    def tokens(self, canonical: int) -> int:
        """The estimate for a canonical size, or for a size that was counted by this measure."""
        return canonical if self.counter else math.ceil(canonical * self.factor - 1e-9)

    def text(self, text: str) -> int:
        """The size of a text that is not from the log, to be added to the sizes of events."""
        return counted(text, self.counter)

    def event(self, logged: Logged, *, full: bool) -> int:
        """The size of an event as it is sent, before the factor."""
        if self.counter is None:
            return logged.tokens if full else logged.settled
        with counting():
            whole, settled = sizes(logged.event, self.counter)
        return whole if full or logged.settled == logged.tokens else settled

    def anew(self, text: str) -> int:
        """As `text`, without keeping the result."""
        with counting():
            return (self.counter or count)(text)


@lru_cache(maxsize=512)
def counted(text: str, counter: Counter | None) -> int:
    """The size of a text, kept because instructions and notes come again with every request."""
    with counting():
        return (counter or count)(text)


@contextmanager
def counting() -> Iterator[None]:
    """Raise whatever fails inside as Uncountable."""
    try:
        yield
    except Exception as problem:
        raise Uncountable(f"{type(problem).__name__}: {problem}") from problem
