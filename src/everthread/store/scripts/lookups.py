"""The look-ups of `core.window` and `core.strategies`, answered from the indexes.

A line is searched piece by piece, from the last clear on. An ancestor's piece is frozen: it knows its sums, and the
last turn that began in it or before it. So the right piece is found without a query; and where only one turn begins in
that piece, so is the answer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from everthread.core.branches import ENDLESS, Begun, Line, Piece, Segment, oldest
from everthread.core.events import Pin
from everthread.core.logged import Logged, logged
from everthread.core.strategies import At, Back, Level, Older, Question, Ranked
from everthread.core.turns import Head
from everthread.core.window import From, Lookups, Start, Upto
from everthread.errors import BadValue, UnknownSeq
from everthread.store.engine import Ask, Row, Script
from everthread.store.scripts.along import What, gather, key_of, only_turn, span, told
from everthread.store.scripts.append import head_of
from everthread.store.scripts.read import head, newest_markers, onward

T = TypeVar("T")

PINS = 1_000  # how many of the newest changes of pins are looked at


def _said(down: str, among: str, share: int) -> What:
    """How to find the turns that messages are in. One message in `share` is reckoned to be of the wanted kind."""
    return What(
        down, "", among, 0, lambda piece: piece.end.spoken, counted=lambda piece: piece.end.messages_sum // share
    )


SAID = _said("turns_of_messages", "turns_of_some_messages", 1)
SPOKEN = _said("turns_of_spoken", "turns_of_some_spoken", 2)
ASKED = What(
    "asked_down",
    "",
    "asked_of_line",
    0,
    lambda piece: piece.end.turn_first,
    high=lambda piece: piece.end.settled_before,
)


class Tip(NamedTuple):
    """The piece of a line that ends with a certain event, and those before it."""

    segment: Segment
    past: Piece | None


def tip_of(line: Line, seq: int) -> Tip:
    if (piece := line.piece(seq)) is not None:
        return Tip(piece.segment(last=seq), piece.past)
    return Tip(line.own._replace(last=max(seq, line.own.first)), line.past)


class Ahead(NamedTuple):
    """A window that is begun by size: the tokens that must leave, and how far its cutoff steps."""

    excess: int
    step: int


class Foreseen(NamedTuple):
    """What a window that is begun by size will probably come to, on the piece of a line that belongs to `branch`.
    `starts`: the turns that begin there in the step of the grid that ends at `grid_line`; `before`: the last turn
    before that step, if any; each as (seq, settled_before, turn, messages_before). `begin`: the one of them that the
    window begins with."""

    branch: int
    grid_line: int
    step: int
    starts: Sequence[Row]
    before: Sequence[Row]
    begin: Row

    def around(self, low: int) -> Sequence[Row] | None:
        """The first turn with at least `low` tokens before it and the one before that; None where it begins in another
        step."""
        if not self.grid_line - self.step < low <= self.starts[-1][1]:
            return None
        place = bisect_left(self.starts, low, key=itemgetter(1))
        return [self.starts[place], *(self.starts[place - 1 : place] if place else self.before)]

    def stays(self, newest: Start) -> bool:
        """Whether it stays true when more is said. It does not where the newest turn begins in this step, because a
        later window could begin with that turn."""
        return newest.first > int(self.starts[-1][0])

    def holds(self, low: int, step: int) -> bool:
        """Whether the window still begins there when at least `low` tokens have to stand before it."""
        return step == self.step and self.grid_line - step < low <= int(self.begin[1])


class Pins(NamedTuple):
    """Pinned turns, whether there may be more than were looked at, and the seq of the newest change."""

    turns: tuple[Older, ...]
    more: bool
    changed: int


class Lookup:
    """Answers look-ups as of one head of a line, within what was said since the last clear."""

    def __init__(self, line: Line, head: Head, newest: Start) -> None:
        self._line = line
        self._head = head
        self._newest = newest
        self._tip, self._past = tip_of(line, head.seq)
        self.foreseen: Foreseen | None = None
        self._said: dict[int, list[Logged]] = {}  # messages that are known already, by the seq where they begin
        self._versions: dict[int, list[Row]] = {}  # answers to `versions_at`, by the seq where the window begins

    def know(self, begin: int, said: list[Logged]) -> None:
        """What was said from an event on is known already."""
        self._said[begin] = said

    def foresee(self, ahead: Ahead, memory: str, before: Foreseen | None) -> Script[None]:
        """Read with one query what a window that is begun by size will probably come to. No query is needed where what
        was foreseen `before` still holds. If the window begins in the newest piece, its messages and a kind of memory
        are read as well.

        Where the window comes to something else after all, look-ups find that as usual."""
        low, step = self._head.cleared_sum + ahead.excess, max(1, ahead.step)
        if before is not None and before.holds(low, step):
            self.foreseen = before
            return
        piece = next(self._from_pieces(low), None)
        if piece and piece.has_one_turn:  # which it knows
            return
        segment = self._cut(piece)
        said, kind = (0, "") if piece else (segment.last, memory)
        asked = {**span(self._line, segment), **self._bounds(piece, low), "step": step, "said": said, "kind": kind}
        self._see_ahead(segment.branch, step, (yield Ask("window_ahead", asked)))

    def _see_ahead(self, branch: int, step: int, rows: Sequence[Row]) -> None:
        """Take what `window_ahead` has found; that query says what the first column of a row means."""
        starts, before = sorted(_begun_by(rows, -1)), _begun_by(rows, -2)
        begins = [start for start in (*before, *starts) if start[0] < self._newest.first]
        if not starts or not begins:
            return
        begin, floor = begins[-1], self._head.cleared_sum
        grid_line = floor - (floor - starts[0][1]) // step * step
        self.foreseen = Foreseen(branch, grid_line, step, starts, before, begin)
        if branch == self._tip.branch:
            self.know(begin[0], in_order(row for row in rows if row[0] > 0))
            found = {row[0]: row for row in rows if -6 < row[0] < -2}
            if -5 in found:
                said = found[-5][1]
                self._versions[begin[0]] = [(branch, *found[tag][1:], said) for tag in (-3, -4) if tag in found]

    def messages(self, begin: Start) -> Script[list[Logged]]:
        """What was said from the beginning of a turn on."""
        if begin.first in self._said:
            return self._said[begin.first]
        return (yield from onward(self._line, first=begin.first, last=self._head.seq, messages=True))

    def versions(self, begin: Start) -> list[Row] | None:
        """What `versions_at` gives for a window that begins there, if that was read ahead."""
        return self._versions.get(begin.first)

    def drive(self, asking: Lookups[T]) -> Script[T]:
        answer: Any = None
        while True:
            try:
                asked = asking.send(answer)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            match asked:
                case From(before):
                    answer = yield from self._from(before)
                case Upto(before):
                    answer = yield from self._upto(before)
                case At(seq):
                    answer = yield from self._at(seq)
                case Back(count, spoken):
                    answer = yield from self._back(count, spoken)
                case Question(before):
                    answer = yield from self._question(before)
                case Level(below):
                    answer = yield from self._level(below)
                case Ranked(importance, before, limit):
                    answer = yield from self._ranked(importance, before, limit)
                case other:
                    raise BadValue("strategy", other, "a function that asks for look-ups: From, Upto, At, Back")

    # -- turns by their place ------------------------------------------------------------------------------

    def _from(self, before: int) -> Script[tuple[Start, Start | None]]:
        low = self._head.cleared_sum + before
        for piece in self._from_pieces(low):
            found, less = yield from self._around(piece, low)
            if found is not None:
                return found, less
        found, less = yield from self._around(None, low)
        if found is None and less is not None and less.first >= self._newest.first:
            less = yield from self._before(less)  # the newest turn is not its own predecessor
        return found or self._newest, less

    def _from_pieces(self, low: int) -> Iterator[Piece]:
        """The frozen pieces in which the first turn with at least `low` tokens before it may begin: the first piece
        that ends with as many tokens, then the next piece in which a turn begins."""
        if (piece := self._oldest(lambda piece: piece.end.settled_sum >= low)) is None:
            return
        yield piece
        last = piece.last
        if (piece := self._oldest(lambda piece: piece.end.turn_first > last)) is not None:
            yield piece

    def _around(self, piece: Piece | None, low: int) -> Script[tuple[Start | None, Start | None]]:
        """The first turn of a piece (None: the tip) with at least `low` tokens before it, and the last turn with fewer,
        in that piece or before it."""
        past = piece.past if piece else self._past
        less = self._begun(past.begun) if past else None
        if piece and (piece.end.turn_first < piece.first or piece.has_one_turn):
            found = self._begun(piece.begun) if piece.end.turn_first >= piece.first else None
            return (found, less) if found and piece.begun.settled_before >= low else (None, found or less)
        segment = self._cut(piece)
        if segment.first > segment.last:
            return None, less
        found = None
        for row in (yield from self._start_from(piece, segment, low)):
            if row[1] < low:
                less = self._start(row)
            else:
                found = self._start(row)
        return found, less

    def _start_from(self, piece: Piece | None, segment: Segment, low: int) -> Script[Sequence[Row]]:
        foreseen = self._foreseen_on(segment)
        if foreseen is not None and (rows := foreseen.around(low)) is not None:
            return rows
        return (yield Ask("start_from", {**span(self._line, segment), **self._bounds(piece, low)}))

    def _foreseen_on(self, segment: Segment) -> Foreseen | None:
        return self.foreseen if self.foreseen and self.foreseen.branch == segment.branch else None

    def _bounds(self, piece: Piece | None, low: int) -> dict[str, int]:
        return {
            "floor": self._head.cleared_sum,
            "low": low,
            "high": piece.end.settled_before if piece else self._head.settled_before,
            "previous": min(self._cut(piece).last, self._newest.first - 1),
        }

    def _upto(self, before: int) -> Script[Start]:
        high, newest = self._head.cleared_sum + before, self._newest.first
        # The oldest piece by whose end a turn has begun that is too late. The one wanted comes before that turn.
        piece = self._oldest(lambda piece: piece.begun.settled_before > high or piece.begun.first >= newest)
        return (yield from self._last(piece, newest - 1, high)) or self._newest

    def _before(self, start: Start) -> Script[Start | None]:
        """The turn before another."""
        high = self._head.cleared_sum + start.before
        return (yield from self._last(self._frozen(start.first), start.first - 1, high))

    def _last(self, piece: Piece | None, last: int, high: int) -> Script[Start | None]:
        """The last turn up to a seq with at most `high` tokens before it, in a piece (None: the tip) or before it."""
        segment = self._cut(piece, last)
        if segment.first <= segment.last and not (piece and piece.has_one_turn):
            foreseen = self._foreseen_on(segment)
            if foreseen and (last, high) == (self._newest.first - 1, foreseen.grid_line):
                return self._start(foreseen.begin)
            bounds = {"floor": self._head.cleared_sum, "high": high}
            if rows := (yield Ask("start_upto", {**span(self._line, segment), **bounds})):
                return self._start(rows[0])
        past = piece.past if piece else self._past
        return self._begun(past.begun) if past else None

    def _next(self, start: Start) -> Script[Start]:
        """The turn after another that is not the newest."""
        piece = self._oldest(lambda piece: piece.end.turn_first > start.first)
        if piece and piece.has_one_turn:
            return self._begun(piece.begun) or self._newest
        # `previous` is 0: the turn before is known, and not asked for.
        low = self._head.cleared_sum + start.before
        high = piece.end.settled_before if piece else self._head.settled_before
        segment = self._cut(piece)._replace(first=max(start.first + 1, self._cut(piece).first))
        values = {**span(self._line, segment), "floor": low, "low": low, "high": high, "previous": 0}
        rows = yield Ask("start_from", values)
        return self._start(rows[0]) if rows else self._newest

    def _at(self, seq: int) -> Script[Start]:
        if not 0 < seq <= self._head.seq:
            raise UnknownSeq(seq, last=self._head.seq)
        piece = self._frozen(seq)
        if piece and 0 < piece.begun.first <= seq:
            start = self._begun(piece.begun)
            return start or (yield from self._from(0))[0]
        found = yield from head(self._line, at=seq)
        if found.turn_first <= self._head.cleared:
            return (yield from self._from(0))[0]
        if found.turn_first == seq:
            return _start_of(found)
        return (yield from self._starts([found.turn_first]))[found.turn_first]

    def _back(self, count: int, spoken: bool) -> Script[Start]:
        first, last = self._head.cleared + 1, self._head.seq
        rows = yield from gather(self._line, SPOKEN if spoken else SAID, limit=count, first=first, last=last)
        # Where there are fewer messages than that, the last row is of the first turn.
        return (yield from self._at(rows[-1][0])) if rows else self._newest

    def _question(self, before: int) -> Script[Older | None]:
        first, low, high = self._head.cleared + 1, self._head.cleared_sum, self._head.settled_before
        rows = yield from gather(self._line, ASKED, limit=1, first=first, last=before - 1, low=low, high=high)
        if not rows:
            return None
        start = self._start(rows[0])
        after = yield from self._next(start)
        return Older(start, after.first - 1, after.before - start.before)

    # -- turns by their importance -------------------------------------------------------------------------

    def _level(self, below: int) -> Script[int | None]:
        levels = yield from self._levels()
        found = [level for level, seq in levels.items() if 0 <= level < below and seq > self._head.cleared]
        rows = yield Ask("importance_below", {**span(self._line, self._tip), "below": below})
        return max([*found, *(row[0] for row in rows)], default=None)

    def _levels(self) -> Script[dict[int, int]]:
        """For each importance, the seq of the newest turn in the frozen pieces that follows a turn of that importance.
        It is asked for once, with one query."""
        unknown, piece = list[Piece](), self._past
        while piece is not None and not piece.levels:
            unknown.append(piece)
            piece = piece.past
        if unknown:
            pieces = told({piece.branch: piece.last for piece in unknown})
            own: dict[int, dict[int, int]] = {piece.branch: {-1: 0} for piece in unknown}  # so that none is empty
            for branch, level, seq in (yield Ask("levels", {**key_of(self._line), "pieces": pieces})):
                own[branch] |= {level: seq} if seq else {}
            for piece in reversed(unknown):
                piece.levels.update({**(piece.past.levels if piece.past else {}), **own[piece.branch]})
        return self._past.levels if self._past else {}

    def _ranked(self, importance: int, before: int, limit: int) -> Script[list[Older]]:
        yield from self._levels()
        what = What(
            "turns_by_importance",
            "",
            "turns_by_importance_among",
            0,
            lambda piece: piece.levels.get(importance, 0),
            only=only_turn,
        )
        first, last = self._head.cleared + 1, min(before, self._head.seq)
        rows = yield from gather(self._line, what, limit=limit, first=first, last=last, importance=importance)
        rows = [row for row in rows if (row[2] or 0) > self._head.cleared]
        begun = {row[2]: self._start(row[2:]) for row in rows if row[3] is not None}
        begun |= yield from self._starts([row[2] for row in rows if row[3] is None])
        return [
            Older(begun[first], after - 1, end - self._head.cleared_sum - begun[first].before, importance)
            for after, end, first, *_ in rows
        ]

    # -- pins ----------------------------------------------------------------------------------------------

    def pins(self) -> Script[Pins]:
        """The pinned turns but the newest, newest pin first."""
        first = self._head.cleared + 1
        rows = yield from newest_markers(self._line, "pin", first=first, last=self._head.seq, limit=PINS)
        said: dict[int, bool] = {}
        for row in rows:
            if isinstance(event := row.event, Pin):
                said.setdefault(event.turn, event.pinned)
        found = []
        for turn in (turn for turn, pinned in said.items() if pinned and first <= turn < self._newest.first):
            start = yield from self._at(turn)
            after = yield from self._next(start)
            found.append(Older(start, after.first - 1, after.before - start.before, why="pinned"))
        return Pins(tuple(found), len(rows) == PINS, rows[0].seq if rows else 0)

    # -- pieces of the line --------------------------------------------------------------------------------

    def _oldest(self, holds: Callable[[Piece], bool]) -> Piece | None:
        """The oldest frozen piece since the last clear for which something holds."""
        cleared = self._head.cleared
        return oldest(self._past, lambda piece: piece.last > cleared and holds(piece))

    def _frozen(self, seq: int) -> Piece | None:
        """The frozen piece that holds an event; None: the tip does."""
        return self._line.piece(seq) if seq < self._tip.first else None

    def _cut(self, piece: Piece | None, last: int = ENDLESS) -> Segment:
        """A piece (None: the tip), since the last clear and up to a seq."""
        branch, first, end = piece.segment() if piece else self._tip
        return Segment(branch, max(first, self._head.cleared + 1), min(end, last))

    def _starts(self, seqs: list[int]) -> Script[dict[int, Start]]:
        """The turns that begin at these seqs."""
        found, asked = dict[int, Start](), dict[int, int]()
        for seq in seqs:
            piece = self._frozen(seq)
            if piece and piece.begun.first == seq and (start := self._begun(piece.begun)):
                found[seq] = start
            else:
                asked[seq] = self._line.owner(seq)
        if asked:
            rows = yield Ask("heads_among", {**key_of(self._line), "spots": told(asked)})
            found |= {row[0]: _start_of(head_of(row)) for row in rows}
        return found

    def _begun(self, begun: Begun) -> Start | None:
        """A turn that a piece knows, if it began since the last clear."""
        return self._start(begun[:4]) if begun.first > self._head.cleared else None

    def _start(self, row: Row) -> Start:
        first, before, number, messages = row[:4]
        return Start(first, before - self._head.cleared_sum, number, messages)


def _begun_by(rows: Sequence[Row], tag: int) -> list[tuple[int, int, int, int]]:
    """The turns among the rows of `window_ahead` that have this tag."""
    return [(row[1], row[4], row[5], row[7]) for row in rows if row[0] == tag]


def in_order(rows: Iterable[Row]) -> list[Logged]:
    """Events from their columns, in the order of their seqs."""
    by_seq: list[Row] = sorted(rows, key=itemgetter(1))
    return logged(by_seq)


def _start_of(head: Head) -> Start:
    return Start(head.seq, head.settled_before - head.cleared_sum, head.turn, head.messages_before)
