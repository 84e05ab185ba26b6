"""Forking, rewinding and switching. A new branch is two rows, whatever the length of the history."""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

from everthread.core.branches import ENDLESS, Branch, Line, line_of
from everthread.core.events import Command, Event, Fork, Mark, Rewind
from everthread.core.turns import Head
from everthread.errors import AlreadyExists, UnknownBranch, UnknownConversation, UnknownMark, UnknownSeq
from everthread.store.appending import Place, Tries, marker, number
from everthread.store.conversations import MAIN
from everthread.store.engine import Ask, Outcome, Row, Script, Tell
from everthread.store.reading import head, newest_markers

Lines = dict[tuple[str, str, int], Line]
LINES = 1_000  # kept at most


def line(tenant: str, conversation: str, branch: str | int | None = None, *, known: Lines) -> Script[Line]:
    """The line of a branch, by number or name; of the current one where none is given.

    A branch never changes once it is made, so lines are kept in `known`.
    """
    key = {"tenant": tenant, "conversation": conversation}
    if isinstance(branch, str):
        branch = (yield from _named(tenant, conversation, branch)).number
    possible = branch is None or 0 < branch <= ENDLESS
    rows = (yield Ask("branch", {**key, "branch": branch})) if possible else []
    if rows and (kept := known.get((tenant, conversation, rows[0][0]))):
        return kept
    if rows:
        lineage = rows if rows[0][2] is None else (yield Ask("lineage", {**key, "branch": rows[0][0]}))
        found = line_of(tenant, conversation, [_branch(row) for row in lineage])
        known[tenant, conversation, found.branch.number] = found
        if len(known) > LINES:
            del known[next(iter(known))]
        return found
    there = yield from branches(tenant, conversation)
    if branch is None or not there:
        raise UnknownConversation(conversation)
    raise UnknownBranch(branch, ", ".join(f"{b.number} ({b.name})" for b in there))


def branches(tenant: str, conversation: str) -> Script[list[Branch]]:
    rows = yield Ask("branches", {"tenant": tenant, "conversation": conversation})
    return [_branch(row) for row in rows]


class Act(NamedTuple):
    """When something is done, with what setting, and what earlier runs of the script tried."""

    now: int
    gap: int
    tries: Tries


def fork(line: Line, at: int, act: Act, *, name: str) -> Script[Outcome[Line]]:
    event = Fork(branch=line.branch.number, at=at)
    return (yield from _grow(line, at, event, act, name=name, point=False))


def rewind(line: Line, to: int | str, act: Act, *, name: str) -> Script[Outcome[Line]]:
    """Go on from an earlier event or mark; what came after it stays on the branch that is left."""
    seq = to if isinstance(to, int) else (yield from _marked(line, to))
    event = Rewind(branch=line.branch.number, to=seq)
    return (yield from _grow(line, seq, event, act, name=name, point=True))


def switch(target: Line, act: Act) -> Script[Outcome[Line]]:
    """Make a branch the current one."""
    if (yield from act.tries.landed(_key(target))):
        return Outcome(target)
    newest = yield from head(target)
    event = Command(name="switch", arguments={"branch": target.branch.number})
    return Outcome(target, [*mark(target, newest, event, act), _point(target)])


def mark(line: Line, head: Head, event: Event, act: Act) -> list[Tell]:
    """The statements that append a marker of ours."""
    place = Place(line.tenant, line.conversation, line.branch.number)
    return number(place, head, marker(event, act.tries), now=act.now, gap=act.gap).writes


def _grow(base: Line, at: int, event: Event, act: Act, *, name: str, point: bool) -> Script[Outcome[Line]]:
    if landed := (yield from act.tries.landed(_key(base))):
        return Outcome((yield from line(base.tenant, base.conversation, landed.branch, known={})))
    known = yield from branches(base.tenant, base.conversation)
    if not known:
        raise UnknownConversation(base.conversation)
    start = yield from _fork_point(base, at)
    next_number = max(branch.number for branch in known) + 1
    branch = Branch(
        number=next_number,
        name=_free_name(name, event.kind, next_number, {branch.name for branch in known}),
        # The branch that stores the fork point, so that every piece of a line holds events.
        parent=base.owner(at) if at else MAIN,
        at=at,
        time=act.now,
    )
    ancestors = yield Ask("lineage", {**_key(base), "branch": branch.parent})
    grown = line_of(base.tenant, base.conversation, [branch, *map(_branch, ancestors)])
    row = {"branch": branch.number, "name": branch.name, "parent": branch.parent, "at": at, "time": branch.time}
    writes = [Tell("insert_branch", [{**_key(base), **row}]), *mark(grown, start, event, act)]
    return Outcome(grown, [*writes, _point(grown)] if point else writes)


def _fork_point(line: Line, at: int) -> Script[Head]:
    if at == 0:
        return Head()
    newest = yield from head(line)
    if not 0 < at <= newest.seq:
        raise UnknownSeq(at, last=newest.seq)
    return (yield from head(line, at=at))


def _point(line: Line) -> Tell:
    return Tell("point", [{**_key(line), "branch": line.branch.number}])


def _key(line: Line) -> dict[str, str]:
    return {"tenant": line.tenant, "conversation": line.conversation}


def _marked(line: Line, name: str) -> Script[int]:
    for found in (yield from newest_markers(line, "mark")):
        if isinstance(found.event, Mark) and found.event.name == name:
            return found.seq
    raise UnknownMark(name)


def _named(tenant: str, conversation: str, name: str) -> Script[Branch]:
    known = yield from branches(tenant, conversation)
    if not known:
        raise UnknownConversation(conversation)
    for branch in known:
        if branch.name == name:
            return branch
    raise UnknownBranch(name, ", ".join(branch.name for branch in known))


def _free_name(name: str, kind: str, number: int, taken: set[str]) -> str:
    """The name asked for; where none is, "fork" or "rewind" and the branch's number, or the next that is free."""
    if not name:
        return next(default for n in count(number) if (default := f"{kind}-{n}") not in taken)
    if name in taken:
        raise AlreadyExists("branch", name)
    return name


def _branch(row: Row) -> Branch:
    number, name, parent, at, time = row
    return Branch(number=number, name=name, parent=parent, at=at, time=time)
