"""The window: which turns are sent, and the stepped cutoff where they begin.

A window that drops one turn a turn changes the start of every request, and the provider's prompt cache never
hits. So the cutoff stands still for a long time and then moves far: it lies on a grid of `step` tokens, laid
over the running sum of turn sizes that the log keeps. It is a function of the log and the settings alone,
costs two look-ups in an index, and needs no memory of where it was. docs/stepped-cutoff.md explains it.

Look-ups are asked for, not made: `cutoff` is a generator that yields a `From` or an `Upto` and is sent what
was found. The store answers from its index (`store.windowing`), and `answered` from turns at hand.
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
    """The room that a budget leaves for turns. `step` is the share of it between two moves; 0 slides every turn."""
    room = max(0, int((budget - set_aside) / factor))
    reserve = room // 8
    return Room(room, rung(int((room - reserve) * step)), reserve)


def rung(size: int) -> int:
    """The size rounded down to a coarse ladder, four rungs to an octave: 1,024 1,280 1,536 1,792 2,048 …"""
    unit = 1 << max(0, size.bit_length() - 3)
    return size // unit * unit


class Cut(NamedTuple):
    """Where the window begins, and above which excess it has begun there: the moment of the last step."""

    begin: Start
    above: int


Lookups = Generator[Any, Any, T]


def cutoff(newest: Start, size: int, room: Room) -> Lookups[Cut]:
    """Where the window begins, given the newest turn and its size as it is sent now."""
    # The plain sliding window: the first turn from which everything fits.
    first, previous = yield From(excess(newest, size, room))
    above = -1 if previous is None else previous.before
    if not room.step or previous is None or first == newest or first.before - previous.before > room.step:
        return Cut(first, above)
    line = -(-first.before // room.step) * room.step
    return Cut((yield Upto(line)), line - room.step)


def excess(newest: Start, size: int, room: Room) -> int:
    """The tokens that must leave for the newest turn to fit."""
    return max(0, newest.before + max(size, room.reserve) - room.room)


def answered(asking: Lookups[T], starts: Sequence[Start]) -> T:
    """What a function comes to whose look-ups are answered from these turns, oldest first, the newest last."""
    sums = [start.before for start in starts]
    answer: Any = None
    while True:
        try:
            asked = asking.send(answer)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        match asked:
            case From(before):
                at = min(bisect_left(sums, before), len(starts) - 1)
                answer = starts[at], starts[at - 1] if at else None
            case Upto(before):
                answer = starts[max(0, min(bisect_right(sums, before), len(starts) - 1) - 1)]
            case other:
                raise TypeError(f"{other!r} cannot be answered from turns at hand")
