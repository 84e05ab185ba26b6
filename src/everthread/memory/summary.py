"""The summary of a range: of everything since the last clear, for the strategy `importance`."""

from __future__ import annotations

import asyncio

from everthread.core.events import Summary
from everthread.core.tokens import count
from everthread.language import extract
from everthread.language.digest import trimmed, within
from everthread.language.facts import STANDING, Facts, ranked, rendered
from everthread.memory.ask import Told
from everthread.memory.branch import Memory
from everthread.memory.due import Due
from everthread.memory.facts import known_after

BACK = 800  # messages that an extractive summary looks back over


def is_due(memory: Memory, due: Due, *, all: bool) -> bool:
    settings = memory.settings
    return settings.strategy == "importance" and due.unsummarised >= settings.summarise_after


async def make(memory: Memory, due: Due) -> None:
    """Publish a summary up to the newest message that can be covered."""
    before = due.summary.event
    base = before if isinstance(before, Summary) else Summary(text="", covers=due.head.cleared)
    portion = await memory.portion(due, after=base.covers)
    known = await known_after(memory, due, portion.seq)
    told = await memory.told("summary", due, portion.turns, brief=base.text)
    version = Summary(
        text=await _text(memory, due, told, known.facts, upto=portion.seq),
        covers=portion.seq,
        first=due.head.cleared + 1,
        extractive=told is None,
        base=due.summary.base,
        known=known.written,
        known_at=known.at,
    )
    await memory.publish(version, told, due)


async def _text(memory: Memory, due: Due, told: Told | None, known: Facts, *, upto: int) -> str:
    """What the model wrote, or an extract; and in front of it what the user prefers and demands, where it is not
    said there."""
    tokens = memory.settings.summary_tokens
    said = trimmed(told.text, words=tokens) if told else await _extract(memory, due, upto, tokens)
    if wishes := _wishes(known, said, tokens // 3):
        room = max(0, tokens - count(wishes) - 2)
        rest = within(said, room, count) if told else await _extract(memory, due, upto, room)
        said = f"{wishes}\n{rest}"
    return within(said, tokens, count)


async def _extract(memory: Memory, due: Due, upto: int, tokens: int) -> str:
    own = await memory.before(upto + 1, limit=BACK, after=due.head.cleared)
    return await asyncio.to_thread(extract.summary, own, tokens)


def _wishes(known: Facts, said: str, tokens: int) -> str:
    """What the user prefers and demands, where a summary does not say it."""
    standing = [fact for fact in known.items if fact.kind in STANDING and fact.text[:60] not in said]
    return rendered(ranked(standing, tokens, count))
