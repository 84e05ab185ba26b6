"""Reading along a line: ranges and pages of events, turns, sessions, markers.

Each reads only what it returns, along the line's pieces from the newest back (or from the oldest on), and stops as soon
as there is enough. How many pieces there are makes no difference: `store.scripts.along` sees to that.
"""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

from everthread.core.branches import ENDLESS, Line, Piece, Target
from everthread.core.deltas import Done
from everthread.core.ended import done_of
from everthread.core.events import MEMORY, UNANSWERED, ModelCall
from everthread.core.logged import Logged, logged
from everthread.core.turns import Head, Session, State, Turn, session_of, turn_of
from everthread.store.beside.documents import Document, document
from everthread.store.beside.leases import LeaseName, PartialReply, of_turns, partial
from everthread.store.conversations import Owner
from everthread.store.engine import Ask, Row, Script
from everthread.store.scripts.along import (
    EVENTS,
    MESSAGES,
    SMALL,
    TOGETHER,
    Spans,
    What,
    gather,
    key_of,
    markers,
    only_turn,
    span,
    told,
)
from everthread.store.scripts.append import head_of, newest_head

ENDLESS_SUM = 2**62
NEWS = 500  # events that those who listen are given at once
CALLS = 1_000  # model calls of a turn that are added up
RECORDS = 200  # newest model calls among which the conversation's own are looked for


class OwnCall(NamedTuple):
    """A model call, and the seq of its record."""

    seq: int
    call: ModelCall


class Newest(NamedTuple):
    """What is new on a line: events, the seq where it ends (or where this page does), the state of its newest turn, and
    the reply that runs."""

    events: list[Logged]
    seq: int
    state: State
    running: PartialReply | None

    @property
    def whole(self) -> bool:
        return len(self.events) < NEWS


def news(line: Line, after: int | None) -> Script[Newest]:
    """The events after seq `after`, and then the running reply: so it is never older than they are."""
    newest = yield from head(line)  # raises when the conversation has been erased
    events = (yield from onward(line, first=after + 1, limit=NEWS)) if after is not None and after < newest.seq else []
    seq = events[-1].seq if events else newest.seq if after is None else after
    name = of_turns(line.conversation, line.branch.number)
    return Newest(events, seq, newest.state, (yield from partial(LeaseName(line.tenant, name))))


def ended(line: Line, at: int | None) -> Script[Done | None]:
    """How the turn that event `at` is in, or the newest, has ended so far as an agent ran it; None where it is open, or
    none did."""
    newest = yield from head(line, at=at)
    if newest.state == "open" or not newest.turn_first:
        return None
    first, last = newest.turn_first, newest.seq
    found = yield from newest_markers(line, "agent_killed", first=first, last=last, limit=1)
    killed = [one for one in found if getattr(one.event, "reason", "") != UNANSWERED]
    calls = yield from own_calls(line, first=first, last=last, limit=CALLS)
    if not calls and not killed:
        return None
    seq = max([newest.spoken, *(one.seq for one in calls[:1]), *(one.seq for one in killed)])
    return done_of(newest.state, seq, [one.call for one in reversed(calls)])


class Standing(NamedTuple):
    """How a branch stands for whoever has taken the lease of its turns: its number and head, up to which event the
    holder before has written and what was kept of its reply, and a document of somebody's that is wanted with it."""

    branch: int
    head: Head
    kept: PartialReply
    document: Document | None


def standing(target: Target, wanted: tuple[Owner, str] | None, kept: PartialReply) -> Script[Standing]:
    branch, found = yield from newest_head(target._asdict())  # raises when the conversation has been erased
    return Standing(branch, found, kept, (yield from document(*wanted, version=None)) if wanted else None)


def newest(line: Line, *, limit: int, last: int = ENDLESS, messages: bool = False) -> Script[list[Logged]]:
    """The newest events up to `last`, in the order they were said."""
    rows = yield from gather(line, MESSAGES if messages else EVENTS, limit=limit, last=last)
    return logged(reversed(rows))


def onward(
    line: Line, *, first: int = 1, last: int = ENDLESS, limit: int = ENDLESS, messages: bool = False
) -> Script[list[Logged]]:
    """The events from `first` on, oldest first."""
    what = MESSAGES if messages else EVENTS
    rows = yield from gather(line, what, first=first, last=last, limit=limit, oldest_first=True)
    return logged(rows)


def tail(line: Line, *, turns: int) -> Script[list[Logged]]:
    """The events of the newest turns, whole."""
    values = {**span(line, line.own), "skip": turns - 1}
    if line.past is None:
        return logged((yield Ask("tail", values)))
    if (before := _tail_before(line.past, line.past.end.turn - turns + 1)) is None:
        starts = yield from _starts(line, TURNS, limit=turns)
        return (yield from onward(line, first=starts[-1].head.seq if len(starts) == turns else 1))
    values |= {"turns": turns, "past_turn": line.past.end.turn, "pieces": told(before.pieces)}
    query = "tail_of_long_line" if before.large else "tail_of_line"
    rows = list((yield Ask(query, {**values, **before.of_large()})))
    rows.sort(key=itemgetter(1))
    return logged(rows)


