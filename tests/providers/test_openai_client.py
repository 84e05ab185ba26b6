"""OpenAI's Chat Completions through its SDK, and servers that speak it in their own way. What every provider must do is
tested in test_behaviours."""

from __future__ import annotations

import importlib
import logging
import sys
import traceback
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

from benchmarks.loopback.http import Answer, Fault, sse
from benchmarks.loopback.model import Called, Script, Thought
from benchmarks.loopback.openai import OpenAIServer
from everthread import Everthread, tool_result, user
from everthread.core.deltas import ReasoningDelta, TextDelta, Usage
from everthread.core.events import Assistant, ToolCall
from everthread.core.parts import Reasoning, Text
from everthread.errors import (
    BrokenOff,
    MissingExtra,
    ModelError,
    NoCredit,
    NoKey,
    Overloaded,
    RequestRefused,
    TooLong,
    Unreachable,
    WrongKey,
)
from everthread.providers.client import Access, Client, Replied, StreamPiece
from everthread.providers.openai.client import connect
from tests.waiting import PATIENCE

BODY: dict[str, Any] = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello"}]}
DONE = sse("[DONE]")


@pytest.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


@pytest.fixture
async def client(server: OpenAIServer) -> AsyncIterator[Client]:
    client = connect(Access(provider="openai", key="test-key", address=server.address, seconds=PATIENCE))
    yield client
    await client.close()


async def pieces_of(client: Client, body: dict[str, Any] = BODY) -> list[StreamPiece]:
    async with client.reply(body) as pieces:
        return [piece async for piece in pieces]


async def replied(client: Client, body: dict[str, Any] = BODY) -> Replied:
    *_, last = await pieces_of(client, body)
    assert isinstance(last, Replied)
    return last


def chunk(finish: str | None = None, **delta: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return sse({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})


def call(**fields: Any) -> bytes:
    return chunk(tool_calls=[fields])


def streams(server: OpenAIServer, *events: bytes) -> None:
    server.faults.append(Fault(answer=Answer(body=list(events))))


def calls_in(reply: Replied) -> list[tuple[str, str]]:
    return [(event.name, event.arguments) for event in reply.events if isinstance(event, ToolCall)]


# -- what servers do in their own way ----------------------------------------------------------------------


async def test_a_reply_without_usage_has_none(server: OpenAIServer, client: Client) -> None:
    """Usage that never comes is zero, not an error."""
    streams(server, chunk(content="Yes."), chunk("stop"), DONE)
    reply = await replied(client)
    assert reply.usage == Usage()
    assert reply.events == (Assistant(parts=(Text(text="Yes."),), model="openai:gpt-4o"),)
    assert (reply.finish, reply.model) == ("stop", "m")


async def test_a_server_that_refuses_stream_options_is_asked_without_them_from_then_on(
    server: OpenAIServer, client: Client
) -> None:
    """It is refused once; later model calls do not ask again."""
    refusal = b'{"error": {"message": "Unrecognized request argument supplied: stream_options"}}'
    server.faults.append(Fault(answer=Answer(400, refusal)))
    await replied(client)
    await replied(client)
    assert ["stream_options" in asked.json() for asked in server.asked] == [True, False, False]


async def test_another_refusal_is_not_taken_for_that(server: OpenAIServer, client: Client) -> None:
    server.faults.append(Fault(answer=Answer(400, b'{"error": {"message": "no such role"}}')))
    with pytest.raises(RequestRefused, match="no such role"):
        await pieces_of(client)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([call(index=0, id="a", function={"name": "f", "arguments": '{"x":'}),
                      call(index=1, id="b", function={"name": "g", "arguments": "{}"}),
                      call(index=0, function={"arguments": "1}"})], id="as OpenAI does, interleaved"),
        pytest.param([call(id="a", function={"name": "f", "arguments": '{"x":'}),
                      call(function={"arguments": "1}"}),
                      call(id="b", function={"name": "g", "arguments": "{}"})], id="no index"),
        pytest.param([call(function={"name": "f", "arguments": '{"x":1}'}),
                      call(function={"name": "g", "arguments": "{}"})], id="neither index nor id"),
        pytest.param([call(index=0, id="a", function={"name": "f", "arguments": '{"x":1}'}),
                      call(index=0, id="b", function={"name": "g", "arguments": "{}"})], id="all with the same index"),
        pytest.param([call(id="a", function={"name": "f", "arguments": '{"x":'}),
                      call(id="a", function={"name": "f", "arguments": "1}"}),
                      call(id="b", function={"name": "g", "arguments": "{}"})], id="id and name in every delta"),
        pytest.param([call(index=0, function={"name": "f", "arguments": '{"x":1}'}),
                      call(index=1, function={"name": "g", "arguments": "{}"})], id="no id"),
    ],
)  # fmt: skip
async def test_tool_calls_are_told_apart_however_they_are_streamed(
    server: OpenAIServer, client: Client, events: list[bytes]
) -> None:
    """Each call has its own arguments, and an id that no other has."""
    streams(server, *events, chunk("tool_calls"), DONE)
    reply = await replied(client)
    assert calls_in(reply) == [("f", '{"x":1}'), ("g", "{}")]
    assert len({event.id for event in reply.events if isinstance(event, ToolCall) and event.id}) == 2
    assert reply.finish == "tools"


