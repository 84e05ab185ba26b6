"""Reading along a line: ranges and pages of events, turns, sessions, markers.

Each reads only what it returns, walking the line's pieces from the newest back (or from the oldest on) and
stopping as soon as there is enough.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from everthread.core.branches import ENDLESS, Line, Segment
from everthread.core.logged import Logged, logged
from everthread.core.turns import Head, Session, Turn, session_of, turn_of
from everthread.store.appending import head_of, newest_head
from everthread.store.engine import Ask, Row, Script

ENDLESS_SUM = 2**62


def newest(line: Line, *, limit: int, last: int = ENDLESS, messages: bool = False) -> Script[list[Logged]]:
    """The newest events up to `last`, in the order they were said."""
    rows = yield from _gather(line, "messages_down" if messages else "events_down", limit=limit, last=last)
    return logged(reversed(rows))


def onward(
    line: Line, *, first: int = 1, last: int = ENDLESS, limit: int = ENDLESS, messages: bool = False
) -> Script[list[Logged]]:
    """The events from `first` on, oldest first."""
    query = "messages_up" if messages else "events_up"
    rows = yield from _gather(line, query, first=first, last=last, limit=limit, oldest_first=True)
    return logged(rows)


def tail(line: Line, *, turns: int) -> Script[list[Logged]]:
    """The events of the newest turns, whole."""
    own = line.segments[0]
    rows = yield Ask("tail", {**_span(line, own), "skip": turns - 1})
    # A branch that was forked begins with its marker: where that came back, the turns reach into its ancestors.
    if len(line.segments) == 1 or (rows and rows[0][1] > own.first):
        return logged(rows)
    starts = yield from _starts(line, TURNS, limit=turns)
    return (yield from onward(line, first=starts[-1].seq if len(starts) == turns else 1))


def head(line: Line, *, at: int | None = None) -> Script[Head]:
    """The head of a line: its newest, or as of one of its events."""
    key = {"tenant": line.tenant, "conversation": line.conversation}
    if at is not None:
        if at < 1:
            return Head()
        rows = yield Ask("head_at", {**key, "branch": line.owner(at), "seq": at})
        return head_of(rows[0]) if rows else Head()
    return (yield from newest_head({**key, "branch": line.branch.number}))[1]


def turns(line: Line, *, limit: int, last: int = ENDLESS) -> Script[list[Turn]]:
    """The newest turns that begin at or before `last`, in the order they came."""
    firsts = yield from _starts(line, TURNS, limit=limit, last=last)
    return [turn_of(*ends) for ends in (yield from _ends(line, TURNS, firsts))]


def turn_from(line: Line, before: int) -> Script[Turn | None]:
    """The first turn since the last clear with at least `before` tokens of turns before it: one look-up."""
    newest = yield from head(line)
    low = newest.cleared_sum + before
    found: list[Head] = []
    for piece in line.between(newest.cleared + 1):
        first = yield from _starts(line, TURNS, limit=1, first=piece.first, last=piece.last, low=low, oldest_first=True)
        found = first or found
        # From the newest piece back, and no further than where the sum falls below: older ones have less.
        if (yield from head(line, at=piece.first)).settled_before < low:
            break
    ends = yield from _ends(line, TURNS, found)
    return turn_of(*ends[0]) if ends else None


def turn_upto(line: Line, before: int) -> Script[Turn | None]:
    """The last turn since the last clear with at most `before` tokens of turns before it: one look-up."""
    newest = yield from head(line)
    high = newest.cleared_sum + before
    found = yield from _starts(line, TURNS, limit=1, first=newest.cleared + 1, high=high)
    ends = yield from _ends(line, TURNS, found)
    return turn_of(*ends[0]) if ends else None


def sessions(line: Line, *, limit: int, last: int = ENDLESS) -> Script[list[Session]]:
    firsts = yield from _starts(line, SESSIONS, limit=limit, last=last)
    return [session_of(first, end) for first, end, _ in (yield from _ends(line, SESSIONS, firsts))]


def newest_markers(line: Line, kind: str, *, last: int = ENDLESS, limit: int = ENDLESS) -> Script[list[Logged]]:
    """The markers of a kind up to `last`, newest first."""
    rows = yield from _gather(line, "markers_down", limit=limit, last=last, kind=kind)
    return logged(rows)


def _gather(
    line: Line,
    query: str,
    *,
    limit: int,
    first: int = 1,
    last: int = ENDLESS,
    oldest_first: bool = False,
    **values: Any,
) -> Script[list[Row]]:
    """Rows of a query over the pieces of a line, until there are `limit`."""
    found: list[Row] = []
    pieces = list(line.between(first, last))
    for piece in reversed(pieces) if oldest_first else pieces:
        if len(found) >= limit:
            break
        found += yield Ask(query, {**_span(line, piece), "limit": limit - len(found), **values})
    return found


class _Stretch(NamedTuple):
    """Turns or sessions: how their first events are asked for, and the measure that grows from one to the next."""

    down: str
    up: str
    measure: str


TURNS = _Stretch("turns_down", "turns_up", "settled_before")
SESSIONS = _Stretch("sessions_down", "sessions_up", "session")


def _starts(
    line: Line,
    stretch: _Stretch,
    *,
    limit: int,
    first: int = 1,
    last: int = ENDLESS,
    low: int = 0,
    high: int = ENDLESS_SUM,
    oldest_first: bool = False,
) -> Script[list[Head]]:
    """The first events of turns or sessions along a line, between two seqs and two values of their measure."""
    found: list[Head] = []
    pieces = list(line.between(first, last))
    for piece in reversed(pieces) if oldest_first else pieces:
        if len(found) >= limit:
            break
        # Where a piece ends before its branch does, the measure at its end spares walking what comes after.
        end = high
        if piece.last < ENDLESS:
            end = getattr((yield from head(line, at=piece.last)), stretch.measure)
        bounds = {"low": low, "high": min(high, end), "limit": limit - len(found)}
        rows = yield Ask(stretch.up if oldest_first else stretch.down, {**_span(line, piece), **bounds})
        found += map(head_of, rows)
    return found


def _ends(line: Line, stretch: _Stretch, firsts: list[Head]) -> Script[list[tuple[Head, Head, bool]]]:
    """Each first head (given newest first) with the last of the same stretch and whether it is the newest."""
    if not firsts:
        return []
    low = getattr(firsts[0], stretch.measure)
    after = yield from _starts(line, stretch, limit=1, first=firsts[0].seq + 1, low=low, oldest_first=True)
    next_first = after[0].seq if after else None
    ends = []
    for first in firsts:
        end = yield from head(line, at=None if next_first is None else next_first - 1)
        ends.append((first, end, next_first is None))
        next_first = first.seq
    return ends[::-1]


def _span(line: Line, piece: Segment) -> dict[str, Any]:
    key = {"tenant": line.tenant, "conversation": line.conversation}
    return {**key, "branch": piece.branch, "first": piece.first, "last": piece.last}