class _Before(NamedTuple):
    """What may belong to a tail of what was said before its branch began: small pieces, and of a large one the events
    from the first event of the turn that `skip` others follow."""

    pieces: Spans
    large: Piece | None = None
    skip: int = 0

    def of_large(self) -> dict[str, int]:
        if self.large is None:
            return {}
        branch, first, last = self.large.segment()
        high = self.large.end.settled_before
        return {"large": branch, "large_first": first, "large_last": last, "large_skip": self.skip, "high": high}


def _tail_before(piece: Piece | None, wanted: int) -> _Before | None:
    """From the turn with the number `wanted` to the end of a piece, if it is not too scattered to be asked at once."""
    pieces: Spans = {}
    while piece is not None and wanted > 0 and len(pieces) < TOGETHER:
        if piece.past is not None and piece.past.end.turn >= wanted:
            pieces[piece.branch] = piece.first << 31 | piece.last
        elif piece.begun.number > wanted and piece.last - piece.first >= SMALL:
            return _Before(pieces, piece, piece.end.turn - wanted)
        else:
            first = piece.begun.first if piece.begun.number == wanted else piece.first
            return _Before({**pieces, piece.branch: first << 31 | piece.last})
        piece = piece.past
    return None


def head(line: Line, *, at: int | None = None) -> Script[Head]:
    """The head of a line: its newest, or as of one of its events."""
    if at is None:
        return (yield from newest_head({**key_of(line), "branch": line.branch.number}))[1]
    if at < 1:
        return Head()
    piece = line.piece(at)
    if piece is not None and piece.last == at:
        return piece.end
    branch = piece.branch if piece else line.branch.number
    rows = yield Ask("head_at", {**key_of(line), "branch": branch, "seq": at})
    return head_of(rows[0]) if rows else Head()


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
    return logged((yield from markers(line, kind, first=first, last=last, limit=limit)))


def own_calls(line: Line, *, first: int = 1, last: int = ENDLESS, limit: int = RECORDS) -> Script[list[OwnCall]]:
    """The conversation's own model calls, newest first: those among the newest `limit` that memory did not make."""
    rows = yield from newest_markers(line, "model_call", first=first, last=last, limit=limit)
    made = [OwnCall(row.seq, row.event) for row in rows if isinstance(row.event, ModelCall)]
    return [one for one in made if one.call.agent != MEMORY]


def asks(line: Line) -> Script[bool]:
    """Whether any tool call of the conversation has ever made its turn wait."""
    return bool((yield Ask("asking", {**key_of(line), "first": 1, "limit": 1})))


def asking(line: Line, *, after: int) -> Script[list[Logged]]:
    """The tool calls after seq `after` that made their turn wait. There are few, so those of other branches are read
    with them."""
    rows = yield Ask("asking", {**key_of(line), "first": after + 1, "limit": ENDLESS})
    return [one for one in logged(rows) if line.owner(one.seq) == one.branch]


class _Start(NamedTuple):
    """The first event of a turn or session, and the end of the one before it."""

    head: Head
    left: Head | None


TURNS = What(
    "turns_down",
    "turns_up",
    "turns_of_line",
    0,
    lambda piece: piece.end.turn_first,
    only=only_turn,
    high=lambda piece: piece.end.settled_before,
)
SESSIONS = What(
    "sessions_down",
    "sessions_up",
    "sessions_of_line",
    0,
    lambda piece: piece.end.session_first,
    high=lambda piece: piece.end.session,
)


def _measure(what: What, head: Head) -> int:
    """What grows from one turn or session to the next."""
    return head.settled_before if what is TURNS else head.session


def _starts(
    line: Line,
    what: What,
    *,
    limit: int,
    first: int = 1,
    last: int = ENDLESS,
    low: int = 0,
    oldest_first: bool = False,
) -> Script[list[_Start]]:
    """The first events of turns or sessions along a line, between two seqs and from `low` of their measure on."""
    # Where the events that are read end before their branch does, the measure there spares walking what comes after.
    end = (yield from head(line, at=last)) if last < ENDLESS else Head()
    bounds = {"low": low, "high": _measure(what, end) if end.seq else ENDLESS_SUM}
    rows = yield from gather(line, what, limit=limit, first=first, last=last, oldest_first=oldest_first, **bounds)
    return [_start(row) for row in rows]


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


def _ends(line: Line, what: What, starts: list[_Start]) -> Script[list[tuple[Head, Head, bool]]]:
    """Each first head (given newest first) with the end of the same stretch and whether it is the newest."""
    if not starts:
        return []
    newest = starts[0].head
    low = _measure(what, newest)
    after = yield from _starts(line, what, limit=1, first=newest.seq + 1, low=low, oldest_first=True)
    end = after[0].left if after else (yield from head(line))
    ends = []
    for start in starts:
        assert end is not None  # something stands before every start but the first of all
        ends.append((start.head, end, start is starts[0] and not after))
        end = start.left
    return ends[::-1]


def blobs(line: Line) -> Script[list[str]]:
    """The hashes of all images and files of a conversation."""
    rows = yield Ask("blobs", {"tenant": line.tenant, "conversation": line.conversation})
    return [row[0] for row in rows]


def everything() -> Script[list[tuple[str, str]]]:
    """Tenant and id of every conversation."""
    return [(row[0], row[1]) for row in (yield Ask("all_conversations", {}))]
