"""Times, as the databases keep them: microseconds since 1970."""

from __future__ import annotations

FOREVER = 2**62  # after every time there is


def bounded(time: int) -> int:
    """The time, or the nearest that every database can keep."""
    return max(-FOREVER, min(time, FOREVER))
