"""What memory's question looks like on its way to each provider."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from everthread.agent.observer import Observers
from everthread.agent.runtime import Runtime
from everthread.config import Settings
from everthread.core.deltas import Usage
from everthread.core.events import assistant
from everthread.memory.ask import ask
from everthread.providers.client import Replied


class _Listener:
    """A runtime whose every model says the same and keeps what it was asked."""

    summarise = None

    def __init__(self) -> None:
        self.body: dict[str, Any] = {}
        self.observers = Observers()

    @asynccontextmanager
    async def reach(self, _model: str, _settings: Settings, *, tenant: str) -> AsyncIterator[_Listener]:
        assert tenant == "acme"
        yield self

    @asynccontextmanager
    async def reply(self, body: dict[str, Any]) -> AsyncIterator[AsyncIterator[Replied]]:
        self.body = body
        yield self._pieces()

    async def _pieces(self) -> AsyncIterator[Replied]:
        yield Replied(events=(assistant("A brief."),), usage=Usage(input=1, output=1), finish="stop")

    def price(self, *_: object, **__: object) -> None:
        return None


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("openai:gpt-5-mini", {"reasoning_effort": "minimal"}),
        ("openai-responses:gpt-5-mini", {"reasoning": {"effort": "minimal"}}),
        ("anthropic:claude-haiku-4-5", {}),
        ("openai:gpt-4.1-mini", {}),
    ],
)
async def test_a_model_that_reasons_unasked_is_told_to_reason_little(model: str, told: dict[str, Any]) -> None:
    """Anthropic's reason only where an effort is asked for, and some models never do."""
    runtime = _Listener()
    await ask(
        cast("Runtime", runtime), Settings(), model, tenant="acme", instructions="Sum up.", text="user: Hello.", at=1
    )
    names = ("reasoning_effort", "reasoning", "thinking", "output_config")
    assert {name: runtime.body[name] for name in names if name in runtime.body} == told
