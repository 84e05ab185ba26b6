"""What a setting may be: a number between two others, one of a few words, or whatever passes a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

MOST = 1_000_000_000  # whole numbers that every database and every float can hold


class Between(NamedTuple):
    """A number from `least` to `most`; `zero` allows 0 as well, where it means "what is known of the model"."""

    least: float
    most: float = MOST
    zero: bool = False

    def allows(self, value: Any) -> bool:
        return bool(self.least <= value <= self.most or (self.zero and value == 0))

    def words(self, kind: type) -> str:
        number = "a whole number" if kind is int else "a number"
        return f"{'0 or ' if self.zero else ''}{number} from {self.least:,} to {self.most:,}"


class OneOf(NamedTuple):
    """One of a few words; the empty one is shown as `empty`."""

    choices: tuple[str, ...]

    def allows(self, value: Any) -> bool:
        return value in self.choices

    def words(self, _kind: type) -> str:
        *first, last = (choice or "empty" for choice in self.choices)
        return f"{', '.join(first)} or {last}"


class Allowed(NamedTuple):
    """What passes a test; `said` describes it, or gives the description where that may change."""

    said: str | Callable[[], str]
    allows: Callable[[Any], bool]

    def words(self, _kind: type) -> str:
        return self.said if isinstance(self.said, str) else self.said()


def is_object(text: str) -> bool:
    try:
        return not text or isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False


def is_list(text: str) -> bool:
    try:
        return not text or all(msgspec.json.decode(text, type=list[str]))
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return False


def is_place(text: str) -> bool:
    if not text.isprintable():
        return False
    scheme, found, rest = text.partition("://")
    return (scheme == "s3" and bool(rest.strip("/"))) if found else bool(text.strip())
