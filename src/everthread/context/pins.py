"""Pins: which turn an event belongs to, and whether that turn can be sent again."""

from __future__ import annotations

from everthread.core.branches import Line
from everthread.errors import BadValue, UnknownSeq
from everthread.store.log import Log


async def first_of_turn(log: Log, line: Line, seq: int, *, to_pin: bool = False) -> int:
    """The first seq of the turn that holds event `seq`. `to_pin`: nothing before the last clear is ever sent."""
    head = await log.head(line, at=seq)
    newest = await log.head(line)
    if not head.seq:
        raise UnknownSeq(seq, last=newest.seq)
    if not head.turn_first:
        raise BadValue("seq", seq, "an event of a turn; this one came before the first message")
    if to_pin and head.turn_first <= newest.cleared:
        allowed = f"an event after the last clear, which is event {newest.cleared}: nothing before it is sent"
        raise BadValue("seq", seq, allowed)
    return head.turn_first
