"""OpenAI's Responses API through its SDK: items to events and back. What every provider must do is tested in
test_behaviours."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import openai
import pytest

from benchmarks.loopback.http import Answer, Fault, sse
from benchmarks.loopback.model import Called, Script, Thought
from benchmarks.loopback.openai import ResponsesServer
from everthread import Everthread, tool_result, user
from everthread.core.deltas import ReasoningDelta, TextDelta, Usage
from everthread.core.events import Assistant, ToolCall
from everthread.core.parts import Reasoning, Text
from everthread.errors import BrokenOff, ModelError, NoKey, Overloaded, RequestRefused, TooLong, UnknownModel
from everthread.providers.client import Access, Client, Replied, StreamPiece
from everthread.providers.openai.responses.client import connect
from tests.waiting import PATIENCE

BODY: dict[str, Any] = {"model": "gpt-5", "input": [{"role": "user", "content": "Hello"}], "store": False}
NAME = "openai-responses:gpt-5"


@pytest.fixture
async def server() -> AsyncIterator[ResponsesServer]:
    async with ResponsesServer() as server:
        yield server


@pytest.fixture
async def client(server: ResponsesServer) -> AsyncIterator[Client]:
    client = connect(Access(provider="openai-responses", key="test-key", address=server.address, seconds=PATIENCE))
    yield client
    await client.close()


async def pieces_of(client: Client, body: dict[str, Any] = BODY) -> list[StreamPiece]:
    async with client.reply(body) as pieces:
        return [piece async for piece in pieces]


async def replied(client: Client, body: dict[str, Any] = BODY) -> Replied:
    *_, last = await pieces_of(client, body)
    assert isinstance(last, Replied)
    return last


def told(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, "sequence_number": 0, **fields}, event=kind)


def final(*items: dict[str, Any], kind: str = "completed", **fields: Any) -> bytes:
    response = {"id": "r", "object": "response", "model": "m", "output": list(items), "status": kind, **fields}
    return told(f"response.{kind}", response=response)


def message(text: str, **fields: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": content, **fields}


def streams(server: ResponsesServer, *events: bytes) -> None:
    server.faults.append(Fault(answer=Answer(body=list(events))))


# -- items to events ---------------------------------------------------------------------------------------


async def test_reasoning_stays_before_what_it_led_to(server: ResponsesServer, client: Client) -> None:
    """Each call has its own thought right before it, kept exactly as the server gave it out."""
    server.script.add([Thought("First."), Called("f"), Thought("Then."), Called("g"), "Wait."])
    reply = await replied(client, {**BODY, "include": ["reasoning.encrypted_content"]})
    kinds = [event.name if isinstance(event, ToolCall) else event.parts[0] for event in reply.events]
    assert [kind if isinstance(kind, str) else getattr(kind, "text", "") for kind in kinds] == [
        *("First.", "f", "Then.", "g", "Wait.")
    ]
    thought = kinds[0]
    assert isinstance(thought, Reasoning)
    kept = json.loads(thought.meta["openai-responses"])
    assert kept.keys() == {"type", "id", "summary", "encrypted_content"}
    assert kept["summary"] == [{"type": "summary_text", "text": "First."}]
    assert {event.model for event in reply.events if isinstance(event, Assistant)} == {NAME}


async def test_pieces_come_as_they_are_streamed(server: ResponsesServer, client: Client) -> None:
    server.script.add([Thought("Hm, well."), "Yes, indeed."])
    pieces = await pieces_of(client)
    assert "".join(piece.text for piece in pieces if isinstance(piece, ReasoningDelta)) == "Hm, well."
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == "Yes, indeed."
    assert len(pieces) > 4


async def test_two_messages_and_two_summaries_do_not_run_together(server: ResponsesServer, client: Client) -> None:
    part = {"type": "summary_text", "text": ""}
    streams(
        server,
        told("response.reasoning_summary_part.added", summary_index=0, item_id="r", output_index=0, part=part),
        told("response.reasoning_summary_text.delta", summary_index=0, delta="One."),
        told("response.reasoning_summary_part.added", summary_index=1, item_id="r", output_index=0, part=part),
        told("response.reasoning_summary_text.delta", summary_index=1, delta="Two."),
        told("response.output_item.added", output_index=1, item=message("")),
        told("response.output_text.delta", delta="A."),
        told("response.output_item.added", output_index=2, item=message("")),
        told("response.output_text.delta", delta="B."),
        final(message("A."), message("B.")),
    )
    *pieces, reply = await pieces_of(client)
    assert "".join(piece.text for piece in pieces if isinstance(piece, ReasoningDelta)) == "One.\n\nTwo."
    assert "".join(map(str, pieces)) == "A.\n\nB."
    assert isinstance(reply, Replied)
    assert reply.events == (Assistant(parts=(Text(text="A."), Text(text="B.")), model=NAME),)


async def test_a_final_response_without_items_has_those_that_were_streamed(
    server: ResponsesServer, client: Client
) -> None:
    """In the order of their index, not of their arrival."""
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"x": 1}'}
    streams(
        server,
        told("response.output_item.done", output_index=1, item=call),
        told("response.output_item.done", output_index=0, item=message("Yes.")),
        final(),
    )
    reply = await replied(client)
    assert reply.events == (
        Assistant(parts=(Text(text="Yes."),), model=NAME),
        ToolCall(id="c", name="f", arguments='{"x": 1}'),
    )
    assert reply.finish == "tools"
    assert reply.usage == Usage()


async def test_a_messages_phase_is_kept(server: ResponsesServer, client: Client) -> None:
    streams(server, final(message("Let me see.", phase="commentary")))
    (said,) = (await replied(client)).events
    assert isinstance(said, Assistant)
    assert said.parts == (Text(text="Let me see.", meta={"openai-responses": '{"phase": "commentary"}'}),)


async def test_reasoning_that_is_shown_as_content_is_read_there(server: ResponsesServer, client: Client) -> None:
    """Open models show all of it, and give nothing that could be echoed; what is null is not kept."""
    content = [{"type": "reasoning_text", "text": "Hm."}]
    item = {"type": "reasoning", "id": "rs", "summary": [], "content": content, "encrypted_content": None}
    streams(server, told("response.reasoning_text.delta", delta="Hm."), final(item, message("Yes.")))
    (said,) = (await replied(client)).events
    assert isinstance(said, Assistant)
    thought = said.parts[0]
    assert isinstance(thought, Reasoning)
    assert thought.text == "Hm."
    assert "encrypted_content" not in json.loads(thought.meta["openai-responses"])


async def test_usage_has_what_was_read_from_and_written_to_the_cache(server: ResponsesServer, client: Client) -> None:
    before, after = {"cached_tokens": 5, "cache_write_tokens": 3}, {"reasoning_tokens": 2}
    usage = {"input_tokens": 9, "output_tokens": 4, "input_tokens_details": before, "output_tokens_details": after}
    streams(server, final(message("A"), usage=usage))
    assert (await replied(client)).usage == Usage(input=9, output=4, cache_read=5, cache_write=3, reasoning=2)


# -- how it ends -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("max_output_tokens", "length"), ("content_filter", "refused"), ("steered", "other")],
)
async def test_an_incomplete_response_says_why(
    server: ResponsesServer, client: Client, reason: str, finish: str
) -> None:
    streams(server, final(message("A"), kind="incomplete", incomplete_details={"reason": reason}))
    reply = await replied(client)
    assert reply.finish == finish
    assert reply.events == (Assistant(parts=(Text(text="A"),), model=NAME),)


async def test_a_reply_that_reaches_its_limit_is_cut_there(server: ResponsesServer, client: Client) -> None:
    server.script.add(["word " * 100])
    reply = await replied(client, {**BODY, "max_output_tokens": 20})
    assert reply.finish == "length"
    assert 0 < reply.usage.output <= 20


async def test_a_refusal_is_the_text_of_the_reply(server: ResponsesServer, client: Client) -> None:
    refusal = {**message(""), "content": [{"type": "refusal", "refusal": "I cannot help."}]}
    streams(server, told("response.refusal.delta", delta="I cannot help."), final(refusal))
    delta, reply = await pieces_of(client)
    assert delta == TextDelta(text="I cannot help.")
    assert isinstance(reply, Replied)
    assert reply.finish == "refused"
    assert reply.events == (Assistant(parts=(Text(text="I cannot help."),), model=NAME),)


async def test_a_reply_without_anything_is_an_empty_message(server: ResponsesServer, client: Client) -> None:
    streams(server, final())
    assert (await replied(client)).events == (Assistant(model=NAME),)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (final(kind="failed", error={"code": "server_error", "message": "Oh."}), Overloaded),
        (final(kind="failed", error={"code": "rate_limit_exceeded", "message": "Slow."}), Overloaded),
        (final(kind="failed", error={"code": "invalid_prompt", "message": "No."}), RequestRefused),
        (final(kind="failed", error={"code": "context_length_exceeded", "message": "Much."}), TooLong),
        (final(kind="failed", error=None), BrokenOff),
        (told("error", code="server_error", message="Oh.", param=None), Overloaded),
        (told("error", code=None, message="Something odd.", param=None), BrokenOff),
        (told("error", error={"code": "server_error", "message": "Oh."}), Overloaded),
        (told("response.cancelled"), BrokenOff),
        (b"data: {wrong\n\n", BrokenOff),
        (b"data: 5\n\n", BrokenOff),
    ],
)
async def test_what_goes_wrong_inside_a_stream_is_told_by_its_name(
    server: ResponsesServer, client: Client, event: bytes, expected: type[ModelError]
) -> None:
    streams(server, told("response.output_text.delta", delta="Yes"), event)
    with pytest.raises(expected):
        await pieces_of(client)


async def test_model_calls_share_a_connection(server: ResponsesServer, client: Client) -> None:
    for _ in range(3):
        await replied(client)
    assert server.connections == 1


async def test_without_a_key_and_an_address_there_is_no_client() -> None:
    """The key is the same for both of OpenAI's APIs."""
    with pytest.raises(NoKey, match="no key for openai: set OPENAI_API_KEY"):
        connect(Access(provider="openai-responses"))


