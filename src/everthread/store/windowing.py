"""Reading a window: answers the look-ups of `core.window` and `core.strategies` from the indexes, and fetches
what was chosen. All of it in one script, as of any seq, and no more rows than are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import msgspec

from everthread.core.branches import Line, Segment
from everthread.core.events import Pin, Settings, System
from everthread.core.logged import Logged
from everthread.core.strategies import At, Back, Choice, Level, Older, Ranked
from everthread.core.turns import Head
from everthread.core.window import From, Lookups, Start, Upto
from everthread.errors import BadValue, UnknownSeq
from everthread.store import remembering
from everthread.store.engine import Ask, Row, Script
from everthread.store.reading import ENDLESS_SUM, gather, head, newest_markers, onward, span
from everthread.store.remembering import Remembered

T = TypeVar("T")

OPENING = 8  # events among which are the system messages that open a conversation
OPENS = ("system", "fork", "rewind", "settings", "command")  # a tombstone of a system message keeps its kind
PINS, SETTINGS = 1_000, 2_000  # newest changes that are looked at
NOTHING = Remembered()


class Sighted(msgspec.Struct, frozen=True, kw_only=True):
    """What is known before anything is chosen. `opening`: the system messages with which the branch begins."""

    head: Head
    newest: Start | None
    size: int  # of the newest turn, in full
    settled: int  # and with its large results as stubs
    changed: int  # seq of the newest marker that may have changed what is sent: settings, a pin
    opening: tuple[Logged, ...]
    settings: tuple[Settings, ...]
    pins: tuple[Older, ...]
    more_pins: bool
    marks: Marks

    @property
    def remembers(self) -> bool:
        """Whether memory has anything since the last clear."""
        return max(self.marks.newest[2:]) > self.head.cleared


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A window with everything that goes into its context."""

    sighted: Sighted
    choice: Choice | None
    older: tuple[tuple[Older, list[Logged]], ...]
    events: list[Logged]
    brief: Remembered
    recap: Remembered


class Planned(NamedTuple):
    """What is to be read: the turns that `choosing` comes to, and the kind of summary that goes with them."""

    choosing: Lookups[Choice]
    memory: str
    recap: bool


def window(line: Line, *, at: int | None, plan: Callable[[Sighted], Planned]) -> Script[Seen]:
    """The window that `plan` makes of what is sighted, as of before event `at`."""
    sighted = yield from _sight(line, at)
    planned = plan(sighted)
    if sighted.newest is None:
        return Seen(sighted=sighted, choice=None, older=(), events=[], brief=NOTHING, recap=NOTHING)
    look = Lookup(line, sighted.head, sighted.newest)
    choice = yield from look.drive(planned.choosing)
    older: list[tuple[Older, list[Logged]]] = []
    for turn in choice.older:
        said = yield from onward(line, first=turn.start.first, last=turn.last, messages=True)
        older += [(turn, said)] if said else []
    events = yield from onward(line, first=choice.begin.first, last=sighted.head.seq, messages=True)
    newest, brief, recap = sighted.head, NOTHING, NOTHING
    if planned.memory and sighted.marks.of(planned.memory) > newest.cleared:
        brief = yield from remembering.brief(line, newest, planned.memory, choice.begin.first)
    if planned.recap and sighted.marks.of("session_ended") > newest.cleared:
        recap = yield from remembering.recap(line, newest)
    return Seen(sighted=sighted, choice=choice, older=tuple(older), events=events, brief=brief, recap=recap)


def look(line: Line, *, at: int | None, ask: Callable[[Sighted], Lookups[T]], nothing: T) -> Script[T]:
    """What a question about the turns of a line comes to; `nothing` where there are none."""
    sighted = yield from _sight(line, at)
    if sighted.newest is None:
        return nothing
    return (yield from Lookup(line, sighted.head, sighted.newest).drive(ask(sighted)))


