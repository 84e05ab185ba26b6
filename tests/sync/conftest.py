"""Stores without await, on each database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from everthread.sync import Everthread, Talk


@pytest.fixture(autouse=True)
def _measured(measured: None) -> None:
    """How a program without a loop ends shows only in one of its own."""


@pytest.fixture
def et(address: str) -> Iterator[Everthread]:
    with Everthread.open(address, settings={"model": "scripted:sync", "memory": False}) as opened:
        yield opened


@pytest.fixture
def talk(et: Everthread, someone: str) -> Talk:
    return et.begin(user=someone, agent="helper")
