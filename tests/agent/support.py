"""What the tests of the loop share: hearing a turn to its end, and looking at what the log says of it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from benchmarks.validator import refusals
from everthread import Talk
from everthread.agent.reply import Reply
from everthread.core.branches import ENDLESS, Line
from everthread.core.deltas import Delta, Done
from everthread.core.events import ModelCall
from everthread.core.logged import Logged
from everthread.store.beside.leases import of_turns
from tests.waiting import turned, until

FORMS = ("anthropic:claude-sonnet-4-6", "openai:gpt-5", "openai-responses:gpt-5", "google:gemini-2.5-pro")


async def heard(reply: Reply) -> list[Delta]:
    """All deltas of a turn. The last is always the end."""
    deltas = [delta async for delta in reply]
    assert isinstance(deltas[-1], Done)
    assert sum(isinstance(delta, Done) for delta in deltas) == 1
    return deltas


async def failing(reply: Reply, problem: type[Exception], words: str | None = None) -> list[Delta]:
    """All deltas of a turn that ends with this error. Even then the last is the end."""
    deltas: list[Delta] = []

    async def hear() -> None:
        async for delta in reply:
            deltas.append(delta)  # noqa: PERF401 -- as they come

    with pytest.raises(problem, match=words and re.escape(words)):
        await hear()
    assert isinstance(deltas[-1], Done)
    return deltas


def seen(look: Callable[[Any], object], reply: Any) -> Callable[[Any], Any]:
    """A reply of the scripted model, to a request that is looked at first."""

    def replies(body: Any) -> Any:
        look(body)
        return reply

    return replies


async def said(reply: Reply) -> str:
    """The text that a plain program would print."""
    return "".join(map(str, await heard(reply)))


@asynccontextmanager
async def finds_its_branch(talk: Talk) -> AsyncIterator[None]:
    """At the end of the block something has looked for the current branch, and waits for its turn on it."""
    log, found = talk._log, 0
    line = log.line

    async def counted(*given: Any, **named: Any) -> Line:
        nonlocal found
        try:
            return await line(*given, **named)
        finally:
            found += 1

    log.line = counted  # type: ignore[method-assign]
    try:
        yield
        await until(lambda: found > 0)
        await turned()
    finally:
        log.line = line  # type: ignore[method-assign]


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

    async def is_kept() -> bool:
        kept = await talk._log.leases.partial(talk.conversation.tenant, name)
        return kept is not None and text in kept.text

    await until(is_kept)


async def assert_valid(talk: Talk, **asked: Any) -> None:
    """Whatever happened, the next request is one that every provider takes."""
    for model in FORMS:
        context = await talk.context(model=model, **asked)
        assert refusals(model, context.request) == []
