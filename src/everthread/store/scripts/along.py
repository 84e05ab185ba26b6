"""Asking along a line: the pieces that matter with hardly more questions than one piece, the others not at all.

A line that was rewound a thousand times has a thousand pieces, most of a few events. What a piece knows of its end
tells without a question whether there is anything in it: a message, a turn's beginning, a marker. Those that remain are
walked from the newest back or from the oldest on, and asked together, as many as are needed. A large one of which only
some is wanted is asked by itself, in its order, until there is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from everthread.core.branches import ENDLESS, MARKER_KINDS, Line, Piece, Segment, oldest
from everthread.store.engine import Ask, Row, Script

SMALL = 64  # events of a piece that may be read for a few of them
TOGETHER = 1_000  # pieces in one question
FEW = 16  # rows for which pieces are looked for one by one, from the oldest on

Spans = dict[int, int]  # by branch the first seq and the last, in one number


class What(NamedTuple):
    """Something that is read along a line. `down` and `up` are the queries for one piece, newest or oldest first, and
    `together` that for several; `order` is the column by which rows are sorted.

    The rest is asked of a piece. `newest`: the newest seq of such a thing up to its end. `counted`: how many there are
    up to its end, if that is known. `only`: where in it the only one is; 0 unless there is but one. `high`: a sum that
    grows with them, up to its end; it keeps a query from walking what the branch has beyond."""

    down: str
    up: str
    together: str
    order: int
    newest: Callable[[Piece], int]
    counted: Callable[[Piece], int] | None = None
    only: Callable[[Piece], int] | None = None
    high: Callable[[Piece], int] | None = None


EVENTS = What("events_down", "events_up", "events_of_line", 1, lambda piece: piece.last)
MESSAGES = What(
    "messages_down",
    "messages_up",
    "messages_of_line",
    1,
    lambda piece: piece.end.spoken,
    lambda piece: piece.end.messages_sum,
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
    first = max(1, first)
    asking = _Asking(line, what, oldest_first, values)
    if what is EVENTS and oldest_first:  # all seqs are there
        last, limit = min(last, first + limit - 1), ENDLESS
    if limit == ENDLESS:
        return (yield from asking.of(_spans(line, what, first, last)))
    parts = _onward(line, what, first, last, limit) if oldest_first else _back(line, what, first, last)
    return (yield from asking.until(parts, limit))


class _Part(NamedTuple):
    """A piece to be asked, and how much is in it for certain."""

    segment: Segment
    sure: int = 0
    high: int | None = None

    @property
    def is_large(self) -> bool:
        # A piece is not large where every seq of it is one of those that are wanted.
        return self.segment.last - self.segment.first >= max(SMALL, self.sure)


class _Asking:
    """Collects pieces until they are worth a question."""

    def __init__(self, line: Line, what: What, oldest_first: bool, values: dict[str, Any]) -> None:
        self._line, self._what, self._oldest_first, self._values = line, what, oldest_first, values
        self._parts: list[_Part] = []
        self._sure = 0

    def until(self, parts: Iterator[_Part], limit: int) -> Script[list[Row]]:
        """What is in these, until there are `limit`."""
        found: list[Row] = []
        for part in parts:
            wanted = limit - len(found)
            if wanted <= 0:
                break
            if part.is_large:
                found += yield from self.alone(part, wanted)
            elif self.collect(part, wanted):
                found += yield from self.together()
        if len(found) < limit:
            found += yield from self.together()
        return found[:limit]

    def collect(self, part: _Part, wanted: int) -> bool:
        """Take a piece; whether that is enough for a question."""
        self._parts.append(part)
        self._sure += part.sure
        return len(self._parts) >= TOGETHER or self._sure >= wanted

    def together(self) -> Script[list[Row]]:
        """What is in all that was collected."""
        parts, self._parts, self._sure = self._parts, [], 0
        if len(parts) == 1:
            return (yield from self._of(parts[0], ENDLESS))
        return (yield from self.of(packed(part.segment for part in parts)))

    def of(self, pieces: Spans) -> Script[list[Row]]:
        """All that is in these."""
        if len(pieces) < 2:
            return (yield from self._of(_Part(unpacked(*pieces.popitem())), ENDLESS)) if pieces else []
        asked = {**key_of(self._line), "pieces": told(pieces), **self._values}
        rows = list((yield Ask(self._what.together, asked)))
        rows.sort(key=itemgetter(self._what.order), reverse=not self._oldest_first)
        return rows

    def alone(self, part: _Part, wanted: int) -> Script[list[Row]]:
        """What was collected, and what is wanted besides of a large piece."""
        rows = yield from self.together()
        if len(rows) < wanted:
            rows += yield from self._of(part, wanted - len(rows))
        return rows

    def _of(self, part: _Part, limit: int) -> Script[list[Row]]:
        values = {**span(self._line, part.segment), "limit": limit, **self._values}
        if part.high is not None:
            values["high"] = min(part.high, values["high"])
        return list((yield Ask(self._what.up if self._oldest_first else self._what.down, values)))


def _spans(line: Line, what: What, first: int, last: int) -> Spans:
    """All pieces with something in them. Written for speed: a window may have a hundred."""
    own, newest_in = line.branch.at + 1, what.newest
    found = {line.branch.number: max(own, first) << 31 | last} if own <= last and first <= last else {}
    piece = line.piece(min(last, own - 1))
    while piece is not None:
        newest, low = newest_in(piece), piece.first
        if newest > last:
            newest = last
        if newest < first:
            break
        if newest >= low:
            found[piece.branch] = (low if low > first else first) << 31 | newest
            piece = piece.past
        else:
            piece = line.piece(newest)
    return found


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
    """The pieces with something in them, oldest first."""
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
        yield _Part(segment)


def _part(what: What, piece: Piece, segment: Segment) -> _Part:
    if what is EVENTS:
        return _Part(segment, segment.last - segment.first + 1)
    if what.only and (seq := what.only(piece)) and segment.first <= seq <= segment.last:
        return _Part(segment._replace(first=seq, last=seq), 1)
    whole = segment.first == piece.first and segment.last == what.newest(piece)
    return _Part(segment, _count_in(what, piece) if whole else 0, what.high(piece) if what.high else None)


def _count_in(what: What, piece: Piece) -> int:
    """How many there are in a piece that has some; at least one, where that is all that is known."""
    if what.counted is None:
        return 1
    return what.counted(piece) - (what.counted(piece.past) if piece.past else 0)


def _enough(line: Line, what: What, first: int, last: int, limit: int) -> int:
    """A seq up to which there are `limit` things, if that is known, or `last`."""
    counted, piece = what.counted, line.piece(first)
    if counted is None or piece is None or limit == ENDLESS:
        return last
    wanted = counted(piece) + limit
    enough = oldest(line.past, lambda piece: counted(piece) >= wanted)
    return min(last, enough.last) if enough else last


def _from(line: Line, what: What, seq: int) -> Piece | None:
    """The oldest piece with something from a seq on."""
    return oldest(line.past, lambda piece: what.newest(piece) >= seq)


# -- markers ---------------------------------------------------------------------------------------------------


def markers(line: Line, kind: str, *, first: int = 1, last: int = ENDLESS, **how: Any) -> Script[list[Row]]:
    """Rows of the markers of a kind, as `gather` gives them."""
    what = What("markers_down", "markers_up", "markers_of_line", 1, (yield from _newest_of(line, kind)))
    return (yield from gather(line, what, first=first, last=last, kind=kind, **how))


def _newest_of(line: Line, kind: str) -> Script[Callable[[Piece], int]]:
    """How to know the newest marker of a kind up to the end of a piece. Of most kinds pieces know it; of others it is
    asked for, once for all pieces."""
    if kind in MARKER_KINDS or line.past is None:
        at = MARKER_KINDS.index(kind) if kind in MARKER_KINDS else 0
        return lambda piece: piece.marks[at]
    known = yield from _newest_on(line, kind)
    return lambda piece: known[piece.branch]


def _newest_on(line: Line, kind: str) -> Script[dict[int, int]]:
    """By branch the newest marker of a kind up to the end of its piece; 0 where there is none."""
    pieces = list(line.between(last=line.branch.at))
    asked = {**key_of(line), "pieces": told({piece.branch: piece.last for piece in pieces}), "kind": kind}
    on_branch: dict[int, int | None] = {row[0]: row[1] for row in (yield Ask("newest_of_kind", asked))}
    newest, known = 0, dict[int, int]()
    for piece in reversed(pieces):
        known[piece.branch] = newest = on_branch[piece.branch] or newest
    return known


# -- the form of a question ------------------------------------------------------------------------------------


def packed(segments: Iterable[Segment]) -> Spans:
    return {branch: first << 31 | last for branch, first, last in segments}


def unpacked(branch: int, both: int) -> Segment:
    return Segment(branch, both >> 31, both & ENDLESS)


def told(numbers: dict[int, int]) -> str:
    """A JSON object: the form of a list that both databases take."""
    return msgspec.json.encode(numbers).decode()


def key_of(line: Line) -> dict[str, Any]:
    return {"tenant": line.tenant, "conversation": line.conversation}


def span(line: Line, piece: Segment) -> dict[str, Any]:
    return {**key_of(line), "branch": piece.branch, "first": piece.first, "last": piece.last}
