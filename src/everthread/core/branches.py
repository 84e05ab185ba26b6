"""Branches and the line of ancestors that a branch is read along.

A branch stores only its own events and continues its parent's numbers, so a line is the branch's own piece, from its
first event on, and then a piece of each ancestor, up to where the next one left it. Branches never change once made,
and neither does what an ancestor had said when it was left: a piece is frozen, and knows what was so at its end. Pieces
are linked from the newest back, so lines share them, and forking one makes a single piece whatever its depth.

What only grows along a line (sums, numbers of turns, the newest marker of a kind) is found by jumping: each piece also
knows one far behind it, chosen so that any other is reached in a few jumps, as in a skip list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

import msgspec

from everthread.core.turns import Head
from everthread.core.values import Value

ENDLESS = 2**31 - 1  # more than any branch will hold, and an integer in every database

# Markers whose newest is known at the end of each piece.
CANVAS, OUTCOME = "canvas", "flow_completed"
MARKER_KINDS = (
    *("settings", "pin", "brief_updated", "summary", "session_ended", CANVAS, OUTCOME),
    *("model_call", "mark"),
)
NONE = (0,) * len(MARKER_KINDS)


class Branch(msgspec.Struct, Value, frozen=True, kw_only=True):
    number: int
    name: str
    parent: int | None
    at: int  # the newest event that it shares with its parent
    time: datetime


class Segment(NamedTuple):
    branch: int
    first: int
    last: int


class Begun(NamedTuple):
    """The first event of a turn: its seq, and what came before it. Without one, the seq is 0."""

    first: int = 0
    settled_before: int = 0
    number: int = 0
    messages_before: int = 0
    tokens_before: int = 0


class Departure(NamedTuple):
    """What is known of the place where a line left a branch: the head there, the newest turn that had begun on that
    branch, if any, and the seq of the newest marker of each of `MARKER_KINDS` on it, 0 where there is none."""

    end: Head
    begun: Begun | None = None
    marks: tuple[int, ...] = NONE


class Piece(msgspec.Struct, frozen=True, eq=False):
    """What a line has of an ancestor. `end`, `begun` and `marks` are of the whole line up to here.

    `levels`: by importance, the newest turn that follows one of that importance; empty until it is asked for.
    """

    branch: int
    first: int
    last: int
    end: Head
    begun: Begun
    marks: tuple[int, ...]
    past: Piece | None
    far: Piece | None  # some way behind
    depth: int
    levels: dict[int, int]

    def __eq__(self, other: object) -> bool:
        # Of one conversation: a branch never changes, so these two say all.
        return isinstance(other, Piece) and (self.branch, self.last) == (other.branch, other.last)

    def __hash__(self) -> int:
        return hash((self.branch, self.last))

    def __repr__(self) -> str:
        return f"Piece(branch={self.branch}, first={self.first}, last={self.last}, depth={self.depth})"

    @property
    def before(self) -> Head:
        """The head before its first event."""
        return self.past.end if self.past else Head()

    @property
    def has_one_turn(self) -> bool:
        """Whether exactly one turn begins in it: `begun`."""
        before = self.before
        # The turn before the first user message counts as none, so it must have begun earlier.
        return self.end.turn == before.turn + 1 and before.turn_first > 0

    def segment(self, first: int = 1, last: int = ENDLESS) -> Segment:
        """Its part from `first` to `last`."""
        return Segment(self.branch, max(self.first, first), min(self.last, last))


def piece_of(branch: int, first: int, past: Piece | None, left: Departure) -> Piece:
    """The piece of a branch up to where it was left; `past` is the piece before it."""
    inherited = past.marks if past else NONE
    return Piece(
        branch=branch,
        first=first,
        last=left.end.seq,
        end=left.end,
        begun=left.begun or (past.begun if past else Begun()),
        marks=tuple(map(max, inherited, left.marks)),
        past=past,
        far=_far(past),
        depth=past.depth + 1 if past else 1,
        levels={},
    )


def _far(past: Piece | None) -> Piece | None:
    """Two jumps of the same length become one of twice that length."""
    if past is None or past.far is None:
        return past
    once, twice = past.depth - past.far.depth, past.far.depth - (past.far.far.depth if past.far.far else 0)
    return past.far.far if once == twice and past.far.far else past


def oldest(piece: Piece | None, holds: Callable[[Piece], bool]) -> Piece | None:
    """The oldest of a piece and those before it for which `holds` is true. Where it is, it is for all newer ones."""
    if piece is None or not holds(piece):
        return None
    while (older := _jumped(piece, holds)) is not None:
        piece = older
    return piece


def _jumped(piece: Piece, holds: Callable[[Piece], bool]) -> Piece | None:
    """The piece that one jump back reaches, the longest for which `holds` is true."""
    for older in (piece.far, piece.past):
        if older is not None and holds(older):
            return older
    return None


class Target(NamedTuple):
    """Where to append: a branch of a conversation, or whichever is current."""

    tenant: str
    conversation: str
    branch: int | None = None

    @property
    def about(self) -> str:
        return f"{self.tenant}/{self.conversation}"


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A branch of a conversation with its ancestors."""

    tenant: str
    conversation: str
    branch: Branch
    past: Piece | None = None

    @property
    def about(self) -> str:
        """What identifies this conversation among those of all tenants."""
        return f"{self.tenant}/{self.conversation}"

    @property
    def target(self) -> Target:
        """The branch, to append to."""
        return Target(self.tenant, self.conversation, self.branch.number)

    @property
    def own(self) -> Segment:
        """The branch's own piece, which grows."""
        return Segment(self.branch.number, self.branch.at + 1, ENDLESS)

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(self.between())

    def between(self, first: int = 1, last: int = ENDLESS) -> Iterator[Segment]:
        """The pieces of the line with events from `first` to `last`, newest piece first."""
        if max(first, self.own.first) <= last:
            yield self.own._replace(first=max(first, self.own.first), last=last)
        piece = self.piece(min(last, self.branch.at))
        while piece is not None and max(first, piece.first) <= min(last, piece.last):
            yield piece.segment(first, last)
            piece = piece.past

    def piece(self, seq: int) -> Piece | None:
        """The piece of an ancestor that holds the event `seq`; None where the branch itself does, or none."""
        if self.past is None or not 0 < seq <= self.branch.at:
            return None
        return self.past if seq >= self.past.first else oldest(self.past, lambda piece: piece.last >= seq)

    def owner(self, seq: int) -> int:
        """The branch on which the event `seq` of this line is stored."""
        piece = self.piece(seq)
        return piece.branch if piece else self.branch.number

    def grown(self, branch: Branch, left: Departure) -> Line:
        """The line of a branch that leaves this one where `left` says, on the branch itself or on an ancestor."""
        return Line(tenant=self.tenant, conversation=self.conversation, branch=branch, past=self._until(left))

    def _until(self, left: Departure) -> Piece | None:
        if left.end.seq == 0:
            return None
        piece = self.piece(left.end.seq)
        if piece is None:
            return piece_of(self.branch.number, self.own.first, self.past, left)
        return piece if piece.last == left.end.seq else piece_of(piece.branch, piece.first, piece.past, left)


class Current(NamedTuple):
    """The current branch of a conversation, as it is at the time of reading."""

    tenant: str
    conversation: str
    began: datetime

    @property
    def about(self) -> str:
        return f"{self.tenant}/{self.conversation}"


def line_of(tenant: str, conversation: str, ancestry: list[tuple[Branch, Departure]]) -> Line:
    """The line of a branch, from the branch and its ancestors in that order, each with where it left its parent."""
    past: Piece | None = None
    for (_, left), (parent, _) in reversed(list(pairwise(ancestry))):
        if left.end.seq > parent.at:
            past = piece_of(parent.number, parent.at + 1, past, left)
        elif left.end.seq == 0:
            past = None
    return Line(tenant=tenant, conversation=conversation, branch=ancestry[0][0], past=past)
