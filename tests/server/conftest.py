"""A place of its own for each test, on each store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from everthread.store.open import open_log
from tests.contract.support import Clock
from tests.server.identities import Place


@pytest.fixture
async def place(address: str, someone: str) -> AsyncIterator[Place]:
    clock = Clock()
    log = await open_log(address, clock=clock)
    yield Place(log, clock, f"tenant-of-{someone}", address)
    await log.close()
