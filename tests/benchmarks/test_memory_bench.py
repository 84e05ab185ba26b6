"""`everthread bench memory` runs, on very little, and tells what it promises to tell; what was said is still known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bars import Result, report
from benchmarks.facts import KINDS, conversation
from benchmarks.memory import endless, fitting
from everthread.config import Settings
from everthread.core.tokens import count
from tests.waiting import WHOLE

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    command = [sys.executable, "-c", "from everthread.cli import main; main()", "bench", "memory", "--json"]
    command += ["--seeds", "1", "--after", "10", "120", "--lengths", "20", "--rounds", "2", "--sizes", "10"]
    command += ["--folder", str(tmp_path_factory.mktemp("bench"))]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=WHOLE, env=environment)
    assert done.returncode == 0, done.stderr
    return {result["what"]: result for result in json.loads(done.stdout)}


@pytest.mark.parametrize("after", [10, 120])
@pytest.mark.parametrize("kind", [*KINDS, "all"])
def test_the_share_that_is_left_is_told_by_kind(results: dict[str, dict[str, Any]], after: int, kind: str) -> None:
    found = results[f"in brief and facts, {after} turns later: {kind}"]
    assert found["bar"] is None
    assert found["ours"] == 1.0 if kind == "preference" else 0 < found["ours"] < 1


@pytest.mark.parametrize("after", [10, 120])
def test_what_was_said_is_found_and_preferences_are_sent(results: dict[str, dict[str, Any]], after: int) -> None:
    found, sent = (
        results[f"{what}, {after} turns later"] for what in ("found by recall", "preferences in the request")
    )
    assert (found["bar"], found["least"], found["missed"]) == (0.95, True, False)
    assert (sent["bar"], sent["least"], sent["missed"]) == (1.0, True, False)
    assert f"fit into {Settings().facts_tokens} tokens" in sent["note"]


@pytest.mark.parametrize("moment", ["after a pause", "at once"])
@pytest.mark.parametrize("until", ["the first delta", "the whole reply"])
def test_what_memory_adds_to_a_turn_is_timed(results: dict[str, dict[str, Any]], moment: str, until: str) -> None:
    found = results[f"memory adds until {until}, said {moment}, 20 messages"]
    assert (found["unit"], found["bar"], found["least"]) == ("ms", 1.0, False)
    assert found["other"] > 0


@pytest.mark.parametrize("what", ["extract.summary", "facts.fold", "talk.remember()"])
def test_summaries_are_timed(results: dict[str, dict[str, Any]], what: str) -> None:
    found = results[f"{what}, 10 messages"]
    assert found["ours"] > 0
    assert found["bar"] is None


def test_as_many_preferences_are_planted_as_fit() -> None:
    wishes = fitting(seed=1)
    assert len(wishes) > KINDS["preference"]
    assert count("\n".join(wish.said for wish in wishes)) < Settings().facts_tokens


def test_made_up_messages_do_not_come_to_an_end() -> None:
    once = len(conversation(0, 50)[0])
    assert len(endless(once + 10)) == once + 10


def test_a_table_says_which_bars_are_missed(capsys: pytest.CaptureFixture[str]) -> None:
    report([Result("sqlite", "a", 2.0, "ms", bar=1.0, other=0.5), Result("sqlite", "b", 1.0)], other="x", as_json=False)
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| sqlite | a | 2.00 ms | 0.50 ms | ≤ 1.00 ms **missed** |  |",
        "| sqlite | b | 1 |  |  |  |",
        "",
        "1 of 1 bars missed.",
    ]
