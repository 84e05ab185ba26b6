"""Gemini through Google's own SDK: what is so of this provider alone. What is so of all is in `behaviours`."""

from __future__ import annotations

import base64
import importlib
import json
import logging
import sys
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.loopback.google import GoogleServer
from benchmarks.loopback.http import Answer, Fault, sse
from benchmarks.loopback.model import Called, Replies, Thought
from everthread import Everthread, tool_result, user
from everthread.core.deltas import ReasoningDelta, TextDelta, Usage
from everthread.core.events import Assistant, ToolCall
from everthread.core.parts import Image, Reasoning, Text
from everthread.errors import (
    BrokenOff,
    MissingExtra,
    ModelError,
    NoKey,
    Overloaded,
    RequestRefused,
    TooLong,
    UnknownModel,
    Unreachable,
    WrongKey,
)
from everthread.providers.client import Access, Client, Replied, StreamPiece
from everthread.providers.google.client import connect
from tests.core.pictures import png
from tests.transcripts import GEMINI, GEMINI_3

Json = dict[str, Any]

KEY = "a-secret-key"
BODY: Json = {
    "model": "gemini-2.5-pro",
    "contents": [{"role": "user", "parts": [{"text": "What may I put into the cake?"}]}],
    "config": {"maxOutputTokens": 1_000},
}
NEWER = {**BODY, "model": "gemini-3-pro-preview"}


@asynccontextmanager
async def reached(server: GoogleServer, **access: Any) -> AsyncIterator[Client]:
    client = connect(Access(provider="google", **{"key": KEY, "address": server.address, **access}))
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture
async def server() -> AsyncIterator[GoogleServer]:
    async with GoogleServer(key=KEY) as server:
        yield server


@pytest.fixture
async def client(server: GoogleServer) -> AsyncIterator[Client]:
    async with reached(server) as client:
        yield client


async def pieces_of(client: Client, body: Json = BODY) -> list[StreamPiece]:
    async with client.reply(body) as pieces:
        return [piece async for piece in pieces]


async def replied(client: Client, body: Json = BODY) -> Replied:
    *_, last = await pieces_of(client, body)
    assert isinstance(last, Replied)
    return last


def chunk(*parts: Json, finish: str = "", **more: Any) -> bytes:
    finished = {"finishReason": finish} if finish else {}
    return sse({"candidates": [{"content": {"role": "model", "parts": list(parts)}, **finished}], **more})


def streams(*chunks: bytes) -> Fault:
    return Fault(answer=Answer(body=chunks))


def refuses(status: int, said: str = "No.", *details: Json, **headers: str) -> Fault:
    error = {"error": {"code": status, "message": said, "status": "X", "details": list(details)}}
    return Fault(answer=Answer(status, json.dumps(error).encode(), headers))


# -- what a reply becomes ------------------------------------------------------------------------------------


async def test_a_text_comes_in_pieces_and_then_as_a_whole(server: GoogleServer, client: Client) -> None:
    server.script.add(["Almonds, naïvely\u2028or ☕."])
    *deltas, whole = await pieces_of(client)
    assert len(deltas) > 1
    assert all(isinstance(delta, TextDelta) for delta in deltas)
    assert "".join(map(str, deltas)) == "Almonds, naïvely\u2028or ☕."
    assert isinstance(whole, Replied)
    assert whole.events == (Assistant(parts=(Text(text="Almonds, naïvely\u2028or ☕."),), model=GEMINI),)
    assert (whole.finish, whole.model) == ("stop", "gemini-2.5-pro")


async def test_thoughts_and_tool_calls_keep_their_order(server: GoogleServer, client: Client) -> None:
    reply: Replies = [
        *(Thought("Which nuts? None."), "I look."),
        *(Called("find", '{"b": 1, "a": {"z": "é", "c": [1.5, null]}}'), Called("find", "{}"), "That is all."),
    ]
    server.script.add(reply)
    *deltas, whole = await pieces_of(client)
    thought = [delta.text for delta in deltas if isinstance(delta, ReasoningDelta)]
    assert "".join(thought) == "Which nuts? None."
    assert isinstance(whole, Replied)
    assert whole.finish == "tools"
    assert whole.events == (
        Assistant(parts=(Reasoning(text="Which nuts? None."), Text(text="I look.")), model=GEMINI),
        ToolCall(
            id="call_loopback-00000001_1", name="find", arguments='{"b": 1, "a": {"z": "é", "c": [1.5, null]}}', meta={}
        ),
        ToolCall(id="call_loopback-00000001_2", name="find", arguments="{}"),
        Assistant(parts=(Text(text="That is all."),), model=GEMINI),
    )


