"""Google Gemini: contents that alternate, responses under their calls' names, thought signatures, and the check."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.seals import seal, thought_signature
from everthread import assistant, system, tool_call, tool_result, user
from everthread.core.events import Event, ToolCall
from everthread.core.parts import Reasoning
from everthread.providers.google import request as google
from tests.providers.conftest import Ask
from tests.transcripts import CLAUDE, GEMINI, GEMINI_3, instructions, transcript

Json = dict[str, Any]

UNSIGNED = "skip_thought_signature_validator"
LOOP: list[Event] = [
    *(user("Go."), assistant("A moment."), tool_call("find", {"n": 1}, id="a"), tool_call("seat", id="b")),
    *(tool_result("taken", id="b", error=True), tool_result("found", id="a")),
]


async def test_the_form_of_a_tool_loop(ask: Ask) -> None:
    request = (await ask(GEMINI, *LOOP, user("Quick!"), instructions="You sell tickets.")).request
    assert request["config"]["systemInstruction"] == {"parts": [{"text": "You sell tickets."}]}
    assert request["contents"] == [
        {"role": "user", "parts": [{"text": "Go."}]},
        {
            "role": "model",
            "parts": [
                {"text": "A moment."},
                {"functionCall": {"name": "find", "args": {"n": 1}}},
                {"functionCall": {"name": "seat", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "find", "response": {"output": "found"}}},
                {"functionResponse": {"name": "seat", "response": {"error": "taken"}}},
                {"text": "Quick!"},
            ],
        },
    ]


async def test_sections_are_parts_of_the_instructions(ask: Ask) -> None:
    context = await ask(GEMINI, user("Hello."), instructions={"memory": "Walnuts.", "persona": "Be kind."})
    assert instructions(context.request) == "Be kind.\n\n# MEMORY.md\n\nWalnuts."


async def test_instructions_in_the_middle_stand_in_a_content_of_the_users(ask: Ask) -> None:
    context = await ask(GEMINI, user("Hello."), system("Be brief."), user("Well?"))
    assert transcript(context)[1:4] == ["user: <instructions-N>", "user: Be brief.", "user: </instructions-N>"]


@pytest.mark.parametrize(("name", "sent"), [("1st", "_1st"), ("-x", "_-x"), ("2" * 70, "_" + "2" * 63)])
async def test_a_name_begins_with_a_letter_or_an_underscore(ask: Ask, name: str, sent: str) -> None:
    context = await ask(GEMINI, user("Go."), ToolCall(id="a", name=name), tool_result("done", id="a"))
    assert transcript(context)[1:] == [f"call {sent} {{}}", f"result {sent}: done"]


async def test_reasoning_stays_out(ask: Ask) -> None:
    said = assistant(Reasoning(text="Hm.", meta={"google": "{}"}), "So.", model=GEMINI)
    assert transcript(await ask(GEMINI, user("Go."), said, user("Well?")))[1] == "assistant: So."


# -- thought signatures ------------------------------------------------------------------------------------


def signed(id: str, model: str = GEMINI_3) -> ToolCall:
    return ToolCall(id=id, name=id, meta={"google": thought_signature(model)})


def signatures(request: Json) -> list[str | None]:
    """Of each call in order."""
    parts = [part for content in request["contents"] for part in content["parts"] if "functionCall" in part]
    return [part.get("thoughtSignature") for part in parts]


async def test_a_signature_goes_back_on_the_call_that_it_came_with(ask: Ask) -> None:
    plain: list[Event] = [tool_call("b", id="b"), tool_result("1", id="a"), tool_result("2", id="b")]
    events: list[Event] = [user("Go."), signed("a"), *plain, signed("c"), tool_result("3", id="c")]
    own = seal(GEMINI_3, "")
    for model in (GEMINI_3, GEMINI):
        assert signatures((await ask(model, *events)).request) == [own, None, own]


async def test_the_first_call_of_a_step_that_came_without_is_told_to_be_unsigned(ask: Ask) -> None:
    """As Google documents it for calls that another model made; only Gemini 3 asks for it."""
    events: list[Event] = [user("Go."), assistant("So.", model=CLAUDE), tool_call("a", id="a"), tool_call("b", id="b")]
    events += [tool_result("1", id="a"), tool_result("2", id="b"), tool_call("c", id="c"), tool_result("3", id="c")]
    assert signatures((await ask(GEMINI_3, *events)).request) == [UNSIGNED, None, UNSIGNED]
    assert signatures((await ask(GEMINI, *events)).request) == [None, None, None]


@pytest.mark.parametrize("meta", ["", "no JSON", "[]", "{}", '{"thoughtSignature": 3}', '{"thoughtSignature": null}'])
async def test_a_signature_that_is_none_is_left_out(ask: Ask, meta: str) -> None:
    call = ToolCall(id="a", name="a", meta={"google": meta})
    assert signatures((await ask(GEMINI, user("Go."), call, tool_result("1", id="a"))).request) == [None]
    assert signatures((await ask(GEMINI_3, user("Go."), call, tool_result("1", id="a"))).request) == [UNSIGNED]


@pytest.mark.parametrize("model", ["google:gemini-4-pro", "google:models/gemini-3-pro-preview"])
async def test_whoever_came_after_gemini_3_asks_for_signatures_too(ask: Ask, model: str) -> None:
    request = (await ask(model, user("Go."), tool_call("a", id="a"), tool_result("1", id="a"))).request
    assert signatures(request) == [UNSIGNED]


# -- the check ---------------------------------------------------------------------------------------------

BROKEN: dict[str, tuple[Callable[[list[Json]], object], str]] = {
    "the model first": (lambda contents: contents.pop(0), "the first and the last content must be the user's"),
    "the model last": (lambda contents: contents.pop(), "the first and the last content must be the user's"),
    "two of one role": (lambda contents: contents.insert(0, copy.deepcopy(contents[0])), "two neighbours"),
    "a response too few": (lambda contents: contents[2]["parts"].pop(), "are answered by"),
    "a call too few": (lambda contents: contents[1]["parts"].pop(), "are answered by"),
    "responses in another order": (lambda contents: contents[2]["parts"].reverse(), "are answered by"),
    "another name": (
        lambda contents: contents[2]["parts"][0]["functionResponse"].update(name="x"),
        "are answered by",
    ),
    "no parts": (lambda contents: contents[0]["parts"].clear(), "a content has no parts"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_the_check_finds_what_would_be_refused(ask: Ask, name: str) -> None:
    break_it, problem = BROKEN[name]
    body = copy.deepcopy((await ask(GEMINI, *LOOP)).request)
    assert google.check(body) == []
    break_it(body["contents"])
    assert any(problem in found for found in google.check(body))
