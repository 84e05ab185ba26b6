"""`everthread bench service` runs, on very little, and tells what it promises to tell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.service import MOST_GROWTH, MOST_IDLE, MOST_LATE, MOST_TIMES
from tests.waiting import WHOLE

ROOT = Path(__file__).parents[2]
BARS = {
    "a page of 50, from request to answer": MOST_TIMES,
    "a page of 50, CPU time of the process": MOST_TIMES,
    "a context, 1 connections": None,
    "a turn to its end, 1 connections": None,
    "a context, 4 connections": None,
    "a turn to its end, 4 connections": None,
    "a delta, 3 streams of 3 replies, p99": MOST_LATE,
    "a delta, 3 streams of one reply, p99": MOST_LATE,
    "a delta, 3 streams of 3 replies, in another process, p99": None,
    "an idle WebSocket, above a bare one": MOST_IDLE,
    "memory at the end of a soak": MOST_GROWTH,
}


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_everything_is_measured_beside_the_bare_framework(engine: str, tmp_path: Path) -> None:
    few = ["--rounds", "1", "--connections", "4", "--turns", "1", "--streams", "3", "--seconds", "0.2", "--soak", "1"]
    command = [sys.executable, "-m", "benchmarks.service", "--engine", engine, *few, "--folder", str(tmp_path)]
    done = subprocess.run([*command, "--json"], cwd=ROOT, check=False, capture_output=True, text=True, timeout=WHOLE)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    elsewhere = "a delta, 3 streams of 3 replies, in another process, p99"
    wanted = {what: bar for what, bar in BARS.items() if engine == "postgres" or what != elsewhere}
    assert {result["what"]: result["bar"] for result in found} == wanted
    assert all(result["ours"] > 0 for result in found if "idle" not in result["what"])
