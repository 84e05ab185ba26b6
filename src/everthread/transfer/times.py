"""When the messages of a list were said, where they say so.

OpenAI's format has no field for it, but histories that were kept elsewhere often have one beside each message:
`created_at`, `timestamp`, `created` or `time`, as ISO text or as seconds or milliseconds since 1970. The reader keeps
such fields as notes, and they are looked for there. What is no time, or is still to come, is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from everthread.core.events import Event
from everthread.core.times import microseconds
from everthread.providers.leftovers import noted

FIELDS = ("created_at", "timestamp", "created", "time")
_MILLISECONDS = 100_000_000_000  # from here on: in seconds this is the year 5138, in milliseconds 1973


def times_of(events: Sequence[Event], *, now: int, newest: int | None = None) -> list[int | None]:
    """A time for each event, never before that of the one before it; the one before it, where it has none of its own.
    Where none has one at all, that is said with None. `newest`: that of the event before them."""
    given = [_time(event, now) for event in events]
    known = [time for time in (newest, *given) if time is not None]
    if not known:
        return given
    times, newest = list[int | None](), known[0]
    for time in given:
        newest = max(newest, time or 0)
        times.append(newest)
    return times


def _time(event: Event, now: int) -> int | None:
    meta: dict[str, str] = getattr(event, "meta", {})
    fields = (noted(meta, "openai") or {}) | (noted(meta, "openai", "message") or {}) if meta else {}
    found = [time for name in FIELDS if (time := _read(fields.get(name))) is not None]
    return found[0] if found and 0 <= found[0] <= now else None


def _read(value: Any) -> int | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        scale = 1_000 if value >= _MILLISECONDS else 1_000_000
        return round(value * scale) if 0 <= value < _MILLISECONDS * 1_000 else None
    try:
        read = datetime.fromisoformat(value) if isinstance(value, str) else None
        return microseconds(read if read.tzinfo else read.replace(tzinfo=UTC)) if read else None
    except (ValueError, OverflowError):
        return None
