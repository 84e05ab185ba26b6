"""The window: which turns are sent, and the stepped cutoff where they begin.

A window that drops one turn a turn changes the start of every request, and the provider's prompt cache never
hits. So the cutoff stands still for a long time and then moves far: it lies on a grid of `step` tokens, laid
over the running sum of turn sizes that the log keeps. It is a function of the log and the settings alone,
costs two look-ups in an index, and needs no memory of where it was. docs/stepped-cutoff.md explains it.

Look-ups are asked for, not made: `cutoff` is a generator that yields a `From` or an `Upto` and is sent what
was found. The store answers from its index (`store.scripts.window`), and `answered` from turns at hand.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

T = TypeVar("T")


class Start(NamedTuple):
    """Where a turn begins: its first seq, the settled tokens of the turns before it since the last clear, its
    number, and how many messages came before it."""

    first: int
    before: int
    number: int
    messages: int


class From(NamedTuple):
    """The first turn with at least this many tokens before it, and the turn before that one: (Start, Start | None).

    Where no turn has as many, the newest."""

    before: int


class Upto(NamedTuple):
    """The last turn with at most this many tokens before it, the newest turn excepted: a Start."""

    before: int


class Room(msgspec.Struct, frozen=True):
    """What the turns may take, in canonical tokens; how far the cutoff steps; what is kept for the newest turn."""

    room: int
    step: int
    reserve: int


def room_of(budget: int, *, set_aside: int, factor: float, step: float = 0.5) -> Room:
    """The room that a budget leaves for turns. `step` is the share of it between two moves; 0 slides with every
    turn, and then nothing is kept for the newest one."""
    room = max(0, int((budget - set_aside) / factor))
    reserve = room // 8 if step else 0
    rest = room - reserve
    return Room(room, min(nearest_rung(int(rest * step)), rung(rest)), reserve)


def rung(size: int) -> int:
    """The size rounded down to a coarse ladder, four rungs to an octave: 1,024 1,280 1,536 1,792 2,048 …"""
    unit = _between_rungs(size)
    return size // unit * unit


def nearest_rung(size: int) -> int:
    """The size rounded to the nearest rung of the same ladder.

    For steps: rounded down they would be up to a fifth shorter than the settings say, and whenever the cutoff
    moves, the whole window is written to the provider's cache again.
    """
    unit = _between_rungs(size)
    return (size + unit // 2) // unit * unit


def _between_rungs(size: int) -> int:
    return 1 << max(0, size.bit_length() - 3)


class Cut(NamedTuple):
    """Where the window begins, the turn before the plain sliding window, and the line that the cutoff was rounded to
    (None: it was not)."""

    begin: Start
    previous: Start | None
    grid_line: int | None = None


Lookups = Generator[Any, Any, T]


def cutoff(newest: Start, size: int, room: Room) -> Lookups[Cut]:
    """Where the window begins, given the newest turn and its size as it is sent now."""
    # The plain sliding window: the first turn from which everything fits.
    first, previous = yield From(excess(newest, size, room))
    if not room.step or previous is None or first == newest or first.before - previous.before > room.step:
        return Cut(first, previous)
    line = -(-first.before // room.step) * room.step
    return Cut((yield Upto(line)), previous, line)


def above(cut: Cut, room: Room) -> Lookups[int]:
    """The excess above which the cutoff has been where it is: what the last turn of the step before had before it.

    One more look-up, and only where the sliding window is not the first of its step.
    """
    previous = cut.previous
    if previous is not None and cut.grid_line is not None and previous.before > cut.grid_line - room.step:
        first, previous = yield From(cut.grid_line - room.step + 1)
        # Where a turn larger than a step left, the window began right after it for a while.
        if previous is not None and first.before - previous.before > room.step:
            previous = first
    return -1 if previous is None else previous.before


def excess(newest: Start, size: int, room: Room) -> int:
    """The tokens that must leave for the newest turn to fit."""
    return max(0, newest.before + max(size, room.reserve) - room.room)


class Move(NamedTuple):
    """A step of the cutoff: in which turn it happened, and from where to where it went."""

    turn: Start
    left: Start
    begin: Start


def moves(newest: Start, size: int, room: Room, limit: int) -> Lookups[list[Move]]:
    """The newest steps that led to where the cutoff is, oldest first, derived from the log as it is now.

    The cutoff stays while no more than the room lies between it and the end, so the turn in which it moved next
    is a look-up away. Where a turn was larger while it ran than it is now, it may have moved for that while; and
    moves in neighbouring turns of which each fills the room may be told as one.
    """
    now = (yield from cutoff(newest, size, room)).begin
    begin: Start = yield Upto(max(0, now.before - (limit + 1) * max(room.step, 1)))
    found: list[Move] = []
    while begin.first < now.first:
        most = room.room + begin.before
        turn, previous = yield From(most - room.reserve + 1)
        grown = size if turn == newest else 0
        if previous is not None and turn.before > most and previous.first > begin.first:
            turn, grown = previous, turn.before - previous.before
        after = (yield from _as_of(turn, cutoff(turn, grown, room))).begin
        if not begin.first < after.first <= now.first:
            after = now
        found.append(Move(turn, begin, after))
        begin = after
    return found[-limit:]


def _as_of(turn: Start, asking: Lookups[T]) -> Lookups[T]:
    """The same question as if that turn were the newest. (Turns without any tokens are passed over.)"""
    answer: Any = None
    while True:
        try:
            asked = asking.send(answer)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        if isinstance(asked, Upto):
            answer = yield Upto(min(asked.before, turn.before - 1))
        else:
            first, previous = yield asked
            answer = (turn, previous) if first.first > turn.first else (first, previous)


def answered(asking: Lookups[T], starts: Sequence[Start]) -> T:
    """The result of a generator whose look-ups are answered from these turns, given oldest first."""
    sums = [start.before for start in starts]
    answer: Any = None
    while True:
        try:
            asked = asking.send(answer)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        answer = _found(asked, starts, sums)


def _found(asked: object, starts: Sequence[Start], sums: Sequence[int]) -> Start | tuple[Start, Start | None]:
    match asked:
        case From(before):
            at = min(bisect_left(sums, before), len(starts) - 1)
            return starts[at], starts[at - 1] if at else None
        case Upto(before):
            return starts[max(0, min(bisect_right(sums, before), len(starts) - 1) - 1)]
        case other:
            raise TypeError(f"{other!r} cannot be answered from turns at hand")
