"""Children in the log: what one was begun with, its task, and the other place where that stands.

A child's branch begins with its fork, the command `delegate` and, soon after, the task. The beginning that stands on
the parent's branch names the task as well, so that forgetting one of the two must forget the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from everthread.core.branches import Branch, Line, Target
from everthread.core.events import TOMBSTONE, Redacted
from everthread.core.logged import Logged, readable
from everthread.core.outcomes import FIRST, TASK, Delegated, child_of, delegated, started_key, task_among
from everthread.store.conversations import Owner
from everthread.store.engine import Ask, Script
from everthread.store.scripts.along import key_of
from everthread.store.scripts.append import kept, own_events
from everthread.store.scripts.branch import branches
from everthread.store.scripts.quote import Spot


class Begun(NamedTuple):
    """What a child was begun with, and its task; None where its process ended before that was said."""

    said: Delegated
    task: Logged | None


def begun(key: Mapping[str, str], branch: Branch) -> Script[Begun | None]:
    """How a child's branch began; None where it is no child's."""
    if branch.parent is None:
        return None
    command = branch.at + FIRST
    events = yield from own_events(dict(key), branch.number, command, command + TASK)
    said = next((delegated(one.event) for one in readable(events[:1])), None)
    return Begun(said, task_among(events)) if said else None


class LeftBehind(NamedTuple):
    """A child whose turn nobody runs any more, and whose it is."""

    owner: Owner
    conversation: str
    branch: int


def left_behind(now: int, limit: int) -> Script[list[LeftBehind]]:
    """Of every tenant and user, those that were left first before the others."""
    rows = yield Ask("children_left", {"now": now, "limit": limit})
    return [LeftBehind(Owner(tenant, user), conversation, branch) for tenant, user, conversation, branch in rows]


def heirs(line: Line, started: Logged, ended: Logged | None = None) -> Script[list[int]]:
    """The branches that went on from where a child had begun and not yet ended, other than the one that it was begun
    on: forks and rewinds, and theirs. Other children have tasks of their own."""
    key, shared = key_of(line), {started.branch}
    for branch in (yield from branches(line.tenant, line.conversation)):
        knows = ended is not None and branch.parent == ended.branch and branch.at >= ended.seq
        if branch.parent in shared and branch.at >= started.seq and not knows and not (yield from begun(key, branch)):
            shared.add(branch.number)
    return sorted(shared - {started.branch})


def other_copy(
    key: Mapping[str, str], all_branches: Iterable[Branch], spot: Spot, kind: str
) -> Script[dict[Spot, Redacted]]:
    """Where a child's task stands beside an event of this kind, if it is not redacted there; nothing where the event
    has no part in one."""
    known, copies = {branch.number: branch for branch in all_branches}, list[Logged]()
    if kind == "user" and spot.branch in known:
        copies = yield from _beginning(key, known[spot.branch], spot.seq)
    elif kind == "flow_started":
        events = readable((yield from own_events(dict(key), spot.branch, spot.seq, spot.seq)))
        for branch in [known[child] for one in events if (child := child_of(one.event)) in known]:
            found = yield from begun(key, branch)
            copies = [found.task] if found and found.task and found.said.parent == spot.branch else []
    left = [one for one in copies if not one.body.startswith(TOMBSTONE)]
    return {Spot(spot.conversation, one.branch, one.seq): Redacted(was=one.kind) for one in left}


def _beginning(key: Mapping[str, str], branch: Branch, task: int) -> Script[list[Logged]]:
    """The beginning of a child, on its parent's branch, if this is the seq of its task."""
    found = yield from begun(key, branch)
    if found is None or found.task is None or found.task.seq != task:
        return []
    return (yield from kept(Target(key["tenant"], key["conversation"]), started_key(branch.number)))
