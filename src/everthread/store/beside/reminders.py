"""Reminders: where memory has to look, written down for workers that are apart from the processes that reply.

A reminder is a hint. What is due is read from the log, so one that was lost loses nothing: the next turn reminds again.
It goes when what was due has been done, unless somebody has reminded again meanwhile.
"""

from __future__ import annotations

from typing import NamedTuple

from everthread.core.branches import Line
from everthread.store.conversations import Owner
from everthread.store.engine import Ask, Outcome, Script, Tell

ABOUT = "reminders"  # rings when there is another


class Reminder(NamedTuple):
    """`due`: when to look, in microseconds since 1970."""

    tenant: str
    conversation: str
    branch: int
    user: str
    due: int

    @property
    def owner(self) -> Owner:
        return Owner(self.tenant, self.user)


def reminder(owner: Owner, line: Line, due: int) -> Reminder:
    return Reminder(owner.tenant, line.conversation, line.branch.number, owner.user, due)


def remind(one: Reminder, *, later: bool) -> Script[Outcome[None]]:
    yield from ()
    return Outcome(None, [Tell("remind_later" if later else "remind", [one._asdict()])])


def remind_all(due: int) -> Script[Outcome[None]]:
    """Of every branch there is, unless there is a reminder already."""
    yield from ()
    return Outcome(None, [Tell("remind_all", [{"due": due}])])


def due(now: int, limit: int) -> Script[list[Reminder]]:
    """Those that are due, the oldest first."""
    rows = yield Ask("reminders", {"now": now, "limit": limit})
    return [Reminder(*row) for row in rows]


def drop(one: Reminder) -> Script[Outcome[None]]:
    """It has been seen to."""
    yield from ()
    return Outcome(None, [Tell("forget_reminder", [one._asdict()])])
