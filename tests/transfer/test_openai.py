"""OpenAI message lists: what is tolerated, and what comes back equal."""

from __future__ import annotations

from typing import Any

import pytest

from everthread.core.events import (
    Assistant,
    Clear,
    Event,
    Mark,
    Other,
    System,
    ToolCall,
    ToolResult,
    User,
    assistant,
    detach,
    tool_call,
    tool_result,
    user,
)
from everthread.core.parts import File, Image, Reasoning, Text, blob_hash, file, image
from everthread.errors import BadValue
from everthread.transfer import from_openai, to_openai
from tests.transfer.conversations import PNG, PNG_BASE64, PNG_URL, Messages, call, calls, result

SOUND = {"type": "input_audio", "input_audio": {"data": "AAEC", "format": "mp3"}}
PDF = {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAEC", "filename": "a.pdf"}}


def _user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def _says(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def _read_one(message: dict[str, Any]) -> Any:
    (event,) = from_openai([message])
    return event


# -- reading -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        pytest.param("hi", (Text(text="hi"),), id="a string"),
        pytest.param("", (), id="an empty string"),
        pytest.param(None, (), id="null"),
        pytest.param([], (), id="an empty list"),
        pytest.param([{"type": "text", "text": "hi"}], (Text(text="hi"),), id="a list of one text"),
        pytest.param([{"type": "text", "text": ""}], (Text(text=""),), id="a list of one empty text"),
    ],
)
@pytest.mark.parametrize(
    ("role", "kind"), [("system", System), ("user", User), ("assistant", Assistant), ("tool", ToolResult)]
)
def test_content_may_be_a_string_a_list_null_or_empty(
    role: str, kind: type[User], content: Any, parts: tuple[Text, ...]
) -> None:
    event = _read_one({"role": role, "content": content})
    assert (type(event), event.parts) == (kind, parts)


def test_absent_content_is_like_null() -> None:
    assert _read_one({"role": "user"}) == User()


def test_what_is_said_comes_before_the_tool_calls() -> None:
    message = calls(call("a", id="1"), call("b", id="2"), content="Looking.")
    assert from_openai([message]) == [assistant("Looking."), tool_call("a", id="1"), tool_call("b", id="2")]


def test_null_content_beside_tool_calls_is_no_event() -> None:
    assert from_openai([calls(call("a"))]) == [tool_call("a", id="call_1")]


def test_empty_content_beside_tool_calls_is_an_event() -> None:
    assert from_openai([calls(call("a"), content="")]) == [Assistant(), tool_call("a", id="call_1")]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param('{"b":1,  "a":2}', '{"b":1,  "a":2}', id="spacing and order stay"),
        pytest.param('{"a": ', '{"a": ', id="invalid JSON stays"),
        pytest.param("", "", id="no text stays"),
        pytest.param({"ort": "Köln"}, '{"ort": "Köln"}', id="an object is spelled out"),
        pytest.param(None, "{}", id="null is an empty object"),
    ],
)
def test_arguments_are_the_exact_text(arguments: Any, text: str) -> None:
    assert _read_one(calls(call("a", arguments))).arguments == text


def test_repeated_ids_stay_as_they_are() -> None:
    messages = [calls(call("a")), result("1"), calls(call("b")), result("2")]
    assert [event.id for event in from_openai(messages) if isinstance(event, ToolCall | ToolResult)] == ["call_1"] * 4


@pytest.mark.parametrize(
    ("results", "ids"),
    [
        pytest.param([None, None], ["a", "b"], id="in the order of the tool calls"),
        pytest.param(["a", None], ["a", "b"], id="the one that is not answered"),
        pytest.param(["b", None], ["b", "a"], id="the one that is not answered, out of order"),
        pytest.param([None, None, None], ["a", "b", ""], id="none when all are answered"),
        pytest.param(["", None], ["a", "b"], id="an empty id is none"),
        pytest.param(["other", None], ["other", "a"], id="an id of no tool call answers none"),
    ],
)
def test_a_result_without_an_id_answers_the_first_waiting_call(results: list[str | None], ids: list[str]) -> None:
    answers: Messages = [{"role": "tool", "content": "ok", "tool_call_id": id} for id in results]
    events = from_openai([calls(call("f", id="a"), call("f", id="b")), *answers])
    assert [event.id for event in events if isinstance(event, ToolResult)] == ids