async def test_arguments_stay_the_text_that_streamed(server: OpenAIServer, client: Client) -> None:
    """Invalid JSON is kept as it is."""
    server.script.add([Called("f", '{"x": 1,,  "y"')])
    assert calls_in(await replied(client)) == [("f", '{"x": 1,,  "y"')]


async def test_arguments_sent_as_an_object_become_text(server: OpenAIServer, client: Client) -> None:
    streams(server, call(index=0, id="a", function={"name": "f", "arguments": {"x": 1}}), chunk("stop"), DONE)
    reply = await replied(client)
    assert calls_in(reply) == [("f", '{"x": 1}')]
    assert reply.finish == "tools"


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
async def test_reasoning_is_shown_under_either_name(server: OpenAIServer, client: Client, name: str) -> None:
    streams(server, chunk(**{name: "Hm, "}), chunk(**{name: "well."}), chunk(content="Yes."), chunk("stop"), DONE)
    *pieces, reply = await pieces_of(client)
    assert pieces == [ReasoningDelta(text="Hm, "), ReasoningDelta(text="well."), TextDelta(text="Yes.")]
    assert isinstance(reply, Replied)
    (said,) = reply.events
    assert isinstance(said, Assistant)
    assert said.parts == (Reasoning(text="Hm, well."), Text(text="Yes."))


async def test_a_refusal_is_the_text_of_the_reply(server: OpenAIServer, client: Client) -> None:
    streams(server, chunk(refusal="I cannot "), chunk(refusal="help."), chunk("stop"), DONE)
    *pieces, reply = await pieces_of(client)
    assert "".join(map(str, pieces)) == "I cannot help."
    assert isinstance(reply, Replied)
    assert reply.finish == "refused"
    assert reply.events == (Assistant(parts=(Text(text="I cannot help."),), model="openai:gpt-4o"),)


@pytest.mark.parametrize(
    ("said", "finish"),
    [("stop", "stop"), ("length", "length"), ("content_filter", "refused"), ("tool_calls", "stop"), ("odd", "other")],
)
async def test_why_the_model_finished_is_said_in_our_words(
    server: OpenAIServer, client: Client, said: str, finish: str
) -> None:
    """ "tool_calls" without any tool call is an ordinary end."""
    streams(server, chunk(content="A"), chunk(said), DONE)
    assert (await replied(client)).finish == finish


