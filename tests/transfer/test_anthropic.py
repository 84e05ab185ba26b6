"""Anthropic requests: what is tolerated, and what comes back equal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from everthread.core.events import (
    Assistant,
    Clear,
    Event,
    Mark,
    System,
    ToolCall,
    ToolResult,
    User,
    assistant,
    detach,
    system,
    tool_call,
    tool_result,
    user,
)
from everthread.core.parts import File, Image, Reasoning, Text, blob_hash, file, image
from everthread.errors import BadValue
from everthread.transfer import from_anthropic, to_anthropic
from tests.transfer.conversations import PNG, PNG_BASE64, Messages

THOUGHT = {"type": "thinking", "thinking": "Hm — so.", "signature": "c2lnbg=="}
HIDDEN = {"type": "redacted_thinking", "data": "b3BhcXVl"}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG_BASE64}}
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAEC"}}
PLAIN = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Köln"}}


def _text(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **more}


def _use(name: str, input: Any, *, id: str = "tu_1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input, **more}


def _result(id: str = "tu_1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, **more}


def _user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def _says(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


# -- reading -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        pytest.param("hi", (Text(text="hi"),), id="a string"),
        pytest.param("", (), id="an empty string"),
        pytest.param(None, (), id="null"),
        pytest.param([], (), id="an empty list"),
        pytest.param([_text("a"), _text("b")], (Text(text="a"), Text(text="b")), id="blocks"),
    ],
)
@pytest.mark.parametrize(("role", "kind"), [("user", User), ("assistant", Assistant), ("system", System)])
def test_content_may_be_a_string_blocks_or_empty(role: str, kind: Any, content: Any, parts: Any) -> None:
    assert from_anthropic([{"role": role, "content": content}]) == [kind(parts=parts)]


@pytest.mark.parametrize(
    ("given", "events"),
    [
        pytest.param("Be kind.", [system("Be kind.")], id="text"),
        pytest.param([_text("Be kind."), _text("Be brief.")], [system("Be kind.", "Be brief.")], id="blocks"),
        pytest.param("", [], id="empty"),
        pytest.param(None, [], id="null"),
    ],
)
def test_system_comes_before_the_messages(given: Any, events: list[Event]) -> None:
    assert from_anthropic({"system": given, "messages": [_user("hi")]}) == [*events, user("hi")]


def test_what_else_a_request_holds_is_not_conversation() -> None:
    assert from_anthropic({"model": "m", "tools": [], "max_tokens": 5, "messages": [_user("hi")]}) == [user("hi")]


def test_tool_results_come_before_the_text_beside_them() -> None:
    message = _user([_text("Wait,"), _result(content="ok"), _text("what?"), _result("tu_2", content="ok")])
    assert from_anthropic([message]) == [
        tool_result("ok", id="tu_1"),
        tool_result("ok", id="tu_2"),
        user("Wait,", "what?"),
    ]


def test_tool_results_alone_make_no_user_event() -> None:
    assert from_anthropic([_user([_result(content="ok")])]) == [tool_result("ok", id="tu_1")]


def test_text_and_tool_calls_keep_their_order() -> None:
    blocks = [_text("First"), _use("a", {}), _text("then"), _use("b", {}, id="tu_2"), _text("done.")]
    assert from_anthropic([_says(blocks)]) == [
        assistant("First"),
        tool_call("a", id="tu_1"),
        assistant("then"),
        tool_call("b", id="tu_2"),
        assistant("done."),
    ]


def test_input_becomes_text_in_its_own_letters() -> None:
    assert from_anthropic([_says([_use("a", {"ort": "Köln"})])]) == [tool_call("a", '{"ort": "Köln"}', id="tu_1")]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({}, ToolResult(id="tu_1"), id="absent"),
        pytest.param({"content": ""}, ToolResult(id="tu_1"), id="empty"),
        pytest.param({"content": "ok"}, tool_result("ok", id="tu_1"), id="a string"),
        pytest.param({"content": [_text("ok"), PICTURE]}, tool_result("ok", image(PNG), id="tu_1"), id="blocks"),
        pytest.param({"content": "no", "is_error": True}, tool_result("no", id="tu_1", error=True), id="failed"),
        pytest.param({"content": "ok", "is_error": False}, tool_result("ok", id="tu_1"), id="not failed"),
    ],
)
def test_a_result_may_be_text_blocks_or_nothing(more: dict[str, Any], expected: ToolResult) -> None:
    assert from_anthropic([_user([_result(**more)])]) == [expected]


@pytest.mark.parametrize(("block", "text"), [(THOUGHT, "Hm — so."), (HIDDEN, "")])
def test_thinking_is_reasoning_that_carries_the_whole_block(block: dict[str, Any], text: str) -> None:
    meta = {"anthropic": json.dumps(block, ensure_ascii=False)}
    assert from_anthropic([_says([block])]) == [assistant(Reasoning(text=text, meta=meta))]


@pytest.mark.parametrize(
    ("block", "part"),
    [
        pytest.param(PICTURE, image(PNG), id="an image"),
        pytest.param(
            {"type": "image", "source": {"type": "url", "url": "https://a.example/"}},
            Image(url="https://a.example/"),
            id="an image elsewhere",
        ),
        pytest.param(PDF, file(b"\0\1\2", media_type="application/pdf"), id="a document"),
        pytest.param(PDF | {"title": "a"}, file(b"\0\1\2", name="a", media_type="application/pdf"), id="a title"),
        pytest.param(PLAIN, file("Köln".encode(), media_type="text/plain"), id="a document of text"),
        pytest.param(
            {"type": "document", "source": {"type": "url", "url": "https://a.example/"}},
            File(url="https://a.example/"),
            id="a document elsewhere",
        ),
    ],
)
def test_images_and_documents_become_parts(block: dict[str, Any], part: Image | File) -> None:
    assert from_anthropic([_user([block])]) == [user(part)]


# -- there and back ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([_user("hi"), _says("hello")], id="strings"),
        pytest.param([_user(""), _says("hello")], id="an empty message"),
        pytest.param([_user([_text("a"), _text("b")])], id="two texts"),
        pytest.param([_user([PICTURE, PDF | {"title": "a", "context": "b"}, PLAIN])], id="images and documents"),
        pytest.param([_user([{"type": "image", "source": {"type": "file", "file_id": "f"}}])], id="image by id"),
        pytest.param([_user([{"type": "document", "source": {"type": "file", "file_id": "f"}}])], id="file by id"),
        pytest.param([_says([THOUGHT, HIDDEN, _text("So."), _use("a", {"b": 1.0})])], id="thinking"),
        pytest.param([_says([_text("a", citations=[{"type": "char_location"}])])], id="citations"),
        pytest.param([_says([_use("a", {"é": [1, None, {"b": "\ud800"}]}, caller={"type": "direct"})])], id="input"),
        pytest.param([_says([_use("a", {"INVALID_JSON": "{}"})])], id="an input that looks like ours"),
        pytest.param([_user([_result(), _result("2", content="no", is_error=True), _text("so?")])], id="results"),
        pytest.param([_user([_result(content=[_text("a"), PICTURE])])], id="a result of blocks"),
        pytest.param([_user("hi"), {"role": "system", "content": "Be brief."}], id="instructions in the middle"),
        pytest.param(
            [_says([_text("a"), _use("f", {}), _text("b"), _use("g", {}, id="2")])],
            id="text between tool calls",
        ),
    ],
)
def test_messages_come_back_equal(messages: Messages) -> None:
    body = {"system": [_text("Be kind."), _text("Be brief.")], "messages": messages}
    assert to_anthropic(from_anthropic(body)) == body


CACHED: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    ("given", "written"),
    [
        pytest.param([_user([_text("a", **CACHED)])], [_user("a")], id="cache_control"),
        pytest.param([_user([_text("a")])], [_user("a")], id="a list of one plain text"),
        pytest.param([_user(None)], [_user("")], id="null content"),
        pytest.param([_user([_text(""), _text("a")])], [_user("a")], id="an empty text"),
        pytest.param([_user("a"), _user("b")], [_user([_text("a"), _text("b")])], id="neighbours of one role"),
        pytest.param([_user([_text("a"), _result()])], [_user([_result(), _text("a")])], id="text before a result"),
        pytest.param(
            [_user([_result(content="", is_error=False, **CACHED)])],
            [_user([_result()])],
            id="what says nothing",
        ),
        pytest.param([_says([_use("a", None)])], [_says([_use("a", {})])], id="input that is null"),
    ],
)
def test_a_normalisation_is_one_that_is_documented(given: Messages, written: Messages) -> None:
    assert to_anthropic(from_anthropic(given)) == {"messages": written}


# -- writing -----------------------------------------------------------------------------------------------


def test_a_whole_turn_becomes_alternating_messages() -> None:
    events: list[Event] = [
        system("Be kind."),
        user("Lamp and radio off."),
        assistant("Both."),
        tool_call("off", {"what": "lamp"}, id="a"),
        tool_call("off", {"what": "radio"}, id="b"),
        tool_result("off", id="b"),
        tool_result("broken", id="a", error=True),
        user("And?"),
    ]
    assert to_anthropic(events) == {
        "system": "Be kind.",
        "messages": [
            _user("Lamp and radio off."),
            _says(
                [
                    _text("Both."),
                    _use("off", {"what": "lamp"}, id="a"),
                    _use("off", {"what": "radio"}, id="b"),
                ]
            ),
            _user([_result("b", content="off"), _result("a", content="broken", is_error=True), _text("And?")]),
        ],
    }


def test_results_stand_before_the_text_that_came_first() -> None:
    events: list[Event] = [user("Wait!"), tool_result("ok", id="tu_1"), user("Well?")]
    assert to_anthropic(events)["messages"] == [_user([_result(content="ok"), _text("Wait!"), _text("Well?")])]


def test_instructions_before_the_first_message_are_put_together() -> None:
    assert to_anthropic([system("a"), system("b")]) == {"system": [_text("a"), _text("b")], "messages": []}


def test_markers_are_left_out_and_part_nothing() -> None:
    assert to_anthropic([user("a"), Mark(name="m"), Clear(), user("b")]) == to_anthropic([user("a"), user("b")])


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        pytest.param('{"b":1,"a":[ ]}', {"b": 1, "a": []}, id="an object"),
        pytest.param("", {}, id="nothing"),
        pytest.param(" \n", {}, id="blanks"),
        pytest.param('{"a": ', {"INVALID_JSON": '{"a": '}, id="broken off"),
        pytest.param("[1]", {"INVALID_JSON": "[1]"}, id="no object"),
        pytest.param('{"a": NaN}', {"INVALID_JSON": '{"a": NaN}'}, id="what only Python reads"),
        pytest.param('{"a": 1e999}', {"INVALID_JSON": '{"a": 1e999}'}, id="a number beyond all"),
    ],
)
def test_input_is_always_an_object(arguments: str, written: dict[str, Any]) -> None:
    body = to_anthropic([ToolCall(id="tu_1", name="a", arguments=arguments)])
    assert body["messages"] == [_says([_use("a", written)])]


@pytest.mark.parametrize("arguments", ['{"a": ', "[1]", "null", '{"a": 1e999}', "[" * 100_000])
def test_arguments_that_are_no_object_come_back_as_their_text(arguments: str) -> None:
    events: list[Event] = [ToolCall(id="tu_1", name="a", arguments=arguments)]
    assert from_anthropic(to_anthropic(events)) == events


@pytest.mark.parametrize("meta", [{}, {"openai": "x"}, {"anthropic": "no json"}, {"anthropic": '{"type": "text"}'}])
def test_reasoning_that_anthropic_did_not_write_is_left_out(meta: dict[str, str]) -> None:
    body = to_anthropic([assistant(Reasoning(text="Hm.", meta=meta), "Yes.")])
    assert body["messages"] == [_says("Yes.")]


def test_plain_text_that_is_no_unicode_is_sent_as_bytes() -> None:
    (message,) = to_anthropic([user(file(b"\xff", media_type="text/plain"))])["messages"]
    assert message["content"][0]["source"] == {"type": "base64", "media_type": "text/plain", "data": "/w=="}


def test_detached_bytes_are_asked_for_by_their_hash() -> None:
    event, kept = detach(user(image(PNG))), {image(PNG).blob: PNG}
    assert to_anthropic([event], blob=kept.__getitem__) == to_anthropic([user(image(PNG))])


def test_detached_bytes_that_nobody_can_give_are_an_error_that_names_them() -> None:
    with pytest.raises(BadValue, match=blob_hash(PNG)):
        to_anthropic([detach(user(image(PNG)))])