# -- counting ----------------------------------------------------------------------------------------------


async def test_the_count_is_what_the_model_call_reports(server: ResponsesServer, client: Client) -> None:
    """Of a whole body, although the endpoint takes less than all of its fields."""
    body = {**BODY, "max_output_tokens": 100, "include": ["reasoning.encrypted_content"], "instructions": "Be brief."}
    assert await client.count(body) == (await replied(client, body)).usage.input


@pytest.mark.parametrize(
    "answer", [Answer(404, b'{"detail": "Not Found"}'), Answer(405, b'{"detail": "Method Not Allowed"}'), Answer(404)]
)
async def test_a_server_that_does_not_count_gives_no_count(
    server: ResponsesServer, client: Client, answer: Answer
) -> None:
    server.faults.append(Fault(answer=answer))
    assert await client.count(BODY) is None


async def test_a_request_that_is_refused_is_not_taken_for_a_missing_count(client: Client) -> None:
    with pytest.raises(RequestRefused):
        await client.count({**BODY, "input": []})


async def test_counting_for_an_unknown_model_says_so(client: Client) -> None:
    with pytest.raises(UnknownModel):
        await client.count({**BODY, "model": "unknown-1"})


# -- the whole way -----------------------------------------------------------------------------------------


async def test_reasoning_goes_back_verbatim(server: ResponsesServer, client: Client, tmp_path: Path) -> None:
    """Reply, tool results, next request: what the server encrypted comes back to it unchanged, and it accepts it."""
    script: list[Sequence[Any]] = [
        [
            Thought("It may be a box."),
            Called("look", '{"at": "it"}'),
            Thought("Or not."),
            "One moment.",
            Called("look"),
        ],
        [Thought("A box."), "It is a box."],
        ["A red one."],
    ]
    server.script = Script(script)
    async with Everthread.open(f"sqlite:///{tmp_path}/talk.db") as et:
        talk = await et.begin(user="ana")
        for said in ("What is it?", "Which?"):
            await talk.append(user(said))
            while (reply := await replied(client, (await talk.context(model=NAME)).request)).finish == "tools":
                results = [tool_result("a box", id=event.id) for event in reply.events if isinstance(event, ToolCall)]
                await talk.append(*reply.events, *results)
            await talk.append(*reply.events)
    assert server.books.refused == []
    _, second, third = [asked.json()["input"] for asked in server.asked]
    kinds = [item.get("type", item.get("role")) for item in second]
    assert kinds == [
        *("user", "reasoning", "function_call", "reasoning", "assistant", "function_call"),
        *("function_call_output", "function_call_output"),
    ]
    assert [item["summary"][0]["text"] for item in second if item.get("type") == "reasoning"] == [
        *("It may be a box.", "Or not.")
    ]
    assert sum(item.get("type") == "reasoning" for item in third) == 3


