"""What goes wrong in systems like this one: cost and counting. Numbers 7 to 11.

Each test names the number of the failure that it stands for. All of them go through `talk.context`.
"""

from __future__ import annotations

import base64
from typing import Any

import pytest

from everthread import Everthread, Talk, assistant, image, user
from everthread.core.events import Event
from everthread.core.tokens import count
from tests.core.pictures import png
from tests.saying import DAY, HOUR, MINUTE, NINE, asked, begins_with, say, turns, used
from tests.transcripts import CHAT, CLAUDE, FORMS, blocks, instructions, transcript, whole

LINES = "\n".join(f"line {number} of the log, which is long" for number in range(400))

pytestmark = pytest.mark.usefixtures("without_memory")


# -- 7, 8, 9: what the cache costs -------------------------------------------------------------------------


async def _walk(et: Everthread, talk: Talk, model: str, **arguments: Any) -> tuple[int, int]:
    """A long conversation with tools. How many of its model calls began as the one before them, and how many not."""
    same, moved = 0, 0
    said, cutoff, system_text = list[str](), 1, ""
    for number in range(40):
        events: list[Event] = [user(f"Q{number} " + "word " * 30), *used("find", f"found {number} " + "word " * 40)]
        for place, event in enumerate(events):
            await say(et, talk, event, at=NINE + number * 20 * MINUTE)
            if place == 1:
                continue  # a call without its result is not when the model is called
            context = await asked(talk, model, **arguments)
            now = blocks(context.request)
            if begins_with(now, said) and instructions(context.request) == system_text:
                same += 1
            else:
                moved += 1
                assert number == 0 or context.cutoff > cutoff
            said, cutoff, system_text = now, context.cutoff, instructions(context.request)
        await say(et, talk, assistant(f"A{number}."), at=NINE + number * 20 * MINUTE)
    return same, moved


@pytest.mark.parametrize("model", FORMS)
async def test_between_two_steps_every_request_begins_with_the_one_before_it(
    et: Everthread, talk: Talk, model: str
) -> None:
    """7: byte by byte; the window moves once in a while, and far."""
    same, moved = await _walk(et, talk, model, budget=2_000, instructions="You sell tickets.")
    assert same + moved == 80
    assert moved <= 20


async def test_a_window_that_slides_moves_with_every_turn(et: Everthread, talk: Talk) -> None:
    """7: what `step` 0 is, and what the default is not."""
    _, moved = await _walk(et, talk, CHAT, budget=2_000, settings={"step": 0})
    assert moved > 25


async def test_the_time_is_told_beside_the_question_and_never_in_the_instructions(et: Everthread, talk: Talk) -> None:
    """8: the instructions are the same bytes on every day; what was told stays where it is."""
    said: list[str] = []
    for day in range(5):
        await say(et, talk, user(f"Day {day}."), at=NINE + day * DAY)
        request = (await asked(talk, CLAUDE, instructions="You sell tickets.")).request
        assert instructions(request) == "You sell tickets."
        assert f"2026-03-0{2 + day}, 09:00 UTC" in blocks(request)[-1]
        assert begins_with(blocks(request), said)
        said = blocks(request)
        await say(et, talk, assistant("Yes."), at=NINE + day * DAY)


async def test_a_large_result_settles_once(et: Everthread, talk: Talk) -> None:
    """9: whole while its turn runs, a stub from the next turn on, all at once and then never again."""
    large = [*used("one", LINES), *used("two", "tiny"), *used("three", LINES)]
    await say(et, talk, user("Read."), *large)
    running = whole((await asked(talk, CHAT)).request)
    assert running.count("line 200 of the log") == 2
    await say(et, talk, assistant("Read."), user("And now?"), at=NINE + HOUR)
    settled = await asked(talk, CHAT)
    assert whole(settled.request).count("line 200 of the log") == 0
    assert whole(settled.request).count("the whole is event") == 2
    said = blocks(settled.request)
    for number in range(6):
        await say(et, talk, assistant("Yes."), user(f"More {number}."), at=NINE + HOUR)
        now = blocks((await asked(talk, CHAT)).request)
        assert begins_with(now, said)
        said = now


