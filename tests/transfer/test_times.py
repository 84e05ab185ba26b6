"""Message lists whose messages say when they were said are imported with those times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from everthread import Everthread
from everthread.store.conversations import Owner
from everthread.transfer import read_file

NOON = 1_714_564_800  # 2024-05-01 12:00 UTC, in seconds


def times(tmp_path: Path, *messages: dict[str, Any]) -> list[int | None]:
    """In seconds after noon."""
    (tmp_path / "list.json").write_text(json.dumps(list(messages)))
    (whole,) = read_file(tmp_path / "list.json", Owner("default", "ana"), agent="a")
    drafts = whole.branches[0][1]
    return [None if draft.time is None else draft.time // 1_000_000 - NOON for draft in drafts]


@pytest.mark.parametrize(
    "beside",
    [
        {"created_at": "2024-05-01T12:00:05Z"},
        {"created_at": "2024-05-01T14:00:05+02:00"},
        {"timestamp": "2024-05-01 12:00:05"},
        {"timestamp": NOON + 5},
        {"created": NOON + 5.5},
        {"time": (NOON + 5) * 1_000},
    ],
    ids=str,
)
def test_a_time_is_read_in_the_forms_in_which_it_is_kept(tmp_path: Path, beside: dict[str, Any]) -> None:
    assert times(tmp_path, {"role": "user", "content": "a", **beside}) == [5]


@pytest.mark.parametrize(
    "odd", ["yesterday", "", True, -5, 1e300, {"a": 1}, "2999-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00"], ids=str
)
def test_what_is_no_time_that_has_passed_is_left_alone(tmp_path: Path, odd: object) -> None:
    assert times(tmp_path, {"role": "user", "content": "a", "created_at": odd}) == [None]


def test_a_message_without_a_time_has_that_of_the_one_before_it_and_none_goes_backwards(tmp_path: Path) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    found = times(
        tmp_path,
        {"role": "system", "content": "s"},
        {"role": "user", "content": "a", "created_at": NOON},
        {"role": "assistant", "content": None, "tool_calls": [call], "created_at": NOON + 3},
        {"role": "tool", "tool_call_id": "1", "content": "r"},
        {"role": "assistant", "content": "b", "created_at": NOON + 2},
    )
    assert found == [0, 0, 3, 3, 3]


async def test_sessions_are_told_by_those_times(et: Everthread, someone: str, tmp_path: Path) -> None:
    said = [
        {"role": ("user", "assistant")[n % 2], "content": f"m{n}", "created_at": NOON + n * 1_000} for n in range(4)
    ]
    later = {"role": "user", "content": "later", "created_at": NOON + 86_400}
    (tmp_path / "list.json").write_text(json.dumps([*said, later]))
    await et.log.restore(read_file(tmp_path / "list.json", Owner("default", someone), agent="a"))
    talk = et.talk((await et.conversations(user=someone))[0])
    assert [session.messages for session in await talk.sessions()] == [4, 1]
    assert (await talk.after(limit=1))[0].time.timestamp() == NOON
