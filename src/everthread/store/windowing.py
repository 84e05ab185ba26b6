"""Reading a window: sees what there is, has turns chosen (`store.lookups` answers from the indexes), and fetches what
was chosen. All of it in one script, as of any seq, and no more rows than are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

import msgspec

from everthread.core.branches import KINDS, NONE, Begun, Line
from everthread.core.events import Settings, System
from everthread.core.logged import Logged, readable
from everthread.core.strategies import Choice, Older
from everthread.core.turns import Head
from everthread.core.window import Lookups, Start
from everthread.errors import UnknownSeq
from everthread.store import remembering
from everthread.store.along import span
from everthread.store.engine import Ask, Script
from everthread.store.lookups import Lookup, Pins, tip_of
from everthread.store.reading import head, newest_markers, onward
from everthread.store.remembering import Remembered

T = TypeVar("T")

OPENING = 8  # events among which are the system messages that open a conversation
OPENS = ("system", "fork", "rewind", "settings", "command")  # a tombstone of a system message keeps its kind
SETTINGS = 2_000  # newest changes that are looked at
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
    unread: int  # settings that are damaged
    pins: tuple[Older, ...]
    more_pins: bool
    marks: Marks


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
    if planned.memory and (latest := sighted.marks.of(planned.memory)) > newest.cleared:
        brief = yield from remembering.brief(line, newest, planned.memory, choice.begin.first, latest=latest)
    if planned.recap and events and sighted.marks.of("session_ended") > newest.cleared:
        covered = max(newest.cleared, brief.brief.covers if brief.brief else 0)
        if not brief.brief or brief.behind:
            recap = yield from remembering.recap(line, newest, events[0], covered)
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
    changes = readable(found)
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
        settings=tuple(event for row in reversed(changes) if isinstance(event := row.event, Settings)),
        unread=len(found) - len(changes),
        pins=pins.turns,
        more_pins=pins.more,
    )


MARKS = KINDS[:5]


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
    """With a question about the piece that holds the newest event: those before it know the rest."""
    tip = tip_of(line, head.seq)
    asked = {**span(line, tip.segment), "turn_first": head.turn_first, "opening": line.owner(1)}
    rows = yield Ask("marks", asked)
    if not rows:
        return Marks()
    *newest, opening, settings, forgotten, first, settled_before, turn, messages, tokens_before = rows[0]
    inherited, begun = (tip.past.marks, tip.past.begun) if tip.past else (NONE, Begun())
    if first:
        begun = Begun(first, settled_before, turn, messages, tokens_before)
    # Numbers go on from piece to piece, so the newest of all pieces is the highest.
    seqs = tuple([max(old, new or 0) for old, new in zip(inherited, newest, strict=False)])
    before = (begun.settled_before - head.cleared_sum, *begun[2:]) if begun.first else (0, 0, 0, 0)
    return Marks(seqs, opening or "", settings, forgotten, before)


def _opening(events: Iterable[Logged]) -> Iterable[Logged]:
    for event in events:
        if isinstance(event.event, System):
            yield event
        elif event.kind not in OPENS:
            return
