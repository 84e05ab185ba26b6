"""The loopback server that speaks for Google: what it makes of the wire, and what it refuses."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from google import genai
from google.genai import errors, types

from benchmarks.loopback.google import GoogleServer, Unknown, sdk_form
from benchmarks.loopback.model import Called, Script, Thought
from benchmarks.seals import seal
from tests.core.pictures import png

Json = dict[str, Any]

PICTURE = base64.b64encode(png(3, 4) + b"\xfb\xff\xfe").decode()
_INNER: Json = {"type": "object", "properties": {"max_things": {"type": "integer"}}}
SCHEMA: Json = {"type": "object", "properties": {"snake_case": _INNER}}
UNSIGNED = "skip_thought_signature_validator"


def body(**changes: Any) -> Json:
    """A bit of everything that a request may have, in the form that the SDK takes."""
    signature = seal("google:gemini-3-pro-preview", "")
    call = {"functionCall": {"name": "find", "args": {"snake_case": {"mime_type": 1}}}, "thoughtSignature": signature}
    picture = {"inlineData": {"mimeType": "image/png", "data": PICTURE}}
    answer = {"functionResponse": {"name": "find", "response": {"output": "-_", "other_key": "x"}}}
    spoken: list[Json] = [{"text": "I look."}, call, {**call, "thoughtSignature": UNSIGNED}]
    return {
        "model": "gemini-3-pro-preview",
        "contents": [
            {"role": "user", "parts": [{"text": "Go."}, picture]},
            {"role": "model", "parts": spoken},
            {"role": "user", "parts": [answer, answer]},
        ],
        "config": {
            "systemInstruction": {"parts": [{"text": "Be kind."}]},
            "tools": [
                {"functionDeclarations": [{"name": "find", "description": "Finds.", "parametersJsonSchema": SCHEMA}]}
            ],
            "maxOutputTokens": 1_000,
            "temperature": 0.5,
            "thinkingConfig": {"thinkingLevel": "LOW"},
            "responseMimeType": "application/json",
            "responseJsonSchema": SCHEMA,
        },
        **changes,
    }


async def ask(server: GoogleServer, asked: Json) -> types.GenerateContentResponse:
    """With the SDK alone, and the reply in one piece."""
    options = types.HttpOptions(base_url=server.address, api_version="v1beta")
    client = genai.Client(api_key="test-key", vertexai=False, http_options=options)
    try:
        quiet = {"automaticFunctionCalling": {"disable": True}}
        return await client.aio.models.generate_content(**{**asked, "config": {**asked["config"], **quiet}})
    finally:
        await client.aio.aclose()
        client.close()


async def test_what_the_sdk_sends_is_what_it_was_given() -> None:
    async with GoogleServer() as server:
        await ask(server, body())
        assert server.books.refused == []
        (asked,) = server.asked
    wire = asked.json()
    assert "mime_type" in json.dumps(wire["contents"][0])  # it is not: there is something to bring back
    assert sdk_form("gemini-3-pro-preview", wire) == body()


async def test_a_whole_reply_has_all_parts_in_order() -> None:
    async with GoogleServer(Script([[Thought("Hm."), "So.", Called("find", '{"a": 1}')]])) as server:
        reply = await ask(server, body())
    assert reply.candidates
    assert reply.candidates[0].content
    parts = reply.candidates[0].content.parts or []
    assert [(part.text, part.thought) for part in parts[:2]] == [("Hm.", True), ("So.", None)]
    assert parts[2].function_call
    assert parts[2].function_call.args == {"a": 1}
    assert parts[2].thought_signature
    assert reply.usage_metadata
    assert reply.usage_metadata.prompt_token_count == server.books.spent[0].total
    assert reply.usage_metadata.thoughts_token_count


async def test_arguments_that_are_no_object_are_a_malformed_call() -> None:
    async with GoogleServer(Script([["So.", Called("find", "{oops")]])) as server:
        reply = await ask(server, body())
    assert reply.candidates
    assert reply.candidates[0].finish_reason == types.FinishReason.MALFORMED_FUNCTION_CALL
    assert not reply.function_calls


FORGED: dict[str, str] = {
    "nobody's": base64.b64encode(b"nobody knows").decode(),
    "another provider's": seal("anthropic:claude-sonnet-4-6", ""),
    "another call's": seal("google:gemini-3-pro-preview", json.dumps(["look", {}])),
    "no text": base64.b64encode(b"\xff\xfe\xfd").decode(),
}


@pytest.mark.parametrize("name", FORGED)
async def test_a_signature_that_was_given_to_nobody_is_refused(name: str) -> None:
    asked = body()
    asked["contents"][1]["parts"][1]["thoughtSignature"] = FORGED[name]
    async with GoogleServer() as server:
        with pytest.raises(errors.ClientError, match="Corrupted thought signature"):
            await ask(server, asked)
        assert len(server.books.refused) == 1


async def test_a_missing_signature_is_refused() -> None:
    asked = body()
    del asked["contents"][1]["parts"][1]["thoughtSignature"]
    async with GoogleServer() as server:
        with pytest.raises(errors.ClientError, match="missing a thoughtSignature"):
            await ask(server, asked)


@pytest.mark.parametrize(
    "wire",
    [
        {"contents": [], "temperature": 0.5},
        {"contents": [], "generationConfig": {"systemInstruction": {}}},
        {"contents": [], "generationConfig": {"topP": 1, "top_p": 1}},
        {"contents": [], "config": {}},
        [],
    ],
)
def test_a_field_that_google_does_not_know_is_not_passed_over(wire: Any) -> None:
    with pytest.raises(Unknown):
        sdk_form("gemini-2.5-pro", wire)