@pytest.mark.parametrize(("size", "stub"), [(10_239, False), (10_240, True)])
async def test_a_result_is_large_from_ten_kilobytes_on(talk: Talk, size: int, stub: bool) -> None:
    """9: a smaller one is never touched."""
    text = "word " * (size // 5) + "!" * (size % 5)
    await talk.append(user("Read."), *used("f", text), assistant("Read."), user("And now?"))
    assert ("the whole is event 3" in whole((await asked(talk, CHAT)).request)) == stub


# -- 10, 11: counting ---------------------------------------------------------------------------------------

TEXTS = {
    "Chinese": "我的儿子对核桃过敏，请记住这一点，下次不要忘记。" * 40,
    "JSON": '{"id": 17, "tags": ["a", "b"], "price": {"amount": 3.5, "currency": "EUR"}}, ' * 40,
    "code": "def f(x: int) -> int:\n    return x if x < 2 else f(x - 1) + f(x - 2)\n\n" * 40,
    "emoji": "👩‍👩‍👧 👍🏽 🇵🇹 " * 60,
    "no spaces at all": "x7Qp" * 400,
}


@pytest.mark.parametrize("name", TEXTS)
async def test_an_estimate_is_a_count_and_no_guess_by_characters(talk: Talk, name: str) -> None:
    """10: exact for OpenAI; with a margin for the others."""
    text = TEXTS[name]
    await talk.append(user(text))
    exact = count(text)
    bare = {"settings": {"clock": "off"}}
    assert exact <= (await asked(talk, CHAT, **bare)).estimate <= exact + 10
    assert 1.2 * exact <= (await asked(talk, CLAUDE, **bare)).estimate <= 1.5 * exact + 10
    older = (await asked(talk, "openai:gpt-4", **bare)).estimate
    assert count(text, "cl100k") <= older <= count(text, "cl100k") + 10


async def test_a_picture_is_charged_by_its_size_and_not_as_base64(talk: Talk) -> None:
    """10: neither a million tokens nor none."""
    data = png(1_024, 1_024) + b"\0" * 2_000_000
    await talk.append(user("Look:", image(data)))
    assert len(base64.b64encode(data)) > 2_600_000
    for model in FORMS:
        context = await asked(talk, model)
        assert 700 < context.estimate < 3_000
        assert len(whole(context.request)) > 2_600_000


async def test_pictures_leave_the_window_like_anything_else(talk: Talk) -> None:
    """10: ten of them do not fit where five do."""
    await talk.append(
        *[event for n in range(10) for event in (user(f"Q{n}", image(png(1_000, 1_000))), assistant("A."))]
    )
    for model in FORMS:
        context = await asked(talk, model, budget=9_000)
        assert 2 <= sum("<image/png>" in line for line in transcript(context)) <= 8


async def test_instructions_and_tools_that_are_larger_than_the_budget_empty_nothing(talk: Talk) -> None:
    """11: the question is sent with them, the context says what would be needed, and asking again changes nothing."""
    await talk.append(*turns(10))
    await talk.append(user("Are you there?"))
    tools = [
        {"name": f"tool_{n}", "description": "Does something. " * 20, "schema": {"type": "object"}} for n in range(9)
    ]
    for model in FORMS:
        context = await asked(talk, model, budget=300, instructions="Be kind. " * 100, tools=tools)
        assert context.over_budget == context.estimate > 700
        assert [line for line in transcript(context) if "<now>" not in line] == ["user: Are you there?"]
        assert (context.sent, context.past) == (1, 20)
        again = await asked(talk, model, budget=300, instructions="Be kind. " * 100, tools=tools)
        assert whole(again.request) == whole(context.request)
        needed = await asked(talk, model, budget=context.over_budget, instructions="Be kind. " * 100, tools=tools)
        assert needed.over_budget == 0
