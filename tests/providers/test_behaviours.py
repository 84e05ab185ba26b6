"""One suite for every provider: its SDK, unchanged, against a server as strict as the provider that can misbehave.

The behaviours in words are `BEHAVIOURS` in `tests/providers/behaviours.py`; the sections here follow them.
"""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from benchmarks.loopback.http import Answer, Fault
from benchmarks.loopback.model import Called, Thought
from everthread.core.parts import image
from everthread.errors import (
    Overloaded,
    RequestRefused,
    TooLong,
    UnknownModel,
    WrongKey,
)
from everthread.providers.client import Headers
from tests.core.pictures import png
from tests.providers.behaviours import (
    TOOLS,
    every,
    failing,
    having,
    lacking,
    wired,
    within,
)

LONG = "The quick brown fox jumps over the lazy dog. " * 600  # more than the least that any provider caches
SCHEMA = {
    "type": "object",
    "properties": {"answer_in_words": {"type": "string"}},
    "required": ["answer_in_words"],
    "additionalProperties": False,
}


# -- replies -----------------------------------------------------------------------------------------------


@every
async def test_a_reply_streams_in_pieces_and_the_whole_is_the_pieces_together(name: str) -> None:
    said = "Good morning, Ana! Zażółć gęślą jaźń — 早上好 🙂.\n\nWhat shall we do?"
    async with wired(name, [said]) as wire:
        found = await wire.ask("Good morning.")
    assert len(found.texts) > 3
    assert "".join(found.texts) == found.text == said
    assert found.replied.finish == "stop"
    assert found.calls == []


@every
async def test_a_reply_names_the_model_that_was_asked_for(name: str) -> None:
    async with wired(name, ["Yes."]) as wire:
        found = await wire.ask()
    assert [event.model for event in found.replied.events if hasattr(event, "model")] == [f"{name}:{wire.tried.model}"]
    assert found.replied.model == wire.tried.model


@every
async def test_a_reply_without_a_word_is_a_reply(name: str) -> None:
    async with wired(name, []) as wire:
        found = await wire.ask()
    assert found.texts == []
    assert found.text == ""
    assert len(found.replied.events) == 1


@every
async def test_a_tool_call_comes_whole(name: str) -> None:
    async with wired(name, ["I look.", Called("find", '{"a": 1, "why": "because it is lost"}')]) as wire:
        found = await wire.ask(tools=TOOLS)
    assert found.text == "I look."
    [call] = found.calls
    assert call.name == "find"
    assert call.id
    assert json.loads(call.arguments) == {"a": 1, "why": "because it is lost"}
    assert found.replied.finish == "tools"


@every
async def test_parallel_tool_calls_come_in_the_models_order_and_are_answered_in_the_next_request(name: str) -> None:
    reply = [Called("look", '{"b": "x"}'), Called("find", '{"a": 2}'), Called("find", '{"a": 1}')]
    async with wired(name, reply, ["Found."]) as wire:
        found = await wire.ask("Go.", tools=TOOLS)
        after = await wire.ask("Go.", found.answered("one", "two", "three"), tools=TOOLS)
    assert [call.name for call in found.calls] == ["look", "find", "find"]
    assert [json.loads(call.arguments) for call in found.calls] == [{"b": "x"}, {"a": 2}, {"a": 1}]
    assert len({call.id for call in found.calls}) == 3
    assert after.text == "Found."


@every
async def test_a_tool_call_without_arguments_has_an_empty_object(name: str) -> None:
    async with wired(name, [Called("find", "{}")]) as wire:
        found = await wire.ask(tools=TOOLS)
    assert [call.arguments for call in found.calls] == ["{}"]


@having("text arguments")
async def test_arguments_that_are_no_json_are_kept_as_they_came(name: str) -> None:
    written = '{"a": 1, "b": [2, oops'
    async with wired(name, [Called("find", written)]) as wire:
        found = await wire.ask(tools=TOOLS)
    assert [call.arguments for call in found.calls] == [written]


# -- reasoning and images ----------------------------------------------------------------------------------


