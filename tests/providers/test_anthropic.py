"""Anthropic: where the breakpoints stand, which thinking goes back, and what the check finds."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from benchmarks.seals import redacted_thinking, thinking
from everthread import assistant, file, image, system, tool_call, tool_result, user
from everthread.context.build import render
from everthread.core.events import Assistant, Event
from everthread.core.parts import Reasoning
from everthread.providers.anthropic import request as anthropic
from tests.contract.windows import plan_of
from tests.core.pictures import png
from tests.providers.conftest import Ask
from tests.transcripts import BOUND, CLAUDE, RESPONSES, transcript

Json = dict[str, Any]

PERSONA = "You sell tickets."
TOOLS = [{"name": "find"}, {"name": "seat"}]


# -- breakpoints -------------------------------------------------------------------------------------------


def marked(request: Json) -> list[str]:
    """What carries a mark, in the order in which the provider reads it."""
    return [_short(block) for block in _all_blocks(request) if "cache_control" in block]


def _all_blocks(request: Json) -> Iterator[Json]:
    yield from request.get("tools", ())
    yield from request.get("system", ())
    for message in request["messages"]:
        yield from message["content"]


def _short(block: Json) -> str:
    return str(block.get("text") or block.get("content") or block.get("name"))


def loop(*names: str) -> list[Event]:
    """One step of a tool loop: parallel calls and their results, `r:` and the name."""
    calls = [tool_call("find", id=name) for name in names]
    return [*calls, *(tool_result(f"r:{name}", id=name) for name in names)]


TWELVE = [f"c{number}" for number in range(12)]
FIRST = [user("Q1"), *loop("a"), assistant("A1")]

# The end of the instructions; the newest user text, on a turn's first model call the previous turn's; the last block
# before the last assistant message; the last block there is.
MARKED: dict[str, tuple[list[Event], list[str]]] = {
    "the first model call of all": ([user("Q1")], [PERSONA, "Q1"]),
    "the first model call of a turn": ([user("Q1"), assistant("A1"), user("Q2")], [PERSONA, "Q1", "Q2"]),
    "the first model call after a turn with tools": ([*FIRST, user("Q2")], [PERSONA, "Q1", "r:a", "Q2"]),
    "the second model call": ([user("Q0"), assistant("A0"), user("Q1"), *loop("a")], [PERSONA, "Q1", "r:a"]),
    "the third model call": ([*FIRST, user("Q2"), *loop("b"), *loop("c")], [PERSONA, "Q2", "r:b", "r:c"]),
    "after twelve parallel calls": ([*FIRST, user("Q2"), *loop(*TWELVE)], [PERSONA, "Q2", "r:c11"]),
    "one model call later": ([*FIRST, user("Q2"), *loop(*TWELVE), *loop("z")], [PERSONA, "Q2", "r:c11", "r:z"]),
    "the turn after that": (
        [user("Q2"), *loop(*TWELVE), *loop("z"), assistant("A2"), user("Q3")],
        [PERSONA, "Q2", "r:z", "Q3"],
    ),
    "text beside the calls": (
        [user("Q1"), assistant("A moment."), *loop("a"), assistant("One more."), *loop("b")],
        [PERSONA, "Q1", "r:a", "r:b"],
    ),
    "the model spoke last": ([user("Q1"), assistant("A1"), user("Q2"), assistant("A2")], [PERSONA, "Q2", "A2"]),
    "a question in two parts": ([user("Q1", "more"), *loop("a")], [PERSONA, "more", "r:a"]),
    "nothing said": ([], [PERSONA]),
}


@pytest.mark.parametrize("name", MARKED)
async def test_breakpoints_stand_where_the_last_model_call_ended(ask: Ask, name: str) -> None:
    events, expected = MARKED[name]
    context = await ask(CLAUDE, *events, instructions=PERSONA, tools=TOOLS)
    assert marked(context.request) == expected


async def test_a_hit_never_depends_on_how_far_the_provider_looks_back(ask: Ask) -> None:
    """Whatever was last in one model call's request is marked in the next one's, at the same place."""
    turns = [(1,), (), (12, 3), (25, 1, 25), (), (2,)]
    said: list[Event] = []
    ended: tuple[int, Json] | None = None
    for number, steps in enumerate(turns):
        said.append(user(f"Q{number}"))
        for step, many in enumerate([*steps, 0]):
            request = (await ask(CLAUDE, *said, instructions=PERSONA, tools=TOOLS, budget=0)).request
            places = {place: block for place, block in enumerate(_all_blocks(request)) if "cache_control" in block}
            assert len(places) <= 4
            if ended:
                assert places.get(ended[0]) == ended[1]
            ended = max(places.items(), key=lambda found: found[0])
            said += loop(*(f"{number}-{step}-{call}" for call in range(many))) if many else [assistant("Done.")]


async def test_where_there_are_no_instructions_the_last_tool_is_marked(ask: Ask) -> None:
    assert marked((await ask(CLAUDE, user("Q1"), tools=TOOLS)).request) == ["seat", "Q1"]
    assert marked((await ask(CLAUDE, user("Q1"))).request) == ["Q1"]


async def test_the_last_section_of_the_instructions_is_marked(ask: Ask) -> None:
    sections = {"skills": "Tickets.", "persona": PERSONA, "memory": ""}
    request = (await ask(CLAUDE, user("Q1"), instructions=sections)).request
    assert [block["text"] for block in request["system"]] == [PERSONA, "# Skills\n\nTickets."]
    assert marked(request) == ["# Skills\n\nTickets.", "Q1"]


# With what is told of the past after the instructions. It is another at every step, and what lies before it is not.
MARKED_WITH_PAST: dict[str, tuple[list[Event], list[str]]] = {
    "one mark is left for it": ([user("Q1"), assistant("A1"), user("Q2")], [PERSONA, "Past.", "Q1", "Q2"]),
    "none is left for it": ([*FIRST, user("Q2")], [PERSONA, "Q1", "r:a", "Q2"]),
}


@pytest.mark.parametrize("name", MARKED_WITH_PAST)
async def test_the_instructions_are_marked_where_what_is_told_of_the_past_begins(ask: Ask, name: str) -> None:
    events, expected = MARKED_WITH_PAST[name]
    packing = (await ask(CLAUDE, *events, instructions=PERSONA, tools=TOOLS))._packing
    packing.sections["brief"] = "Past."
    assert marked(render(packing, {}, key="talk").body) == expected


async def test_where_only_the_past_is_told_the_last_tool_is_marked_as_well(ask: Ask) -> None:
    packing = (await ask(CLAUDE, user("Q1"), tools=TOOLS))._packing
    packing.sections["brief"] = "Past."
    assert marked(render(packing, {}, key="talk").body) == ["seat", "Past.", "Q1"]


async def test_the_time_told_with_a_question_belongs_to_it(ask: Ask) -> None:
    request = (await ask(CLAUDE, user("Q1"), *loop("a"), settings={"clock": "hour"})).request
    assert [text.partition(">")[0] for text in marked(request)] == ["find", "<now", "r:a"]


async def test_the_cache_can_last_an_hour_or_be_left_alone(ask: Ask) -> None:
    events: list[Event] = [user("Q1"), assistant("A1"), user("Q2")]
    request = (await ask(CLAUDE, *events, settings={"cache_ttl": "1h"})).request
    marks = [block["cache_control"] for block in _all_blocks(request) if "cache_control" in block]
    assert marks == [{"type": "ephemeral", "ttl": "1h"}] * 2
    assert marked((await ask(CLAUDE, *events, settings={"cache": False})).request) == []


# -- messages of the application, results, and what is around them -----------------------------------------


async def test_instructions_in_the_middle_stand_in_a_message_of_the_users(ask: Ask) -> None:
    context = await ask(CLAUDE, user("Hello."), assistant("Hi."), system("Be brief."), user("Well?"))
    assert transcript(context)[2:] == [
        "user: <instructions-N>",
        "user: Be brief.",
        "user: </instructions-N>",
        "user: Well?",
    ]
    assert [block["text"] for block in context.request["system"]] == [plan_of(context).fence.told]


async def test_results_come_first_in_the_message_after_their_calls(ask: Ask) -> None:
    events = [user("Go."), *loop("a", "b"), system("Be brief."), user("Well?")]
    message = (await ask(CLAUDE, *events)).request["messages"][2]
    assert [block["type"] for block in message["content"]] == ["tool_result"] * 2 + ["text"] * 4


@pytest.mark.parametrize(
    ("result", "content"),
    [
        (tool_result("done", id="a"), {"content": "done"}),
        (tool_result("", id="a"), {"content": "(no output)"}),
        (tool_result(" \n", id="a"), {"content": "(no output)"}),
        (tool_result(id="a", error=True), {"content": "(no output)", "is_error": True}),
        (tool_result("one", "two", id="a"), {"content": [{"type": "text", "text": t} for t in ("one", "two")]}),
        (tool_result("one", "two", id="a", error=True), {"content": "one\n\ntwo", "is_error": True}),
        (tool_result(file(b" ", media_type="text/plain"), id="a"), {"content": "[file: text/plain; empty]"}),
    ],
)
async def test_a_result_is_never_empty(ask: Ask, result: Event, content: Json) -> None:
    request = (await ask(CLAUDE, user("Go."), tool_call("find", id="a"), result)).request
    (found,) = request["messages"][2]["content"]
    found.pop("cache_control")
    assert found == {"type": "tool_result", "tool_use_id": "a", **content}


# -- thinking, as long as the window stands still (test_reasoning.py tells what happens when it steps) -----


def thought(said: str, model: str = CLAUDE) -> Reasoning:
    return Reasoning(text=said, meta={"anthropic": thinking(model, said)})


async def test_thinking_goes_back_unmodified_and_first(ask: Ask) -> None:
    hidden = Reasoning(meta={"anthropic": redacted_thinking(CLAUDE)})
    request = (
        await ask(CLAUDE, user("Go."), assistant(thought("Hm."), hidden, "So.", model=CLAUDE), *loop("a"))
    ).request
    spoken = request["messages"][1]["content"]
    assert [block["type"] for block in spoken] == ["thinking", "redacted_thinking", "text", "tool_use"]
    assert spoken[0].keys() == {"type", "thinking", "signature"}


@pytest.mark.parametrize("model", ["claude-sonnet-4-6", CLAUDE])
async def test_a_model_is_known_by_either_name(ask: Ask, model: str) -> None:
    context = await ask(CLAUDE, user("Go."), assistant(thought("Hm."), model=model), *loop("a"))
    assert "thinking: Hm." in transcript(context)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(assistant(thought("Hm.", BOUND), "So.", model=BOUND), id="another model's"),
        pytest.param(assistant(thought("Hm."), "So."), id="nobody knows whose"),
        pytest.param(assistant(thought("Hm."), "So.", model=RESPONSES), id="another provider's"),
        pytest.param(assistant(Reasoning(text="Hm."), "So.", model=CLAUDE), id="without a signature"),
        pytest.param(
            assistant(Reasoning(text="Hm.", meta={"anthropic": '{"type": "thinking"}'}), "So.", model=CLAUDE),
            id="half of a block",
        ),
        pytest.param(assistant(Reasoning(meta={"anthropic": "no JSON"}), "So.", model=CLAUDE), id="no block"),
    ],
)
async def test_thinking_that_would_be_refused_is_left_out(ask: Ask, said: Assistant) -> None:
    context = await ask(CLAUDE, user("Go."), said, *loop("a"))
    assert transcript(context)[1:] == ["assistant: So.", "call find {}", "result find: r:a"]


async def test_thinking_between_other_blocks_goes_back_in_its_place(ask: Ask) -> None:
    said = assistant(thought("Hm."), "So.", thought("And then?"), model=CLAUDE)
    told = transcript(await ask(CLAUDE, user("Go."), said, *loop("a")))[1:]
    assert told == ["thinking: Hm.", "assistant: So.", "thinking: And then?", "call find {}", "result find: r:a"]


async def test_of_two_models_that_replied_in_a_row_each_is_given_its_own(ask: Ask) -> None:
    said = [assistant(thought("Hm.", BOUND), "One.", model=BOUND), assistant("Two.", model=CLAUDE)]
    assert transcript(await ask(CLAUDE, user("Go."), *said, user("Well?")))[1:3] == [
        "assistant: One.",
        "assistant: Two.",
    ]


async def test_a_mark_never_stands_on_thinking(ask: Ask) -> None:
    """A step that is all thinking is not sent."""
    events = [user("Go."), assistant(thought("Hm."), model=CLAUDE), *loop("a"), assistant(thought("So."), model=CLAUDE)]
    request = (await ask(CLAUDE, *events)).request
    assert marked(request) == ["find", "Go.", "r:a"]
    assert "So." not in str(request)


# -- the check ---------------------------------------------------------------------------------------------


def _messages(change: Callable[[list[Json]], object]) -> Callable[[Json], None]:
    def break_it(body: Json) -> None:
        change(body["messages"])

    return break_it


BROKEN: dict[str, tuple[Callable[[Json], None], str]] = {
    "the model speaks first": (_messages(lambda m: m.pop(0)), "the first and the last message must be the user's"),
    "the model speaks last": (_messages(lambda m: m.pop()), "the first and the last message must be the user's"),
    "two neighbours of one role": (
        _messages(lambda m: m.insert(0, copy.deepcopy(m[0]))),
        "two neighbours have the same role",
    ),
    "a call without a result": (_messages(lambda m: m[2]["content"].pop(0)), "result"),
    "a result without its call": (_messages(lambda m: m[1]["content"].pop(0)), "result"),
    "results in another order": (_messages(lambda m: m[2]["content"].reverse()), "result"),
    "text before the results": (
        _messages(lambda m: m[2]["content"].insert(0, {"type": "text", "text": "x"})),
        "result",
    ),
    "an id twice": (_messages(lambda m: _same_ids(m)), "occurs twice"),
    "an empty text": (_messages(lambda m: m[0]["content"][0].update(text=" ")), "a text is empty"),
}


def _same_ids(messages: list[Json]) -> None:
    for block in messages[1]["content"]:
        block["id"] = "a"
    for block in messages[2]["content"]:
        block["tool_use_id"] = "a"


@pytest.mark.parametrize("name", BROKEN)
async def test_the_check_finds_what_would_be_refused(ask: Ask, name: str) -> None:
    break_it, problem = BROKEN[name]
    body = copy.deepcopy((await ask(CLAUDE, user("Go.", image(png(3, 4))), *loop("a", "b"))).request)
    assert anthropic.check(body) == []
    break_it(body)
    assert any(problem in found for found in anthropic.check(body))
