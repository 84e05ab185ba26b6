"""Whatever goes wrong, without what memory adds to it."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _without(without_memory: None) -> None:
    """What memory adds is told in tests/memory."""
