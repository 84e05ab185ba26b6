"""Conversations for tests: those that ship with them, and real ones where EVERTHREAD_DATA names their folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from everthread.core.events import Event, assistant, user
from everthread.core.times import microseconds
from everthread.store.scripts.append import Draft
from everthread.transfer import from_openai


class Dialogue(NamedTuple):
    name: str
    drafts: list[Draft]


def dialogues() -> Iterator[Dialogue]:
    """All there are: never none."""
    for name, messages in MADE_UP.items():
        yield Dialogue(name, [Draft(event=event) for event in from_openai(messages)])
    yield Dialogue("a long friendship", list(_sessions(_FRIENDSHIP)))
    folder = os.environ.get("EVERTHREAD_DATA")
    if folder:
        yield from _real(Path(folder))


def _real(folder: Path) -> Iterator[Dialogue]:
    for file in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(file.read_text("utf-8").splitlines()):
            yield Dialogue(f"{file.stem}-{number}", [Draft(event=e) for e in from_openai(json.loads(line)["messages"])])
    for file in sorted(folder.glob("locomo-*.json")):
        for sample in json.loads(file.read_text("utf-8")):
            yield Dialogue(sample["sample_id"], list(_locomo(sample["conversation"])))


def _locomo(conversation: dict[str, Any]) -> Iterator[Draft]:
    number = 1
    while f"session_{number}_date_time" in conversation:
        given = conversation[f"session_{number}_date_time"]
        began = datetime.strptime(f"{given} +0000", "%I:%M %p on %d %B, %Y %z")
        for minute, said in enumerate(conversation.get(f"session_{number}", [])):
            speak = user if said["speaker"] == conversation["speaker_a"] else assistant
            time = began + timedelta(minutes=minute)
            yield Draft(event=speak(said["text"]), time=microseconds(time))
        number += 1


def _sessions(days: list[list[Event]]) -> Iterator[Draft]:
    for day, events in enumerate(days):
        for minute, event in enumerate(events):
            time = datetime(2026, 3, 1, 9, 0, tzinfo=UTC) + timedelta(days=day, minutes=minute)
            yield Draft(event=event, time=microseconds(time))


_FRIENDSHIP: list[list[Event]] = [
    [user(f"Day {day}: how are you?"), assistant("Well, and you?"), user("Tired."), assistant("Rest, then.")]
    for day in range(12)
]

_CALL = {"type": "function", "function": {"name": "find_order", "arguments": '{"number": 17}'}}

MADE_UP: dict[str, list[dict[str, Any]]] = {
    "a plain exchange": [
        {"role": "system", "content": "You sell tickets."},
        {"role": "user", "content": "Two for tonight, please."},
        {"role": "assistant", "content": "Row 7, seats 3 and 4."},
    ],
    "ids that repeat": [
        message
        for _ in range(3)
        for message in (
            {"role": "user", "content": "Where is my order?"},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1", **_CALL}]},
            {"role": "tool", "tool_call_id": "call_1", "content": ""},
            {"role": "assistant", "content": "On its way."},
        )
    ],
    "parallel calls, results in another order": [
        {"role": "user", "content": "Both orders, please."},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "a", **_CALL}, {"id": "b", **_CALL}]},
        {"role": "tool", "tool_call_id": "b", "content": "lost"},
        {"role": "tool", "tool_call_id": "a", "content": "found"},
        {"role": "assistant", "content": "One was found, one was lost."},
    ],
    "a crash between call and result": [
        {"role": "user", "content": "Try again."},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "x", **_CALL}]},
        {"role": "user", "content": "Are you there?"},
        {"role": "assistant", "content": "Yes. 你好 \u0000 👋"},
    ],
    "arguments that are no JSON": [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "tool_calls": [{"id": "y", "function": {"name": "f", "arguments": "{'a': "}}]},
        {"role": "tool", "content": "no id here"},
    ],
}