def test_a_result_without_an_id_answers_the_latest_group_only() -> None:
    answers: Messages = [{"role": "tool", "content": "ok"}] * 2
    events = from_openai([calls(call("f", id="old")), calls(call("f", id="new")), *answers])
    assert [event.id for event in events if isinstance(event, ToolResult)] == ["new", ""]


def test_a_waiting_call_is_found_across_an_interruption() -> None:
    events = from_openai([calls(call("f", id="a")), _user("Wait!"), _says("Yes?"), {"role": "tool", "content": ""}])
    assert events[-1] == ToolResult(id="a")


def test_a_result_keeps_its_name() -> None:
    assert _read_one(result("ok", id="a", name="water")) == tool_result("ok", id="a", name="water")


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_is_a_part_before_the_text(field: str) -> None:
    thought, said = _read_one(_says("Yes.", **{field: "Hm."})).parts
    assert (type(thought), thought.text, said) == (Reasoning, "Hm.", Text(text="Yes."))


def test_reasoning_beside_null_content_and_tool_calls_is_an_event() -> None:
    events = from_openai([calls(call("a")) | {"reasoning_content": "Hm."}])
    assert events == [assistant(Reasoning(text="Hm.")), tool_call("a", id="call_1")]


def test_a_data_url_becomes_an_image_with_its_bytes() -> None:
    assert _read_one(_user([{"type": "image_url", "image_url": {"url": PNG_URL}}])) == user(image(PNG))


