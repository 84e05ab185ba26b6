"""Branches and the line of ancestors that a branch is read along.

A branch stores only its own events and continues its parent's numbers, so a line is a handful of segments:
the branch's own from its first event on, then each ancestor's up to where the next one left it. Branches
never change once made, so a line is a value that may be kept: forking one gives another without looking at
a single event.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

ENDLESS = 2**31 - 1  # more than any branch will hold, and an integer in every database


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    name: str
    parent: int | None
    at: int  # the newest event that it shares with its parent
    time: int


class Segment(NamedTuple):
    branch: int
    first: int
    last: int


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A branch of a conversation with its ancestors, the branch itself first."""

    tenant: str
    conversation: str
    branch: Branch
    segments: tuple[Segment, ...]

    @property
    def about(self) -> str:
        """What tells this conversation from all others, of whichever tenant."""
        return f"{self.tenant}/{self.conversation}"

    def between(self, first: int = 1, last: int = ENDLESS) -> Iterator[Segment]:
        """The pieces of the line with events from `first` to `last`, newest piece first."""
        for segment in self.segments:
            low, high = max(segment.first, first), min(segment.last, last)
            if low <= high:
                yield Segment(segment.branch, low, high)

    def owner(self, seq: int) -> int:
        """The branch on which the event `seq` of this line is stored."""
        return next(segment.branch for segment in self.segments if segment.first <= seq)


def line_of(tenant: str, conversation: str, lineage: list[Branch]) -> Line:
    """The line of a branch from itself and its ancestors, in that order."""
    segments, last = [], ENDLESS
    for branch in lineage:
        segments.append(Segment(branch.number, branch.at + 1, last))
        last = branch.at
    return Line(tenant=tenant, conversation=conversation, branch=lineage[0], segments=tuple(segments))