def _sight(line: Line, at: int | None) -> Script[Sighted]:
    newest = yield from head(line)
    if at is not None and not 0 < at <= newest.seq + 1:
        raise UnknownSeq(at, last=newest.seq)
    if at is not None and at <= newest.seq:
        newest = yield from head(line, at=at - 1)
    marks = yield from _marks(line, newest)
    opening = (yield from onward(line, last=min(newest.seq, OPENING))) if marks.opening in OPENS else []
    found: list[Logged] = []
    if marks.of("settings"):
        found = yield from newest_markers(line, "settings", last=newest.seq, limit=SETTINGS)
    start, pins = None, Pins((), False, 0)
    if newest.turn_first > newest.cleared:
        start = Start(newest.turn_first, *marks.begun[:3])
        if marks.of("pin") > newest.cleared:
            pins = yield from Lookup(line, newest, start).pins()
    return Sighted(
        head=newest,
        newest=start,
        size=newest.tokens_sum - marks.begun[3],
        settled=newest.settled_sum - newest.cleared_sum - marks.begun[0],
        changed=max(marks.of("settings"), pins.changed),
        marks=marks,
        opening=tuple(_opening(opening)),
        settings=tuple(event for row in reversed(found) if isinstance(event := row.event, Settings)),
        pins=pins.turns,
        more_pins=pins.more,
    )


MARKS = ("settings", "pin", "brief_updated", "summary", "session_ended")


class Marks(NamedTuple):
    """The newest seq of each of `MARKS`, 0 where there is none; the kind of event that the branch begins with; and of
    the newest turn what came before it: settled tokens since the last clear, its number, messages, tokens."""

    newest: tuple[int, ...] = (0,) * len(MARKS)
    opening: str = ""
    conversation: str = "{}"  # its settings
    forgotten: int = 0  # how often something of it was redacted
    begun: tuple[int, int, int, int] = (0, 0, 0, 0)

    def of(self, kind: str) -> int:
        return self.newest[MARKS.index(kind)]


def _marks(line: Line, head: Head) -> Script[Marks]:
    found = Marks()
    for piece in line.between(1, max(1, head.seq)):
        turn_first = head.turn_first if piece.first <= head.turn_first <= piece.last else 0
        rows = yield Ask("marks", {**span(line, piece), "turn_first": turn_first})
        *newest, opening, settings, forgotten, first, settled_before, turn, messages, tokens_before = rows[0]
        # Numbers go on from piece to piece, so the newest of all pieces is the highest.
        seqs = tuple([max(old, new or 0) for old, new in zip(found.newest, newest, strict=True)])
        begun = (settled_before - head.cleared_sum, turn, messages, tokens_before) if first else found.begun
        found = Marks(seqs, opening or "" if piece.first == 1 else found.opening, settings, forgotten, begun)
    return found


def _opening(events: Iterable[Logged]) -> Iterable[Logged]:
    for event in events:
        if isinstance(event.event, System):
            yield event
        elif event.kind not in OPENS:
            return


class Pins(NamedTuple):
    """Pinned turns, whether there may be more than were looked at, and the seq of the newest change."""

    turns: tuple[Older, ...]
    more: bool
    changed: int


