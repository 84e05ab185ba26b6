"""What is remembered, for the user to see, to correct and to delete.

A correction is a version of the brief that the user wrote: it holds at once, and what is made later goes on from it. A
fact that is dropped is left out of what is known from then on, until somebody states it again. What must be gone for
good is redacted in the log, and memory follows: `store.verbs.forgetting`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from everthread.core.events import BriefUpdated, SessionEnded
from everthread.core.logged import readable
from everthread.core.tokens import count
from everthread.core.turns import Head
from everthread.core.values import Value
from everthread.errors import BadValue, Outrun
from everthread.language.digest import WORDS, shortened, word_count
from everthread.language.facts import Fact, Facts, ranked, rendered
from everthread.memory.branch import Memory
from everthread.memory.due import due
from everthread.memory.facts import as_text, known_after

USER = "user"
TRIES = 5  # times that a worker may be faster


class Remembered(msgspec.Struct, Value, frozen=True, kw_only=True):
    """What is remembered on a branch: up to seq `covers`, over `turns` turns (0: not known). `brief` is a range's
    summary under the strategy `importance`, and nothing under `session`. `facts` are those that are told, best first.
    `by` is who wrote the brief, where it was not memory; `recap` is of the session before this one, `notes` is
    MEMORY.md."""

    brief: str = ""
    facts: tuple[Fact, ...] = ()
    covers: int = 0
    turns: int = 0
    extractive: bool = False
    by: str = ""
    recap: str = ""
    notes: str = ""
    name: str = ""
    goal: str = ""


async def remembered(memory: Memory, *, notes: str) -> Remembered:
    found = await memory.log.ask(lambda: due(memory.line, capable=False))
    version, _ = found.version_under(memory.settings.strategy)
    brief = version.as_brief
    known = await known_after(memory, found, max(found.head.cleared, version.covers))
    return Remembered(
        brief=version.event.text if version.event else "",
        facts=tuple(ranked(known.facts, memory.settings.facts_tokens, count)),
        covers=version.covers,
        turns=brief.turns,
        extractive=version.extractive,
        by=brief.by,
        recap=await _recap(memory, found.head),
        notes=notes,
        name=memory.conversation.name,
        goal=memory.conversation.goal,
    )


async def _recap(memory: Memory, head: Head) -> str:
    """The recap of the session before this one."""
    found = readable(await memory.log.markers(memory.line, "session_ended", limit=1))
    ended = [one.event for one in found if isinstance(one.event, SessionEnded) and one.seq > head.cleared]
    return next((one.recap for one in ended if one.session == head.session - 1), "")


async def correct(memory: Memory, text: str | None, drop: Sequence[str]) -> BriefUpdated:
    """Put the user's own words in place of the brief, and leave facts out of what is known."""
    _check(memory, text)
    for _ in range(TRIES):
        with suppress(Outrun):
            return await _corrected(memory, text, drop)
    return await _corrected(memory, text, drop)


def _check(memory: Memory, text: str | None) -> None:
    strategy, tokens = memory.settings.strategy, memory.settings.brief_tokens
    if strategy in ("importance", "session"):
        allowed = "budget or messages: others send no brief. Redact what is wrong, and memory is made anew"
        raise BadValue("the strategy", strategy, allowed)
    if text is None:
        return
    if not text.strip():
        raise BadValue("the brief", text, "not empty; to begin afresh, clear the conversation")
    if word_count(text) > WORDS or count(text) > tokens:
        raise BadValue("the brief", shortened(text, 60), f"at most {WORDS} words and {tokens} tokens; shorten it")


async def _corrected(memory: Memory, text: str | None, drop: Sequence[str]) -> BriefUpdated:
    found = await memory.log.ask(lambda: due(memory.line, capable=False))
    brief, covers = found.brief.as_brief, found.covered if found.brief.event else found.upto
    if covers <= found.head.cleared:
        raise BadValue("the brief", text or "", "written once something was said; nothing is remembered yet")
    known = _without((await known_after(memory, found, covers)).facts, drop)
    version = BriefUpdated(
        text=brief.text if text is None else text.strip(),
        covers=covers,
        facts=rendered(ranked(known, memory.settings.facts_tokens, count)),
        known=as_text(known),
        turns=brief.turns,
        by=USER,
    )
    await memory.log.append(memory.line.target, [version], basis=found.basis("brief_updated"))
    return version


def _without(known: Facts, drop: Sequence[str]) -> Facts:
    """The facts without those that contain one of these texts."""
    kept = known.items
    for text in drop:
        left = tuple(fact for fact in kept if text.casefold() not in fact.text.casefold())
        if not text.strip() or len(left) == len(kept):
            raise BadValue("the fact", text, "text that a fact has in it, as facts are shown")
        kept = left
    return msgspec.structs.replace(known, items=kept)
