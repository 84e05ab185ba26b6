"""The benchmark of imports, on few messages: it runs, and what it says adds up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmarks.transfer import measure


def test_it_tells_speed_and_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(measure(tmp_path, 3_000))
    told = capsys.readouterr().out
    assert "3,000 messages" in told
    assert "0 added" in told
    assert "MB at the end" in told
