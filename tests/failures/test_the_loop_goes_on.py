"""What is large is not counted on the event loop, and whoever counts it lets the loop go on between two pieces."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any, get_args

import pytest

from everthread import Talk, assistant, file, tool_call, tool_result, user
from everthread.core import tokens
from everthread.core.events import Event
from everthread.core.tokens import Encoding
from everthread.errors import EventTooLarge
from everthread.store.recall import hits
from everthread.store.scripts import append

PATIENCE = 120.0  # seconds, for a loop that does not go on
LITTLE = 100_000  # bytes that may be counted where they stand
LARGE = 1_000_000
LETTERS, WORDS = "a" * LARGE, "walnuts and almonds " * (LARGE // 20)


class Counting:
    """Stands in for the tokenizers. In a thread it lets no piece begin before the loop has turned once more."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._thread = loop, threading.get_ident()
        self.on_loop = self.beside = self.largest = 0  # bytes

    def count(self, text: str, real: Any) -> list[int]:
        size = len(text.encode())
        self.largest = max(self.largest, size)
        if threading.get_ident() == self._thread:
            self.on_loop += size
        else:
            self.beside += size
            turned = threading.Event()
            self._loop.call_soon_threadsafe(turned.set)
            assert turned.wait(PATIENCE)
        return list(real.encode_ordinary(text))


class Tokenizer:
    def __init__(self, counting: Counting, real: Any) -> None:
        self._counting, self._real = counting, real

    def encode_ordinary(self, text: str) -> list[int]:
        return self._counting.count(text, self._real)


@pytest.fixture
async def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    counting = Counting(asyncio.get_running_loop())
    names: tuple[Encoding, ...] = get_args(Encoding)
    both = {name: Tokenizer(counting, tokens._tokenizer(name)) for name in names}
    monkeypatch.setattr(tokens, "_tokenizer", both.__getitem__)
    return counting


def _beside(counting: Counting, *, least: int = LARGE) -> None:
    assert counting.on_loop < LITTLE
    assert counting.largest < LITTLE
    assert counting.beside >= least


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([user(LETTERS)], id="one letter"),
        pytest.param([user(WORDS)], id="words"),
        pytest.param([user("read"), tool_call("read"), tool_result(LETTERS, name="read")], id="a tool result"),
        pytest.param([user("write"), tool_call("write", {"text": WORDS})], id="arguments"),
        pytest.param([user(file(WORDS.encode(), media_type="text/plain"))], id="a file that is sent as text"),
        pytest.param([user(WORDS[: LARGE // 20]) for _ in range(20)], id="many that are large together"),
    ],
)
async def test_a_large_message_is_counted_beside_the_loop(talk: Talk, counting: Counting, events: list[Event]) -> None:
    await talk.append(*events)
    _beside(counting)


async def test_what_is_too_large_is_refused_beside_the_loop(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = _threads(monkeypatch, append, "encode")
    with pytest.raises(EventTooLarge):
        await talk.append(user(WORDS * 20))
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda talk: talk.context(model="openai:gpt-4", budget=0), id="whole"),
        pytest.param(lambda talk: talk.context(model="openai:gpt-4", budget=4_000), id="shortened"),
    ],
)
async def test_a_context_in_another_encoding_is_counted_beside_the_loop(
    talk: Talk, counting: Counting, ask: Callable[[Talk], Awaitable[Any]]
) -> None:
    """The log has the sizes in one encoding only."""
    await talk.append(user("read"), tool_call("read"), tool_result(LETTERS, name="read"))
    counting.beside = 0
    await ask(talk)
    _beside(counting)


async def test_what_recall_finds_in_a_large_message_is_looked_for_beside_the_loop(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = _threads(monkeypatch, hits, "shortened")
    await talk.append(user(WORDS), assistant(WORDS))
    assert await talk.recall("walnuts")
    assert threads
    assert threading.get_ident() not in threads


def _threads(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> set[int]:
    """Those in which a function is called from now on."""
    threads, real = set[int](), getattr(module, name)

    def recording(*given: Any) -> Any:
        threads.add(threading.get_ident())
        return real(*given)

    monkeypatch.setattr(module, name, recording)
    return threads
