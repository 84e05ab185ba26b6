"""A result that arrives when the agent is idle begins a turn of its own. The question (the user's newest message before
it) is sent with it, however small the budget is."""

from __future__ import annotations

from typing import Any

import pytest

from everthread import Everthread, GivenSettings, Talk, assistant, image, tool_result, user
from everthread.context.build import Context
from everthread.core.events import Clear, Event, ToolCall
from everthread.testing.scripted import call, script
from everthread.tools import tool
from tests.contract.test_round_trips import counted
from tests.contract.windows import STRATEGY_NAMES
from tests.core.pictures import png
from tests.saying import asked, turns, used
from tests.transcripts import CHAT, FORMS, transcript, whole

QUESTION = "Answer in French. " + "Mind the format. " * 60
SMALL = {"clock": "off"}


def late(words: int, id: str = "late") -> Event:
    return tool_result("figures " * words, id=id, name="report")


async def parked(talk: Talk, *after: Event, question: str = QUESTION) -> None:
    """A call that waits for approval, the user's next message with its reply, and what came when all was over."""
    waiting = ToolCall(id="late", name="report", arguments="{}", waits_for="approval")
    await talk.append(*turns(8), user("Make the report."), waiting, user(question), assistant("I wait."), *after)


async def small(talk: Talk, model: str = CHAT, budget: int = 700, **settings: Any) -> Context:
    context = await asked(talk, model, budget=budget, settings={**SMALL, **settings})
    assert context.estimate <= budget
    return context


@pytest.mark.parametrize("model", FORMS)
async def test_the_question_is_sent_with_a_late_result_that_fills_the_window(talk: Talk, model: str) -> None:
    await parked(talk, late(400))
    context = await small(talk, model, budget=900)
    assert "Answer in French." in whole(context.request)
    assert "figures" in whole(context.request)
    assert not any("newest message" in told for told in context.degraded)
    [line] = [line for line in context.explain().turns if line.why == "the user's newest message"]
    assert line.text.startswith("Answer in French.")


@pytest.mark.parametrize("strategy", STRATEGY_NAMES)
async def test_whatever_chooses_the_window(talk: Talk, strategy: str) -> None:
    await parked(talk, late(400))
    context = await small(talk, budget=900, strategy=strategy, messages=1, active_messages=1)
    assert "Answer in French." in whole(context.request)


async def test_whatever_the_application_chooses_by_itself(talk: Talk) -> None:
    await parked(talk, late(20))
    newest = (await talk.turns(limit=1))[-1]
    context = await asked(talk, CHAT, budget=900, strategy=lambda _: newest.first)
    assert "Answer in French." in whole(context.request)


async def test_several_late_results_follow_one_question(talk: Talk) -> None:
    await parked(talk, late(200), assistant("One."), late(200, "b"), assistant("Two."), late(200, "c"))
    context = await small(talk)
    assert "Answer in French." in whole(context.request)


async def test_its_whole_turn_is_sent_where_that_fits(talk: Talk) -> None:
    await talk.append(*turns(8), user("Q of the tool"), *used("find", "found"), assistant("I wait."), late(250))
    told = transcript(await small(talk, budget=400))
    assert told[:4] == ["user: Q of the tool", "call find {}", "result find: found", "assistant: I wait."]


async def test_else_the_message_alone_and_that_is_told(talk: Talk) -> None:
    await talk.append(*turns(8), user("Answer in French."), assistant("Certainly. " * 400), late(100))
    context = await small(talk)
    assert "user: Answer in French." in transcript(context)
    assert "Certainly." not in whole(context.request)
    assert any("only the user's newest message is sent" in told for told in context.degraded)
    lines = context.explain().turns
    assert [line.last + 1 for line in lines[:-1]] == [line.first for line in lines[1:]]
    assert context.sent + context.past == 19


async def test_where_even_the_message_does_not_fit_it_is_shortened_and_that_is_told(talk: Talk) -> None:
    await parked(talk, late(20), question="Answer in French. " + "Mind the format. " * 2_000)
    context = await small(talk)
    assert "Answer in French." in whole(context.request)
    assert any("the user's newest message was shortened to fit" in told for told in context.degraded)


async def test_where_even_that_does_not_help_it_is_left_out_and_that_is_told(talk: Talk) -> None:
    await talk.append(*turns(3), user("What is this? " * 20), assistant("I wait."), late(20))
    context = await small(talk, instructions="Mind the gap. " * 130)
    assert "What is this?" not in whole(context.request)
    assert any("the user's newest message is not sent" in told for told in context.degraded)


async def test_older_turns_and_pins_leave_before_it(talk: Talk) -> None:
    await talk.append(*turns(8), user("Answer in French."), assistant("I wait."), late(300))
    await talk.pin(1)
    context = await small(talk, budget=420, pins=0.5)
    told = whole(context.request)
    assert "Answer in French." in told
    assert "Q0" not in told


async def test_a_pinned_question_is_sent_once(talk: Talk) -> None:
    await parked(talk, late(400))
    await talk.pin(20)
    context = await small(talk, budget=900)
    assert whole(context.request).count("Answer in French.") == 1


async def test_it_is_found_on_an_ancestor(talk: Talk) -> None:
    await parked(talk)
    line = await talk.line()
    for _ in range(5):
        talk = await talk.fork()
        await talk.append(late(100))
        await talk.append(assistant("So far."))
    assert (await talk.line()).branch.number != line.branch.number
    assert "Answer in French." in whole((await small(talk)).request)


async def test_what_was_said_before_a_clear_is_no_question(talk: Talk) -> None:
    await parked(talk, Clear(), late(100), assistant("Here."), late(100, "b"), assistant("And."), late(400, "c"))
    context = await small(talk)
    assert "Answer in French." not in whole(context.request)
    assert not any("newest message" in told for told in context.degraded)


async def test_the_store_is_asked_for_it_only_where_the_window_has_no_user_message(talk: Talk) -> None:
    await parked(talk, late(400))
    await small(talk, budget=900)
    with counted(talk) as questions:
        await small(talk, budget=900)
    assert "asked_down" in questions
    assert len(questions) <= 12, questions
    with counted(talk) as questions:
        await small(talk, budget=9_000)
    assert len(questions) <= 2, questions


@pytest.mark.parametrize("memory", [True, False])
async def test_a_turn_of_an_approval_that_came_late_is_told_the_question(
    address: str, someone: str, memory: bool
) -> None:
    @tool(approval=True)
    def report() -> str:
        """A long report."""
        return "figures " * 2_500

    script(someone, [call("report", {})], "I wait.", "Here it is.")
    settings: GivenSettings = {"model": f"scripted:{someone}", "memory": memory, "budget": 4_000}
    async with Everthread.open(address, settings=settings, tools=[report], keys={}) as et:
        talk = await et.begin(user=someone)
        await talk.say("Make the report.")
        await talk.say("Answer in French. " + "Mind the format. " * 300)
        reply = await talk.approve()
        record = [one for one in await talk.range(1, 99) if one.kind == "model_call"][-1]
        assert "Answer in French." in whole((await talk.rebuild(record.seq)).context.request)
    assert not any("newest message" in told for told in reply.done.degraded)


@pytest.mark.parametrize("model", FORMS)
async def test_a_picture_that_does_not_fit_takes_no_words_with_it(talk: Talk, model: str) -> None:
    await talk.append(user("What is in this picture?", image(png(1_000, 800))), assistant("A cat."), late(20))
    context = await small(talk, model, budget=500)
    assert "What is in this picture?" in whole(context.request)
    assert any("told in words" in told for told in context.degraded)
    assert not any("is not sent" in told for told in context.degraded)
