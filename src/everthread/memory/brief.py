"""The brief: the running summary of a branch, made from the version before it and what was said since.

Memory's model writes it. It is an extract where there is no such model, or where the model may not be called now.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from everthread.core.events import BriefUpdated
from everthread.core.tokens import count
from everthread.language import extract
from everthread.language.digest import WORDS, trimmed, within, word_count
from everthread.language.facts import ranked, rendered
from everthread.memory.ask import Told
from everthread.memory.branch import Memory, Portion
from everthread.memory.due import Due
from everthread.memory.facts import known_after

BACK = 400  # messages that an extractive brief looks back over


def is_due(memory: Memory, due: Due, *, all: bool) -> bool:
    """Whether a version is due. Unless `all` is to be done, an extract waits until enough is new to be worth it."""
    if memory.settings.strategy in ("importance", "session"):
        return False
    return due.behind >= (1 if all else memory.worth)


async def make(memory: Memory, due: Due) -> None:
    """Publish the next version. It covers as much of what was said since as the model can take at once."""
    base = due.brief.as_brief
    portion = await memory.portion(due, after=due.covered)
    known = await known_after(memory, due, portion.seq)
    facts = rendered(ranked(known.facts, memory.settings.facts_tokens, count))
    told = await memory.told("brief", due, portion.turns, brief=base.text)
    prose = await _prose(memory, due, base, portion, told, beside=facts)
    version = BriefUpdated(
        text=prose.text,
        covers=portion.seq,
        facts=facts,
        known=known.written,
        turns=base.turns + portion.turn - due.turns[0],
        extractive=prose.extractive,
        base=due.brief.base,
        known_at=known.at,
        corrected=due.brief.seq if base.by else base.corrected,
    )
    await memory.publish(version, told, due)


class _Prose(NamedTuple):
    text: str
    extractive: bool


async def _prose(
    memory: Memory, due: Due, base: BriefUpdated, portion: Portion, told: Told | None, *, beside: str
) -> _Prose:
    if told:
        return _Prose(trimmed(told.text), extractive=False)
    if memory.model and not portion.turns:  # memory may be told of nothing that is new
        return _Prose(base.text, base.extractive)
    return _Prose(await _extract(memory, due, base, portion.seq, beside=beside), extractive=True)


async def _extract(memory: Memory, due: Due, base: BriefUpdated, upto: int, *, beside: str) -> str:
    """The newest messages up to seq `upto` in their own words, without what the facts already say. A correction by the
    user stays in front, and what it covers is not told again."""
    written = await _corrected(memory, due, base) or BriefUpdated(text="", covers=0)
    own = await memory.before(upto + 1, limit=BACK, after=max(due.head.cleared, written.covers))
    room = memory.settings.brief_tokens - count(written.text)
    said = await asyncio.to_thread(extract.summary, own, max(0, room), beside=beside)
    return within("\n".join(filter(None, (written.text, said))), WORDS, word_count)


async def _corrected(memory: Memory, due: Due, base: BriefUpdated) -> BriefUpdated | None:
    """The newest version that the user wrote; None where there is none since the last clear."""
    if base.by:
        return base
    if not base.corrected:
        return None
    found = await memory.log.range(memory.line, base.corrected, base.corrected)
    event = found[0].event if found else None
    return event if isinstance(event, BriefUpdated) and event.covers > due.head.cleared else None
