"""The outlook: all that a plan is made from, read before any turn is chosen.

The query `sight` gives it whole, as of any seq. Where the last window of a branch is known, `news` is enough: the rows
that were written since, from which head and markers follow. That an earlier event was redacted meanwhile, or that the
window was cleared, shows in what `news` reads, and then `sight` is asked after all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

import msgspec

from everthread.core.branches import CANVAS, ENDLESS, MARKER_KINDS, NONE, OUTCOME, Begun, Current, Line
from everthread.core.canvas import EMPTY, Canvas
from everthread.core.events import SettingsChanged, System
from everthread.core.logged import Logged, logged, readable
from everthread.core.turns import Head
from everthread.core.window import Start
from everthread.errors import UnknownSeq
from everthread.store.conversations import absence, main_of
from everthread.store.engine import Ask, Row, Script
from everthread.store.scripts import branch
from everthread.store.scripts.along import key_of, span
from everthread.store.scripts.append import head_of
from everthread.store.scripts.lookups import Foreseen, Lookup, Pins, tip_of
from everthread.store.scripts.read import head, newest_markers, onward
from everthread.store.scripts.remembered import Recollection

OPENING = 8  # events among which are the system messages that open a conversation
OPENS = ("system", "fork", "rewind", "settings", "command")  # a tombstone of a system message keeps its kind
SETTINGS = 2_000  # how many of the newest changes of settings are looked at
MARKERS = MARKER_KINDS[:7]
BRIEF = "brief_updated"
TOLD = (CANVAS, OUTCOME)  # markers that are told of beside messages
HEAD, EVENT = len(Head.__struct_fields__), len(Logged.__struct_fields__)


class Markers(NamedTuple):
    """The newest seq of each of `MARKERS`, 0 where there is none."""

    newest: tuple[int, ...] = (0,) * len(MARKERS)

    def of(self, kind: str) -> int:
        return self.newest[MARKERS.index(kind)] if kind else 0


class Position(NamedTuple):
    """Where a line has come to. `newest_turn`: where the newest turn begins, and what came before it. `opening`: the
    kind of event that the line begins with."""

    head: Head
    markers: Markers
    newest_turn: Begun
    opening: str


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """What is known before anything is chosen. `opening`: the system messages with which the branch begins. `notes`:
    the document that was asked for. `notes_since`: when its first version was written, 0 where there is none. It
    changes when the document is forgotten and written anew."""

    line: Line
    position: Position
    conversation: str  # its settings
    forgotten: int  # how often something of it was redacted
    notes: str
    notes_since: int
    newest: Start | None
    opening: tuple[Logged, ...]
    settings: tuple[SettingsChanged, ...]
    unread: int  # how many changes of settings are damaged
    pins: Pins

    @property
    def head(self) -> Head:
        return self.position.head

    @property
    def markers(self) -> Markers:
        return self.position.markers

    @property
    def size(self) -> int:
        """Of the newest turn, in full."""
        return self.head.tokens_sum - self.position.newest_turn.tokens_before

    @property
    def settled(self) -> int:
        """Of the newest turn, with its large results as stubs."""
        return self.head.settled_sum - self.position.newest_turn.settled_before

    @property
    def changed(self) -> int:
        """The seq of the newest marker that may have changed what is sent: settings, a pin."""
        return max(self.markers.of("settings"), self.pins.changed)


class ToldBeside(NamedTuple):
    """What is told of beside messages: the canvas as it was before the window, and the markers in the window that
    change it or tell an outcome, oldest first."""

    canvas: Canvas = EMPTY
    markers: Sequence[Logged] = ()


class LastRead(NamedTuple):
    """A window as it was read: the outlook, the seq where it begins, its messages, what was `foreseen` of where it
    begins, the `brief` that goes with it, and what is told beside its messages. It holds until something is redacted or
    cleared."""

    outlook: Outlook
    begin: int
    messages: list[Logged]
    foreseen: Foreseen | None
    brief: Recollection | None
    beside: ToldBeside = ToldBeside()
    size: int = 0

    def holds(self, forgotten: int, newest: Head) -> bool:
        """Whether it still holds. `forgotten`: how often something of the conversation was redacted by now."""
        return (self.outlook.forgotten, self.outlook.head.cleared) == (forgotten, newest.cleared)

    def beside_for(self, begin: int, since: Sequence[Logged]) -> ToldBeside | None:
        """What is told beside the messages of a window that begins there, if that is known."""
        if self.begin != begin:
            return None
        return self.beside._replace(markers=[*self.beside.markers, *since]) if since else self.beside

    def brief_for(self, now: Outlook, begin: int) -> Recollection | None:
        """The brief for a window that begins there, if it is still the same: no newer version was written since."""
        same = self.begin == begin and self.outlook.markers.of(BRIEF) == now.markers.of(BRIEF)
        return self.brief if same else None


class Asking(NamedTuple):
    """What a window is read with: as of just before event `at` (None: as of now), and with the user's document `notes`.
    `known`: the lines that are known already. `last_read`: the last window of a line, which is used only as of now."""

    at: int | None
    notes: str
    known: branch.Lines
    last_read: Callable[[Line], LastRead | None] = lambda _: None


class Since(NamedTuple):
    """The last window of a branch, if it still holds, and since then what was said, and what is told beside that."""

    read: LastRead | None = None
    said: Sequence[Logged] = ()
    beside: Sequence[Logged] = ()


class Glance(NamedTuple):
    """The answer to `sight` or `news` about a line."""

    line: Line
    row: Row  # which branch is current, settings, redactions, notes and since when
    position: Position
    since: Since


def look_out(way: Line | Current, asking: Asking) -> Script[tuple[Outlook, Since]]:
    """What is known before anything is chosen, and what is known already of the window."""
    line, row, position, since = yield from _glance(way, asking)
    newest, before = position.head, since.read.outlook if since.read else None
    if asking.at is not None and (asking.at < 1 or newest.seq != asking.at - 1):
        raise UnknownSeq(asking.at, last=(yield from head(line)).seq)
    opening = yield from _opening(line, position, before)
    settings, unread = yield from _settings(line, position, before)
    start, pins = None, Pins((), False, 0)
    if newest.turn_first > newest.cleared:
        begun = position.newest_turn
        start = Start(newest.turn_first, begun.settled_before - newest.cleared_sum, begun.number, begun.messages_before)
        if position.markers.of("pin") > newest.cleared:
            pins = yield from Lookup(line, newest, start).pins()
    outlook = Outlook(
        line=line,
        position=position,
        conversation=row[1],
        forgotten=row[2],
        notes=bytes(row[3] or b"").decode("utf-8", "surrogatepass"),
        notes_since=row[4] or 0,
        newest=start,
        opening=opening,
        settings=settings,
        unread=unread,
        pins=pins,
    )
    return outlook, since


def _opening(line: Line, position: Position, before: Outlook | None) -> Script[tuple[Logged, ...]]:
    """The system messages that open a branch. Once it has `OPENING` events they stay as they were `before`."""
    if position.opening not in OPENS:
        return ()
    if before is not None and before.head.seq >= OPENING:
        return before.opening
    return tuple(_system((yield from onward(line, last=min(position.head.seq, OPENING)))))


def _system(events: Iterable[Logged]) -> Iterable[Logged]:
    for event in events:
        if isinstance(event.event, System):
            yield event
        elif event.kind not in OPENS:
            return


def _settings(
    line: Line, position: Position, before: Outlook | None
) -> Script[tuple[tuple[SettingsChanged, ...], int]]:
    """The settings of a branch, the oldest first, and how many of them are damaged."""
    latest = position.markers.of("settings")
    if not latest:
        return (), 0
    if before is not None and before.markers.of("settings") == latest:
        return before.settings, before.unread
    found = yield from newest_markers(line, "settings", last=position.head.seq, limit=SETTINGS)
    changes = readable(found)
    events = tuple(event for row in reversed(changes) if isinstance(event := row.event, SettingsChanged))
    return events, len(found) - len(changes)


# -- the two queries ---------------------------------------------------------------------------------------------


def _glance(way: Line | Current, asking: Asking) -> Script[Glance]:
    """Where the line that is meant has come to. If that is the current branch, the one that was current last time is
    asked about: the answer says which branch is current, and mostly it is still that one."""
    if isinstance(way, Line):
        return (yield from _glance_at(way, asking))
    seen = yield from _glance_at(asking.known.get((way.tenant, way.conversation, 0)) or main_of(way), asking)
    current = seen.row[0]
    if current != seen.line.branch.number:
        line = yield from branch.line(way.tenant, way.conversation, current, known=asking.known)
        asking.known[way.tenant, way.conversation, 0] = line
        seen = yield from _glance_at(line, asking)
    return seen


def _glance_at(line: Line, asking: Asking) -> Script[Glance]:
    read = asking.last_read(line) if asking.at is None else None
    if read is not None and (seen := (yield from _news(line, asking.notes, read))):
        return seen
    return (yield from _sight(line, asking))


def _news(line: Line, notes: str, read: LastRead) -> Script[Glance | None]:
    """Where a line has come to by what was written since a window was read; None where that window no longer holds."""
    before = read.outlook.position
    asked = {**key_of(line), "branch": line.branch.number, "notes": notes, "unread": before.head.seq + 1}
    rows = yield Ask("news", asked)
    if not rows:
        raise (yield from absence(line.tenant, line.conversation))
    written = sorted([row[-HEAD - EVENT :] for row in rows if row[-HEAD]], key=itemgetter(1))
    newest = head_of(written[-1][-HEAD:]) if written else before.head
    if not read.holds(rows[0][2], newest):
        return None
    new = logged([row[:EVENT] for row in written if row[EVENT - 1] is not None])
    said, beside = [one for one in new if one.kind not in TOLD], [one for one in new if one.kind in TOLD]
    return Glance(line, rows[0], _moved_on(before, newest, written), Since(read, said, beside))


def _moved_on(before: Position, newest: Head, written: list[Row]) -> Position:
    """Where a line has come to after more was written; `written` as the query `news` gives it, in order."""
    kinds = {row[3]: row[1] for row in written}  # the last of a kind is its newest
    markers = Markers(tuple([kinds.get(kind) or seq for kind, seq in zip(MARKERS, before.markers.newest, strict=True)]))
    heads = [head_of(row[-HEAD:]) for row in written if row[1] == newest.turn_first]
    turn = _begun_at(heads[0]) if heads else before.newest_turn
    return Position(newest, markers, turn, before.opening or (written[0][3] if written else ""))


def _begun_at(first: Head) -> Begun:
    return Begun(first.seq, first.settled_before, first.turn, first.messages_before, first.tokens_before)


def _sight(line: Line, asking: Asking) -> Script[Glance]:
    """Only the piece that holds the newest event is read: the pieces before it are frozen, and know the rest."""
    last = ENDLESS if asking.at is None else asking.at - 1
    piece = line.piece(last)
    segment = piece.segment(last=last) if piece else line.own._replace(last=last)
    asked = {"opening": line.owner(1), "notes": asking.notes}
    rows = yield Ask("sight", {**span(line, segment), **asked})
    # A branch may have no event of its own yet, not even its fork.
    if rows and not rows[0][-HEAD] and line.past and last > line.branch.at:
        rows = yield Ask("sight", {**span(line, line.past.segment()), **asked})
    if not rows:
        raise (yield from absence(line.tenant, line.conversation))
    return Glance(line, rows[0], _position(line, rows[0]), Since())


def _position(line: Line, row: Row) -> Position:
    """Where a line has come to, by the answer to `sight`."""
    newest = head_of(row[-HEAD:]) if row[-HEAD] else Head()
    own, (opening, *begun) = row[5 : 5 + len(MARKERS)], row[5 + len(MARKERS) : -HEAD]
    past = tip_of(line, newest.seq).past
    inherited, turn = (past.marks, past.begun) if past else (NONE, Begun())
    # Numbers go on from piece to piece, so the newest of all pieces is the highest.
    markers = Markers(tuple([max(old, new or 0) for old, new in zip(inherited, own, strict=False)]))
    return Position(newest, markers, Begun(*begun) if begun[0] else turn, opening or "")