def test_an_image_elsewhere_keeps_its_address() -> None:
    event = _read_one(_user([{"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}]))
    assert event == user(Image(url="https://a.example/b.png"))


def test_an_image_url_may_be_a_plain_string() -> None:
    assert _read_one(_user([{"type": "image_url", "image_url": PNG_URL}])) == user(image(PNG))


def test_a_data_url_may_be_percent_encoded() -> None:
    event = _read_one(_user([{"type": "image_url", "image_url": {"url": "data:image/svg+xml,%3Csvg/%3E"}}]))
    assert event.parts[0].data == b"<svg/>"


def test_base64_may_be_wrapped() -> None:
    url = f"data:image/png;base64,{PNG_BASE64[:8]}\r\n {PNG_BASE64[8:]}"
    assert _read_one(_user([{"type": "image_url", "image_url": {"url": url}}])) == user(image(PNG))


def test_sound_becomes_a_file() -> None:
    assert _read_one(_user([SOUND])) == user(file(b"\x00\x01\x02", media_type="audio/mpeg"))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(PDF["file"], file(b"\0\1\2", name="a.pdf", media_type="application/pdf"), id="a data URL"),
        pytest.param({"file_data": "AAEC"}, file(b"\0\1\2"), id="bare base64"),
        pytest.param({"file_data": "data:;base64,AAEC"}, file(b"\0\1\2"), id="a data URL without a type"),
        pytest.param({"file_data": "https://a.example/b"}, File(url="https://a.example/b"), id="an address"),
    ],
)
def test_a_file_is_read_from_its_data(body: Any, expected: File) -> None:
    assert _read_one(_user([{"type": "file", "file": body}])) == user(expected)


def test_the_bytes_of_an_image_are_known_by_their_hash() -> None:
    part = _read_one(_user([{"type": "image_url", "image_url": {"url": PNG_URL}}])).parts[0]
    assert (part.blob, part.width, part.height) == (blob_hash(PNG), 3, 2)


# -- there and back ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([{"role": "developer", "content": "Be kind."}], id="a developer's instructions"),
        pytest.param([_user("hi") | {"name": "ana"}, _says("hi", name="bo")], id="names"),
        pytest.param([_user("hi"), {"role": "system", "content": "Be brief."}], id="instructions in the middle"),
        pytest.param([_user("")], id="empty content"),
        pytest.param([_user([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])], id="two texts"),
        pytest.param([_user([{"type": "text", "text": "a", "mine": 1}])], id="a text with a field of its own"),
        pytest.param([_user([{"type": "image_url", "image_url": {"url": PNG_URL, "detail": "low"}}])], id="detail"),
        pytest.param([_user([{"type": "image_url", "image_url": {"url": "https://a.example/"}}])], id="an address"),
        pytest.param([_user([SOUND, PDF])], id="sound and file"),
        pytest.param([_user([{"type": "file", "file": {"file_id": "file-1"}}])], id="a file by OpenAI's id"),
        pytest.param([_says([{"type": "refusal", "refusal": "No."}])], id="a refusal as content"),
        pytest.param([_says(None, refusal="No.")], id="a refusal beside null"),
        pytest.param([_says("Hm.", refusal="No.")], id="a refusal beside content"),
        pytest.param([_says("Yes.", reasoning="Hm.")], id="reasoning"),
        pytest.param([_says(None, reasoning_content="Hm.")], id="reasoning_content alone"),
        pytest.param([_says("", reasoning_content="Hm.")], id="reasoning_content beside empty content"),
        pytest.param([_says("a", reasoning_content="b", reasoning="c")], id="reasoning in both fields"),
        pytest.param([_says("a", reasoning_content="", reasoning={"b": 1})], id="reasoning that is no text"),
        pytest.param([calls(call("a")) | {"reasoning": "Hm."}], id="reasoning beside tool calls"),
        pytest.param([calls(call("a"), content="") | {"reasoning": "Hm."}], id="reasoning, nothing, tool calls"),
        pytest.param([calls(call("a"), content="")], id="empty content beside tool calls"),
        pytest.param([calls(call("a")), calls(call("b"))], id="two messages of tool calls"),
        pytest.param([_says("One moment."), calls(call("a"))], id="a text, then a message of tool calls"),
        pytest.param([calls(call("a"), call("b")) | {"name": "bo"}], id="tool calls and a field of its own"),
        pytest.param([calls(call("a", '{"x": '))], id="invalid arguments"),
        pytest.param([calls(call("a") | {"extra": {"sign": "x"}})], id="a tool call's field of its own"),
        pytest.param([calls({"type": "function", "function": {"name": "a", "arguments": "{}"}})], id="no id"),
        pytest.param(
            [calls({"id": "1", "type": "custom", "custom": {"name": "sh", "input": "ls"}})],
            id="a custom tool",
        ),
        pytest.param(
            [calls(call("a") | {"function": {"name": "a", "arguments": "{}", "strict": True}})],
            id="a nested field",
        ),
        pytest.param(
            [
                _says(None, function_call={"name": "a", "arguments": "{"}),
                {"role": "function", "name": "a", "content": "1"},
                _says("Well:", function_call={"name": "b", "arguments": "{}"}),
                {"role": "function", "name": "b", "content": "2"},
            ],
            id="the legacy function role",
        ),
        pytest.param([result("no such call", id="lost")], id="a result without a tool call"),
        pytest.param([_user("\x00 \ud800 \u2028")], id="text that few expect"),
    ],
)
def test_messages_come_back_equal(messages: Messages) -> None:
    assert to_openai(from_openai(messages)) == messages


