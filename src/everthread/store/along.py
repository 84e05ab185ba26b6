"""Asking along a line: of all its pieces that matter with as few questions as of one, and of none that does not.

A line that was rewound a thousand times has a thousand pieces, most of a few events. What a piece knows of its end tells
without a question whether there is anything in it: a message, a turn's beginning, a marker. Those that remain are walked
from the newest back or from the oldest on. Large ones are asked one by one, as spans of seqs; small ones together, event
by event, because every seq of a piece is known, and an event is found by its key at once. (Spans of many pieces in one
question would leave it to a planner how it finds them.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from everthread.core.branches import ENDLESS, KINDS, Line, Piece, Segment, oldest
from everthread.store.engine import Ask, Row, Script

SMALL = 32  # events of a piece that are asked for one by one
TOGETHER = 500  # of them in one question
FEW = 16  # rows for which pieces are looked for one by one, from the oldest on

Spots = dict[int, int]  # by seq the branch


class What(NamedTuple):
    """Something that is read along a line: the queries for a span of seqs in either order and for events by their seqs,
    the column by which rows are in order, and the newest seq of such a thing up to the end of a piece.

    `counted`: how many there are up to the end of a piece, if that is known. `only`: where in a piece it is, if it is
    known that there is but one, else 0. `high`: what grows with them, up to the end of a piece; it keeps a query from
    walking what its branch has beyond. `both`: the query by seqs takes a span, oldest first, besides."""

    down: str
    up: str
    among: str
    order: int
    newest: Callable[[Piece], int]
    counted: Callable[[Piece], int] | None = None
    only: Callable[[Piece], int] | None = None
    high: Callable[[Piece], int] | None = None
    both: bool = False


EVENTS = What("events_down", "events_up", "events_of_line", 1, lambda piece: piece.last, both=True)
MESSAGES = What(
    "messages_down",
    "messages_up",
    "messages_of_line",
    1,
    lambda piece: piece.end.spoken,
    lambda piece: piece.end.messages_sum,
    both=True,
)


def only_turn(piece: Piece) -> int:
    """Where the only turn of a piece begins; 0 where it has several."""
    return piece.begun.first if piece.has_one_turn else 0


def gather(
    line: Line,
    what: What,
    *,
    limit: int = ENDLESS,
    first: int = 1,
    last: int = ENDLESS,
    oldest_first: bool = False,
    **values: Any,
) -> Script[list[Row]]:
    """Rows along a line, from seq `first` to seq `last`, until there are `limit`."""
    found: list[Row] = []
    walk = _onward(line, what, max(1, first), last, limit) if oldest_first else _back(line, what, max(1, first), last)
    asking = _Asking(line, what, oldest_first, values)
    for part in walk:
        if len(found) >= limit:
            return found[:limit]
        if part.seqs is None:
            found += yield from asking.span(part, limit - len(found))
        elif asking.collect(part, limit - len(found)):
            found += yield from asking.together(limit - len(found))
    if len(found) < limit:
        found += yield from asking.together(limit - len(found))
    return found[:limit]


class _Asking:
    """Collects small pieces until they are worth a question."""

    def __init__(self, line: Line, what: What, oldest_first: bool, values: dict[str, Any]) -> None:
        self._line, self._what, self._oldest_first, self._values = line, what, oldest_first, values
        self._spots: Spots = {}
        self._sure = 0

    def collect(self, part: _Part, wanted: int) -> bool:
        """Take a small piece; whether that is enough for a question."""
        self._spots |= dict.fromkeys(part.seqs or (), part.segment.branch)
        self._sure += part.sure
        return len(self._spots) >= TOGETHER or self._sure >= wanted

    def span(self, part: _Part, limit: int) -> Script[list[Row]]:
        """What is collected, and a large piece after it."""
        if self._spots and self._oldest_first and self._what.both:
            return (yield from self.together(limit, part.segment))
        rows = yield from self.together(limit)
        if len(rows) < limit:
            query = self._what.up if self._oldest_first else self._what.down
            values = {**span(self._line, part.segment), "limit": limit - len(rows), **self._values}
            if part.high is not None:
                values["high"] = min(part.high, values["high"])
            rows += yield Ask(query, values)
        return rows

    def together(self, limit: int, segment: Segment | None = None) -> Script[list[Row]]:
        if not self._spots:
            return []
        spots, self._spots, self._sure = self._spots, {}, 0
        values = {**key_of(self._line), "spots": told(spots), **self._values}
        if self._what.both:
            values |= {**span(self._line, segment or Segment(0, 1, 0)), "limit": limit}
        rows = yield Ask(self._what.among, values)
        order = self._what.order
        return sorted(rows, key=lambda row: row[order], reverse=not self._oldest_first)


class _Part(NamedTuple):
    """A piece to be asked: its seqs where it is small, and how much is in it for certain."""

    segment: Segment
    seqs: Sequence[int] | None
    sure: int = 0
    high: int | None = None


def _back(line: Line, what: What, first: int, last: int) -> Iterator[_Part]:
    """The pieces with something in them, newest first."""
    yield from _own(line, first, last)
    piece = line.piece(min(last, line.branch.at))
    while piece is not None and (newest := min(what.newest(piece), last)) >= first:
        if newest < piece.first:
            piece = line.piece(newest)
            continue
        yield _part(what, piece, piece.segment(first, newest))
        piece = piece.past


def _onward(line: Line, what: What, first: int, last: int, limit: int) -> Iterator[_Part]:
    """The same, oldest first."""
    if what is EVENTS:
        last = min(last, first + limit - 1)
    if limit > FEW:
        yield from reversed(list(_back(line, what, first, _enough(line, what, first, last, limit))))
        return
    seq = first
    while (piece := _from(line, what, seq)) is not None and piece.first <= last:
        yield _part(what, piece, piece.segment(first, min(last, what.newest(piece))))
        seq = piece.last + 1
    yield from _own(line, first, last)


def _own(line: Line, first: int, last: int) -> Iterator[_Part]:
    segment = line.own._replace(first=max(first, line.own.first), last=last)
    if segment.first <= segment.last:
        yield _Part(segment, _seqs(segment))


def _part(what: What, piece: Piece, segment: Segment) -> _Part:
    if what is EVENTS:
        return _Part(segment, _seqs(segment), segment.last - segment.first + 1)
    if what.only and (seq := what.only(piece)):
        return _Part(segment, [seq] if segment.first <= seq <= segment.last else [], 1)
    whole = segment.first == piece.first and segment.last == what.newest(piece)
    sure = what.counted(piece) - (what.counted(piece.past) if piece.past else 0) if what.counted else 1
    return _Part(segment, _seqs(segment), sure if whole else 0, what.high(piece) if what.high else None)


def _enough(line: Line, what: What, first: int, last: int, limit: int) -> int:
    """A seq up to which there are `limit` things, if that is known, or `last`."""
    counted, piece = what.counted, line.piece(first)
    if counted is None or piece is None:
        return last
    wanted = counted(piece) + limit
    enough = oldest(line.past, lambda piece: counted(piece) >= wanted)
    return min(last, enough.last) if enough else last


def _from(line: Line, what: What, seq: int) -> Piece | None:
    """The oldest piece with something from a seq on."""
    return oldest(line.past, lambda piece: what.newest(piece) >= seq)


def _seqs(segment: Segment) -> Sequence[int] | None:
    """All seqs of a small piece; None: it is large."""
    return range(segment.first, segment.last + 1) if segment.last - segment.first < SMALL else None


# -- markers ---------------------------------------------------------------------------------------------------


def markers(line: Line, kind: str, *, first: int = 1, last: int = ENDLESS, **how: Any) -> Script[list[Row]]:
    """Rows of the markers of a kind, as `gather` gives them."""
    what = What("markers_down", "markers_up", "markers_of_line", 1, (yield from _newest_of(line, kind)))
    return (yield from gather(line, what, first=first, last=last, kind=kind, **how))


def _newest_of(line: Line, kind: str) -> Script[Callable[[Piece], int]]:
    """How to know the newest marker of a kind up to the end of a piece. Of most kinds pieces know it; of others it is
    asked for, once for all pieces."""
    if kind in KINDS or line.past is None:
        at = KINDS.index(kind) if kind in KINDS else 0
        return lambda piece: piece.marks[at]
    pieces = list(line.between(last=line.branch.at))
    asked = {**key_of(line), "pieces": told({piece.branch: piece.last for piece in pieces}), "kind": kind}
    on_branch, newest, known = dict((yield Ask("newest_of_kind", asked))), 0, dict[int, int]()
    for piece in reversed(pieces):
        known[piece.branch] = newest = on_branch[piece.branch] or newest
    return lambda piece: known[piece.branch]


# -- the form of a question ------------------------------------------------------------------------------------


def told(numbers: dict[int, int]) -> str:
    """A JSON object: the form of a list that both databases take."""
    return msgspec.json.encode(numbers).decode()


def key_of(line: Line) -> dict[str, Any]:
    return {"tenant": line.tenant, "conversation": line.conversation}


def span(line: Line, piece: Segment) -> dict[str, Any]:
    return {**key_of(line), "branch": piece.branch, "first": piece.first, "last": piece.last}
