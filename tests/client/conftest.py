"""Every test here has a service, in this process and on this loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from everthread import app
from everthread.client import Everthread, Talk
from tests.agent.conftest import gate  # noqa: F401 -- a fixture
from tests.client.serving import Served, Through, Watched, serving

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The library's suites run through the client on SQLite; on PostgreSQL as well before an issue is resolved."""
    for item in items:
        is_suite = item.path.parent == HERE and item.path.name.startswith("test_suites")
        if is_suite and ("[postgres" in item.nodeid or "[redis" in item.nodeid):
            item.add_marker(pytest.mark.prove)


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
    begun = await theirs.begin(user=someone, agent="helper")
    assert isinstance(begun, Talk)
    return begun
