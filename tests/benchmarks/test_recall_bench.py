"""`everthread bench recall`: reads dialogues with questions, asks them, and counts what was found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bars import Result
from benchmarks.recall import read
from everthread.core.events import text_of

ROOT = Path(__file__).parents[2]

DIALOGUES: list[dict[str, Any]] = [
    {
        "sample_id": "made-up",
        "conversation": {
            "speaker_a": "Ana",
            "speaker_b": "Ben",
            "session_1_date_time": "1:05 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ana", "dia_id": "D1:1", "text": "I bought a tortoise."},
                {"speaker": "Ben", "dia_id": "D1:2", "text": "Lovely!", "blip_caption": "a photo of a garden"},
            ],
            "session_2_date_time": "9:00 am on 10 May, 2023",
            "session_2": [{"speaker": "Ben", "dia_id": "D2:1", "text": "My sister plays the cello."}],
        },
        "qa": [
            {"question": "Which pet did Ana buy, a tortoise?", "evidence": ["D1:1"], "category": 4},
            {"question": "Which instrument, a cello?", "evidence": ["D2:1; D9:9"], "category": 1},
            {"question": "Nobody said so.", "evidence": ["D1:1"], "category": 5},
            {"question": "Not annotated.", "evidence": [], "category": 3},
        ],
    }
]


def test_a_dialogue_becomes_messages_with_names_times_and_what_pictures_show() -> None:
    (dialogue,) = read(DIALOGUES)
    assert [(name, draft.event.kind, text_of(draft.event)) for name, draft in dialogue.turns] == [
        ("D1:1", "user", "Ana: I bought a tortoise."),
        ("D1:2", "assistant", "Ben: Lovely! [shows a photo of a garden]"),
        ("D2:1", "assistant", "Ben: My sister plays the cello."),
    ]
    times = [draft.time or 0 for _, draft in dialogue.turns]
    assert times[1] - times[0] == 60_000_000
    assert times[2] - times[0] == (24 + 19) * 3_600_000_000 + 55 * 60_000_000


def test_only_questions_that_have_an_answer_are_asked() -> None:
    (dialogue,) = read(DIALOGUES)
    asked = [({*question.evidence}, question.category) for question in dialogue.questions]
    assert asked == [({"D1:1"}, 4), ({"D2:1"}, 1)]


@pytest.mark.parametrize(("ours", "least", "missed"), [(0.7, True, True), (0.8, True, False), (0.8, False, True)])
def test_a_bar_is_a_floor_or_a_ceiling(ours: float, least: bool, missed: bool) -> None:
    assert Result("sqlite", "x", ours, bar=0.75, least=least).missed is missed


def bench(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from everthread.cli import main; main()", "bench", "recall", "--json", *options]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})


def test_the_command_measures_both(tmp_path: Path) -> None:
    file = tmp_path / "dialogues.json"
    file.write_text(json.dumps(DIALOGUES))
    done = bench("--data", str(file), "--engine", "sqlite", "--scale", "200")
    results = {result["what"]: result for result in json.loads(done.stdout)}
    assert results["evidence R@10, 2 questions"]["ours"] == 1.0
    assert results["questions with no hit"]["ours"] == 0
    assert results["a common word, 200 of 2,000 messages"]["other"] > 0
    assert not any(result["missed"] for result in results.values())


def test_a_store_that_was_filled_is_measured_as_it_is(tmp_path: Path) -> None:
    store = ("--store", f"sqlite:///{tmp_path}/kept.db")
    first, again, larger = (bench(*store, "--scale", messages) for messages in ("200", "200", "300"))
    assert "writing" in first.stderr
    assert "writing" not in again.stderr
    assert [r["what"] for r in json.loads(again.stdout)] == [r["what"] for r in json.loads(first.stdout)]
    assert "This store was filled with 200 messages" in larger.stderr


def test_a_store_that_stays_takes_no_dialogues(tmp_path: Path) -> None:
    done = bench("--store", f"sqlite:///{tmp_path}/kept.db", "--data", "dialogues.json")
    assert "--store is for --scale alone" in done.stderr
