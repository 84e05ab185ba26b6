"""Journeys are made on SQLite; that the stores do not differ is what the contract tests are for."""

from __future__ import annotations

import pytest


@pytest.fixture
def engine() -> str:
    return "sqlite"