async def test_tool_calls_without_an_id_get_one_that_no_other_reply_has(server: GoogleServer, client: Client) -> None:
    server.script.add([Called("find"), Called("find")], [Called("find"), Called("find")])
    calls = [event for _ in range(2) for event in (await replied(client)).events]
    assert len({call.id for call in calls if isinstance(call, ToolCall)}) == 4


async def test_an_id_that_the_model_gave_is_kept(server: GoogleServer, client: Client) -> None:
    server.faults.append(streams(chunk({"functionCall": {"id": "x7", "name": "find"}}, finish="STOP")))
    assert (await replied(client)).events == (ToolCall(id="x7", name="find", arguments="{}"),)


async def test_without_any_id_calls_are_numbered(server: GoogleServer, client: Client) -> None:
    server.faults.append(streams(chunk(*[{"functionCall": {"name": "find", "args": {}}}] * 2, finish="STOP")))
    ids = [event.id for event in (await replied(client)).events if isinstance(event, ToolCall)]
    assert ids == ["call_1", "call_2"]


async def test_a_signature_is_kept_as_it_came(server: GoogleServer, client: Client) -> None:
    """Bytes that base64 spells with + and /, which the SDK decodes on the way in."""
    signature = base64.b64encode(b"\xfb\xff\xfe>").decode()
    call = {"functionCall": {"name": "find", "args": {}}, "thoughtSignature": signature}
    server.faults.append(streams(chunk(call, finish="STOP")))
    (made,) = (await replied(client, NEWER)).events
    assert json.loads(made.meta["google"]) == {"thoughtSignature": signature}


async def test_a_picture_is_part_of_the_reply(server: GoogleServer, client: Client) -> None:
    data = png(3, 4)
    shown = {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(data).decode()}}
    server.faults.append(streams(chunk({"text": "Look:"}, shown, finish="STOP")))
    (said,) = (await replied(client)).events
    assert isinstance(said, Assistant)
    assert [type(part) for part in said.parts] == [Text, Image]
    assert isinstance(said.parts[1], Image)
    assert (said.parts[1].data, said.parts[1].width) == (data, 3)


async def test_usage_counts_thoughts_as_output_and_the_cache_as_input(server: GoogleServer, client: Client) -> None:
    counted = {"promptTokenCount": 90, "cachedContentTokenCount": 60, "toolUsePromptTokenCount": 5}
    more = {"candidatesTokenCount": 7, "thoughtsTokenCount": 20}
    first = chunk({"text": "So"}, usageMetadata=counted)
    server.faults.append(streams(first, chunk({"text": "."}, finish="STOP", usageMetadata={**counted, **more})))
    assert (await replied(client)).usage == Usage(input=95, output=27, cache_read=60, reasoning=20)


async def test_what_was_sent_before_is_read_from_the_cache(server: GoogleServer, client: Client) -> None:
    long: Json = {**BODY, "contents": [{"role": "user", "parts": [{"text": "Walnuts and almonds. " * 2_000}]}]}
    first, second = [(await replied(client, long)).usage for _ in range(2)]
    assert first.cache_read == 0
    assert 4_096 < second.cache_read <= second.input == first.input


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        *[("STOP", "stop"), ("MAX_TOKENS", "length"), ("CONTINUATION", "length")],
        *[("SAFETY", "refused"), ("PROHIBITED_CONTENT", "refused"), ("BLOCKLIST", "refused")],
        *[("RECITATION", "refused"), ("SPII", "refused"), ("IMAGE_SAFETY", "refused")],
        *[("MALFORMED_FUNCTION_CALL", "other"), ("OTHER", "other"), ("NEWER_THAN_THE_SDK", "other")],
    ],
)
async def test_why_it_ended(server: GoogleServer, client: Client, reason: str, finish: str) -> None:
    server.faults.append(streams(chunk({"text": "So"}), chunk(finish=reason)))
    whole = await replied(client)
    assert whole.finish == finish
    assert whole.events == (Assistant(parts=(Text(text="So"),), model=GEMINI),)
    assert len(server.asked) == 1  # not even CONTINUATION makes the SDK go on by itself


async def test_a_tool_call_that_reached_the_limit_ended_for_length(server: GoogleServer, client: Client) -> None:
    server.faults.append(streams(chunk({"functionCall": {"name": "find", "args": {}}}, finish="MAX_TOKENS")))
    assert (await replied(client)).finish == "length"


