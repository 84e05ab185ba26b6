"""Reading along a line: ranges and pages of events, turns, sessions, markers.

Each reads only what it returns, walking the line's pieces from the newest back (or from the oldest on) and
stopping as soon as there is enough.
"""

from __future__ import annotations

from typing import Any

from everthread.core.branches import ENDLESS, Line, Segment
from everthread.core.logged import Logged
from everthread.core.turns import Head, Session, Turn, session_of, turn_of
from everthread.errors import UnknownConversation
from everthread.store.appending import head_of
from everthread.store.engine import Ask, Row, Script

MARKERS_AT_ONCE = 200


def newest(line: Line, *, limit: int, last: int = ENDLESS, messages: bool = False) -> Script[list[Logged]]:
    """The newest events up to `last`, in the order they were said."""
    rows = yield from _gather(line, "messages_down" if messages else "events_down", limit=limit, last=last)
    return [Logged._make(row) for row in reversed(rows)]


def onward(
    line: Line, *, first: int = 1, last: int = ENDLESS, limit: int = ENDLESS, messages: bool = False
) -> Script[list[Logged]]:
    """The events from `first` on, oldest first."""
    query = "messages_up" if messages else "events_up"
    rows = yield from _gather(line, query, first=first, last=last, limit=limit, oldest_first=True)
    return [Logged._make(row) for row in rows]


def tail(line: Line, *, turns: int) -> Script[list[Logged]]:
    """The events of the newest turns, whole."""
    starts = yield from _gather(line, "turns_down", limit=turns)
    first = starts[-1][0] if len(starts) == turns else 1
    return (yield from onward(line, first=first))


def head(line: Line, *, at: int | None = None) -> Script[Head]:
    """The head of a line: its newest, or as of one of its events."""
    key = {"tenant": line.tenant, "conversation": line.conversation}
    if at is None:
        rows = yield Ask("head", {**key, "branch": line.branch.number})
        if not rows:
            raise UnknownConversation(line.conversation)
        return head_of(rows[0][1:])
    rows = yield Ask("head_at", {**key, "branch": line.owner(at), "seq": at})
    return head_of(rows[0]) if rows else Head()


def turns(line: Line, *, limit: int, last: int = ENDLESS) -> Script[list[Turn]]:
    """The newest turns that begin at or before `last`, in the order they came."""
    firsts = [head_of(row) for row in (yield from _gather(line, "turns_down", limit=limit, last=last))]
    ends = yield from _ends(line, firsts, "turns_down")
    return [turn_of(first, end, newest=is_newest) for first, end, is_newest in ends]


def turn_from(line: Line, before: int) -> Script[Turn | None]:
    """The first turn since the last clear with at least `before` tokens of turns before it: one look-up."""
    newest = yield from head(line)
    found = yield from _first_piece(line, "turn_from", newest, before, oldest_first=True)
    return (yield from _turn(line, found))


def turn_upto(line: Line, before: int) -> Script[Turn | None]:
    """The last turn since the last clear with at most `before` tokens of turns before it: one look-up."""
    newest = yield from head(line)
    found = yield from _first_piece(line, "turn_upto", newest, before, oldest_first=False)
    return (yield from _turn(line, found))


def sessions(line: Line, *, limit: int, last: int = ENDLESS) -> Script[list[Session]]:
    firsts = [head_of(row) for row in (yield from _gather(line, "sessions_down", limit=limit, last=last))]
    ends = yield from _ends(line, firsts, "sessions_down")
    return [session_of(first, end) for first, end, _ in ends]


def newest_markers(line: Line, kind: str, *, last: int = ENDLESS, limit: int = ENDLESS) -> Script[list[Logged]]:
    """The markers of a kind up to `last`, newest first."""
    rows = yield from _gather(line, "markers_down", limit=limit, last=last, kind=kind)
    return [Logged._make(row) for row in rows]


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


def _first_piece(
    line: Line, query: str, newest: Head, before: int, *, oldest_first: bool
) -> Script[Head | None]:
    pieces = list(line.between(newest.cleared + 1))
    for piece in reversed(pieces) if oldest_first else pieces:
        rows = yield Ask(query, {**_span(line, piece), "sum": newest.cleared_sum + before})
        if rows:
            return head_of(rows[0])
    return None


def _turn(line: Line, first: Head | None) -> Script[Turn | None]:
    if first is None:
        return None
    ((start, end, is_newest),) = yield from _ends(line, [first], "turns_down")
    return turn_of(start, end, newest=is_newest)


def _ends(line: Line, firsts: list[Head], query: str) -> Script[list[tuple[Head, Head, bool]]]:
    """Each first head (newest first) with the last of the same turn or session, oldest first."""
    if not firsts:
        return []
    after = yield from _after(line, firsts[0], query)
    ends = []
    for first in firsts:
        end = yield from head(line, at=after - 1 if after else None)
        ends.append((first, end, after is None))
        after = first.seq
    return ends[::-1]


def _after(line: Line, first: Head, query: str) -> Script[int | None]:
    """Where the next turn or session begins, if one does."""
    pieces = list(line.between(first.seq + 1))
    up = {"turns_down": "turns_up", "sessions_down": "sessions_up"}[query]
    for piece in reversed(pieces):
        rows = yield Ask(up, {**_span(line, piece), "limit": 1})
        if rows:
            return int(rows[0][0])
    return None


def _span(line: Line, piece: Segment) -> dict[str, Any]:
    key = {"tenant": line.tenant, "conversation": line.conversation}
    return {**key, "branch": piece.branch, "first": piece.first, "last": piece.last}
