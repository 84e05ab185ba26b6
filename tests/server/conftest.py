"""A place of its own for each test, on each store; and the service, running."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from benchmarks.loopback.openai import OpenAIServer
from everthread.store.open import open_log
from tests.contract.support import Clock
from tests.server.identities import Place
from tests.server.serving import Served, serving


@pytest.fixture
async def place(address: str, someone: str) -> AsyncIterator[Place]:
    clock = Clock()
    log = await open_log(address, clock=clock)
    yield Place(log, clock, f"tenant-of-{someone}", address)
    await log.close()


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


@pytest.fixture
async def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OpenAIServer]:
    """A stand-in for a provider, whose key stands in the settings file."""
    async with OpenAIServer() as found:
        file = tmp_path / "settings.toml"
        file.write_text(f'[keys]\n"{urlsplit(found.address).netloc}" = "test-key"\n')
        monkeypatch.setenv("EVERTHREAD_CONFIG", str(file))
        yield found
