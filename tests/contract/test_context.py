"""What goes into a context beside the window: pins, the time, instructions that open a conversation; and settings.

The same on every store. How requests look in each provider's form is tests/providers.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from everthread import Everthread, Talk, assistant, system, tool_result, user
from everthread.context.build import Context
from everthread.core.events import BriefUpdated, Clear, Event
from everthread.errors import BadValue
from tests.saying import DAY, HOUR, MINUTE, NINE, asked, say, turns, used
from tests.transcripts import CHAT, CLAUDE, FORMS, instructions, transcript

# -- pins --------------------------------------------------------------------------------------------------


def said(context: Context) -> list[str]:
    """The questions that are sent: `Q7` of `Q7 word word …`."""
    return re.findall(r"\bQ\d+\b", "\n".join(transcript(context)))


async def test_a_pin_takes_effect_at_once_and_the_turn_stands_first(talk: Talk) -> None:
    await talk.append(*turns(20))
    before = await asked(talk, CHAT, budget=600)
    assert "Q3" not in said(before)
    await talk.pin(8)  # the reply, in turn 4
    for model in FORMS:
        context = await asked(talk, model, budget=600)
        assert said(context)[0] == "Q3"
        assert transcript(context)[1:3] == ["assistant: A3.", transcript(context)[2]]
        assert context.estimate <= 600
    assert (await asked(talk, CHAT, budget=600)).cutoff >= before.cutoff


async def test_a_pinned_turn_is_sent_whole(talk: Talk) -> None:
    await talk.append(user("Q0 of the tool"), *used("find", "found"), assistant("A0."), *turns(20, name="Later "))
    await talk.pin(2)
    told = transcript(await asked(talk, CHAT, budget=600, settings={"clock": "off"}))
    assert told[:4] == ["user: Q0 of the tool", "call find {}", "result find: found", "assistant: A0."]


async def test_an_unpinned_turn_leaves_again(talk: Talk) -> None:
    await talk.append(*turns(20))
    before = await asked(talk, CHAT, budget=600)
    await talk.pin(7)
    await talk.unpin(8)
    assert (await asked(talk, CHAT, budget=600)).request == before.request
    await talk.pin(7)
    assert said(await asked(talk, CHAT, budget=600))[0] == "Q3"


async def test_a_pin_within_the_window_is_not_sent_twice(talk: Talk) -> None:
    await talk.append(*turns(5))
    await talk.pin(3)
    assert said(await asked(talk, CHAT)) == ["Q0", "Q1", "Q2", "Q3", "Q4"]


async def test_pins_take_a_quarter_of_the_room_and_the_newest_come_first(talk: Talk) -> None:
    await talk.append(*turns(40))
    for seq in (1, 5, 9, 13, 17, 21, 25):
        await talk.pin(seq)
    context = await asked(talk, CHAT, budget=1_000)
    pinned = [line for line in context.explain().turns if line.why == "pinned"]
    assert 2 <= len(pinned) < 7
    assert sum(line.tokens for line in pinned) <= 250
    assert [line.first for line in pinned] == [1, 5, 9, 13, 17, 21, 25][-len(pinned) :]
    more = await asked(talk, CHAT, budget=1_000, settings={"pins": 0.5})
    none = await asked(talk, CHAT, budget=1_000, settings={"pins": 0})
    assert sum(line.why == "pinned" for line in more.explain().turns) > len(pinned)
    assert not any(line.why == "pinned" for line in none.explain().turns)


async def test_a_pin_that_does_not_fit_is_not_dropped_in_silence(talk: Talk) -> None:
    await talk.append(*turns(1, words=400), *turns(30))
    await talk.pin(1)
    context = await asked(talk, CHAT, budget=1_000)
    assert context.cutoff > 1
    assert any("pin" in what for what in context.degraded)


async def test_a_clear_ends_pins(talk: Talk) -> None:
    await talk.append(*turns(3))
    await talk.pin(1)
    await talk.append(Clear(), *turns(2, name="New "))
    with pytest.raises(BadValue, match="after the last clear"):
        await talk.pin(1)
    assert said(await asked(talk, CHAT)) == []


async def test_a_fork_inherits_pins_and_goes_its_own_way(talk: Talk) -> None:
    await talk.append(*turns(20))
    await talk.pin(7)
    side = await talk.fork()
    await side.unpin(7)
    await side.pin(11)
    assert said(await asked(talk, CHAT, budget=600))[0] == "Q3"
    assert said(await asked(side, CHAT, budget=600))[0] == "Q5"


# -- the time ----------------------------------------------------------------------------------------------


def clock(context: Context) -> list[str]:
    """What was told of the time, and after which message."""
    lines = transcript(context)
    return [
        f"{before.removeprefix('user: ')} {line.removeprefix('user: ')}"
        for before, line in itertools.pairwise(lines)
        if line.startswith("user: <now>")
    ]


async def test_the_time_is_told_when_it_differs_and_stays_where_it_was_told(et: Everthread, talk: Talk) -> None:
    for text, at in (("a", 0), ("b", 20 * MINUTE), ("c", 59 * MINUTE), ("d", 61 * MINUTE), ("e", 62 * MINUTE)):
        await say(et, talk, user(text), at=NINE + at)
    await say(et, talk, assistant("Yes."), at=NINE + 62 * MINUTE)
    for model in FORMS:
        assert clock(await asked(talk, model)) == [
            "a <now>It is Monday, 2026-03-02, 09:00 UTC.</now>",
            "c <now>The last message was 39 minutes ago.</now>",
            "d <now>It is Monday, 2026-03-02, 10:00 UTC.</now>",
        ]


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("off", []),
        ("day", ["a <now>It is Monday, 2026-03-02.</now>", "c <now>It is Tuesday, 2026-03-03. <></now>"]),
        (
            "minute",
            [
                "a <now>It is Monday, 2026-03-02, 09:00 UTC.</now>",
                "b <now>It is Monday, 2026-03-02, 09:01 UTC.</now>",
                "c <now>It is Tuesday, 2026-03-03, 09:01 UTC. <></now>",
            ],
        ),
    ],
)
async def test_how_finely_the_time_is_told(et: Everthread, talk: Talk, setting: str, told: list[str]) -> None:
    for text, at in (("a", 30_000_000), ("b", 80_000_000), ("c", 80_000_000 + DAY)):
        await say(et, talk, user(text), at=NINE + at)
    found = clock(await asked(talk, CHAT, settings={"clock": setting}))
    assert found == [line.replace("<>", "The last message was 1 day ago.") for line in told]


@pytest.mark.parametrize(
    ("pause", "told"),
    [(31 * MINUTE, "31 minutes"), (HOUR, "1 hour"), (23 * HOUR, "23 hours"), (DAY, "1 day"), (40 * DAY, "40 days")],
)
async def test_a_pause_between_sessions_is_told(et: Everthread, talk: Talk, pause: int, told: str) -> None:
    await say(et, talk, user("a"), assistant("Yes."))
    await say(et, talk, user("b"), at=NINE + pause)
    (_, second) = clock(await asked(talk, CHAT))
    assert second.endswith(f"The last message was {told} ago.</now>")


async def test_the_first_message_of_the_window_tells_the_time_again(et: Everthread, talk: Talk) -> None:
    await say(et, talk, *turns(20))
    context = await asked(talk, CHAT, budget=400)
    assert context.cutoff > 1
    assert len(clock(context)) == 1
    assert clock(context)[0].startswith(f"Q{(context.cutoff - 1) // 2} ")


# -- instructions that open a conversation -----------------------------------------------------------------


async def test_system_messages_that_open_a_conversation_are_instructions_for_ever(talk: Talk) -> None:
    await talk.append(system("Be kind."), system("Be brief."), assistant("Good morning."), *turns(20))
    for model in FORMS:
        for arguments in ({"budget": 0}, {"budget": 400}, {"budget": 400, "strategy": "messages"}):
            context = await asked(talk, model, instructions="You sell tickets.", **arguments)
            assert instructions(context.request) == "You sell tickets.\n\nBe kind.\n\nBe brief."
            assert "Be kind." not in "\n".join(transcript(context))


@pytest.mark.parametrize(
    "way",
    [
        pytest.param("clear", id="after a clear"),
        pytest.param("fork", id="on a fork"),
        pytest.param("rewind", id="after a rewind"),
    ],
)
async def test_they_stay(talk: Talk, way: str) -> None:
    await talk.append(system("Be kind."), *turns(3))
    if way == "clear":
        await talk.clear()
    elif way == "fork":
        talk = await talk.fork(at=3)
    else:
        talk = await talk.rewind(to=3)
    await talk.append(user("Well?"))
    assert instructions((await asked(talk, CHAT)).request) == "Be kind."


async def test_they_are_counted(talk: Talk) -> None:
    await talk.append(system("Be kind. " * 100), *turns(20))
    context = await asked(talk, CHAT, budget=500)
    assert context.explain().sections["opening"] >= 200
    assert context.estimate <= 500


async def test_they_may_follow_a_setting(talk: Talk) -> None:
    await talk.configure(budget=400)
    await talk.append(system("Be kind."), *turns(20))
    assert instructions((await asked(talk, CHAT)).request) == "Be kind."


async def test_a_redacted_one_takes_no_other_with_it(talk: Talk) -> None:
    await talk.append(system("SECRET"), system("Be kind."), *turns(20))
    await talk.redact(1)
    for budget in (0, 400):
        context = await asked(talk, CHAT, budget=budget)
        assert instructions(context.request) == "Be kind."
        assert "system: Be kind." not in transcript(context)


async def test_instructions_in_sections_come_from_what_changes_least(talk: Talk) -> None:
    await talk.append(*turns(20), BriefUpdated(text="BRIEF 40", covers=40))
    given = {"skills": "Tickets.", "memory": "Walnuts.", "user": "Ana.", "persona": "Be kind."}
    told = instructions((await asked(talk, CHAT, budget=700, instructions=given, settings={"memory": True})).request)
    places = [told.index(word) for word in ("Be kind.", "Ana.", "Walnuts.", "Tickets.", "BRIEF")]
    assert places == sorted(places)


async def test_sections_that_are_empty_cost_nothing(talk: Talk) -> None:
    await talk.append(user("Hello."))
    bare = await asked(talk, CLAUDE)
    for given in ("", " \n", {}, {"persona": "", "memory": "  "}):
        context = await asked(talk, CLAUDE, instructions=given)
        assert (context.estimate, context.request) == (bare.estimate, bare.request)


# -- nothing there -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("events", [[], [Clear()], [*turns(2), Clear()]], ids=["nothing", "a clear", "all cleared"])
async def test_a_conversation_without_messages_has_a_valid_context(talk: Talk, events: list[Event]) -> None:
    if events:
        await talk.append(*events)
    for model in FORMS:
        for strategy in ("budget", "messages", "session", "importance"):
            context = await asked(talk, model, strategy=strategy, instructions="Be kind.")
            assert (context.sent, context.past, context.cutoff) == (0, max(0, len(events) - 1), len(events) + 1)
            assert context.explain().estimate == context.estimate


async def test_late_results_alone_are_a_conversation(talk: Talk) -> None:
    await talk.append(tool_result("found", id="x", name="find"))
    arguments: dict[str, Any] = {"settings": {"clock": "off"}}
    for model in FORMS:
        told = transcript(await asked(talk, model, **arguments))
        assert told == ['user: <result-N of="find">', "user: found", "user: </result-N>"]
