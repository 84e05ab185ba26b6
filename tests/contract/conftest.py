"""The log, windows and requests, without what memory adds to them."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _without(without_memory: None) -> None:
    """What memory adds is told in tests/memory."""
