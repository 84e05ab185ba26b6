"""Forking, rewinding and switching. A new branch is two rows, whatever the length of the history."""

from __future__ import annotations

from everthread.core.branches import ENDLESS, Branch, Line, line_of
from everthread.core.events import Command, Event, Fork, Mark, Rewind
from everthread.core.turns import Head
from everthread.errors import AlreadyExists, UnknownBranch, UnknownConversation, UnknownMark, UnknownSeq
from everthread.store.appending import Draft, Place, number, prepare
from everthread.store.conversations import MAIN
from everthread.store.engine import Ask, Outcome, Row, Script, Tell
from everthread.store.reading import head, newest_markers

MARKER_BYTES = 65_536


def line(tenant: str, conversation: str, branch: str | int | None = None) -> Script[Line]:
    """The line of a branch, by number or name; of the current one where none is given."""
    key = {"tenant": tenant, "conversation": conversation}
    if isinstance(branch, int) and not 0 < branch <= ENDLESS:
        raise UnknownBranch(branch, "branches 1 and up")
    if isinstance(branch, str):
        branch = (yield from _named(tenant, conversation, branch)).number
    rows = yield Ask("branch", {**key, "branch": branch})
    if rows:
        branches_up = rows if rows[0][2] is None else (yield Ask("lineage", {**key, "branch": rows[0][0]}))
        return line_of(tenant, conversation, [_branch(row) for row in branches_up])
    known = yield from branches(tenant, conversation)
    if branch is None or not known:
        raise UnknownConversation(conversation)
    raise UnknownBranch(branch, ", ".join(f"{b.number} ({b.name})" for b in known))


def branches(tenant: str, conversation: str) -> Script[list[Branch]]:
    rows = yield Ask("branches", {"tenant": tenant, "conversation": conversation})
    return [_branch(row) for row in rows]


def fork(line: Line, at: int, *, name: str, now: int, gap: int) -> Script[Outcome[Line]]:
    marker = Fork(branch=line.branch.number, at=at)
    return (yield from _grow(line, at, marker, name=name or "fork", now=now, gap=gap, point=False))


def rewind(line: Line, to: int | str, *, name: str, now: int, gap: int) -> Script[Outcome[Line]]:
    """Go on from an earlier event or mark; what came after it stays on the branch that is left."""
    seq = to if isinstance(to, int) else (yield from _marked(line, to))
    marker = Rewind(branch=line.branch.number, to=seq, mark=to if isinstance(to, str) else "")
    return (yield from _grow(line, seq, marker, name=name or "rewind", now=now, gap=gap, point=True))


def switch(line: Line, *, now: int, gap: int) -> Script[Outcome[Line]]:
    """Make a branch the current one."""
    newest = yield from head(line)
    marker = Command(name="switch", arguments={"branch": line.branch.number})
    return Outcome(line, [*_mark(line, newest, marker, now=now, gap=gap), _point(line)])


def _grow(line: Line, at: int, marker: Event, *, name: str, now: int, gap: int, point: bool) -> Script[Outcome[Line]]:
    known = yield from branches(line.tenant, line.conversation)
    if not known:
        raise UnknownConversation(line.conversation)
    start = yield from _fork_point(line, at)
    next_number = max(branch.number for branch in known) + 1
    branch = Branch(
        number=next_number,
        name=_free_name(name, next_number, {branch.name for branch in known}),
        # The branch that stores the fork point, so that every piece of a line holds events.
        parent=line.owner(at) if at else MAIN,
        at=at,
        time=now,
    )
    ancestors = yield from _lineage(line, branch.parent)
    grown = line_of(line.tenant, line.conversation, [branch, *ancestors])
    row = {"tenant": line.tenant, "conversation": line.conversation, "branch": branch.number}
    details = {"name": branch.name, "parent": branch.parent, "at": at, "time": now}
    writes = [Tell("insert_branch", [{**row, **details}]), *_mark(grown, start, marker, now=now, gap=gap)]
    return Outcome(grown, [*writes, _point(grown)] if point else writes)


def _fork_point(line: Line, at: int) -> Script[Head]:
    if at == 0:
        return Head()
    newest = yield from head(line)
    if not 0 < at <= newest.seq:
        raise UnknownSeq(at, last=newest.seq)
    return (yield from head(line, at=at))


def _lineage(line: Line, branch: int | None) -> Script[list[Branch]]:
    key = {"tenant": line.tenant, "conversation": line.conversation}
    rows = yield Ask("lineage", {**key, "branch": branch})
    return [_branch(row) for row in rows]


def _mark(line: Line, head: Head, marker: Event, *, now: int, gap: int) -> list[Tell]:
    place = Place(line.tenant, line.conversation, line.branch.number)
    batch = prepare([Draft(event=marker)], key="", expect=None, max_bytes=MARKER_BYTES)
    return number(place, head, batch, now=now, gap=gap).writes


def _point(line: Line) -> Tell:
    key = {"tenant": line.tenant, "conversation": line.conversation}
    return Tell("point", [{**key, "branch": line.branch.number}])


def _marked(line: Line, name: str) -> Script[int]:
    for marker in (yield from newest_markers(line, "mark")):
        if isinstance(marker.event, Mark) and marker.event.name == name:
            return marker.seq
    raise UnknownMark(name)


def _named(tenant: str, conversation: str, name: str) -> Script[Branch]:
    known = yield from branches(tenant, conversation)
    if not known:
        raise UnknownConversation(conversation)
    for branch in known:
        if branch.name == name:
            return branch
    raise UnknownBranch(name, ", ".join(branch.name for branch in known))


def _free_name(name: str, number: int, taken: set[str]) -> str:
    """The name asked for; a plain "fork" or "rewind" gets the branch's number."""
    if name in ("fork", "rewind"):
        name = f"{name}-{number}"
    if name in taken:
        raise AlreadyExists("branch", name)
    return name


def _branch(row: Row) -> Branch:
    number, name, parent, at, time = row
    return Branch(number=number, name=name, parent=parent, at=at, time=time)
