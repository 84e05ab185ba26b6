"""Claude's data export: a list of messages, their tools, and the files that came with them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everthread.core.events import Event, ToolResult, assistant, tool_call, tool_result, user
from everthread.core.parts import File, Image, Reasoning, image, text
from everthread.core.times import moment
from everthread.transfer import Exported, from_claude
from tests.transfer.conversations import PNG, PNG_BASE64
from tests.transfer.exports import RETRIED, ROOT, Json, claude, human, line, lines, linked, listed, result, use


def read(*messages: Json) -> list[Event]:
    exported = from_claude(listed(*messages))
    assert len(exported.strands) == 1
    return line(exported, 0)


def test_messages_follow_one_another_with_their_times() -> None:
    exported = from_claude(
        listed(
            human("Hi", uuid="1", created_at="1970-01-01T00:00:02.000001Z"),
            claude("Hello", uuid="2", created_at="1970-01-01T01:00:03+01:00"),
            human("Bye", uuid="3", created_at="1970-01-01T00:00:04"),
            created_at="1970-01-01T00:00:01Z",
        )
    )
    assert (exported.name, exported.began, exported.current) == ("Ferries", moment(1_000_000), 0)
    assert exported.strands[0].events == (
        (moment(2_000_001), user("Hi")),
        (moment(3_000_000), assistant("Hello")),
        (moment(4_000_000), user("Bye")),
    )


def test_a_conversation_may_be_empty_and_nameless() -> None:
    assert from_claude({"chat_messages": [], "name": None}) == Exported()


MESSAGES: dict[str, tuple[Json, list[Event]]] = {
    "content wins over text": (human("Hi", text="something flattened"), [user("Hi")]),
    "text alone": ({"sender": "human", "text": "Hi"}, [user("Hi")]),
    "text where content says nothing": (claude("", text="Hello"), [assistant("Hello")]),
    "nothing at all": (claude({"type": "token_budget"}, {"type": "flag", "flag": "x"}), []),
    "thinking": (
        claude({"type": "thinking", "thinking": "Ferries.", "summaries": []}, {"type": "thinking"}, "At nine."),
        [assistant(Reasoning(text="Ferries."), "At nine.")],
    ),
    "a tool between words": (
        claude(
            "Let me see.",
            use("find", id="t1", input={"q": "ü"}),
            result([{"type": "text", "text": "9"}], id="t1"),
            "Nine.",
        ),
        [
            assistant("Let me see."),
            tool_call("find", '{"q": "ü"}', id="t1"),
            tool_result("9", id="t1"),
            assistant("Nine."),
        ],
    ),
    "tools without ids": (
        claude(
            use("a"), use("b", input="{oops"), result("of b", name="b"), result(None, name="x"), result("?"), uuid="m"
        ),
        [
            tool_call("a", "{}", id="m:0"),
            tool_call("b", "{oops", id="m:1"),
            tool_result("of b", id="m:1", name="b"),
            tool_result(id="m:0", name="x"),
            ToolResult(id="", parts=(text("?"),)),
        ],
    ),
    "a tool that failed": (
        claude(use("a", id="t"), result("no", id="t", name="a") | {"is_error": True}),
        [tool_call("a", "{}", id="t"), tool_result("no", id="t", name="a", error=True)],
    ),
    "what a search found": (
        claude(
            use("s", id="t"),
            result([{"type": "knowledge", "title": "F", "url": "https://f.example", "text": "9"}], id="t"),
        ),
        [tool_call("s", "{}", id="t"), tool_result("F\nhttps://f.example\n9", id="t")],
    ),
    "a file that a tool made": (
        claude(use("s", id="t"), result([{"type": "local_resource", "file_path": "/out/a.md", "uuid": "x"}], id="t")),
        [tool_call("s", "{}", id="t"), tool_result("/out/a.md", id="t")],
    ),
    "images": (
        claude(
            use("s", id="t"),
            result(
                [
                    {"type": "image", "source": {"type": "base64", "data": PNG_BASE64, "media_type": "image/png"}},
                    {"type": "image", "source": {"type": "url", "url": "https://f.example/a.png"}},
                    {"type": "image", "file_uuid": "f1"},
                ],
                id="t",
            ),
        ),
        [
            tool_call("s", "{}", id="t"),
            tool_result(image(PNG), Image(url="https://f.example/a.png"), Image(url="f1"), id="t"),
        ],
    ),
    "a spoken note": (human({"type": "voice_note", "title": "Note", "text": "Hi"}), [user("Note\nHi")]),
    "an attachment with its text": (
        human("Read this.", attachments=[{"file_name": "a.txt", "file_size": 3, "extracted_content": "abc"}]),
        [user("Read this.", "a.txt\n\nabc")],
    ),
    "a pasted text has no name": (
        human("Read.", attachments=[{"file_name": "", "extracted_content": "abc"}]),
        [user("Read.", "abc")],
    ),
    "files by name, but for those read already": (
        human(
            attachments=[{"file_name": "a.txt", "extracted_content": "abc"}, {"file_name": "b.bin"}],
            files=[{"file_name": "a.txt"}, {"file_name": "c.png", "file_uuid": "f1"}],
        ),
        [user("a.txt\n\nabc", File(name="b.bin"), File(name="c.png", url="f1"))],
    ),
    "a file after a tool": (
        claude(use("a", id="t"), files=[{"file_name": "a.md"}]),
        [tool_call("a", "{}", id="t"), assistant(File(name="a.md"))],
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_is_what_it_would_be_here(name: str) -> None:
    given, expected = MESSAGES[name]
    assert read(given) == expected


# -- edits and retries -------------------------------------------------------------------------------------


def test_where_parents_are_named_edits_and_retries_are_forks() -> None:
    exported = from_claude(RETRIED)
    assert lines(exported) == [["When?", "Nine.", "Sure?"], ["When?", "Ten."], ["Where?"]]
    assert exported.current == 0, "the newest message is current"
    assert from_claude({**RETRIED, "current_leaf_message_uuid": "a2"}).current == 1


def test_parents_that_are_all_unknown_say_nothing() -> None:
    assert lines(from_claude(linked(("1", None, "a"), ("2", None, "b"), ("3", ROOT, "c")))) == [["a", "b", "c"]]


@given(st.lists(st.integers(0, 1_000), max_size=20), st.randoms())
def test_every_line_reads_exactly_the_messages_from_the_root_to_a_leaf(choices: list[int], random: Any) -> None:
    """Whatever tree the parents make, and in whatever order the list has it."""
    parents = {"m0": ROOT} | {f"m{n}": f"m{choice % n}" for n, choice in enumerate(choices, 1)}
    listed = [(id, parent, id) for id, parent in parents.items()]
    random.shuffle(listed)
    exported = from_claude(linked(*listed))
    expected = []
    for id in parents.keys() - set(parents.values()):
        path = [id]
        while (parent := parents[path[0]]) != ROOT:
            path.insert(0, parent)
        expected.append(path)
    assert sorted(lines(exported)) == sorted(expected)


def test_the_export_is_left_as_it_was() -> None:
    before = json.dumps(RETRIED)
    from_claude(RETRIED)
    assert json.dumps(RETRIED) == before