async def test_odd_chunks_do_no_harm(server: OpenAIServer, client: Client) -> None:
    """No choices, no delta, content in parts, comments, null where a list should be."""
    odd = [
        sse({"id": "c", "choices": None, "usage": {"prompt_tokens": "many"}}),
        sse({"id": "c", "choices": [], "prompt_filter_results": []}),
        sse({"choices": [{"index": 0, "delta": None, "finish_reason": None}]}),
        b": keep-alive\n\n",
        chunk(content=[{"type": "text", "text": "Yes"}], tool_calls=None),
        chunk("stop", content="."),
        sse({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": None}}),
    ]
    streams(server, *odd, DONE)
    reply = await replied(client)
    assert reply.events == (Assistant(parts=(Text(text="Yes."),), model="openai:gpt-4o"),)
    assert reply.usage == Usage(input=7, output=2)


async def test_a_reply_without_anything_is_an_empty_message(server: OpenAIServer, client: Client) -> None:
    streams(server, chunk("stop"), DONE)
    assert (await replied(client)).events == (Assistant(model="openai:gpt-4o"),)


async def test_usage_has_what_was_read_from_and_written_to_the_cache(server: OpenAIServer, client: Client) -> None:
    before, after = {"cached_tokens": 5, "cache_write_tokens": 3}, {"reasoning_tokens": 2}
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": before}
    told = sse({"choices": [], "usage": {**usage, "completion_tokens_details": after}})
    streams(server, chunk(content="A"), chunk("stop"), told, DONE)
    assert (await replied(client)).usage == Usage(input=9, output=4, cache_read=5, cache_write=3, reasoning=2)


# -- where a stream ends -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end",
    [pytest.param([chunk("stop")], id="how it finished, no last word"), pytest.param([DONE], id="the last word alone")],
)
async def test_a_reply_is_whole_once_its_end_was_told(server: OpenAIServer, client: Client, end: list[bytes]) -> None:
    streams(server, chunk(content="Yes."), *end)
    assert (await replied(client)).finish == "stop"


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([chunk(content="Yes")], id="no end at all"),
        pytest.param([chunk(content="\ndata: [DONE]")], id="a last word inside the text"),
        pytest.param([chunk(content="Yes"), b"data: {wrong\n\n"], id="no JSON"),
        pytest.param([chunk(content="Yes"), b"data: \xff\xfe\n\n"], id="no UTF-8"),
        pytest.param([chunk(content="Yes"), b"data: [1, 2]\n\n"], id="a list"),
        pytest.param([], id="nothing"),
    ],
)
async def test_what_ends_sooner_has_broken_off(server: OpenAIServer, client: Client, events: list[bytes]) -> None:
    streams(server, *events)
    with pytest.raises(BrokenOff):
        await pieces_of(client)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}, Overloaded),
        ({"message": "bad gateway", "code": 502}, Overloaded),
        ({"message": "no credit", "code": 402}, NoCredit),
        ({"message": "maximum context length is 10 tokens … resulted in 20", "code": None}, TooLong),
        ({"message": "", "code": "context_length_exceeded"}, TooLong),
        ({"message": "something odd"}, BrokenOff),
        ("CUDA out of memory", BrokenOff),
    ],
)
async def test_an_error_inside_a_stream_is_told_by_its_name(
    server: OpenAIServer, client: Client, error: object, expected: type[ModelError]
) -> None:
    streams(server, chunk(content="Yes"), sse({"error": error}))
    with pytest.raises(expected, match=error if isinstance(error, str) else None):
        await pieces_of(client)


# -- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_429", [False, True])
async def test_a_request_that_is_too_long_says_by_how_much(server: OpenAIServer, client: Client, as_429: bool) -> None:
    """In either form that OpenAI has for it."""
    server.books.limit, server.as_429 = 10, as_429
    with pytest.raises(TooLong) as raised:
        await pieces_of(client, {**BODY, "messages": [{"role": "user", "content": "word " * 50}]})
    assert raised.value.limit == 10
    assert raised.value.needed > 50


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b'{"detail": "no such thing"}', "no such thing", id="another form"),
        pytest.param(b'{"error": "no such thing"}', "no such thing", id="the error as text"),
        pytest.param(b"<html>no such thing</html>", "no such thing", id="a page"),
        pytest.param(b'{"error": {"odd": [1]}}', "odd", id="neither"),
        pytest.param(b"", "status 400", id="nothing"),
    ],
)
async def test_a_refusal_is_repeated_in_whatever_form_it_comes(
    server: OpenAIServer, client: Client, body: bytes, said: str
) -> None:
    server.faults.append(Fault(answer=Answer(400, body)))
    with pytest.raises(RequestRefused, match=said):
        await pieces_of(client)


async def test_what_no_request_can_carry_is_refused_before_it_is_sent(server: OpenAIServer, client: Client) -> None:
    with pytest.raises(RequestRefused, match="its SDK does not take it"):
        await pieces_of(client, {**BODY, "messages": [{"role": "user", "content": "\ud800"}]})
    assert server.asked == []