async def test_a_prompt_that_is_blocked_is_refused(server: GoogleServer, client: Client) -> None:
    server.faults.append(streams(sse({"promptFeedback": {"blockReason": "SAFETY"}})))
    whole = await replied(client)
    assert (whole.finish, whole.events) == ("refused", (Assistant(model=GEMINI),))


async def test_a_reply_without_content_is_an_empty_message(server: GoogleServer, client: Client) -> None:
    server.faults.append(streams(sse({"candidates": [{"finishReason": "STOP"}]})))
    assert (await replied(client)).events == (Assistant(model=GEMINI),)


# -- what the model is told of its own reply -----------------------------------------------------------------


@pytest.mark.parametrize("model", [GEMINI, GEMINI_3])
async def test_what_was_replied_is_accepted_when_it_goes_back(
    server: GoogleServer, client: Client, tmp_path: Path, model: str
) -> None:
    """Through a real store: two steps of parallel calls, and then words. The server knows its signatures again."""
    calls = Called("find", '{"n": 1.0, "a": "é"}'), Called("seat", '{"z": [], "b": {"snake_case": "-_"}}')
    server.script.add([Thought("Hm."), "I look.", *calls], [calls[1], calls[0]], ["There."], ["Yes."])
    async with Everthread.open(f"sqlite:///{tmp_path}/talk.db", settings={"clock": "off"}) as et:
        talk = await et.begin(user="ana")
        tools = [{"name": name, "schema": {"type": "object"}} for name in ("find", "seat")]
        for asked in ("Go.", "Sure?"):
            await talk.append(user(asked))
            finish = "tools"
            while finish == "tools":
                context = await talk.context(model=model, tools=tools, instructions="Be kind.")
                whole = await replied(client, context.request)
                results = [tool_result("ok", id=each.id) for each in whole.events if isinstance(each, ToolCall)]
                await talk.append(*whole.events, *results)
                finish = whole.finish
        back = (await talk.context(model=model, tools=tools, instructions="Be kind.")).request["contents"]
    assert server.books.refused == []
    signed = [[("thoughtSignature" in part) for part in content["parts"] if "functionCall" in part] for content in back]
    assert [each for each in signed if each] == [[model == GEMINI_3, False]] * 2
    assert len(server.asked) == 4


# -- what goes wrong -----------------------------------------------------------------------------------------

RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
AT_ONCE = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0s"}
QUOTA = "You exceeded your current quota, please check your plan and billing details."


@pytest.mark.parametrize(
    ("fault", "error", "after"),
    [
        (refuses(400, "API key not valid. Please pass a valid API key."), WrongKey, None),
        (refuses(403), WrongKey, None),
        (refuses(404), UnknownModel, None),
        (refuses(400), RequestRefused, None),
        (refuses(429, QUOTA, RETRY), Overloaded, 34.5),
        (refuses(429, f"{QUOTA} Please retry in 418.9ms.", AT_ONCE), Overloaded, 0.4189),
        (refuses(503, "The model is overloaded.", **{"retry-after": "7"}), Overloaded, 7.0),
        (refuses(500), Overloaded, None),
        (Fault(answer=Answer(502, b"<html>\xff Bad gateway")), Overloaded, None),
        (Fault(answer=Answer(500, b"..."), cut=1), Overloaded, None),
        (Fault(answer=Answer(302, b"", {"location": "http://127.0.0.1:9/"})), RequestRefused, None),
        (streams(chunk({"text": "So"}), sse({"error": {"code": 503, "message": "Overloaded."}})), Overloaded, None),
        (streams(chunk({"text": "So"}), sse({"error": {"message": "No code."}})), BrokenOff, None),
        (streams(chunk({"text": "So"})), BrokenOff, None),
        (streams(), BrokenOff, None),
        (streams(chunk({"text": "So"}), b"data: {\n\n"), BrokenOff, None),
        (streams(chunk({"text": "So"}), sse({"candidates": 3})), BrokenOff, None),
        (streams(chunk({"text": "So"}), sse([1, 2]), chunk(finish="STOP")), BrokenOff, None),
        (Fault(answer=Answer(body=b"<html>Log in first</html>")), BrokenOff, None),
    ],
)
async def test_each_failure_is_an_error_of_ours_and_nothing_is_tried_twice(
    server: GoogleServer, client: Client, fault: Fault, error: type[ModelError], after: float | None
) -> None:
    server.faults.append(fault)
    with pytest.raises(ModelError) as raised:
        await pieces_of(client)
    assert (type(raised.value), raised.value.after) == (error, after)
    assert len(server.asked) == 1
    assert (await replied(client)).finish == "stop"  # the client can be used again