@having("reasoning")
async def test_reasoning_is_kept_and_goes_back_and_is_accepted(name: str) -> None:
    async with wired(name, [Thought("Let me see."), Called("find", '{"a": 1}')], ["It is here."]) as wire:
        found = await wire.ask("Where is it?", tools=TOOLS, effort="low")
        metas = [part.meta for part in found.reasoning] + [call.meta for call in found.calls]
        after = await wire.ask("Where is it?", found.answered("in the garden"), tools=TOOLS, effort="low")
    assert "".join(found.thoughts) == "Let me see."
    assert "".join(part.text for part in found.reasoning) == "Let me see."
    assert after.text == "It is here."
    kept = within([json.loads(meta[name]) for meta in metas if name in meta])
    signed = {value for _, value in kept if isinstance(value, str) and len(value) > 20}
    assert signed & {value for _, value in within(wire.wire) if isinstance(value, str)}


@every
async def test_an_image_is_accepted(name: str) -> None:
    picture = png(8, 8)
    async with wired(name, ["A square."]) as wire:
        found = await wire.ask(image(picture))
    assert found.text == "A square."
    assert base64.b64encode(picture).decode() in str(wire.wire)


# -- usage -------------------------------------------------------------------------------------------------


@every
async def test_usage_is_what_the_provider_reports_with_what_its_cache_gave(name: str) -> None:
    async with wired(name, ["One."], ["Two."]) as wire:
        first = await wire.ask("Go.", instructions=(LONG,))
        second = await wire.ask("Go.", instructions=(LONG,))
        spent = wire.server.books.spent
    assert first.replied.usage.input == spent[0].total > 4_096
    assert second.replied.usage.input == spent[1].total
    assert (first.replied.usage.cache_read, second.replied.usage.cache_read) == (0, spent[1].read)
    assert second.replied.usage.cache_read > 4_000
    assert second.replied.usage.output > 0


@having("cache writes")
async def test_what_was_written_to_the_cache_is_told(name: str) -> None:
    async with wired(name) as wire:
        found = await wire.ask("Go.", instructions=(LONG,))
        assert found.replied.usage.cache_write == wire.server.books.spent[0].written > 4_000


@having("reasoning")
async def test_what_reasoning_took_is_told(name: str) -> None:
    async with wired(name, [Thought("Let me see. " * 20), "Yes."]) as wire:
        usage = (await wire.ask(effort="low")).replied.usage
    assert 40 < usage.reasoning < usage.output


@every
async def test_a_reply_that_came_to_its_limit_says_so(name: str) -> None:
    async with wired(name, ["word " * 100]) as wire:
        found = await wire.ask(reply_tokens=20)
    assert found.replied.finish == "length"
    assert 0 < len(found.text) < 200


# -- options and counting ----------------------------------------------------------------------------------


@every
async def test_a_temperature_reaches_the_wire(name: str) -> None:
    async with wired(name) as wire:
        await wire.ask(temperature=0.25, model_name=wire.tried.cool)
        assert 0.25 in [value for field, value in within(wire.wire) if field == "temperature"]


@every
async def test_an_effort_reaches_the_wire(name: str) -> None:
    async with wired(name) as wire:
        asked = []
        for effort in ("", "low", "high"):
            await wire.ask(effort=effort, reply_tokens=60_000)
            asked.append(str([each for each in within(wire.wire) if re.search("effort|thinking|reasoning", each[0])]))
    assert len(set(asked)) == 3


@every
async def test_a_form_for_the_reply_reaches_the_wire(name: str) -> None:
    async with wired(name, ['{"answer_in_words": "yes"}']) as wire:
        found = await wire.ask(output=SCHEMA)
        assert "answer_in_words" in [field for field, _ in within(wire.wire)]
    assert json.loads(found.text) == {"answer_in_words": "yes"}


@every
async def test_what_is_asked_of_the_reply_reaches_the_wire_where_there_is_a_field_for_it(name: str) -> None:
    asked: dict[str, Any] = {"top_p": 0.25, "stop": ("END",), "seed": 7, "tools": TOOLS, "tool_choice": "look"}
    async with wired(name, [Called("look", '{"b": "x"}')]) as wire:
        found = await wire.ask(**asked, model_name=wire.tried.cool)
        told: dict[str, Any] = dict(within(wire.wire))
    assert [call.name for call in found.calls] == ["look"]
    assert told.get("top_p", told.get("topP")) == 0.25
    assert "look" in (told.get("name"), *told.get("allowedFunctionNames", ()))
    assert {"tool_choice", "functionCallingConfig"} & told.keys()
    stops = told.get("stop", told.get("stop_sequences", told.get("stopSequences")))
    assert (stops, told.get("seed")) == {
        "anthropic": (["END"], None),
        "openai": (["END"], 7),
        "openai-responses": (None, None),
        "google": (["END"], 7),
    }[name]


