"""A talk with a scripted model: what it says is up to each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from everthread import Everthread, Talk
from everthread.testing.scripted import script

Speak = Callable[..., None]


@pytest.fixture(autouse=True)
def _without(without_memory: None) -> None:
    """What memory adds is told in tests/jobs."""


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