class Lookup:
    """The look-ups as of one head of a line, within what was said since the last clear."""

    def __init__(self, line: Line, head: Head, newest: Start) -> None:
        self._line = line
        self._head = head
        self._newest = newest

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
                case Level(below):
                    answer = yield from self._level(below)
                case Ranked(importance, before, limit):
                    answer = yield from self._ranked(importance, before, limit)
                case other:
                    raise BadValue("strategy", other, "a function that asks for look-ups: From, Upto, At, Back")

    # -- turns by their place ------------------------------------------------------------------------------

    def _from(self, before: int) -> Script[tuple[Start, Start | None]]:
        floor = self._head.cleared_sum
        low = floor + before
        found: Start | None = None
        for segment in self._since():
            piece, end = yield from self._bounded(segment)
            # The newest turn is not its own predecessor, however far below the line it begins.
            previous = min(piece["last"], self._newest.first - 1)
            bounds = {"floor": floor, "low": low, "high": end, "previous": previous}
            for row in (yield Ask("start_from", {**piece, **bounds})):
                start = self._start(row)
                if start.before < before:  # where something comes before the line, nothing older can come after it
                    return found or self._newest, start
                found = start
        return found or self._newest, None

    def _upto(self, before: int) -> Script[Start]:
        floor = self._head.cleared_sum
        for piece in self._line.between(self._head.cleared + 1, self._newest.first - 1):
            rows = yield Ask("start_upto", {**span(self._line, piece), "floor": floor, "high": floor + before})
            if rows:
                return self._start(rows[0])
        return self._newest

    def _at(self, seq: int) -> Script[Start]:
        if not 0 < seq <= self._head.seq:
            raise UnknownSeq(seq, last=self._head.seq)
        found = yield from head(self._line, at=seq)
        if found.turn_first <= self._head.cleared:
            return (yield from self._from(0))[0]
        if found.turn_first != seq:
            found = yield from head(self._line, at=found.turn_first)
        return _start_of(found)

    def _back(self, count: int, spoken: bool) -> Script[Start]:
        query = "turns_of_spoken" if spoken else "turns_of_messages"
        first, last = self._head.cleared + 1, self._head.seq
        rows = yield from gather(self._line, query, limit=count, first=first, last=last)
        # A turn of the newest messages may begin with fewer than were asked for: then it is the first there is.
        return (yield from self._at(rows[-1][0])) if rows else self._newest

    # -- turns by their importance -------------------------------------------------------------------------

    def _level(self, below: int) -> Script[int | None]:
        found: list[int] = []
        for segment in self._since():
            rows = yield Ask("importance_below", {**span(self._line, segment), "below": below})
            found += [rows[0][0]] if rows else []
        return max(found, default=None)

    def _ranked(self, importance: int, before: int, limit: int) -> Script[list[Older]]:
        found: list[Older] = []
        rows = yield from gather(
            self._line,
            "turns_by_importance",
            limit=limit,
            first=self._head.cleared + 1,
            last=min(before, self._head.seq),
            importance=importance,
        )
        for after, end, first, *start in rows:
            if first > self._head.cleared:
                begun = self._start((first, start[0], *start[1:])) if start[0] is not None else None
                begun = begun or _start_of((yield from head(self._line, at=first)))
                size = end - self._head.cleared_sum - begun.before
                found.append(Older(begun, after - 1, size, importance))
        return found

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

    def _next(self, start: Start) -> Script[Start]:
        """The turn after another that is not the newest."""
        low = self._head.cleared_sum + start.before
        found = self._newest
        for segment in self._since(start.first + 1):
            piece, end = yield from self._bounded(segment)
            # What comes before it is not asked for.
            rows = yield Ask("start_from", {**piece, "floor": low, "low": low, "high": end, "previous": 0})
            found = self._start(rows[0]) if rows else found
        return found

    # -- pieces of the line --------------------------------------------------------------------------------

    def _since(self, first: int = 1) -> Iterator[Segment]:
        """The pieces of the line since the last clear, newest first."""
        return self._line.between(max(first, self._head.cleared + 1), self._head.seq)

    def _bounded(self, segment: Segment) -> Script[tuple[dict[str, Any], int]]:
        """A piece, and the sum before its last event: the branch goes on after the piece that is read of it, and the
        sum keeps a look-up from walking there."""
        end = ENDLESS_SUM
        if segment.last != self._head.seq:
            end = (yield from head(self._line, at=segment.last)).settled_before
        return span(self._line, segment), min(end, self._head.settled_before)

    def _start(self, row: Row) -> Start:
        first, before, number, messages = row
        return Start(first, before - self._head.cleared_sum, number, messages)


def _start_of(head: Head) -> Start:
    return Start(head.seq, head.settled_before - head.cleared_sum, head.turn, head.messages_before)
