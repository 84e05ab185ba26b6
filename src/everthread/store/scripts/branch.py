"""Forking, rewinding and switching. A new branch is two rows, whatever the length of the history."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from everthread.core.branches import ENDLESS, Begun, Branch, Departure, Line, line_of
from everthread.core.events import Command, Event, Fork, Mark, Rewind
from everthread.core.times import EPOCH, moment
from everthread.core.turns import Head
from everthread.errors import AlreadyExists, UnknownBranch, UnknownMark, UnknownSeq
from everthread.store.conversations import MAIN, absence
from everthread.store.engine import Ask, Outcome, Row, Script, Tell
from everthread.store.scripts.along import told
from everthread.store.scripts.append import Tries, marker_batch, number
from everthread.store.scripts.read import head, newest_markers

Lines = dict[tuple[str, str, int], Line]
LINES = 1_000  # kept at most


def line(tenant: str, conversation: str, branch: str | int | None = None, *, known: Lines) -> Script[Line]:
    """The line of a branch, by number or name; of the current one where none is given.

    A branch never changes once it is made, so lines are kept in `known`.
    """
    if isinstance(branch, str):
        branch = yield from _named(tenant, conversation, branch)
    if found := (yield from _numbered(tenant, conversation, branch)):
        kept = known.get((tenant, conversation, found.number))
        return kept or remember((yield from _line(tenant, conversation, found, known)), known)
    there = yield from branches(tenant, conversation)
    if branch is None or not there:
        raise (yield from absence(tenant, conversation))
    raise UnknownBranch(branch, _listed(there))


def _numbered(tenant: str, conversation: str, number: int | None) -> Script[Branch | None]:
    """The branch with this number, or the current one, if it is there."""
    if number is not None and not 0 < number <= ENDLESS:
        return None
    rows = yield Ask("branch", {"tenant": tenant, "conversation": conversation, "branch": number})
    return branch_of(rows[0]) if rows else None


def remember(line: Line, known: Lines) -> Line:
    known[line.tenant, line.conversation, line.branch.number] = line
    if len(known) > LINES:
        del known[next(iter(known))]
    return line


def _line(tenant: str, conversation: str, branch: Branch, known: Lines) -> Script[Line]:
    """From the line of its parent, if that is known; else from all ancestors, with three questions."""
    if branch.parent is None:
        return Line(tenant=tenant, conversation=conversation, branch=branch)
    if parent := known.get((tenant, conversation, branch.parent)):
        return parent.grown(branch, (yield from _left(parent, branch.at)))
    return (yield from _line_of_ancestors(tenant, conversation, branch))


def _line_of_ancestors(tenant: str, conversation: str, branch: Branch) -> Script[Line]:
    key = {"tenant": tenant, "conversation": conversation}
    rows = yield Ask("ancestry", {**key, "branch": branch.number})
    ends = yield from _heads(key, {at: parent for _, parent, at, *_ in rows if parent is not None})
    begun = yield from _heads(key, {ends[at].turn_first: parent for _, parent, at, *_ in rows if at in ends})
    lefts = [_left_of(row, ends, begun) for row in rows]
    ancestors = [
        Branch(number=number, name="", parent=parent, at=at, time=EPOCH) for number, parent, at, *_ in rows[1:]
    ]
    return line_of(tenant, conversation, list(zip([branch, *ancestors], lefts, strict=True)))


def _heads(key: dict[str, str], spots: dict[int, int]) -> Script[dict[int, Head]]:
    """By seq the heads of some events, of which the branches are given."""
    rows = yield Ask("heads_among", {**key, "spots": told(spots)})
    return {row[0]: Head(*row) for row in rows}


def _left_of(row: Row, ends: dict[int, Head], begun: dict[int, Head]) -> Departure:
    """From a row of the ancestry, the heads where branches were left, and those with which their turns had begun."""
    at, marks = row[2], row[3:]
    if at not in ends:  # nothing is shared, or the event is missing
        return Departure(Head(seq=at))
    first = begun.get(ends[at].turn_first)
    turn = (
        Begun(first.seq, first.settled_before, first.turn, first.messages_before, first.tokens_before)
        if first
        else None
    )
    return Departure(ends[at], turn, tuple([mark or 0 for mark in marks]))


def branches(tenant: str, conversation: str) -> Script[list[Branch]]:
    rows = yield Ask("branches", {"tenant": tenant, "conversation": conversation})
    return [branch_of(row) for row in rows]


class Act(NamedTuple):
    """When something is done, with what setting, and what earlier runs of the script tried."""

    now: int
    gap: int
    tries: Tries


def fork(
    line: Line, at: int, act: Act, *, name: str, word: str = "fork", markers: Sequence[Event] = ()
) -> Script[Outcome[Line]]:
    """A branch that begins with the fork and these markers, of which nobody sees one without the others."""
    events = [Fork(branch=line.branch.number, at=at), *markers]
    return (yield from _grow(line, at, events, act, name=name, word=word, point=False))


def rewind(line: Line, to: int | str, act: Act, *, name: str) -> Script[Outcome[Line]]:
    """Go on from an earlier event or mark; what came after it stays on the branch that is left."""
    seq = to if isinstance(to, int) else (yield from _marked(line, to))
    event = Rewind(branch=line.branch.number, to=seq)
    return (yield from _grow(line, seq, [event], act, name=name, word="rewind", point=True))


def switch(line: Line, act: Act) -> Script[Outcome[Line]]:
    """Make a branch the current one."""
    if (yield from act.tries.landed(_key(line))):
        return Outcome(line, landed=True)
    newest = yield from head(line)
    event = Command(name="switch", arguments={"branch": line.branch.number})
    return Outcome(line, [*mark(line, newest, [event], act), _point(line)])


def mark(line: Line, head: Head, events: Sequence[Event], act: Act) -> list[Tell]:
    """The statements that append the log's own markers."""
    return number(line.target, head, marker_batch(events, act.tries), now=act.now, gap=act.gap).writes