async def test_the_body_goes_over_the_wire_as_it_is(server: OpenAIServer, client: Client) -> None:
    """With fields that the SDK has never heard of, as some servers have them; nothing else is added but streaming."""
    body = {**BODY, "model": "qwen3", "top_k": 5, "temperature": 0.5}
    streams(server, chunk("stop"))
    await replied(client, body)
    assert server.asked[0].json() == {**body, "stream": True, "stream_options": {"include_usage": True}}


# -- keys --------------------------------------------------------------------------------------------------


async def test_without_a_key_and_an_address_there_is_no_client() -> None:
    with pytest.raises(NoKey, match="OPENAI_API_KEY"):
        connect(Access(provider="openai"))


async def test_a_server_of_ones_own_needs_no_key_and_is_not_told_openais(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK would take the environment's."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    async with OpenAIServer(key="none") as server:
        client = connect(Access(provider="openai", address=server.address))
        await replied(client)
        await client.close()
    assert server.asked[0].headers["authorization"] == "Bearer none"


async def test_a_key_that_no_header_can_carry_is_refused_without_being_quoted() -> None:
    with pytest.raises(WrongKey) as raised:
        connect(Access(provider="openai", key="sk-sécret"))
    assert "cret" not in repr(raised.value)


async def test_the_key_is_in_no_error_and_no_log(server: OpenAIServer, caplog: pytest.LogCaptureFixture) -> None:
    """Not even where the server quotes it."""
    caplog.set_level(logging.DEBUG)
    client = connect(Access(provider="openai", key=" sk-secret\n", address=server.address))
    with pytest.raises(WrongKey) as raised:
        await pieces_of(client)
    await client.close()
    assert server.asked[0].headers["authorization"] == "Bearer sk-secret"
    told = [repr(raised.value), repr(client), repr(raised.value.__context__), caplog.text]
    assert not any("sk-secret" in text for text in [*told, *traceback.format_exception(raised.value)])


async def test_without_the_sdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.delitem(sys.modules, "everthread.providers.openai.client")
    with pytest.raises(MissingExtra, match=r"everthread\[openai\]"):
        importlib.import_module("everthread.providers.openai.client")


# -- the whole way -----------------------------------------------------------------------------------------


async def test_a_server_that_is_not_there_cannot_be_reached() -> None:
    client = connect(Access(provider="openai", address="http://127.0.0.1:9/v1"))
    with pytest.raises(Unreachable):
        await pieces_of(client)
    await client.close()


async def test_what_was_replied_can_be_sent_back(server: OpenAIServer, client: Client, tmp_path: Path) -> None:
    """Reply, tool result, next request: the server accepts it, and reads the prompt's beginning from its cache."""
    script: list[list[Any]] = [
        [Thought("Hm."), "Let me look.", Called("look", '{"at": "it"}'), Called("look")],
        ["It is."],
    ]
    server.script = Script(script)
    async with Everthread.open(f"sqlite:///{tmp_path}/talk.db") as et:
        talk = await et.begin(user="ana")
        await talk.append(user("What is it? " + "word " * 2000))
        first = await replied(client, (await talk.context(model="openai:gpt-4o")).request)
        results = [tool_result("a box", id=event.id) for event in first.events if isinstance(event, ToolCall)]
        await talk.append(*first.events, *results)
        second = await replied(client, (await talk.context(model="openai:gpt-4o")).request)
    assert first.finish == "tools"
    assert second.events == (Assistant(parts=(Text(text="It is."),), model="openai:gpt-4o"),)
    assert second.usage.cache_read > 1024
    assert server.books.refused == []


async def test_the_server_also_replies_whole_and_lists_its_models(server: OpenAIServer) -> None:
    """What its own SDK makes of it, without streaming."""
    server.script.add(["Yes.", Called("f", "{}")])
    async with openai.AsyncOpenAI(api_key="test-key", base_url=server.address, max_retries=0) as sdk:
        completion = await sdk.chat.completions.create(**BODY)
        models = [model.id async for model in sdk.models.list()]
    message = completion.choices[0].message
    assert message.content == "Yes."
    assert [call.type for call in message.tool_calls or ()] == ["function"]
    assert completion.usage
    assert completion.usage.total_tokens > 2
    assert "gpt-4o" in models
