"""Identifiers that sort by time: ULIDs, 26 letters and digits.

48 bits of milliseconds, then 80 of chance. Along a branch they strictly increase even when the clock stands
still or runs backwards: where a fresh id would not be larger than the one before it, a step of chance is added
to that one. So two writers never arrive at the same id, whatever their clocks say.
"""

from __future__ import annotations

import re

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(a + b for a in _DIGITS for b in _DIGITS)
_TO_PYTHON = str.maketrans(_DIGITS, "0123456789ABCDEFGHIJKLMNOPQRSTUV")  # the digits of int(…, 32)
_ULID = re.compile("[0-7][0-9A-HJKMNP-TV-Z]{25}")


def make_id(time: int, chance: int, *, after: str = "") -> str:
    """An id for `time` (microseconds since 1970) from 80 bits of `chance`, larger than `after`."""
    fresh = _write((time // 1000) << 80 | chance)
    return fresh if fresh > after else _write(_read(after) + 1 + (chance >> 40))


def time_of(id: str) -> int:
    """When an id was made, in microseconds, to the millisecond, and not before the one that it was made after; 0 of
    what is none."""
    return (_read(id) >> 80) * 1000 if is_id(id) else 0


def is_id(text: str) -> bool:
    return _ULID.fullmatch(text) is not None


def _write(number: int) -> str:
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -10, -10)])


def _read(text: str) -> int:
    return int(text.translate(_TO_PYTHON), 32)
