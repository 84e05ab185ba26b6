"""The service, running: each test that asks for `served` runs on both stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.server.serving import Served, serving


@pytest.fixture
async def served(address: str, someone: str) -> AsyncIterator[Served]:
    """A service with Ana and Bob of one tenant, its administrator Ada, and Cy of another."""
    async with serving(address, f"tenant-{someone}") as running:
        await running.join("ana")
        await running.join("bob")
        await running.join("ada", role="administrator")
        await running.join("cy", tenant=f"another-{someone}")
        yield running


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Served]:
    """The same on SQLite alone, for what never comes as far as the store."""
    async with serving(f"sqlite:///{tmp_path}/site.db", "here") as running:
        await running.join("ana")
        yield running
