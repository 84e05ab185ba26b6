"""`ask`: a small dialogue in, a context out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from benchmarks.validator import refusals
from everthread import Everthread
from everthread.context.build import Context
from everthread.core.events import Event


class Ask(Protocol):
    async def __call__(self, model: str, *events: Event, **asked: Any) -> Context:
        """The context of a new conversation of these events, which the provider would accept. No time is told."""


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Ask]:
    async def asking(model: str, *events: Event, **asked: Any) -> Context:
        talk = await et.begin(user="ana")
        if events:
            await et.log.append(talk._target, events)  # tombstones, too, which nobody else may write
        context = await talk.context(model=model, **asked)
        assert refusals(model, context.request) == []
        return context

    async with Everthread.open(f"sqlite:///{tmp_path}/talk.db", settings={"clock": "off"}) as et:
        yield asking


@pytest.fixture(autouse=True)
def _without(without_memory: None) -> None:
    """What memory adds is told in tests/memory."""
