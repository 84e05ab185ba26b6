"""The facts that are known: folded from the messages, and written down in full with a version now and then."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import msgspec

from everthread.language.facts import NOTHING, Facts, fold
from everthread.memory.branch import Memory
from everthread.memory.due import Due

KNOWN_EVERY = 100  # events after which all that is known of the facts is written down again


class Known(NamedTuple):
    """All that is known after an event. `at`: the version that has it but for what was said since; 0 where the version
    that is being made must have it, because there is none or it was long ago."""

    facts: Facts
    at: int

    @property
    def written(self) -> str:
        """What the version that is being made keeps of it."""
        return "" if self.at else as_text(self.facts)


async def known_after(memory: Memory, due: Due, last: int) -> Known:
    """All that is known after event `last`."""
    before = due.known.event
    facts = _read(before.known) if before else NOTHING
    first = max(due.head.cleared, facts.seq) + 1
    at = due.known.seq if facts.seq and last - facts.seq < KNOWN_EVERY else 0
    while first <= last and (events := await memory.messages(first, last)):
        facts, first = await asyncio.to_thread(fold, facts, events), events[-1].seq + 1
    return Known(facts, at)


def as_text(facts: Facts) -> str:
    return msgspec.json.encode(facts).decode()


def _read(text: str) -> Facts:
    try:
        return msgspec.json.decode(text, type=Facts) if text else NOTHING
    except msgspec.MsgspecError:
        return NOTHING
