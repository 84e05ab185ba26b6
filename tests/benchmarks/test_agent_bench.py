"""`everthread bench agent` runs, on very little, and tells what it promises to tell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.agent import MODELS, Result
from benchmarks.clocked import NOW, Clocked, asking, moment, now
from benchmarks.start import PROCESSES
from tests.waiting import WHOLE

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    options = ["--parts", "calls", "starts", "--messages", "300", "--turns", "1", "--starts", "1", "--json"]
    folder = tmp_path_factory.mktemp("bench")
    command = [sys.executable, "-m", "benchmarks.agent", *options, "--folder", str(folder)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=WHOLE)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("provider", MODELS)
@pytest.mark.parametrize("budget", ["8,000", "100,000"])
@pytest.mark.parametrize("messages", ["300", "1,000"])
def test_a_request_is_timed_at_every_length_and_budget(
    results: list[dict[str, Any]], provider: str, messages: str, budget: str
) -> None:
    what = f"{provider}: from `say` to the request, {messages} messages, budget {budget}"
    (found,) = [result for result in results if result["what"] == what]
    assert found["ours"] > 0
    assert found["bare"] > 0
    assert found["bar"] == (5.0 if (messages, budget) == ("300", "8,000") else None)
    assert all(part in found["note"] for part in ("append", "lease", "context"))


@pytest.mark.parametrize("provider", MODELS)
def test_deltas_are_timed_on_their_way_and_counted(results: list[dict[str, Any]], provider: str) -> None:
    late, rate = (
        result for result in results if result["what"].startswith(f"{provider}: ") and "delta" in result["what"]
    )
    assert (late["unit"], late["bar"], rate["unit"], rate["bar"]) == ("ms", 5.0, "/s", None)
    assert min(late["ours"], late["bare"], rate["ours"], rate["bare"]) > 0


def test_processes_are_started_and_two_of_them_have_a_bar(results: list[dict[str, Any]]) -> None:
    started = [result for result in results if result["what"] in PROCESSES]
    assert [result["what"] for result in started] == list(PROCESSES)
    assert [result["what"] for result in started if result["bar"]] == ["import everthread", "everthread --help"]


def test_a_bar_is_missed_by_what_is_added_or_where_nothing_is_compared_by_the_figure_itself() -> None:
    assert Result("", "a", ours=9.0, bare=3.0, added=6.0, bar=5.0).missed
    assert not Result("", "a", ours=9.0, bare=5.0, added=4.0, bar=5.0).missed
    assert Result("", "a", ours=201.0, bare=10.0, bar=200.0).missed
    assert not Result("", "a", ours=201.0, bare=10.0).missed


def test_a_clocked_reply_has_as_many_moments_as_were_asked_for_each_later_than_the_last() -> None:
    before = now()
    sent = list(Clocked([b"begin", NOW.encode(), b"end"], 3))
    moments = [moment(chunk.decode()) for chunk in sent[1:-1]]
    assert (sent[0], sent[-1], len(moments)) == (b"begin", b"end", 3)
    assert before <= moments[0] <= moments[1] <= moments[2] <= now()
    assert "3 pieces, 2 ms apart" in asking(3, 2)