def _grow(
    base: Line, at: int, events: Sequence[Event], act: Act, *, name: str, word: str, point: bool
) -> Script[Outcome[Line]]:
    if landed := (yield from act.tries.landed(_key(base))):
        grown = yield from line(base.tenant, base.conversation, landed.branch, known={})
        return Outcome(grown, landed=True)
    newest = yield Ask("newest_branch", _key(base))
    if not newest:
        raise (yield from absence(base.tenant, base.conversation))
    left = yield from _fork_point(base, at)
    next_number = newest[0][0] + 1
    branch = Branch(
        number=next_number,
        name=(yield from _free_name(_key(base), name, word, next_number)),
        # The branch that stores the fork point, so that every piece of a line holds events.
        parent=base.owner(at) if at else MAIN,
        at=at,
        time=moment(act.now),
    )
    grown = base.grown(branch, left)
    row = {"branch": branch.number, "name": branch.name, "parent": branch.parent, "at": at, "time": act.now}
    writes = [Tell("insert_branch", [{**_key(base), **row}]), *mark(grown, left.end, events, act)]
    return Outcome(grown, [*writes, _point(grown)] if point else writes)


def _fork_point(line: Line, at: int) -> Script[Departure]:
    if at == 0:
        return Departure(Head())
    newest = yield from head(line)
    if not 0 < at <= newest.seq:
        raise UnknownSeq(at, last=newest.seq)
    return (yield from _left(line, at))


def _left(line: Line, at: int) -> Script[Departure]:
    """What is so after event `at`, for a branch that leaves the line there."""
    if at == 0:
        return Departure(Head())
    rows = yield Ask("left_at", {**_key(line), "branch": line.owner(at), "seq": at})
    return left_of(rows[0] if rows else (None,), at=at)


def _point(line: Line) -> Tell:
    return Tell("point", [{**_key(line), "branch": line.branch.number}])


def _key(line: Line) -> dict[str, str]:
    return {"tenant": line.tenant, "conversation": line.conversation}


def _marked(line: Line, name: str) -> Script[int]:
    for found in (yield from newest_markers(line, "mark")):
        if isinstance(found.event, Mark) and found.event.name == name:
            return found.seq
    raise UnknownMark(name)


def _named(tenant: str, conversation: str, name: str) -> Script[int]:
    key = {"tenant": tenant, "conversation": conversation}
    # What no database could be asked for is nobody's name.
    possible = "\0" not in name and name.encode(errors="ignore").decode() == name
    found = (yield Ask("branch_named", {**key, "name": name})) if possible else []
    if found:
        return int(found[0][0])
    there = yield from branches(tenant, conversation)
    if not there:
        raise (yield from absence(tenant, conversation))
    raise UnknownBranch(name, ", ".join(branch.name for branch in there))


def _listed(branches: list[Branch]) -> str:
    return ", ".join(f"{branch.number} ({branch.name})" for branch in branches)


def _free_name(key: dict[str, str], name: str, word: str, number: int) -> Script[str]:
    """The name asked for; where none is, a word such as "fork" and the branch's number, or the next that is free."""
    for wanted in [name] if name else (f"{word}-{n}" for n in count(number)):
        if not (yield Ask("branch_named", {**key, "name": wanted})):
            return wanted
    raise AlreadyExists("branch", name)


def branch_of(row: Row) -> Branch:
    number, name, parent, at, time = row
    return Branch(number=number, name=name, parent=parent, at=at, time=moment(time))


def left_of(row: Row, *, at: int) -> Departure:
    """From the columns of a head, of the first event of its turn, and of markers."""
    if row[0] is None:  # nothing is shared, or the event is missing
        return Departure(Head(seq=at))
    fields = len(Head.__struct_fields__)
    end, begun, marks = row[:fields], row[fields : fields + len(Begun._fields)], row[fields + len(Begun._fields) :]
    return Departure(Head(*end), Begun(*begun) if begun[0] else None, tuple([mark or 0 for mark in marks]))
