"""What cannot be understood is refused, with its place, what was found and what would be understood."""

from __future__ import annotations

from typing import Any

import pytest

from everthread.errors import BadFormat
from everthread.transfer import from_anthropic, from_openai
from tests.transfer.conversations import call, calls


def _user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def _says(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def _use(name: str, input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "tu_1", "name": name, "input": input}


def _result(**more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "tu_1", **more}


# -- OpenAI ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "where", "reason"),
    [
        pytest.param("hi", "", "found a string, .* an object", id="a message that is no object"),
        pytest.param({"content": "hi"}, "", "no role", id="no role"),
        pytest.param({"role": "narrator"}, "", "role 'narrator'.* developer", id="an unknown role"),
        pytest.param({"role": ["user"]}, "", "role", id="a role that is no name"),
        pytest.param(_user(3), ".content", "a number, .* a string, a list of parts or null", id="content"),
        pytest.param(_user({"a": 1}), ".content", "an object", id="content that is an object"),
        pytest.param(_user(["hi"]), ".content[0]", "a string, .* an object", id="a part that is no object"),
        pytest.param(_user([{"text": "hi"}]), ".content[0]", "no type", id="a part without a type"),
        pytest.param(_user([{"type": "hologram"}]), ".content[0]", "'hologram'.* image_url", id="an unknown part"),
        pytest.param(_user([{"type": "text"}]), ".content[0].text", "nothing, .* a string", id="no text"),
        pytest.param(_user([{"type": "image_url"}]), ".content[0].image_url", "nothing", id="no image"),
        pytest.param(
            _user([{"type": "image_url", "image_url": {"url": "data:image/png;base64,A*"}}]),
            ".content[0].image_url.url",
            "invalid base64",
            id="invalid base64",
        ),
        pytest.param(
            _user([{"type": "image_url", "image_url": {"url": "data:image/png"}}]),
            ".content[0].image_url.url",
            "without a comma",
            id="a data URL without data",
        ),
        pytest.param(
            _user([{"type": "input_audio", "input_audio": {"data": "é", "format": "wav"}}]),
            ".content[0].input_audio.data",
            "invalid base64",
            id="sound in invalid base64",
        ),
        pytest.param(
            _user([{"type": "input_audio", "input_audio": {"data": ""}}]),
            ".content[0].input_audio.format",
            "nothing",
            id="sound without a format",
        ),
        pytest.param(
            _user([{"type": "file", "file": {"file_data": "A"}}]),
            ".content[0].file.file_data",
            "invalid base64",
            id="a file in invalid base64",
        ),
        pytest.param(_says(None, tool_calls={}), ".tool_calls", "an object, .* a list", id="tool_calls no list"),
        pytest.param(_says(None, tool_calls=["a"]), ".tool_calls[0]", "a string", id="a tool call no object"),
        pytest.param(_says(None, tool_calls=[{}]), ".tool_calls[0].function", "nothing", id="no function"),
        pytest.param(
            calls({"type": "function", "function": {}}),
            ".tool_calls[0].function.name",
            "nothing",
            id="no name",
        ),
        pytest.param(calls({"type": "magic"}), ".tool_calls[0]", "'magic'.* function, custom", id="unknown type"),
        pytest.param(
            calls(call("a") | {"id": 3}),
            ".tool_calls[0].id",
            "a number, .* a string or null",
            id="an id no string",
        ),
        pytest.param(
            calls(call("a", [1])),  # type: ignore[arg-type]
            ".tool_calls[0].function.arguments",
            "a list, .* a string or an object",
            id="arguments that are a list",
        ),
        pytest.param(_says(None, function_call="auto"), ".function_call", "a string", id="function_call no object"),
        pytest.param(_says(None, function_call={}), ".function_call.name", "nothing", id="function_call unnamed"),
        pytest.param({"role": "tool", "tool_call_id": 1}, ".tool_call_id", "a number", id="tool_call_id"),
        pytest.param({"role": "tool", "name": True}, ".name", "a boolean", id="a name that is no string"),
    ],
)
def test_what_is_not_understood_of_openai_is_named_with_its_place(message: Any, where: str, reason: str) -> None:
    with pytest.raises(BadFormat, match=reason) as caught:
        from_openai([_user("fine"), message], where="line 7, messages")
    assert caught.value.where == f"line 7, messages[1]{where}"


