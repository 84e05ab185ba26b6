"""A talk with a scripted model: what it says is up to each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from everthread import Everthread, Talk
from everthread.jobs.worker import Worker
from everthread.testing.scripted import script

Speak = Callable[..., None]


@pytest.fixture(autouse=True)
def _without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests tell what a turn writes; what memory writes beside it is told in tests/jobs."""
    monkeypatch.setattr(Worker, "remind", lambda *_: None)


@pytest.fixture
def model(someone: str) -> str:
    return f"scripted:{someone}"


@pytest.fixture
def speak(someone: str) -> Speak:
    """Give the model of this test its replies."""

    def speak(*replies: Any, pace: float = 0.0) -> None:
        script(someone, *replies, pace=pace)

    return speak


@pytest.fixture
async def talk(address: str, someone: str, model: str) -> AsyncIterator[Talk]:
    async with Everthread.open(address, settings={"model": model, "retries": 2}, keys={}) as et:
        yield await et.begin(user=someone, agent="helper")
