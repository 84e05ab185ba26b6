"""What is Anthropic's own: blocks, thinking, finishes and errors inside a stream; and its loopback server."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import httpx2
import msgspec
import pytest
from anthropic import AsyncAnthropic

from benchmarks.loopback.anthropic import AnthropicServer
from benchmarks.loopback.http import Answer, Fault, sse
from benchmarks.loopback.model import Called, Replies, Script, Thought
from everthread.core.events import Assistant, ToolCall
from everthread.core.parts import Reasoning, Text
from everthread.core.request import ReplyItem
from everthread.errors import (
    BrokenOff,
    MissingExtra,
    ModelError,
    NoKey,
    Overloaded,
    RequestRefused,
    TooLong,
    WrongKey,
)
from everthread.providers.anthropic.client import NO_KEY, connect
from everthread.providers.client import Access
from tests.providers.behaviours import KEY, TOOLS, chunks, connected, failing, heard, wired

CLAUDE = "claude-sonnet-4-6"
BOUND = "claude-fable-5-1"


def changed(change: Callable[[list[dict[str, Any]]], None]) -> Fault:
    """The reply with its events changed, each as the object that it says."""

    def apply(answer: Answer) -> Answer:
        events = [msgspec.json.decode(chunk.partition(b"data: ")[2]) for chunk in chunks(answer)]
        change(events)
        return answer._replace(body=[sse(event, event=event["type"]) for event in events])

    return Fault(change=apply)


def without(kind: str) -> Fault:
    def change(events: list[dict[str, Any]]) -> None:
        events[:] = [event for event in events if event["type"] != kind]

    return changed(change)


def with_event(at: int, **event: Any) -> Fault:
    return changed(lambda events: events.insert(at, event))


# -- blocks and events -------------------------------------------------------------------------------------


async def test_text_between_tool_calls_keeps_its_place() -> None:
    reply: Replies = ["First.", Called("find", '{"a": 1}'), "Then.", Called("look", "{}")]
    async with wired("anthropic", reply) as wire:
        events = (await wire.ask(tools=TOOLS)).replied.events
    assert [type(event) for event in events] == [Assistant, ToolCall, Assistant, ToolCall]
    assert [event.parts for event in events if isinstance(event, Assistant)] == [
        (Text(text="First."),),
        (Text(text="Then."),),
    ]


async def test_a_tool_call_keeps_what_else_its_block_says() -> None:
    def change(events: list[dict[str, Any]]) -> None:
        events[1]["content_block"]["caller"] = {"type": "direct"}

    async with wired("anthropic", [Called("find", "{}")]) as wire:
        wire.server.faults.append(changed(change))
        [call] = (await wire.ask(tools=TOOLS)).calls
    assert json.loads(call.meta["anthropic"]) == {"fields": {"caller": {"type": "direct"}}}


async def test_arguments_that_come_at_once_are_taken_too() -> None:
    """As some servers that speak the API send them."""

    def change(events: list[dict[str, Any]]) -> None:
        events[1]["content_block"]["input"] = {"a": 1}

    async with wired("anthropic", [Called("find", "")]) as wire:
        wire.server.faults.append(changed(change))
        [call] = (await wire.ask(tools=TOOLS)).calls
    assert call.arguments == '{"a": 1}'


@pytest.mark.parametrize(
    "event",
    [
        {"type": "weather_report", "delta": {"text": "rain"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": {}}},
        {"type": "ping"},
    ],
)
async def test_what_is_not_known_is_passed_over(event: dict[str, Any]) -> None:
    async with wired("anthropic", ["One two."]) as wire:
        wire.server.faults.append(with_event(3, **event))
        assert (await wire.ask()).text == "One two."


async def test_a_block_of_a_kind_that_is_not_known_is_passed_over() -> None:
    def change(events: list[dict[str, Any]]) -> None:
        events[1]["content_block"] = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}

    async with wired("anthropic", [Called("find", '{"a": 1}'), "Found."]) as wire:
        wire.server.faults.append(changed(change))
        found = await wire.ask(tools=TOOLS)
    assert found.text == "Found."
    assert found.calls == []


async def test_events_without_a_name_are_read_by_what_they_say() -> None:
    def nameless(answer: Answer) -> Answer:
        return answer._replace(body=[chunk[chunk.index(b"data: ") :] for chunk in chunks(answer)])

    async with wired("anthropic", ["One two."]) as wire:
        wire.server.faults.append(Fault(change=nameless))
        assert (await wire.ask()).text == "One two."


@pytest.mark.parametrize(
    "fault",
    [
        without("message_start"),
        without("content_block_start"),
        without("content_block_stop"),
        without("message_delta"),
        without("message_stop"),
        with_event(0, type="content_block_delta", index=0, delta={"type": "text_delta", "text": "x"}),
        with_event(3, type="content_block_delta", index=0, delta={"type": "text_delta"}),
        with_event(3, type="content_block_delta", index=0, delta={}),
        with_event(3, type="content_block_delta", index=0),
        with_event(3, type="content_block_delta", delta={"type": "text_delta", "text": "x"}),
        with_event(3, type="content_block_start", index=5, content_block={"type": "text", "text": ""}),
        with_event(3, type="message_start"),
        changed(lambda events: events[1].update(content_block={"type": "tool_use", "id": 7, "name": "find"})),
    ],
)
async def test_a_reply_of_which_something_is_missing_breaks_off(fault: Fault) -> None:
    async with wired("anthropic", ["One two."]) as wire:
        assert isinstance(await wire.fails(fault=fault), BrokenOff)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tools"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refused"),
        ("pause_turn", "other"),
        ("something_new", "other"),
    ],
)
async def test_why_a_reply_ended_is_told(reason: str, finish: str) -> None:
    async with wired("anthropic") as wire:
        wire.server.faults.append(changed(lambda events: events[-2]["delta"].update(stop_reason=reason)))
        assert (await wire.ask()).replied.finish == finish


# -- thinking ----------------------------------------------------------------------------------------------


async def test_a_redacted_thought_goes_back_as_it_came() -> None:
    async with wired("anthropic", [Thought(""), Thought("Hm."), Called("find", "{}")], ["Yes."]) as wire:
        found = await wire.ask("Go.", tools=TOOLS, effort="low")
        kept = [json.loads(part.meta["anthropic"]) for part in found.reasoning]
        await wire.ask("Go.", found.answered("here"), tools=TOOLS, effort="low")
        assert wire.wire["messages"][1]["content"][:2] == kept
    assert [block["type"] for block in kept] == ["redacted_thinking", "thinking"]
    assert [part.text for part in found.reasoning] == ["", "Hm."]


def _altered(reply: ReplyItem) -> ReplyItem:
    parts = [
        msgspec.structs.replace(part, meta={"anthropic": part.meta["anthropic"].replace("Hm.", "Ha.")})
        if isinstance(part, Reasoning)
        else part
        for part in reply.parts
    ]
    return msgspec.structs.replace(reply, parts=tuple(parts))


async def test_the_server_refuses_thinking_that_was_altered_or_is_another_models() -> None:
    async with wired("anthropic", [Thought("Hm."), Called("find", "{}")]) as wire:
        reply = (await wire.ask("Go.", tools=TOOLS, effort="low")).answered("here")
        altered = await wire.fails("Go.", _altered(reply), tools=TOOLS, effort="low")
        others = await wire.fails("Go.", reply, tools=TOOLS, effort="low", model_name="claude-haiku-4-5")
        assert (await wire.ask("Go.", reply, tools=TOOLS, effort="low")).text
    assert isinstance(altered, RequestRefused)
    assert "altered" in str(altered)
    assert isinstance(others, RequestRefused)


async def test_the_server_refuses_bound_thinking_after_another_beginning() -> None:
    options: dict[str, Any] = {"tools": TOOLS, "effort": "low", "model_name": BOUND}
    async with wired("anthropic", [Thought("Hm."), Called("find", "{}")]) as wire:
        reply = (await wire.ask("Go.", instructions=("Be kind.",), **options)).answered("here")
        assert (await wire.ask("Go.", reply, instructions=("Be kind.",), **options)).text
        error = await wire.fails("Go.", reply, instructions=("Be brief.",), **options)
    assert isinstance(error, RequestRefused)
    assert "produced with another" in str(error)


# -- errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "said", "expected"),
    [
        ("overloaded_error", "Overloaded", Overloaded),
        ("rate_limit_error", "slow down", Overloaded),
        ("api_error", "Internal server error", BrokenOff),
        ("a_new_error", "", BrokenOff),
        ("invalid_request_error", "prompt is too long: 300 tokens > 200 maximum", TooLong),
        ("invalid_request_error", "odd", RequestRefused),
        ("authentication_error", "the key was revoked", WrongKey),
    ],
)
async def test_an_error_inside_the_stream_is_what_it_says(kind: str, said: str, expected: type[ModelError]) -> None:
    async with wired("anthropic", ["One two."]) as wire:
        error = await wire.fails(fault=with_event(4, type="error", error={"type": kind, "message": said}))
    assert type(error) is expected
    assert (said or kind) in str(error)


async def test_an_error_whose_own_words_are_cut_off_is_an_error_of_the_connection() -> None:
    async with wired("anthropic") as wire:
        error = await wire.fails(fault=failing(400)._replace(cut=5))
    assert error.again


async def test_what_comes_after_the_end_of_a_reply_does_not_matter() -> None:
    """The stream is read to its end only so that the connection can be used again."""
    async with wired("anthropic", ["One two."]) as wire:
        wire.server.faults.append(changed(lambda events: events.append({"type": "error", "error": {"type": "late"}})))
        assert (await wire.ask()).text == "One two."


async def test_a_count_that_is_none_is_an_error() -> None:
    async with wired("anthropic") as wire:
        wire.server.faults.append(Fault(answer=Answer(200, b'{"input_tokens": "many"}')))
        with pytest.raises(BrokenOff):
            await wire.client.count(wire.body())


# -- keys and settings -------------------------------------------------------------------------------------


def test_without_a_key_the_provider_itself_is_not_asked() -> None:
    with pytest.raises(NoKey, match="ANTHROPIC_API_KEY"):
        connect(Access(provider="anthropic"))


async def test_a_server_of_ones_own_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-somebody")
    async with AnthropicServer(key=NO_KEY) as server, connected("anthropic", server.address, key="") as client:
        body = {"model": CLAUDE, "max_tokens": 100, "messages": [{"role": "user", "content": "Hello."}]}
        assert (await heard(client, body)).text
        assert "sk-of-somebody" not in str(server.asked)


def test_without_the_sdk_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    monkeypatch.delitem(sys.modules, "everthread.providers.anthropic.client")
    with pytest.raises(MissingExtra, match=r"everthread\[anthropic\]"):
        import_module("everthread.providers.anthropic.client")


async def test_what_only_the_sdk_understands_is_not_on_the_wire() -> None:
    async with wired("anthropic") as wire:
        body = wire.body(temperature=0.5)
        await heard(wire.client, body)
        assert "extra_body" in body
        assert "extra_body" not in wire.wire
        assert wire.wire["temperature"] == 0.5
        await wire.client.count(body)
        assert wire.wire.keys() == {"model", "messages"}


# -- the server --------------------------------------------------------------------------------------------


async def test_a_whole_reply_says_what_a_streamed_one_says() -> None:
    reply: Replies = [Thought("Hm."), "Yes.", Called("find", '{"a": 1}')]
    async with AnthropicServer(Script([reply, reply])) as server:
        body: Any = {"model": CLAUDE, "max_tokens": 100, "messages": [{"role": "user", "content": "Go."}]}
        async with AsyncAnthropic(api_key=KEY, base_url=server.address, max_retries=0) as sdk:
            whole = await sdk.messages.create(**body)
            async with sdk.messages.stream(**body) as stream:
                streamed = await stream.get_final_message()
    told = [[block.model_dump(exclude={"id", "parsed_output"}) for block in each.content] for each in (whole, streamed)]
    assert [block["type"] for block in told[0]] == ["thinking", "text", "tool_use"]
    assert told[0] == told[1]
    assert whole.usage.output_tokens == streamed.usage.output_tokens
    assert whole.stop_reason == streamed.stop_reason == "tool_use"


@pytest.mark.parametrize(
    ("path", "headers", "content", "status", "kind"),
    [
        ("/v1/messages", {"x-api-key": "wrong"}, "{}", 401, "authentication_error"),
        ("/v1/messages", {"x-api-key": KEY}, "{}", 400, "invalid_request_error"),
        ("/v1/other", {"x-api-key": KEY, "anthropic-version": "1"}, "{}", 404, "not_found_error"),
        ("/v1/messages", {"x-api-key": KEY, "anthropic-version": "1"}, "{", 400, "invalid_request_error"),
        ("/v1/messages", {"x-api-key": KEY, "anthropic-version": "1"}, "{}", 400, "invalid_request_error"),
        (
            "/v1/messages/count_tokens",
            {"x-api-key": KEY, "anthropic-version": "1"},
            '{"model": "claude-3", "messages": [], "max_tokens": 5}',
            400,
            "invalid_request_error",
        ),
    ],
)
async def test_the_server_is_strict(path: str, headers: dict[str, str], content: str, status: int, kind: str) -> None:
    async with AnthropicServer() as server, httpx2.AsyncClient() as client:
        answer = await client.post(server.address + path, headers=headers, content=content)
    assert answer.status_code == status
    assert answer.json()["error"]["type"] == kind


async def test_the_server_refuses_what_the_rules_refuse_and_says_why() -> None:
    async with wired("anthropic") as wire:
        body = wire.body()
        body["messages"].append({"role": "assistant", "content": [{"type": "text", "text": "And"}]})
        with pytest.raises(RequestRefused, match="prefill"):
            await heard(wire.client, body)
        assert wire.server.books.refused