@pytest.mark.parametrize(
    ("given", "written"),
    [
        pytest.param(_user(None), _user(""), id="null content"),
        pytest.param(_user([]), _user(""), id="an empty list"),
        pytest.param(_user([{"type": "text", "text": "a"}]), _user("a"), id="a list of one plain text"),
        pytest.param(_says("a", tool_calls=[], refusal=None), _says("a"), id="fields that say nothing"),
        pytest.param(calls(call("a", {"b": 1})), calls(call("a", '{"b": 1}')), id="arguments as an object"),  # type: ignore[arg-type]
        pytest.param(calls({"id": "1", "function": {"name": "a"}}), calls(call("a", id="1")), id="a bare tool call"),
        pytest.param(
            _user([{"type": "image_url", "image_url": "https://a.example/"}]),
            _user([{"type": "image_url", "image_url": {"url": "https://a.example/"}}]),
            id="an image_url as a string",
        ),
        pytest.param(
            _user([{"type": "file", "file": {"file_data": "AAEC"}}]),
            _user([{"type": "file", "file": {"file_data": "data:application/octet-stream;base64,AAEC"}}]),
            id="bare base64",
        ),
    ],
)
def test_a_normalisation_is_one_that_is_documented(given: dict[str, Any], written: dict[str, Any]) -> None:
    assert to_openai(from_openai([given])) == [written]


def test_a_result_without_an_id_is_written_with_the_one_found() -> None:
    written = to_openai(from_openai([calls(call("f", id="a")), {"role": "tool", "content": "ok"}]))
    assert written[-1] == result("ok", id="a")


# -- writing -----------------------------------------------------------------------------------------------


def test_tool_calls_join_what_was_said_before_them() -> None:
    events: list[Event] = [assistant("Looking."), tool_call("a", id="1"), tool_call("b", id="2")]
    assert to_openai(events) == [calls(call("a", id="1"), call("b", id="2"), content="Looking.")]


def test_content_is_null_when_there_are_only_tool_calls() -> None:
    assert to_openai([user("Go."), tool_call("a", id="call_1")])[1] == calls(call("a"))


def test_markers_are_left_out_and_part_nothing() -> None:
    events: list[Event] = [
        assistant("a"),
        Mark(name="m"),
        Clear(),
        Other(kind="app.x"),
        tool_call("a", id="call_1"),
    ]
    assert to_openai(events) == [calls(call("a"), content="a")]


def test_detached_bytes_are_asked_for_by_their_hash() -> None:
    event, kept = detach(user(image(PNG))), {image(PNG).blob: PNG}
    assert to_openai([event], blob=kept.__getitem__) == to_openai([user(image(PNG))])


def test_detached_bytes_that_nobody_can_give_are_an_error_that_names_them() -> None:
    with pytest.raises(BadValue, match=blob_hash(PNG)):
        to_openai([detach(user(image(PNG)))])


def test_two_legacy_calls_never_share_a_message() -> None:
    messages = [_says(None, function_call={"name": name, "arguments": "{}"}) for name in ("a", "b")]
    events = from_openai([messages[0]]) + from_openai([messages[1]])
    assert to_openai(events) == messages


@pytest.mark.parametrize("text", ["not json", "3", '{"fields": 3}', '{"type": "reasoning", "id": "rs_1"}'])
def test_a_providers_own_text_in_meta_is_no_note(text: str) -> None:
    event = Assistant(parts=(Text(text="a", meta={"openai": text}),), meta={"openai": text})
    assert to_openai([event]) == [_says("a")]


def test_reasoning_without_text_leaves_no_field() -> None:
    assert to_openai([assistant(Reasoning(meta={"anthropic": "{}"}), "Yes.")]) == [_says("Yes.")]


def test_metadata_beside_a_message_is_that_of_its_first_event() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Hi", "metadata": {"row": 1}},
        {"role": "assistant", "content": "Let me see.", "tool_calls": [call], "metadata": {"row": 2}},
        {"role": "tool", "tool_call_id": "c1", "content": "noon", "metadata": {"row": 3}},
        {"role": "assistant", "content": "Noon.", "metadata": "none that Everthread could filter by"},
    ]
    events = from_openai(messages)
    assert [getattr(event, "metadata", None) for event in events] == [{"row": 1}, {"row": 2}, {}, {"row": 3}, {}]
    assert to_openai(events) == messages
