"""A talk with a scripted model: what it says is up to each test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import pytest

from everthread import Everthread, Talk
from everthread.providers.scripted import client as scripted_client
from everthread.testing.scripted import script

Speak = Callable[..., None]
_pieces = scripted_client._pieces


@pytest.fixture(autouse=True)
def _without(without_memory: None) -> None:
    """What memory adds is told in tests/memory."""


@pytest.fixture
def model(someone: str) -> str:
    return f"scripted:{someone}"


@pytest.fixture
def speak(someone: str) -> Speak:
    """Give the model of this test its replies."""

    def speak(*replies: Any, pace: float = 0.0) -> None:
        script(someone, *replies, pace=pace)

    return speak


class Gate:
    """Holds a reply of the scripted model up, before its first word or a later one, until it is opened."""

    def __init__(self) -> None:
        self.reached, self._open = asyncio.Event(), asyncio.Event()
        self._holds: int | None = None

    def hold(self, *, after: int = 0) -> None:
        """The next reply, once so many words have come; those after it pass."""
        self._holds = after

    def open(self) -> None:
        self._open.set()

    async def pieces(self, body: Any) -> AsyncGenerator[Any]:
        held, self._holds, came = self._holds, None, 0
        async for piece in _pieces(body):
            if came == held:
                self.reached.set()
                await self._open.wait()
            came += 1
            yield piece


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate = Gate()
    monkeypatch.setattr(scripted_client, "_pieces", gate.pieces)
    return gate


@pytest.fixture
async def talk(address: str, someone: str, model: str) -> AsyncIterator[Talk]:
    async with Everthread.open(address, settings={"model": model, "retries": 2}, keys={}) as et:
        yield await et.begin(user=someone, agent="helper")
