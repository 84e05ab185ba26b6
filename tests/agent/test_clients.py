"""Clients of providers are kept for the next call, and closed when they are too many and nobody uses them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from everthread.agent import clients as lending
from everthread.agent.clients import Clients
from everthread.providers.choose import access_of
from everthread.providers.client import Access

pytestmark = pytest.mark.usefixtures("connected")


class _Client:
    def __init__(self, access: Access) -> None:
        self.access, self.closed = access, False

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[_Client]:
    """All clients that were ever made."""
    made: list[_Client] = []

    def connect(access: Access) -> _Client:
        made.append(_Client(access))
        return made[-1]

    def imported(_: str) -> Callable[[Access], _Client]:
        return connect

    monkeypatch.setattr(lending, "_imported", imported)
    return made


@pytest.fixture
async def clients() -> AsyncIterator[Clients]:
    """Two are kept at most."""
    beside: list[asyncio.Task[None]] = []

    def begin(work: Coroutine[Any, Any, None]) -> None:
        beside.append(asyncio.create_task(work))

    yield Clients(begin, most=2)
    await asyncio.gather(*beside)


def _access(key: str) -> Access:
    return Access(provider="openai", key=key)


async def _use(clients: Clients, key: str) -> None:
    async with clients.lend(_access(key)):
        await asyncio.sleep(0)
    await asyncio.sleep(0)  # for what is closed beside


async def test_a_client_is_kept_for_the_next_call(clients: Clients, connected: list[_Client]) -> None:
    await _use(clients, "a")
    await _use(clients, "a")
    assert [one.access.key for one in connected] == ["a"]


async def test_the_one_that_was_not_used_for_longest_is_closed(clients: Clients, connected: list[_Client]) -> None:
    for key in ("a", "b", "a", "c"):
        await _use(clients, key)
    assert [(one.access.key, one.closed) for one in connected] == [("a", False), ("b", True), ("c", False)]
    assert len(clients) == 2


async def test_nobody_loses_a_client_that_is_in_use(clients: Clients, connected: list[_Client]) -> None:
    async with clients.lend(_access("a")):
        for key in ("b", "c", "d"):
            await _use(clients, key)
        assert [one.access.key for one in connected if one.closed] == ["b", "c"]
    await _use(clients, "e")
    assert "a" in [one.access.key for one in connected if one.closed]
    assert len(clients) == 2


async def test_many_at_once_share_one_client(clients: Clients, connected: list[_Client]) -> None:
    await asyncio.gather(*(_use(clients, "a") for _ in range(20)))
    assert len(connected) == 1


async def test_more_than_are_kept_may_be_in_use_at_once(clients: Clients, connected: list[_Client]) -> None:
    await asyncio.gather(*(_use(clients, key) for key in "abcdef"))
    assert len(clients) == 2
    assert sum(not one.closed for one in connected) == 2


async def test_whoever_takes_them_all_closes_them(clients: Clients, connected: list[_Client]) -> None:
    await _use(clients, "a")
    assert list[object](clients.take_all()) == connected
    assert len(clients) == 0


@pytest.mark.parametrize(("model", "apart"), [("openai:gpt-5", False), ("local:smollm2", True)])
def test_a_window_and_threads_tell_clients_apart_only_where_the_model_runs_in_the_process(
    model: str, apart: bool
) -> None:
    one, other = (access_of(model, "", {}, {}, threads=given, window=given * 1000) for given in (1, 2))
    assert (one != other) is apart
