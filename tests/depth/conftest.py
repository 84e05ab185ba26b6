"""Lines of many pieces. What memory has is read as it is sent; nothing is made meanwhile that would be counted."""

from __future__ import annotations

import pytest

from everthread.jobs.worker import Worker


@pytest.fixture(autouse=True)
def _without_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Worker, "remind", lambda *_: None)


@pytest.fixture
def address(fresh_address: str) -> str:
    """A store that tests share may have learnt what a model's tokens are, and asks otherwise."""
    return fresh_address
