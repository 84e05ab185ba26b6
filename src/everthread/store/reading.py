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
from everthread.store.leases import Kept, Name, of_turns, partial

ENDLESS_SUM = 2**62
NEWS = 500  # events that those who listen are given at once


class Newest(NamedTuple):
    """What is new on a line: events, the seq where it ends (or where this page does), and the reply that runs."""

    events: list[Logged]
    seq: int
    running: Kept | None

    @property
    def whole(self) -> bool:
        return len(self.events) < NEWS


def news(line: Line, after: int | None) -> Script[Newest]:
    """The events after seq `after`, and then the running reply: so it is never older than they are."""
    newest = (yield from head(line)).seq  # raises when the conversation has been erased
    events = (yield from onward(line, first=after + 1, limit=NEWS)) if after is not None and after < newest else []
    seq = events[-1].seq if events else newest if after is None else after
    name = of_turns(line.conversation, line.branch.number)
    return Newest(events, seq, (yield from partial(Name(line.tenant, name))))


def newest(line: Line, *, limit: int, last: int = ENDLESS, messages: bool = False) -> Script[list[Logged]]:
    """The newest events up to `last`, in the order they were said."""
    rows = yield from gather(line, "messages_down" if messages else "events_down", limit=limit, last=last)
    return logged(reversed(rows))


def onward(
    line: Line, *, first: int = 1, last: int = ENDLESS, limit: int = ENDLESS, messages: bool = False
) -> Script[list[Logged]]:
    """The events from `first` on, oldest first."""
    query = "messages_up" if messages else "events_up"
    rows = yield from gather(line, query, first=first, last=last, limit=limit, oldest_first=True)
    return logged(rows)


def tail(line: Line, *, turns: int) -> Script[list[Logged]]:
    """The events of the newest turns, whole."""
    own = line.segments[0]
    rows = yield Ask("tail", {**span(line, own), "skip": turns - 1})
    # A branch that was forked begins with its marker: where that came back, the turns reach into its ancestors.
    if len(line.segments) == 1 or (rows and rows[0][1] > own.first):
        return logged(rows)
    starts = yield from _starts(line, TURNS, limit=turns)
    return (yield from onward(line, first=starts[-1].head.seq if len(starts) == turns else 1))


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
    starts = yield from _starts(line, TURNS, limit=limit, last=last)
    return [turn_of(*ends) for ends in (yield from _ends(line, TURNS, starts))]


def sessions(line: Line, *, limit: int, last: int = ENDLESS) -> Script[list[Session]]:
    starts = yield from _starts(line, SESSIONS, limit=limit, last=last)
    return [session_of(first, end) for first, end, _ in (yield from _ends(line, SESSIONS, starts))]


def newest_markers(
    line: Line, kind: str, *, first: int = 1, last: int = ENDLESS, limit: int = ENDLESS
) -> Script[list[Logged]]:
    """The markers of a kind up to `last`, newest first."""
    rows = yield from gather(line, "markers_down", limit=limit, first=first, last=last, kind=kind)
    return logged(rows)


def gather(
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
        found += yield Ask(query, {**span(line, piece), "limit": limit - len(found), **values})
    return found


class _Stretch(NamedTuple):
    """Turns or sessions: how their first events are asked for, and the measure that grows from one to the next."""

    down: str
    up: str
    measure: str


class _Start(NamedTuple):
    """The first event of a turn or session, and the end of the one before it."""

    head: Head
    left: Head | None


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
    oldest_first: bool = False,
) -> Script[list[_Start]]:
    """The first events of turns or sessions along a line, between two seqs and from `low` of their measure on."""
    found: list[_Start] = []
    pieces = list(line.between(first, last))
    for piece in reversed(pieces) if oldest_first else pieces:
        if len(found) >= limit:
            break
        # Where a piece ends before its branch does, the measure at its end spares walking what comes after.
        high = ENDLESS_SUM
        if piece.last < ENDLESS:
            high = getattr((yield from head(line, at=piece.last)), stretch.measure)
        bounds = {"low": low, "high": high, "limit": limit - len(found)}
        rows = yield Ask(stretch.up if oldest_first else stretch.down, {**span(line, piece), **bounds})
        found += map(_start, rows)
    return found


def _start(row: Row) -> _Start:
    *columns, state, spoken_time = row
    start = head_of(columns)
    if state is None:
        return _Start(start, None)
    # Of the event before it, only what ends a turn or session: its sums are those before this one.
    left = Head(
        seq=start.seq - 1,
        state=state,
        spoken_time=spoken_time,
        tokens_before=start.tokens_before,
        settled_before=start.settled_before,
        messages_before=start.messages_before,
    )
    return _Start(start, left)


def _ends(line: Line, stretch: _Stretch, starts: list[_Start]) -> Script[list[tuple[Head, Head, bool]]]:
    """Each first head (given newest first) with the end of the same stretch and whether it is the newest."""
    if not starts:
        return []
    newest = starts[0].head
    low = getattr(newest, stretch.measure)
    after = yield from _starts(line, stretch, limit=1, first=newest.seq + 1, low=low, oldest_first=True)
    end = after[0].left if after else (yield from head(line))
    ends = []
    for start in starts:
        assert end is not None  # something stands before every start but the first of all
        ends.append((start.head, end, start is starts[0] and not after))
        end = start.left
    return ends[::-1]


def span(line: Line, piece: Segment) -> dict[str, Any]:
    key = {"tenant": line.tenant, "conversation": line.conversation}
    return {**key, "branch": piece.branch, "first": piece.first, "last": piece.last}
