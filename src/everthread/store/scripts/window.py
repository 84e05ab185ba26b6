"""Reading a window: one script reads what a plan is made from, has the turns chosen, and fetches those.

It reads as of any seq, and no more rows than are sent. `store.scripts.lookups` answers from the indexes what the choice
depends on.

Most windows take two queries: `sight` reads all that a plan is made from, and `window_ahead` what a choice by size will
probably come to. Where the last window (`store.windows`) still begins at the same turn, `sight` alone is enough: it
reads what was said since as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec

from everthread.core.branches import ENDLESS, KINDS, NONE, Begun, Current, Line
from everthread.core.events import SettingsChanged, System
from everthread.core.logged import Logged, readable
from everthread.core.strategies import Choice, Older
from everthread.core.turns import Head
from everthread.core.window import Lookups, Start
from everthread.errors import UnknownConversation, UnknownSeq
from everthread.store.conversations import main_of
from everthread.store.engine import Ask, Row, Script
from everthread.store.scripts import branch, remembered
from everthread.store.scripts.along import span
from everthread.store.scripts.append import head_of
from everthread.store.scripts.lookups import Ahead, Foreseen, Lookup, Pins, in_order, tip_of
from everthread.store.scripts.read import head, newest_markers, onward
from everthread.store.scripts.remembered import Recollection
from everthread.store.windows import LastRead, Windows

T = TypeVar("T")
P = TypeVar("P")

OPENING = 8  # events among which are the system messages that open a conversation
OPENS = ("system", "fork", "rewind", "settings", "command")  # a tombstone of a system message keeps its kind
SETTINGS = 2_000  # how many of the newest changes of settings are looked at
NOTHING = Recollection()


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """What is known before anything is chosen. `opening`: the system messages with which the branch begins. `notes`:
    the document that was asked for. `notes_since`: when its first version was written, 0 where there is none. It
    changes when the document is forgotten and written anew."""

    line: Line
    head: Head
    notes: str
    notes_since: int
    newest: Start | None
    size: int  # of the newest turn, in full
    settled: int  # and with its large results as stubs
    changed: int  # seq of the newest marker that may have changed what is sent: settings, a pin
    opening: tuple[Logged, ...]
    settings: tuple[SettingsChanged, ...]
    unread: int  # how many changes of settings are damaged
    pins: tuple[Older, ...]
    more_pins: bool
    marks: Marks


class WindowRead(msgspec.Struct, frozen=True, kw_only=True):
    """A window with everything that goes into its context."""

    outlook: Outlook
    choice: Choice | None
    older: tuple[tuple[Older, list[Logged]], ...]
    events: list[Logged]
    brief: Recollection
    recap: Recollection
    read: LastRead | None = None  # to be kept for the next time


class Planned(NamedTuple, Generic[P]):
    """What is to be read: the turns that `choosing` comes to, and the kind of summary that goes with them. `ahead`:
    what it will probably ask for, where it chooses by size. `made`: the plan itself, for whoever made it."""

    made: P
    choosing: Lookups[Choice]
    memory: str
    recap: bool
    ahead: Ahead | None = None


class Asking(NamedTuple):
    """What a window is read with: as of just before event `at` (None: as of now), and with the user's document `notes`.
    `known`: the lines that are known already. `windows`: the last windows, which are used only as of now."""

    at: int | None
    notes: str
    known: branch.Lines
    windows: Windows | None = None


def window(way: Line | Current, asking: Asking, plan: Callable[[Outlook], Planned[P]]) -> Script[tuple[WindowRead, P]]:
    """Read the window that a plan chooses. `plan` is called with what is known before; what it made is given back with
    the window."""
    outlook, since = yield from _sight(way, asking)
    planned, line = plan(outlook), outlook.line
    if outlook.newest is None:
        empty = WindowRead(outlook=outlook, choice=None, older=(), events=[], brief=NOTHING, recap=NOTHING)
        return empty, planned.made
    memory = planned.memory if outlook.marks.of(planned.memory) > outlook.head.cleared else ""
    look = Lookup(line, outlook.head, outlook.newest)
    if read := since.read:
        look.know(read.begin, [*read.messages, *since.said])
    if planned.ahead:
        yield from look.foresee(planned.ahead, memory, read.foreseen_with(outlook, memory) if read else None)
    choice = yield from look.drive(planned.choosing)
    older = yield from _older(line, choice)
    events = yield from look.messages(choice.begin)
    brief = (yield from _brief(look, outlook, memory, choice.begin)) if memory else NOTHING
    recap = (yield from _recap(outlook, brief, events[0])) if planned.recap and events else NOTHING
    seen = WindowRead(
        outlook=outlook,
        choice=choice,
        older=older,
        events=events,
        brief=brief,
        recap=recap,
        read=_to_keep(choice, events, look.foreseen, outlook, memory),
    )
    return seen, planned.made


def _older(line: Line, choice: Choice) -> Script[tuple[tuple[Older, list[Logged]], ...]]:
    """The turns before the window that are sent, with what was said in them."""
    older: list[tuple[Older, list[Logged]]] = []
    for turn in choice.older:
        said = yield from onward(line, first=turn.start.first, last=turn.last, messages=True)
        older += [(turn, said)] if said else []
    return tuple(older)


def _brief(look: Lookup, outlook: Outlook, kind: str, begin: Start) -> Script[Recollection]:
    """The brief or summary of what was said before the window."""
    upto, latest, ahead = outlook.head, outlook.marks.of(kind), look.versions(begin)
    if kind == "summary":  # a brief may be one that the user has corrected, which holds at once
        upto, latest = yield from remembered.as_begun(outlook.line, upto, kind, latest)
    return (yield from remembered.brief(outlook.line, upto, kind, begin.first, latest=latest, ahead=ahead))


def _recap(outlook: Outlook, brief: Recollection, first: Logged) -> Script[Recollection]:
    """The recap of the session before, where the brief does not tell of it."""
    line, newest, latest = outlook.line, outlook.head, outlook.marks.of("session_ended")
    if latest <= newest.cleared or (brief.brief and not brief.behind):
        return NOTHING
    upto, _ = yield from remembered.as_begun(line, newest, "session_ended", latest)
    covered = max(newest.cleared, brief.brief.covers if brief.brief else 0)
    return (yield from remembered.recap(line, upto, first, covered))


def _to_keep(
    choice: Choice, events: list[Logged], foreseen: Foreseen | None, outlook: Outlook, memory: str
) -> LastRead:
    stays = foreseen is not None and outlook.newest is not None and foreseen.stays(outlook.newest)
    kept = msgspec.structs.replace(outlook, notes="")  # which are read every time, and may be forgotten by themselves
    return LastRead(kept, choice.begin.first, events, memory, foreseen if stays else None)


class Since(NamedTuple):
    """The last window of a branch, and what was said since."""

    read: LastRead | None
    said: list[Logged]


def look(way: Line | Current, asking: Asking, ask: Callable[[Outlook], Lookups[T]], nothing: T) -> Script[T]:
    """The result of `ask`, whose look-ups are about the turns of a line; `nothing` where there are none."""
    outlook, _ = yield from _sight(way, asking)
    if outlook.newest is None:
        return nothing
    return (yield from Lookup(outlook.line, outlook.head, outlook.newest).drive(ask(outlook)))


def _sight(way: Line | Current, asking: Asking) -> Script[tuple[Outlook, Since]]:
    """What is known before anything is chosen: mostly the answer to the query `sight`."""
    at = asking.at
    line, rows, read = yield from _rows_of(way, asking)
    row = rows[0][:-SAID]
    newest = head_of(row[-HEAD:]) if row[-HEAD] else Head()
    marks = _marks(line, row, newest)
    if at is not None and (at < 1 or newest.seq != at - 1):
        raise UnknownSeq(at, last=(yield from head(line)).seq)
    before = read.outlook if read and read.holds(marks.forgotten, newest) else None
    opening = yield from _opening(line, newest, marks, before)
    settings, unread = yield from _settings(line, newest, marks, before)
    start, pins = None, Pins((), False, 0)
    if newest.turn_first > newest.cleared:
        start = Start(newest.turn_first, *marks.begun[:3])
        if marks.of("pin") > newest.cleared:
            pins = yield from Lookup(line, newest, start).pins()
    said = [row[-SAID:] for row in rows if row[-SAID]]
    outlook = Outlook(
        line=line,
        head=newest,
        notes=bytes(row[3] or b"").decode("utf-8", "surrogatepass"),
        notes_since=row[4] or 0,
        newest=start,
        size=newest.tokens_sum - marks.begun[3],
        settled=newest.settled_sum - newest.cleared_sum - marks.begun[0],
        changed=max(marks.of("settings"), pins.changed),
        marks=marks,
        opening=opening,
        settings=settings,
        unread=unread,
        pins=pins.turns,
        more_pins=pins.more,
    )
    return outlook, Since(read if before else None, in_order(said))


def _opening(line: Line, newest: Head, marks: Marks, before: Outlook | None) -> Script[tuple[Logged, ...]]:
    """The system messages that open a branch. Once it has `OPENING` events they stay as they were `before`."""
    if marks.opening not in OPENS:
        return ()
    if before is not None and before.head.seq >= OPENING:
        return before.opening
    return tuple(_system((yield from onward(line, last=min(newest.seq, OPENING)))))


def _settings(
    line: Line, newest: Head, marks: Marks, before: Outlook | None
) -> Script[tuple[tuple[SettingsChanged, ...], int]]:
    """The settings of a branch, the oldest first, and how many of them are damaged."""
    latest = marks.of("settings")
    if not latest:
        return (), 0
    if before is not None and before.marks.of("settings") == latest:
        return before.settings, before.unread
    found = yield from newest_markers(line, "settings", last=newest.seq, limit=SETTINGS)
    changes = readable(found)
    events = tuple(event for row in reversed(changes) if isinstance(event := row.event, SettingsChanged))
    return events, len(found) - len(changes)


MARKS = KINDS[:5]
HEAD = len(Head.__struct_fields__)
SAID = len(Logged.__struct_fields__)


class Marks(NamedTuple):
    """`newest`: the newest seq of each of `MARKS`, 0 where there is none. `opening`: the kind of event that the branch
    begins with. `begun`, of the newest turn: the settled tokens before it since the last clear, its number, and the
    messages and tokens before it."""

    newest: tuple[int, ...] = (0,) * len(MARKS)
    opening: str = ""
    conversation: str = "{}"  # its settings
    forgotten: int = 0  # how often something of it was redacted
    begun: tuple[int, int, int, int] = (0, 0, 0, 0)

    def of(self, kind: str) -> int:
        return self.newest[MARKS.index(kind)] if kind else 0


class Rows(NamedTuple):
    """The answer to the query `sight` about a line, and the last window that it was asked with."""

    line: Line
    rows: Sequence[Row]
    read: LastRead | None


def _rows_of(way: Line | Current, asking: Asking) -> Script[Rows]:
    """The answer to `sight` about the line that is meant. Where the current branch is meant, the one that was current
    last time is asked about: the answer says which branch is current, and mostly it is still that one."""
    if isinstance(way, Line):
        return (yield from _seen_on(way, asking))
    seen = yield from _seen_on(asking.known.get((way.tenant, way.conversation, 0)) or main_of(way), asking)
    current = seen.rows[0][0]
    if current != seen.line.branch.number:
        line = yield from branch.line(way.tenant, way.conversation, current, known=asking.known)
        asking.known[way.tenant, way.conversation, 0] = line
        seen = yield from _seen_on(line, asking)
    return seen


def _seen_on(line: Line, asking: Asking) -> Script[Rows]:
    """The answer to `sight` about one line. Only the piece that holds the newest event is read: the pieces before it
    are frozen, and know the rest."""
    last = ENDLESS if asking.at is None else asking.at - 1
    piece = line.piece(last)
    segment = piece.segment(last=last) if piece else line.own._replace(last=last)
    read = asking.windows.of(line) if asking.windows and asking.at is None else None
    asked = {"opening": line.owner(1), "notes": asking.notes, "unread": read.outlook.head.seq + 1 if read else ENDLESS}
    rows = yield Ask("sight", {**span(line, segment), **asked})
    # A branch may have no event of its own yet, not even its fork.
    if rows and not rows[0][-HEAD - SAID] and line.past and last > line.branch.at:
        rows = yield Ask("sight", {**span(line, line.past.segment()), **asked, "unread": ENDLESS})
    if not rows:
        raise UnknownConversation(line.conversation)
    return Rows(line, rows, read)


def _marks(line: Line, row: Row, head: Head) -> Marks:
    _, settings, forgotten, _, _, *newest = row[: 5 + len(MARKS)]
    opening, *first = row[5 + len(MARKS) : -HEAD]
    tip = tip_of(line, head.seq)
    inherited, begun = (tip.past.marks, tip.past.begun) if tip.past else (NONE, Begun())
    if first[0]:
        begun = Begun(*first)
    # Numbers go on from piece to piece, so the newest of all pieces is the highest.
    seqs = tuple([max(old, new or 0) for old, new in zip(inherited, newest, strict=False)])
    before = (begun.settled_before - head.cleared_sum, *begun[2:]) if begun.first else (0, 0, 0, 0)
    return Marks(seqs, opening or "", settings, forgotten, before)


def _system(events: Iterable[Logged]) -> Iterable[Logged]:
    for event in events:
        if isinstance(event.event, System):
            yield event
        elif event.kind not in OPENS:
            return
