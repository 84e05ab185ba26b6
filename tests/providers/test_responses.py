"""OpenAI Responses: reasoning stays with what it led to, nothing refers to the provider's store, and the check."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.seals import reasoning_item
from everthread import assistant, system, tool_call, tool_result, user
from everthread.core.events import Assistant, Event
from everthread.core.parts import Reasoning
from everthread.providers.openai.responses import request as openai_responses
from tests.providers.conftest import Ask
from tests.transcripts import RESPONSES, transcript

Json = dict[str, Any]


def reasoned(said: str, id: str = "", model: str = RESPONSES) -> Reasoning:
    return Reasoning(text=said, meta={"openai-responses": reasoning_item(model, said, id or f"rs_{said}")})


def used(*parts: Reasoning | str, id: str = "a") -> list[Event]:
    """A step that called a tool."""
    return [assistant(*parts, model=RESPONSES), tool_call("find", id=id), tool_result("found", id=id)]


async def test_the_form_of_a_tool_loop(ask: Ask) -> None:
    events = [user("Go."), *used(reasoned("hm"), "A moment."), assistant("Done.", model=RESPONSES)]
    request = (await ask(RESPONSES, *events, instructions="You sell tickets.")).request
    assert request["instructions"] == "You sell tickets."
    assert request["input"] == [
        {"role": "user", "content": "Go."},
        json.loads(reasoning_item(RESPONSES, "hm", "rs_hm")),
        {"role": "assistant", "content": "A moment."},
        {"type": "function_call", "call_id": "a", "name": "find", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "found"},
        {"role": "assistant", "content": "Done."},
    ]


async def test_instructions_in_the_middle_are_the_developers(ask: Ask) -> None:
    context = await ask(RESPONSES, user("Hello."), system("Be brief."), user("Well?"))
    assert transcript(context) == ["user: Hello.", "developer: Be brief.", "user: Well?"]


# -- reasoning ---------------------------------------------------------------------------------------------

TOGETHER: dict[str, tuple[list[Event], list[str]]] = {
    "before a call": (used(reasoned("hm")), ["thinking: hm", "call find {}", "result find: found"]),
    "before a text": ([assistant(reasoned("hm"), "So.", model=RESPONSES)], ["thinking: hm", "assistant: So."]),
    "each before its own": (
        [*used(reasoned("one")), assistant(reasoned("two"), "So.", model=RESPONSES)],
        ["thinking: one", "call find {}", "result find: found", "thinking: two", "assistant: So."],
    ),
    "two before one call": (
        used(reasoned("one"), reasoned("two")),
        ["thinking: one", "thinking: two", "call find {}", "result find: found"],
    ),
    "with an empty text in between": (used(reasoned("hm"), ""), ["thinking: hm", "call find {}", "result find: found"]),
    "alone: left out": ([Assistant(parts=(reasoned("hm"),), model=RESPONSES)], []),
    "at the end, with nothing after it: left out": (
        [assistant("So.", reasoned("hm"), model=RESPONSES)],
        ["assistant: So."],
    ),
    "an id that is there already: once": (
        [*used(reasoned("hm", "rs_1")), *used(reasoned("hm", "rs_1"), id="b")],
        ["thinking: hm", *["call find {}", "result find: found"] * 2],
    ),
    "kept at the provider's, without its content: left out": (
        used(Reasoning(meta={"openai-responses": '{"type": "reasoning", "id": "rs_1", "summary": []}'})),
        ["call find {}", "result find: found"],
    ),
    "another form of it: left out": (used(Reasoning(text="hm")), ["call find {}", "result find: found"]),
    "another model's: left out": (
        [assistant(reasoned("hm", model="openai-responses:o3"), "So.", model="openai-responses:o3")],
        ["assistant: So."],
    ),
}


@pytest.mark.parametrize("name", TOGETHER)
async def test_reasoning_stays_with_what_it_led_to(ask: Ask, name: str) -> None:
    events, told = TOGETHER[name]
    context = await ask(RESPONSES, user("Go."), *events, user("Well?"))
    assert transcript(context) == ["user: Go.", *told, "user: Well?"]


async def test_a_model_that_does_not_reason_is_asked_for_none(ask: Ask) -> None:
    assert "include" not in (await ask("openai-responses:gpt-4o", user("Go."))).request


# -- the check ---------------------------------------------------------------------------------------------

BROKEN: dict[str, tuple[Callable[[list[Json]], object], str]] = {
    "a call without a result": (lambda entries: entries.pop(), "do not match"),
    "a result without its call": (lambda entries: entries.pop(2), "a result stands before its tool call"),
    "a result before its call": (lambda entries: entries.insert(2, entries.pop()), "stands before its tool call"),
    "a result twice": (lambda entries: entries.append(entries[-1]), "do not match"),
    "an id twice": (lambda entries: entries.extend(copy.deepcopy(entries[2:])), "do not match"),
    "reasoning before the user's words": (
        lambda entries: entries.insert(2, {"role": "user", "content": "x"}),
        "reasoning stands without what it led to",
    ),
    "reasoning at the end": (lambda entries: entries.append(entries.pop(1)), "reasoning stands without"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_the_check_finds_what_would_be_refused(ask: Ask, name: str) -> None:
    break_it, problem = BROKEN[name]
    body = copy.deepcopy((await ask(RESPONSES, user("Go."), *used(reasoned("hm")))).request)
    assert openai_responses.check(body) == []
    break_it(body["input"])
    assert any(problem in found for found in openai_responses.check(body))
