"""Every suite here runs through a service, in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from everthread import app
from tests.client.serving import Served, Through, Watched, serving


@pytest.fixture(autouse=True)
def _through_a_service(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a test of the library's opens a store, it is served, and the test has a client of that."""
    function = request.function
    function = getattr(getattr(function, "hypothesis", None), "inner_test", function)
    for module in (function.__globals__, request.module.__dict__):
        if module.get("Everthread") is app.Everthread:
            monkeypatch.setitem(module, "Everthread", Through)


@pytest.fixture(autouse=True)
def _without(without_memory: None) -> None:
    """What memory adds is told in tests/memory."""


@pytest.fixture
async def et(address: str) -> AsyncIterator[Watched]:
    async with Through.open(address) as opened:
        yield opened
