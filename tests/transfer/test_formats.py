"""Responses items, Gemini contents and LangChain's messages: whatever they say survives, in both directions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as how
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    messages_to_dict,
)

from everthread import formats
from everthread.core.events import Assistant, Event, System, ToolCall, ToolResult, User
from everthread.core.parts import File, Image, Reasoning, Text, file, image
from everthread.core.request import object_of
from everthread.core.tokens import sizes
from everthread.errors import BadFormat
from tests.examples import examples

PNG = image(b"\x89PNG\r\n\x1a\n" + b"\0" * 20)
words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
ids = st.integers(0, 999).map("id_{}".format)
objects = st.dictionaries(words, words | st.integers() | st.none() | st.lists(words, max_size=2), max_size=3)
spelt = objects.map(lambda value: json.dumps(value, ensure_ascii=False))
data = st.binary(min_size=1, max_size=12)
few = how(max_examples=examples(100), deadline=None)


# -- OpenAI's Responses ------------------------------------------------------------------------------------------

input_texts = st.fixed_dictionaries({"type": st.just("input_text"), "text": words})
input_images = st.fixed_dictionaries(
    {"type": st.just("input_image"), "image_url": st.just("https://a.example/b.png"), "detail": st.just("high")}
)
input_files = st.fixed_dictionaries(
    {"type": st.just("input_file"), "filename": words, "file_data": st.just("data:application/pdf;base64,JVBERg==")}
)
inputs = (
    words | st.lists(input_images | input_files, min_size=1, max_size=3) | st.lists(input_texts, min_size=2, max_size=3)
)
outputs: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"type": st.just("output_text"), "text": words}, optional={"annotations": st.just([]), "logprobs": st.just([])}
) | st.fixed_dictionaries({"type": st.just("refusal"), "refusal": words})
items: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "system", "developer"]), "content": inputs}),
    st.fixed_dictionaries({"role": st.just("assistant"), "content": words}, optional={"phase": st.just("commentary")}),
    st.fixed_dictionaries(
        {
            "type": st.just("message"),
            "role": st.just("assistant"),
            "content": st.lists(outputs, min_size=1, max_size=3),
            "id": ids,
            "status": st.just("completed"),
        },
        optional={"phase": st.just("final_answer")},
    ),
    st.fixed_dictionaries(
        {"type": st.just("function_call"), "call_id": ids, "name": words, "arguments": st.text(max_size=9)},
        optional={"id": ids, "status": st.just("completed")},
    ),
    st.fixed_dictionaries({"type": st.just("custom_tool_call"), "call_id": ids, "name": words, "input": words}),
    st.fixed_dictionaries({"type": st.just("function_call_output"), "call_id": ids, "output": inputs}),
    st.fixed_dictionaries(
        {
            "type": st.just("reasoning"),
            "id": ids,
            "summary": st.lists(st.fixed_dictionaries({"type": st.just("summary_text"), "text": words}), max_size=2),
            "encrypted_content": words,
        }
    ),
)


@few
@given(st.lists(items, max_size=8))
def test_responses_items_come_back_as_they_were(given: list[dict[str, Any]]) -> None:
    assert formats.to_responses(formats.from_responses(given)) == given


def test_a_request_of_responses_has_its_instructions_and_its_input() -> None:
    body = {"model": "gpt-5", "instructions": "Be kind.", "input": "Hello."}
    assert formats.from_responses(body) == [System(parts=(Text(text="Be kind."),)), User(parts=(Text(text="Hello."),))]


def test_an_item_of_openais_own_tools_is_named() -> None:
    with pytest.raises(BadFormat, match=r"input\[0\].*web_search_call"):
        formats.from_responses([{"type": "web_search_call", "id": "ws_1"}])


# -- Gemini ------------------------------------------------------------------------------------------------------

said = st.fixed_dictionaries({"text": words}, optional={"thoughtSignature": st.just("c2ln")})
thoughts = st.fixed_dictionaries({"text": words, "thought": st.just(True)})
shown = st.just({"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}) | st.just(
    {"fileData": {"mimeType": "application/pdf", "fileUri": "https://a.example/b.pdf"}}
)
called = st.fixed_dictionaries(
    {"functionCall": st.fixed_dictionaries({"name": words, "args": objects}, optional={"id": ids})},
    optional={"thoughtSignature": st.just("c2ln")},
)
responses = objects | st.fixed_dictionaries({"output": words}) | st.fixed_dictionaries({"error": words})
answered = st.fixed_dictionaries(
    {"functionResponse": st.fixed_dictionaries({"name": words, "response": responses, "id": ids})}
)
contents = st.lists(st.lists(said | thoughts | shown | called, min_size=1, max_size=4), max_size=3).flatmap(
    lambda model: st.lists(
        st.tuples(st.lists(answered, max_size=2), st.lists(said | shown, min_size=1, max_size=2)),
        min_size=len(model),
        max_size=len(model),
    ).map(
        lambda users: [
            content
            for own, (results, rest) in zip(model, users, strict=True)
            for content in ({"role": "user", "parts": [*results, *rest]}, {"role": "model", "parts": own})
        ]
    )
)


@few
@given(contents)
def test_geminis_contents_come_back_as_they_were(given: list[dict[str, Any]]) -> None:
    assert formats.to_gemini(formats.from_gemini(given)) == {"contents": given}


def test_contents_are_read_by_the_names_of_the_sdk_with_their_bytes() -> None:
    parts = [{"inline_data": {"mime_type": "image/png", "data": b"\x89PNG"}}, {"text": "What is this?"}]
    body = {"contents": [{"role": "user", "parts": parts}], "config": {"system_instruction": "Be kind."}}
    system, message = formats.from_gemini(body)
    assert system == System(parts=(Text(text="Be kind."),))
    assert isinstance(message, User)
    assert isinstance(message.parts[0], Image)
    assert message.parts[0].data == b"\x89PNG"


def test_calls_without_ids_are_answered_by_their_names() -> None:
    calls: list[dict[str, Any]] = [{"functionCall": {"name": name, "args": {}}} for name in ("a", "b")]
    answers = [{"functionResponse": {"name": name, "response": {"output": name}}} for name in ("b", "a")]
    events = formats.from_gemini([{"role": "model", "parts": calls}, {"role": "user", "parts": answers}])
    assert [event.id for event in events if isinstance(event, ToolCall)] == ["call_1", "call_2"]
    assert [event.id for event in events if isinstance(event, ToolResult)] == ["call_2", "call_1"]
    assert formats.to_gemini(events)["contents"][0]["parts"] == calls


def test_a_part_that_is_not_understood_is_named() -> None:
    with pytest.raises(BadFormat, match=r"contents\[0\].parts\[0\].*executableCode"):
        formats.from_gemini([{"role": "model", "parts": [{"executable_code": {"code": "1"}}]}])


# -- LangChain ---------------------------------------------------------------------------------------------------

blocks = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": words}, optional={"cache_control": st.just({"a": 1})}),
    st.just({"type": "image_url", "image_url": {"url": "https://a.example/b.png", "detail": "low"}}),
    st.just({"type": "image_url", "image_url": "data:image/png;base64,iVBORw=="}),
    st.just({"type": "image", "base64": "iVBORw==", "mime_type": "image/png"}),
    st.just({"type": "file", "url": "https://a.example/b.pdf", "mime_type": "application/pdf"}),
    words,
)
reasoned = st.one_of(
    st.fixed_dictionaries({"type": st.just("thinking"), "thinking": words, "signature": words}),
    st.fixed_dictionaries({"type": st.just("reasoning"), "reasoning": words}),
    st.just({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}),
)
texts = st.one_of(words, st.lists(blocks, min_size=2, max_size=3))
tool_calls = st.lists(
    st.fixed_dictionaries({"name": words, "args": objects, "id": ids, "type": st.just("tool_call")}), max_size=2
)
about: st.SearchStrategy[dict[str, str]] = st.just({}) | st.just({"model_name": "gpt-5", "model_provider": "openai"})
usage = st.none() | st.just({"input_tokens": 3, "output_tokens": 4, "total_tokens": 7})
messages: st.SearchStrategy[BaseMessage] = st.one_of(
    st.builds(SystemMessage, content=texts),
    st.builds(HumanMessage, content=texts, name=st.none() | words, id=st.none() | ids),
    st.builds(
        AIMessage,
        content=st.just("") | texts | st.lists(reasoned | blocks, min_size=2, max_size=3),
        tool_calls=tool_calls,
        response_metadata=about,
        usage_metadata=usage,
        id=st.none() | ids,
    ),
    st.builds(
        ToolMessage,
        content=texts,
        tool_call_id=ids,
        status=st.sampled_from(["success", "error"]),
        name=st.none() | words,
    ),
    st.builds(FunctionMessage, content=words, name=words),
)


@few
@given(st.lists(messages, max_size=6))
def test_langchains_messages_come_back_as_they_were(given: list[BaseMessage]) -> None:
    assert formats.to_langchain(formats.from_langchain(given)) == given


@few
@given(st.lists(messages, max_size=4))
def test_langchains_messages_are_read_in_any_of_their_forms(given: list[BaseMessage]) -> None:
    events = formats.from_langchain(given)
    assert formats.from_langchain(messages_to_dict(given)) == events
    assert formats.from_langchain([message.model_dump() for message in given]) == events


def test_arguments_that_are_no_json_stay_invalid_tool_calls() -> None:
    wrong = {"name": "look", "args": '{"a', "id": "call_1", "error": "cut", "type": "invalid_tool_call"}
    given = [AIMessage(content="", invalid_tool_calls=[wrong])]
    (event,) = formats.from_langchain(given)
    assert isinstance(event, ToolCall)
    assert event.arguments == '{"a'
    assert formats.to_langchain([event]) == given


def test_a_block_that_repeats_a_tool_call_stands_where_it_stood() -> None:
    block = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    call = {"name": "look", "args": {}, "id": "toolu_1", "type": "tool_call"}
    given = [AIMessage(content=[{"type": "text", "text": "Hm."}, block], tool_calls=[call])]
    events = formats.from_langchain(given)
    assert [type(event) for event in events] == [Assistant, ToolCall]
    assert formats.to_langchain(events) == given


def test_thinking_of_claudes_goes_back_to_claude_and_the_model_is_known() -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    about = {"model_name": "claude-sonnet-4-6", "model_provider": "anthropic"}
    (event,) = formats.from_langchain([AIMessage(content=[thinking, "Yes."], response_metadata=about)])
    assert isinstance(event, Assistant)
    assert event.model == "anthropic:claude-sonnet-4-6"
    assert isinstance(event.parts[0], Reasoning)
    assert json.loads(event.parts[0].meta["anthropic"]) == thinking


def test_chunks_and_roles_are_messages_of_their_kind() -> None:
    given = [AIMessageChunk(content="Yes."), ChatMessage(role="user", content="Hm.")]
    assert formats.to_langchain(formats.from_langchain(given)) == [
        AIMessage(content="Yes."),
        HumanMessage(content="Hm."),
    ]


def test_a_message_that_is_not_understood_is_named() -> None:
    with pytest.raises(BadFormat, match=r"messages\[0\].*remove"):
        formats.from_langchain([RemoveMessage(id="1")])


# -- from one into another -----------------------------------------------------------------------------------------

plain_parts = st.lists(
    st.builds(Text, text=words)
    | st.just(PNG)
    | st.builds(file, data, name=words, media_type=st.just("application/pdf")),
    max_size=3,
).map(tuple)
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(System, parts=plain_parts),
    st.builds(User, parts=plain_parts),
    st.builds(Assistant, parts=plain_parts, model=words),
    st.builds(ToolCall, id=ids, name=words, arguments=spelt | words),
    st.builds(ToolResult, id=ids, name=words, parts=plain_parts, error=st.booleans()),
)


@few
@given(st.lists(events, max_size=8), st.sampled_from(["responses", "gemini", "langchain"]))
def test_any_history_can_be_written_and_says_the_same_when_read(given: list[Event], name: str) -> None:
    written = getattr(formats, f"to_{name}")(given)
    again = getattr(formats, f"from_{name}")(written)
    assert _texts(again) == _texts(given)
    assert _sound(again) == _sound(given)


def _texts(events: list[Event]) -> str:
    """Everything that was said, in order but for what a format reorders."""
    parts = [part for event in events for part in getattr(event, "parts", ())]
    return "".join(sorted("".join(part.text for part in parts if isinstance(part, Text)).replace("\n", "")))


def _sound(events: list[Event]) -> list[tuple[str, Any]]:
    """The tool calls whose arguments are an object."""
    calls = [event for event in events if isinstance(event, ToolCall)]
    return [(call.name, body) for call in calls if (body := object_of(call.arguments)) is not None]


def test_a_file_by_its_address_is_written_as_such() -> None:
    event = User(parts=(File(url="https://a.example/b.pdf", media_type="application/pdf"),))
    assert formats.to_gemini([event])["contents"][0]["parts"][0]["fileData"]["fileUri"] == "https://a.example/b.pdf"
    assert formats.to_responses([event])[0]["content"][0]["file_url"] == "https://a.example/b.pdf"


def test_a_block_that_repeats_a_call_of_langchains_is_not_counted_again() -> None:
    """It is noted for the way back alone, and never sent."""
    arguments = {"query": "walnuts and almonds " * 500}
    call = {"name": "find", "args": arguments, "id": "t1", "type": "tool_call"}
    block = {"type": "tool_use", "id": "t1", "name": "find", "input": arguments}
    plain = formats.from_langchain([{"type": "ai", "content": "", "tool_calls": [call]}])
    repeated = formats.from_langchain([{"type": "ai", "content": [block], "tool_calls": [call]}])
    assert sizes(repeated[-1]) == sizes(plain[-1])


@pytest.mark.parametrize("beside", [{}, {"partMetadata": {"n": 1}}])
def test_a_signature_that_goes_back_to_gemini_is_counted(beside: dict[str, Any]) -> None:
    def size(**signed: str) -> int:
        part = {"functionCall": {"name": "find", "args": {}}, **beside, **signed}
        return sizes(formats.from_gemini([{"role": "model", "parts": [part]}])[-1])[0]

    assert size(thoughtSignature="c2ln" * 1_000) - size() >= 1_000
