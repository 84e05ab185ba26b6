"""Every test here has a service, in this process and on this loop."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from everthread import app
from everthread.client import Everthread, Talk
from tests.client.serving import Served, Through, Watched, serving


@pytest.fixture(autouse=True)
def _through_a_service(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a test of the library's opens a store, it is served, and the test has a client of that."""
    function = getattr(getattr(request.function, "hypothesis", None), "inner_test", request.function)
    for module in (function.__globals__, *getattr(request.module, "PATCHED", ())):
        if module.get("Everthread") is app.Everthread:
            monkeypatch.setitem(module, "Everthread", Through)


@pytest.fixture(autouse=True)
def _without(without_memory: None) -> None:
    """What memory adds is told in tests/memory."""


@pytest.fixture
async def et(address: str) -> AsyncIterator[Watched]:
    async with Through.open(address) as opened:
        yield opened


@pytest.fixture
async def served(address: str, someone: str) -> AsyncIterator[Served]:
    """A service whose model is this test's."""
    async with (
        app.Everthread.open(address, settings={"model": f"scripted:{someone}", "retries": 0}, keys={}) as store,
        serving(store) as served,
    ):
        yield served


@pytest.fixture
async def theirs(served: Served, someone: str) -> AsyncIterator[Everthread]:
    """The service, with a key of this test's user."""
    async with Everthread.open(served.address, key=await served.key(someone)) as et:
        yield et


@pytest.fixture
async def conversation(theirs: Everthread, someone: str) -> Talk:
    return await theirs.begin(user=someone, agent="helper")