@pytest.mark.parametrize("change", ["altered", "alone", "another model's"])
async def test_the_server_refuses_reasoning_that_is_not_as_it_was_given(
    server: ResponsesServer, client: Client, change: str
) -> None:
    """Changed, without the item that it led to, or sealed by nobody."""
    server.script.add([Thought("Hm."), "Yes."])
    reply = await replied(client, {**BODY, "include": ["reasoning.encrypted_content"]})
    said = reply.events[0]
    assert isinstance(said, Assistant)
    item = json.loads(said.parts[0].meta["openai-responses"])
    if change == "altered":
        item["summary"][0]["text"] = "Aha."
    if change == "another model's":
        item["encrypted_content"] = "c29tZWJvZHkgZWxzZQ=="
    answer = [] if change == "alone" else [{"role": "assistant", "content": "Yes."}]
    with pytest.raises(RequestRefused, match="reasoning"):
        await pieces_of(client, {**BODY, "input": [*BODY["input"], item, *answer, {"role": "user", "content": "So?"}]})


async def test_the_server_also_replies_whole(server: ResponsesServer) -> None:
    """What its own SDK makes of it, without streaming."""
    server.script.add(["Yes.", Called("f", "{}")])
    async with openai.AsyncOpenAI(api_key="test-key", base_url=server.address, max_retries=0) as sdk:
        response = await sdk.responses.create(**BODY)
    assert response.output_text == "Yes."
    assert [item.type for item in response.output] == ["message", "function_call"]
