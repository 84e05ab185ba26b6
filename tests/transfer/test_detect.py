"""Telling the formats apart."""

from __future__ import annotations

import pytest

from everthread.transfer import detect


def _says(*blocks: object) -> list[object]:
    return [{"role": "user", "content": list(blocks)}]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param([{"role": "user", "content": "hi"}], "openai", id="a message list"),
        pytest.param({"messages": [{"role": "user", "content": None}]}, "openai", id="a body"),
        pytest.param({"id": 1, "source": "s", "messages": [{"role": "tool"}]}, "openai", id="a line"),
        pytest.param(_says({"type": "text", "text": "hi"}), "openai", id="text parts, which both have"),
        pytest.param(_says({"type": "image_url"}), "openai", id="OpenAI's image part"),
        pytest.param(_says({"type": ["odd"]}, 3, None), "openai", id="blocks that make no sense"),
        pytest.param([3, {"role": "user", "content": "hi"}], "openai", id="something odd beside a message"),
        pytest.param(_says({"type": "tool_use"}), "anthropic", id="tool_use"),
        pytest.param(_says({"type": "tool_result"}), "anthropic", id="tool_result"),
        pytest.param(_says({"type": "thinking"}), "anthropic", id="thinking"),
        pytest.param(_says({"type": "redacted_thinking"}), "anthropic", id="redacted_thinking"),
        pytest.param(_says({"type": "document"}), "anthropic", id="document"),
        pytest.param(_says({"type": "image", "source": {}}), "anthropic", id="image with a source"),
        pytest.param({"system": "Be kind.", "messages": []}, "anthropic", id="system as text beside messages"),
        pytest.param({"system": [], "messages": []}, "anthropic", id="system as blocks beside messages"),
        pytest.param(_says({"type": "input_text"}), "responses", id="a part that only Responses has"),
        pytest.param([{"role": "user", "content": "hi"}, {"type": "function_call"}], "responses", id="an item"),
        pytest.param([{"type": "reasoning"}], "responses", id="an item that is first"),
        pytest.param({"input": [{"role": "user", "content": "hi"}]}, "responses", id="a body with input"),
        pytest.param([{"type": "message", "role": "user", "content": "hi"}], "openai", id="as both write it"),
        pytest.param({"input": "hi", "output": "ho"}, None, id="an input that may be anybody's"),
        pytest.param({"input": [1, 2]}, None, id="an input of numbers"),
        pytest.param([{"role": "user", "parts": [{"text": "hi"}]}], "gemini", id="contents"),
        pytest.param({"contents": [{"parts": [{"text": "hi"}]}]}, "gemini", id="a body with contents"),
        pytest.param({"contents": [{"text": "hi"}]}, None, id="contents that are something else"),
        pytest.param([{"role": "user", "parts": [], "content": "hi"}], "openai", id="parts beside content"),
        pytest.param({"everthread": 1}, "everthread", id="our own"),
        pytest.param({"everthread": 1, "system": "", "messages": []}, "everthread", id="our own, before all else"),
        pytest.param([], None, id="an empty list"),
        pytest.param({"messages": []}, None, id="a body without messages in it"),
        pytest.param({"messages": "hi"}, None, id="messages that are no list"),
        pytest.param({"role": "user", "content": "hi"}, None, id="a message alone"),
        pytest.param([{"role": 3}, "user"], None, id="roles that are no names"),
        pytest.param("messages", None, id="a string"),
        pytest.param(None, None, id="null"),
    ],
)
def test_a_value_is_known_by_what_only_its_format_says(value: object, expected: str | None) -> None:
    assert detect(value) == expected
