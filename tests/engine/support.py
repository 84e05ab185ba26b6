"""What the tests of the loop share: hearing a turn to its end, and looking at what the log says of it."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from benchmarks.validator import refusals
from everthread import Talk
from everthread.core.branches import ENDLESS
from everthread.core.deltas import Delta, Done
from everthread.core.events import ModelCall
from everthread.core.logged import Logged
from everthread.engine.saying import Saying
from everthread.store.leases import of_turns
from tests.engine.processes import PATIENCE

FORMS = ("anthropic:claude-sonnet-4-6", "openai:gpt-5", "openai-responses:gpt-5", "google:gemini-2.5-pro")


async def heard(saying: Saying) -> list[Delta]:
    """All deltas of a turn. The last is always the end."""
    deltas = [delta async for delta in saying]
    assert isinstance(deltas[-1], Done)
    assert sum(isinstance(delta, Done) for delta in deltas) == 1
    return deltas


async def failing(saying: Saying, problem: type[Exception], words: str | None = None) -> list[Delta]:
    """All deltas of a turn that ends with this error. Even then the last is the end."""
    deltas: list[Delta] = []

    async def hear() -> None:
        async for delta in saying:
            deltas.append(delta)  # noqa: PERF401 -- as they come

    with pytest.raises(problem, match=words and re.escape(words)):
        await hear()
    assert isinstance(deltas[-1], Done)
    return deltas


async def said(saying: Saying) -> str:
    """The text that a plain program would print."""
    return "".join(map(str, await heard(saying)))


async def kinds(talk: Talk) -> list[str]:
    return [event.kind for event in await talk.range(1, ENDLESS)]


async def calls(talk: Talk) -> list[ModelCall]:
    """The records of the model calls, oldest first."""
    return [event.event for event in await talk.range(1, ENDLESS) if isinstance(event.event, ModelCall)]


async def results(talk: Talk) -> list[Logged]:
    return [event for event in await talk.range(1, ENDLESS) if event.kind == "tool_result"]


async def state(talk: Talk) -> str:
    return (await talk.turns(limit=1))[-1].state


async def until_kept(talk: Talk, text: str) -> None:
    """Wait until this much of a running reply has been kept."""
    name = of_turns(talk.id, (await talk.line()).branch.number)
    async with asyncio.timeout(PATIENCE):
        while not (kept := await talk._log.partial(talk.conversation.tenant, name)) or text not in kept.text:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def assert_valid(talk: Talk, **asked: Any) -> None:
    """Whatever happened, the next request is one that every provider takes."""
    for model in FORMS:
        context = await talk.context(model=model, **asked)
        assert refusals(model, context.request) == []
