"""Children in the log: what one was begun with, its task, and the other place where that stands.

A child's branch begins with its fork, the command `delegate` and, soon after, the task. The beginning that stands on
the parent's branch names the task as well, so that forgetting one of the two must forget the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from everthread.core.branches import Branch, Target
from everthread.core.events import TOMBSTONE, Redacted
from everthread.core.logged import Logged, readable
from everthread.core.outcomes import FIRST, TASK, Delegated, child_of, delegated, started_key, task_among
from everthread.store.engine import Script
from everthread.store.scripts.append import kept, own_events
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


def other_copy(
    key: Mapping[str, str], branches: Iterable[Branch], spot: Spot, kind: str
) -> Script[dict[Spot, Redacted]]:
    """Where a child's task stands beside an event of this kind, if it is not redacted there; nothing where the event
    has no part in one."""
    known, copies = {branch.number: branch for branch in branches}, list[Logged]()
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