@every
async def test_fields_and_headers_of_ones_own_reach_the_wire(name: str) -> None:
    extra = {"serviceTier": "flex"} if name == "google" else {"service_tier": "auto"}
    async with wired(name) as wire:
        async with wire.client.reply(wire.body("Go.", extra_body=extra), headers=Headers({"X-Team": "blue"})) as pieces:
            assert [piece async for piece in pieces]
        assert extra.items() <= wire.wire.items()
        assert "extra_body" not in wire.wire
        assert wire.server.asked[-1].headers["x-team"] == "blue"
        await wire.ask("Go.")
        assert "x-team" not in wire.server.asked[-1].headers  # for that call alone


@having("counting")
async def test_the_provider_counts_a_request(name: str) -> None:
    async with wired(name) as wire:
        options: dict[str, Any] = {"tools": TOOLS, "instructions": (LONG,), "effort": "low", "output": SCHEMA}
        short = await wire.client.count(wire.body("Go.", **options))
        long = await wire.client.count(wire.body("Go.", LONG, **options))
        assert "x-team" not in wire.server.asked[-1].headers
        assert await wire.client.count(wire.body("Go.", **options), headers=Headers({"X-Team": "blue"})) == short
        assert wire.server.asked[-1].headers["x-team"] == "blue"
        with pytest.raises(UnknownModel):
            await wire.client.count(wire.body(model_name="unknown-1"))
    assert short
    assert long
    assert long - short > 4_000


@lacking("counting")
async def test_where_the_provider_does_not_count_there_is_no_count(name: str) -> None:
    async with wired(name) as wire:
        assert await wire.client.count(wire.body("Go.")) is None


# -- refusals ----------------------------------------------------------------------------------------------


@every
async def test_a_wrong_key_is_told(name: str) -> None:
    async with wired(name, key="another-key") as wire:
        error = await wire.fails()
    assert isinstance(error, WrongKey)
    assert not error.again


@every
async def test_an_unknown_model_is_told_with_its_name(name: str) -> None:
    async with wired(name) as wire:
        error = await wire.fails(model_name="unknown-1")
    assert isinstance(error, UnknownModel)
    assert "unknown-1" in str(error)


@every
async def test_a_request_that_is_too_long_is_told_with_the_providers_figures(name: str) -> None:
    async with wired(name, limit=1_000) as wire:
        error = await wire.fails(LONG)
    assert isinstance(error, TooLong)
    assert error.limit == 1_000
    assert error.needed > 4_000


@every
async def test_a_request_against_the_rules_is_refused_with_the_providers_sentence(name: str) -> None:
    async with wired(name) as wire:
        error = await wire.fails(fault=failing(400, "the third message is odd"))
    assert isinstance(error, RequestRefused)
    assert "the third message is odd" in str(error)
    assert not error.again


@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        ({"retry_after": "7"}, 7, 7),
        ({"retry_after_ms": "1500"}, 1.5, 1.5),
        ({"retry_after": format_datetime(datetime.now(UTC) + timedelta(hours=2), usegmt=True)}, 3_600, 7_200),
        ({}, None, None),
    ],
    ids=["seconds", "milliseconds", "date", "nothing"],
)
@every
async def test_too_many_requests_tell_how_long_to_wait(
    name: str, headers: dict[str, str], least: float | None, most: float | None
) -> None:
    async with wired(name) as wire:
        error = await wire.fails(fault=failing(429, "slow down", **headers))
        assert len(wire.server.asked) == 1  # the SDK does not try again by itself
    assert isinstance(error, Overloaded)
    assert error.again
    if least is None or most is None:
        assert error.after is None
    else:
        assert error.after is not None
        assert least <= error.after <= most


@pytest.mark.parametrize("status", [500, 502, 503, 529])
@every
async def test_a_fault_of_the_provider_may_be_tried_again(name: str, status: int) -> None:
    async with wired(name) as wire:
        error = await wire.fails(fault=failing(status))
        assert len(wire.server.asked) == 1
        assert (await wire.ask()).text == "Well, yes."
    assert isinstance(error, Overloaded)
    assert "not now" in str(error)


@every
async def test_an_error_that_is_no_json_is_told_by_its_status(name: str) -> None:
    page = Answer(502, b"<html>bad gateway</html>", {"content-type": "text/html"})
    async with wired(name) as wire:
        assert isinstance(await wire.fails(fault=Fault(answer=page)), Overloaded)