def test_a_message_list_that_is_none_is_named_as_the_caller_calls_it() -> None:
    with pytest.raises(BadFormat, match="line 7, messages: found an object"):
        from_openai({"messages": []}, where="line 7, messages")  # type: ignore[arg-type]


# -- Anthropic -------------------------------------------------------------------------------------------


def _image(**source: Any) -> dict[str, Any]:
    return _user([{"type": "image", "source": source}])


def _document(**source: Any) -> dict[str, Any]:
    return _user([{"type": "document", "source": source}])


@pytest.mark.parametrize(
    ("message", "where", "reason"),
    [
        pytest.param(3, "", "a number, .* an object", id="a message that is no object"),
        pytest.param({"content": "hi"}, "", "no role", id="no role"),
        pytest.param({"role": "tool"}, "", "role 'tool'.* user, assistant", id="an unknown role"),
        pytest.param(_user({}), ".content", "an object, .* a string or a list of blocks", id="content"),
        pytest.param(_user(["a"]), ".content[0]", "a string, .* an object", id="a block that is no object"),
        pytest.param(_user([{}]), ".content[0]", "no type", id="a block without a type"),
        pytest.param(_user([{"type": ["text"]}]), ".content[0]", "the type", id="a type that is no name"),
        pytest.param(_says([{"type": "song"}]), ".content[0]", "'song'.* thinking", id="an unknown block"),
        pytest.param(_user([_use("a", {})]), ".content[0]", "'tool_use'", id="a tool call by the user"),
        pytest.param(_user([{"type": "thinking"}]), ".content[0]", "'thinking'", id="thinking by the user"),
        pytest.param(_says([_result()]), ".content[0]", "'tool_result'", id="a result by the assistant"),
        pytest.param(_user([{"type": "text"}]), ".content[0].text", "nothing", id="no text"),
        pytest.param(_says([{"type": "thinking", "thinking": 3}]), ".content[0].thinking", "a number", id="thinking"),
        pytest.param(_says([_use("a", "{}")]), ".content[0].input", "a string, .* an object", id="input"),
        pytest.param(_says([{"type": "tool_use", "id": "1"}]), ".content[0].name", "nothing", id="no name"),
        pytest.param(_says([{"type": "tool_use", "name": "a"}]), ".content[0].id", "nothing", id="no id"),
        pytest.param(_user([{"type": "tool_result"}]), ".content[0].tool_use_id", "nothing", id="no tool_use_id"),
        pytest.param(_user([_result(is_error="yes")]), ".content[0].is_error", "a string, .* a boolean", id="error"),
        pytest.param(_user([_result(content=3)]), ".content[0].content", "a number", id="a result's content"),
        pytest.param(_user([_result(content=[{"type": "x"}])]), ".content[0].content[0]", "'x'", id="nested block"),
        pytest.param(_user([{"type": "image"}]), ".content[0].source", "nothing", id="an image without source"),
        pytest.param(_image(type="disk"), ".content[0].source", "'disk'.* base64, url", id="an image's source"),
        pytest.param(_image(type="base64", data="%"), ".content[0].source.data", "invalid base64", id="base64"),
        pytest.param(_document(type="disk"), ".content[0].source", "'disk'.* text", id="a document's source"),
        pytest.param(_document(type="base64", data="A"), ".content[0].source.data", "invalid base64", id="padding"),
    ],
)
def test_what_is_not_understood_of_anthropic_is_named_with_its_place(message: Any, where: str, reason: str) -> None:
    with pytest.raises(BadFormat, match=reason) as caught:
        from_anthropic({"messages": [_user("fine"), message]}, where="line 7, messages")
    assert caught.value.where == f"line 7, messages[1]{where}"


@pytest.mark.parametrize(
    ("body", "where"),
    [
        pytest.param({"system": 3, "messages": []}, "line 7, system", id="system"),
        pytest.param({"system": [{"type": "image"}], "messages": []}, "line 7, system[0]", id="a block of system"),
        pytest.param({"system": "Be kind."}, "line 7, messages", id="no messages"),
        pytest.param("hi", "line 7, messages", id="no body"),
    ],
)
def test_what_is_wrong_around_anthropic_messages_is_named_too(body: Any, where: str) -> None:
    with pytest.raises(BadFormat) as caught:
        from_anthropic(body, where="line 7, messages")
    assert caught.value.where == where
