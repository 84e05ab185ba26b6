"""Writing dialogues at times of one's choosing, and asking for contexts that a provider would accept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from benchmarks.validator import refusals
from everthread import Everthread, Talk, assistant, tool_call, tool_result, user
from everthread.context.build import Context
from everthread.core.events import Event
from everthread.core.logged import Logged
from everthread.store.scripts.append import Draft

MINUTE = 60_000_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
NINE = 1_772_442_000_000_000  # Monday, 2026-03-02, 09:00 UTC


async def say(et: Everthread, talk: Talk, *events: Event, at: int = NINE) -> list[Logged]:
    """Append events that all have this time, on the branch that the talk is on."""
    line = await talk.line()
    target = line.target
    return await et.log.append(target, [Draft(event=event, time=at) for event in events])


async def asked(talk: Talk, model: str, **arguments: Any) -> Context:
    """A context whose request the provider accepts, and which says so where it is over its budget."""
    context = await talk.context(model=model, **arguments)
    assert refusals(model, context.request) == []
    assert context.over_budget == (context.estimate if context.estimate > context.budget else 0)
    return context


def turns(count: int, *, words: int = 30, name: str = "Q") -> list[Event]:
    """Plain turns: `Q0 word word …` and a short reply."""
    return [event for n in range(count) for event in (user(f"{name}{n} " + "word " * words), assistant(f"A{n}."))]


def used(name: str, text: str, *, id: str = "") -> list[Event]:
    """A tool call and its result."""
    id = id or f"call_{name}"
    return [tool_call(name, id=id), tool_result(text, id=id, name=name)]


def begins_with(longer: list[str], shorter: Iterable[str]) -> bool:
    beginning = list(shorter)
    return longer[: len(beginning)] == beginning
