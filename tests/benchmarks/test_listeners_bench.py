"""`everthread bench agent --parts listeners` runs, with few listeners and short replies, on both engines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.listeners import MOST
from tests.waiting import WHOLE

ROOT = Path(__file__).parents[2]
IN_ITS_PROCESS = [f"delta to {count} listeners of one reply, in its process" for count in (1, 2, 8)]
IN_ANOTHER = [
    *(f"delta to {count} listeners of one reply, in another" for count in (1, 2, 8)),
    "delta to one listener each of 8 replies, in another",
]
APPENDS = "an append, 64 writers, with 8 listeners against none"
WHAT = {"sqlite": [*IN_ITS_PROCESS, APPENDS], "postgres": [*IN_ITS_PROCESS, *IN_ANOTHER, APPENDS]}


@pytest.mark.parametrize("engine", WHAT)
def test_deltas_are_timed_and_appends_have_a_bar(engine: str, tmp_path: Path) -> None:
    options = ["--parts", "listeners", "--listeners", "8", "--seconds", "0.2", "--blocks", "1", "--json"]
    command = [sys.executable, "-m", "benchmarks.agent", "--engine", engine, *options, "--folder", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=WHOLE)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert [result["what"] for result in found] == WHAT[engine]
    assert all(result["ours"] > 0 for result in found)
    *late, appends = found
    assert {(result["unit"], result["bar"]) for result in late} == {("ms", None)}
    assert (appends["unit"], appends["bar"]) == ("×", MOST)