async def test_a_request_that_is_too_long_tells_by_how_much(client: Client, server: GoogleServer) -> None:
    server.books.limit = 5
    with pytest.raises(TooLong) as raised:
        await pieces_of(client)
    assert (raised.value.needed, raised.value.limit) == (await client.count(BODY), 5)


async def test_a_body_that_the_sdk_does_not_take_is_refused_before_it_is_sent(
    client: Client, server: GoogleServer
) -> None:
    with pytest.raises(RequestRefused, match="snapshot"):
        await pieces_of(client, {**BODY, "config": {"snapshot": 1}})
    assert server.asked == []


async def test_where_nobody_answers_it_cannot_be_reached(server: GoogleServer) -> None:
    for address in ("http://127.0.0.1:1", "nowhere", "http://"):
        async with reached(server, address=address) as client:
            with pytest.raises(Unreachable):
                await pieces_of(client)
            with pytest.raises(Unreachable):
                await client.count(BODY)


async def test_silence_is_an_error_before_the_reply_and_in_it(server: GoogleServer) -> None:
    server.faults += [Fault(wait=60), Fault(change=lambda answer: answer._replace(pace=60))]
    async with reached(server, seconds=0.2) as client:
        with pytest.raises(Unreachable, match=r"no sign of life for 0\.2 seconds"):
            await pieces_of(client)
    async with reached(server, seconds=5) as client:  # in which the reply surely begins
        with pytest.raises(BrokenOff, match=r"no sign of life for 5 seconds"):
            await pieces_of(client)
    assert all("x-server-timeout" not in asked.headers for asked in server.asked)


async def test_replies_at_the_same_time_are_apart(server: GoogleServer, client: Client) -> None:
    server.script.add(["One one one."], ["Two two two."])
    async with client.reply(BODY) as second:
        async with client.reply(BODY) as first:
            told = [str(await anext(pieces)) for pieces in (first, second, first, second)]
        told += [str(piece) async for piece in second if isinstance(piece, TextDelta)]
    assert told == ["One ", "Two ", "one ", "two ", "two."]


# -- keys and surroundings -----------------------------------------------------------------------------------


async def test_the_environment_changes_nothing(
    server: GoogleServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "somebody-elses-key")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", "v1")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:1")
    tools = [{"functionDeclarations": [{"name": "find", "parametersJsonSchema": {"type": "object"}}]}]
    async with reached(server) as client:
        await pieces_of(client, {**BODY, "config": {"tools": tools}})
    async with reached(server, key="") as client:
        with pytest.raises(WrongKey):
            await pieces_of(client)
    assert [asked.headers["x-goog-api-key"] for asked in server.asked] == [KEY, "none"]
    assert [record for record in caplog.records if record.levelno > logging.INFO or "AFC" in record.message] == []


@pytest.mark.parametrize("said", [f"API key not valid: {KEY}", f"Nobody knows {KEY}."])
async def test_the_key_is_in_no_error_and_in_no_log(
    server: GoogleServer, client: Client, caplog: pytest.LogCaptureFixture, said: str
) -> None:
    caplog.set_level(logging.DEBUG)
    server.faults += [refuses(400, said), streams(f"data: {KEY}\n\n".encode())]
    for _ in range(2):
        with pytest.raises(ModelError) as raised:
            await pieces_of(client)
        assert KEY not in "".join(traceback.format_exception(raised.value)) + repr(raised.value)
    assert KEY not in repr(client) + caplog.text


def test_without_key_and_address_there_is_no_client() -> None:
    with pytest.raises(NoKey, match="GEMINI_API_KEY"):
        connect(Access(provider="google", key=" "))


@pytest.mark.parametrize("key", ["nai\u0308ve", "two\nlines", "\x00"])
def test_a_key_that_no_request_can_carry_is_wrong(key: str) -> None:
    with pytest.raises(WrongKey) as raised:
        connect(Access(provider="google", key=key))
    assert key not in str(raised.value)


def test_without_the_sdk_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "everthread.providers.google.client")
    monkeypatch.setitem(sys.modules, "google.genai", None)
    with pytest.raises(MissingExtra, match=r"everthread\[google\]"):
        importlib.import_module("everthread.providers.google.client")


async def test_the_contents_are_counted_and_nothing_else(client: Client, server: GoogleServer) -> None:
    counted = await client.count(BODY)
    assert counted
    instructed: Json = {**BODY, "config": {"systemInstruction": {"parts": [{"text": "Be kind."}]}}}
    assert await client.count(instructed) == counted
    with pytest.raises(UnknownModel):
        await client.count({**BODY, "model": "unknown-model"})
