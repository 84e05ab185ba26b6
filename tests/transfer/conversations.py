"""Conversations to read: made-up ones, and the recorded ones where EVERTHREAD_DATA names their folder."""

from __future__ import annotations

import base64
import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest

Messages = list[dict[str, Any]]

# The first bytes of a PNG of 3 by 2 pixels: enough to be known as one.
PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBB", 13, b"IHDR", 3, 2, 8, 2, 0, 0, 0)
PNG_BASE64 = base64.b64encode(PNG).decode()
PNG_URL = f"data:image/png;base64,{PNG_BASE64}"


def call(name: str, arguments: str = "{}", *, id: str = "call_1") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*tool_calls: dict[str, Any], content: str | None = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(tool_calls)}


def result(content: str, *, id: str = "call_1", **more: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content, **more}


MADE_UP: dict[str, Messages] = {
    "small talk": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Is the ferry late?"},
        {"role": "assistant", "content": "It is on time."},
    ],
    "one id for two calls": [
        {"role": "user", "content": "Water the plants, twice."},
        calls(call("water", '{"litres": 1}')),
        result("done", name="water"),
        calls(call("water", '{"litres": 2}'), content="Once more."),
        result("", name="water"),
        {"role": "assistant", "content": "Watered."},
    ],
    "parallel calls, results in another order": [
        {"role": "user", "content": "Lamp and radio off."},
        calls(call("off", '{"what": "lamp"}', id="a"), call("off", '{"what": "radio"}', id="b")),
        result("radio is off", id="b"),
        result("lamp is off", id="a"),
        {"role": "assistant", "content": "Both are off."},
    ],
    "a call without its result": [
        {"role": "user", "content": "Open the gate."},
        calls(call("open", '{"which": "north"}', id="a")),
        {"role": "user", "content": "No, wait!"},
        {"role": "assistant", "content": "Waiting."},
    ],
}


def recorded(name: str) -> list[tuple[str, Messages]]:
    """The conversations of a file in the folder that EVERTHREAD_DATA names; none without folder or file."""
    path = Path(os.environ.get("EVERTHREAD_DATA", "/nonexistent")) / name
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    return [(line["id"], line["messages"]) for line in map(json.loads, lines)]


every_conversation = pytest.mark.parametrize(
    "messages",
    [
        pytest.param(messages, id=name)
        for name, messages in (
            *MADE_UP.items(),
            *recorded("airline-agent-60.jsonl"),
            *recorded("parallel-calls-60.jsonl"),
        )
    ],
)
