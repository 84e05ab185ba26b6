"""OpenAI Chat Completions: system messages where they stand, arguments as text, and what the check finds."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from everthread import assistant, system, tool_call, tool_result, user
from everthread.core.events import Event
from everthread.core.parts import Reasoning
from everthread.providers.openai import request as openai
from tests.providers.conftest import Ask
from tests.transcripts import CHAT, transcript

Json = dict[str, Any]

LOOP: list[Event] = [
    *(user("Go."), tool_call("find", {"n": 1}, id="a"), tool_call("seat", id="b")),
    *(tool_result("taken", id="b"), tool_result("found", id="a")),
]


async def test_the_form_of_a_tool_loop(ask: Ask) -> None:
    request = (await ask(CHAT, *LOOP, assistant("Done."), instructions="You sell tickets.")).request
    calls = [
        {"id": "a", "type": "function", "function": {"name": "find", "arguments": '{"n": 1}'}},
        {"id": "b", "type": "function", "function": {"name": "seat", "arguments": "{}"}},
    ]
    assert request["messages"] == [
        {"role": "system", "content": "You sell tickets."},
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": "found"},
        {"role": "tool", "tool_call_id": "b", "content": "taken"},
        {"role": "assistant", "content": "Done."},
    ]


async def test_sections_are_one_system_message(ask: Ask) -> None:
    request = (await ask(CHAT, user("Hello."), instructions={"user": "Ana.", "persona": "Be kind."})).request
    assert request["messages"][0] == {"role": "system", "content": "Be kind.\n\n# About the user\n\nAna."}


async def test_instructions_in_the_middle_stay_where_they_are(ask: Ask) -> None:
    context = await ask(CHAT, user("Hello."), system("Be brief."), assistant("Hi."), user("Well?"))
    assert transcript(context) == ["user: Hello.", "system: Be brief.", "assistant: Hi.", "user: Well?"]


async def test_arguments_stay_as_the_model_wrote_them(ask: Ask) -> None:
    """To the letter, for the cache's sake, as long as they spell an object."""
    written = '{ "b": 1,\n "a": [1,2] }'
    request = (await ask(CHAT, user("Go."), tool_call("f", written), tool_result("done", name="f"))).request
    assert request["messages"][1]["tool_calls"][0]["function"]["arguments"] == written


@pytest.mark.parametrize(
    "written",
    ['{"n": ' + "9" * 5_000 + "}", '{"a": ' + "[" * 3_000 + "]" * 3_000 + "}", '{"a": NaN}', '{"a": 1e999}', "\x00"],
    ids=["a number without end", "brackets without end", "not a number", "infinity", "NUL"],
)
async def test_arguments_that_cannot_be_said_again_are_told_as_text(ask: Ask, written: str) -> None:
    request = (await ask(CHAT, user("Go."), tool_call("f", written), tool_result("done", name="f"))).request
    said = request["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(said) == {"INVALID_JSON": written}


async def test_reasoning_stays_out(ask: Ask) -> None:
    said = assistant(Reasoning(text="Hm.", meta={"openai": '{"type": "reasoning"}'}), "So.", model=CHAT)
    assert transcript(await ask(CHAT, user("Go."), said, user("Well?"))) == [
        "user: Go.",
        "assistant: So.",
        "user: Well?",
    ]


async def test_an_empty_result_is_an_empty_text(ask: Ask) -> None:
    request = (await ask(CHAT, user("Go."), tool_call("f"), tool_result(name="f"))).request
    assert request["messages"][-1]["content"] == ""


def _without_result(messages: list[Json]) -> None:
    messages[:] = [message for message in messages if message.get("tool_call_id") != "b"]


BROKEN: dict[str, tuple[Callable[[list[Json]], object], str]] = {
    "a call without a result": (_without_result, "have no result"),
    "no results at the end": (lambda m: (m.pop(), m.pop()), "have no result"),
    "a result without its call": (lambda m: m[1]["tool_calls"].pop(), "a result stands where no tool call waits"),
    "a result that comes late": (
        lambda m: m.append({"role": "tool", "tool_call_id": "a", "content": "x"}),
        "a result stands where no tool call waits",
    ),
    "a message between call and result": (lambda m: m.insert(2, {"role": "user", "content": "x"}), "have no result"),
    "no content": (lambda m: m.append({"role": "assistant", "content": None}), "a message has no content"),
    "an id twice in one message": (
        lambda m: (m[1]["tool_calls"][1].update(id="a"), m[3].update(tool_call_id="a")),
        "twice",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_the_check_finds_what_would_be_refused(ask: Ask, name: str) -> None:
    break_it, problem = BROKEN[name]
    body = copy.deepcopy((await ask(CHAT, *LOOP)).request)
    assert openai.check(body) == []
    break_it(body["messages"])
    assert any(problem in found for found in openai.check(body))
