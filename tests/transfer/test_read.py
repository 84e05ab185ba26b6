"""Files of message lists, in whichever format: told apart by their shape, or by who imports them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from everthread import assistant, system, tool_call, tool_result, user
from everthread.core.events import Event, bare
from everthread.errors import BadFormat
from everthread.formats import to_anthropic, to_gemini, to_openai, to_responses
from everthread.store.conversations import Owner
from everthread.transfer import read_file
from everthread.transfer.detect import Format

SAID: list[Event] = [
    system("Be kind."),
    user("What is the weather in Rome?"),
    tool_call("weather", {"city": "Rome"}, id="call_1"),
    tool_result("Rain.", id="call_1", name="weather"),
    assistant("It rains."),
]
RESPONSES = to_responses(SAID)
LISTS: dict[str, tuple[Format, Any]] = {
    "OpenAI's messages": ("openai", to_openai(SAID)),
    "Anthropic's body": ("anthropic", to_anthropic(SAID)),
    "items of Responses": ("responses", RESPONSES),
    "a body of Responses": ("responses", {"model": "gpt-5", "input": RESPONSES[1:], "instructions": "Be kind."}),
    "a body of Gemini": ("gemini", to_gemini(SAID)),
}


def read(path: Path, text: str, format: Format | None = None) -> list[list[tuple[str, str]]]:
    """What the conversations of a file say, by kind."""
    path.write_text(text, "utf-8")
    wholes = read_file(path, Owner("default", "ana"), agent="helper", format=format)
    return [[(one.event.kind, _words(one.event)) for one in drafts] for whole in wholes for _, drafts in whole.branches]


def _words(event: Any) -> str:
    parts = getattr(event, "parts", ())
    return "".join(getattr(part, "text", "") for part in parts) or f"{event.name} {event.arguments}"


EXPECTED = [(one.kind, _words(bare(one))) for one in SAID]


@pytest.mark.parametrize("given", [False, True], ids=["found out", "said"])
@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_read_by_its_shape_or_as_is_said(tmp_path: Path, name: str, given: bool) -> None:
    format, body = LISTS[name]
    said = format if given else None
    assert read(tmp_path / "one.json", json.dumps(body, indent=1), said) == [EXPECTED]
    assert read(tmp_path / "two.jsonl", f"{json.dumps(body)}\n{json.dumps(body)}\n", said) == [EXPECTED, EXPECTED]
    assert read(tmp_path / "list.json", json.dumps([body, body]), said) == [EXPECTED, EXPECTED]


@pytest.mark.parametrize("name", [name for name, (_, body) in LISTS.items() if isinstance(body, list)])
def test_a_message_or_item_may_have_a_line_of_its_own(tmp_path: Path, name: str) -> None:
    assert read(tmp_path / "one.jsonl", "\n".join(map(json.dumps, LISTS[name][1]))) == [EXPECTED]


def test_contents_may_have_a_line_each_and_begin_with_a_call(tmp_path: Path) -> None:
    contents = to_gemini(SAID)["contents"]
    assert read(tmp_path / "one.jsonl", "\n".join(map(json.dumps, contents))) == [EXPECTED[1:]]
    assert read(tmp_path / "one.json", json.dumps(RESPONSES[2:])) == [EXPECTED[2:]]


def test_a_text_is_taken_where_the_format_is_said(tmp_path: Path) -> None:
    assert read(tmp_path / "a.json", '{"input": "Hi"}', "responses") == [[("user", "Hi")]]
    assert read(tmp_path / "b.json", '{"contents": "Hi"}', "gemini") == [[("user", "Hi")]]
    with pytest.raises(BadFormat, match="Responses items or Gemini contents"):
        read(tmp_path / "c.json", '{"input": "Hi"}')


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('{"input": [{"role": "user", "content": "Hi"}, {"type": "clown"}]}', "line 1, input[1]"),
        ('{"contents": [{"role": "user", "parts": [{"text": "Hi"}]}, 3]}', "line 1, contents[1]"),
    ],
)
def test_what_is_not_understood_is_named_by_its_place(tmp_path: Path, text: str, where: str) -> None:
    with pytest.raises(BadFormat) as problem:
        read(tmp_path / "bad.json", text)
    assert str(problem.value.where).startswith(where)
