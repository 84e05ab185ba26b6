"""The rules of briefs, a test for each: what they are made of, how far they reach, and which of them is sent."""

from __future__ import annotations

import re
from typing import Any

import pytest

from everthread import Everthread, GivenSettings, Talk, assistant, tool_call, tool_result, user
from everthread.core.events import Event, ModelCall, ToolCall
from everthread.core.tokens import count
from everthread.language.digest import first_person, word_count
from everthread.testing.scripted import call, left, thought
from tests.memory.conftest import Speak
from tests.memory.support import Listening, events_of, failures, fenced_in, only_turns_remind
from tests.memory.test_brief import briefs, busy, say
from tests.transcripts import CHAT, instructions

SMALL: GivenSettings = {"model": CHAT, "budget": 1_500, "clock": "off"}


def turn(number: int) -> list[Event]:
    return [user(f"Thing {number} is {'rather ' * 40}heavy."), assistant(f"Noted, thing {number}.")]


def things(text: str) -> list[int]:
    """Which turns a text tells of, in its order."""
    return [int(number) for number in re.findall(r"User: Thing (\d+)", text)]


async def version_sent(talk: Talk) -> str:
    """The text of the brief that goes with the window."""
    request = (await talk.context(settings=SMALL, lookups=True)).request
    return "".join(fence.text.strip() for fence in fenced_in(request) if fence.kind == "brief")


# -- catching up -------------------------------------------------------------------------------------------


async def test_after_five_failures_one_success_covers_every_turn_once(
    talk: Talk, remember: Speak, at_once: None
) -> None:
    heard = Listening()
    remember(*[heard.then(busy()) for _ in range(5)], heard.then("All six."))
    for number in range(6):
        await talk.append(*turn(number))
        await talk.remember()
    assert things(heard.shown[-1]) == list(range(6))
    newest = (await briefs(talk))[-1]
    assert (newest.text, newest.turns, newest.extractive) == ("All six.", 6, False)
    assert newest.covers == (await talk.before(messages=True))[-1].seq


async def test_a_failure_does_not_advance_what_a_model_has_covered(talk: Talk, remember: Speak, at_once: None) -> None:
    """Though an extract has stood in meanwhile: what is summarised is what was said, not the extract of it."""
    heard = Listening()
    remember("Zero.", heard.then(busy()), heard.then(busy()), heard.then("Zero to three."))
    for number in range(4):
        await talk.append(*turn(number))
        await talk.remember()
    assert [things(text) for text in heard.shown] == [[1], [1, 2], [1, 2, 3]]
    assert all("Zero." in text for text in heard.shown)


async def test_what_was_covered_is_never_shown_again(talk: Talk, remember: Speak) -> None:
    heard = Listening()
    remember(*[heard.then(f"Up to {number}.") for number in range(6)])
    for number in range(6):
        await talk.append(*turn(number))
        await talk.remember()
    assert [things(text) for text in heard.shown] == [[number] for number in range(6)]


async def test_a_gap_of_many_portions_is_shown_whole_each_turn_once(talk: Talk, remember: Speak) -> None:
    heard = Listening()
    remember(*[heard.then("So far.")] * 30)
    for number in range(30):
        long = "It was a long story, and it went on. " * 120
        await talk.append(user(f"Thing {number} is heavy. {long}"), assistant("Noted."))
    await talk.remember()
    assert len(heard.shown) > 2
    assert [number for text in heard.shown for number in things(text)] == list(range(30))


async def test_another_process_catches_up_on_what_one_left_behind(
    address: str,
    someone: str,
    memory_model: str,
    remember: Speak,
    at_once: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing of what is due is kept in a process."""
    only_turns_remind(monkeypatch)
    heard = Listening()
    remember(busy(), heard.then("Both."))
    settings: GivenSettings = {"model": f"scripted:{someone}", "summary_model": memory_model, "retries": 0}
    for number in range(2):
        async with Everthread.open(address, settings=settings) as et:
            talk = await et.conversation(user=someone)
            await talk.append(*turn(number))
            await talk.remember()
            assert [one.turns for one in await briefs(talk)] == [1, 2][: number + 1]
    assert things(heard.shown[0]) == [0, 1]


@pytest.mark.parametrize("waits", ["", "approval", "job"])
async def test_a_turn_that_is_not_over_is_not_covered(talk: Talk, remember: Speak, waits: Any) -> None:
    """Else its late result would have nothing to answer."""
    heard = Listening()
    remember(*[heard.then("Fine.")] * 3)
    last = await say(talk, "Thing 0 is light.")
    await talk.append(user("Thing 1 is heavy."), ToolCall(id="c", name="weigh", waits_for=waits))
    await talk.remember()
    assert [one.covers for one in await briefs(talk)] == [last]
    await talk.append(tool_result("9 kg", id="c", name="weigh"), assistant("It weighs 9 kg."))
    await talk.remember()
    assert "9 kg" in heard.shown[-1]
    assert things(heard.shown[-1]) == [1]


# -- what it is made of ------------------------------------------------------------------------------------


async def test_it_is_made_of_the_goal_the_brief_so_far_and_what_was_said_since(
    et: Everthread, someone: str, remember: Speak
) -> None:
    heard = Listening()
    remember("Ana packs.", heard.then("Ana packs a tent."))
    talk = await et.begin(user=someone, name="packing", goal="Pack for the mountains.")
    await say(talk, "I pack.")
    await talk.remember()
    await say(talk, "A tent, too.", "Packed.")
    await talk.remember()
    (shown,) = heard.bodies
    told = {fence.kind: fence.text for fence in fenced_in(shown)}
    assert told["goal"].strip() == "Pack for the mountains."
    assert told["brief"].strip() == "Ana packs."
    assert told["turns"].strip() == "User: A tent, too.\nAssistant: Packed."


async def test_a_goal_that_is_set_later_is_told_from_then_on(talk: Talk, remember: Speak) -> None:
    heard = Listening()
    remember(*[heard.then("Fine.")] * 2)
    await say(talk, "One.")
    await talk.remember()
    await talk.set_goal("Sell the boat.")
    await say(talk, "Two.")
    await talk.remember()
    assert ["Sell the boat." in text for text in heard.shown] == [False, True]


async def test_tool_results_are_condensed_and_their_errors_kept(talk: Talk, remember: Speak) -> None:
    heard = Listening()
    remember(heard.then("Fine."))
    rows = "\n".join(f"row {number}: nothing to see" for number in range(1_500))
    await talk.append(
        user("Look."),
        tool_call("scan", {"path": "/srv/logs"}, id="a"),
        tool_result(f"{rows}\nTimeoutError: disk 7 did not answer\n{rows}\nlast line", id="a", name="scan"),
        assistant("Disk 7 is ill."),
    )
    await talk.remember()
    (shown,) = heard.shown
    assert "Tool call scan: path /srv/logs" in shown
    assert "TimeoutError: disk 7 did not answer" in shown
    assert "last line" in shown
    assert count(shown) < 1_000


async def test_no_other_conversation_is_told_of(et: Everthread, talk: Talk, someone: str, remember: Speak) -> None:
    heard = Listening()
    remember(*[heard.then("Fine.")] * 2)
    other = await et.begin(user=someone)
    await say(other, "The vault is open.")
    await say(talk, "The door is shut.")
    await talk.remember()
    assert "vault" not in "".join(heard.shown)


async def test_the_model_is_asked_for_the_third_person_and_for_no_plans(talk: Talk, remember: Speak) -> None:
    heard = Listening()
    remember(heard.then("Fine."))
    await say(talk, "One.")
    await talk.remember()
    told = " ".join(heard.told[0].split())
    assert 'In the third person, as an observer who takes no side: "the user", "the assistant".' in told
    assert "Do not tell anybody what to do next" in told
    assert "At most 300 words" in told


async def test_an_extract_reports_in_the_third_person(talk: Talk) -> None:
    await talk.configure(summary_model="")
    await say(talk, "I want my money back because I was charged twice, 40 EUR each.", "I refunded 40 EUR to you.")
    await talk.remember()
    (brief,) = await briefs(talk)
    assert brief.extractive
    assert 'The user said: "I want my money back' in brief.text
    assert not first_person(brief.text)


async def test_memory_has_its_own_model_a_limit_on_its_reply_and_no_tools(
    talk: Talk, memory_model: str, remember: Speak
) -> None:
    heard = Listening()
    remember(heard.then("Fine."))
    await say(talk, "One.")
    await talk.remember()
    (body,) = heard.bodies
    assert f"scripted:{body['model']}" == memory_model
    assert body["max_completion_tokens"] <= 2_000
    assert "tools" not in body
    (record,) = await events_of(talk, ModelCall)
    assert (record.model, record.agent, record.error) == (memory_model, "memory", "")


@pytest.mark.parametrize("length", [1, 2_000, 20_000])
async def test_whatever_was_said_fits_the_model_that_summarises_it(talk: Talk, remember: Speak, length: int) -> None:
    """The summariser itself never overflows, and no turn is left out for its size."""
    heard = Listening()
    remember(*[heard.then("A long brief. " * 90)] * 60)
    for number in range(3):
        await talk.append(user(f"Thing {number} is odd: " + "strange tokens 1f9a, " * length), assistant("Noted."))
    await talk.remember()
    assert max(map(count, heard.shown)) <= 6_000
    assert [number for text in heard.shown for number in things(text)] == [0, 1, 2]


# -- what is kept of what the model wrote --------------------------------------------------------------------

WRITTEN: dict[str, Any] = {
    "two thousand words": "The user asked for tea and got it. " * 250,
    "one sentence without end": "the user asked, " * 1_000,
    "words in lines": "- tea for two\n" * 700,
    "a script without spaces": "用户想要茶和咖啡。\n" * 300,
    "a refusal": "I'm sorry, but I can't help with that.",
    "a tool call beside it": ["The user asked for tea. " * 200, call("look", "{")],
    "thoughts before it": [thought("hm " * 500), "The user asked for tea. " * 200],
    "a page of Markdown": "# Brief\n\n## Goal\n\n" + "**tea** for the user, " * 400 + "\n\n## Next steps\n\n1. Brew.",
    "a fence of its own": "```json\n" + '{"tea": "for the user"} ' * 300 + "\n```",
}


async def test_a_brief_has_300_words_at_most_whatever_the_model_writes(
    et: Everthread, someone: str, remember: Speak
) -> None:
    for name, written in WRITTEN.items():
        remember(written)
        talk = await et.begin(user=someone, name="chat")
        await say(talk, "Tea, please.")
        await talk.remember()
        (brief,) = await briefs(talk)
        assert 0 < word_count(brief.text) <= 300, name
        assert "Next steps" not in brief.text, name


async def test_what_is_too_long_ends_with_a_whole_sentence(talk: Talk, remember: Speak) -> None:
    remember("The user asked for tea and got it. " * 100)
    await say(talk, "Tea, please.")
    await talk.remember()
    assert (await briefs(talk))[0].text.endswith("and got it.")


# -- which version is sent -----------------------------------------------------------------------------------


async def test_the_earliest_version_that_covers_the_cutoff_is_sent_until_it_steps(talk: Talk, remember: Speak) -> None:
    remember(*[f"Version {number}." for number in range(28)])
    seen: list[tuple[int, str]] = []
    for number in range(28):
        await talk.append(*turn(number))
        context = await talk.context(settings=SMALL, lookups=True)
        seen.append((context.cutoff, instructions(context.request)))
        if context.cutoff > 1:
            covering = [one.text for one in await briefs(talk) if one.covers >= _spoken_before(context.cutoff)]
            assert [fence.text.strip() for fence in fenced_in(context.request) if fence.kind == "brief"] == covering[:1]
        await talk.remember()
    assert len({cutoff for cutoff, _ in seen}) > 3
    assert len(set(seen)) == len({cutoff for cutoff, _ in seen})


def _spoken_before(cutoff: int) -> int:
    """Before each turn but the first stand the version of the turn before, and its record."""
    return cutoff - 3


async def test_a_brief_is_marked_with_what_it_covers_and_hints_at_recall(talk: Talk, remember: Speak) -> None:
    remember(*["There were things."] * 9)
    for number in range(30):
        await talk.append(*turn(number))
    await talk.remember()
    context = await talk.context(settings=SMALL, lookups=True)
    (brief,) = [fence for fence in fenced_in(context.request) if fence.kind == "brief"]
    assert (brief.first, brief.last) == (1, 60)
    told = instructions(context.request)
    assert told.index("recall_context") < told.index("There were things.")


async def test_nothing_of_it_is_sent_while_all_was_sent(talk: Talk, remember: Speak) -> None:
    remember("One thing.")
    await say(talk, "Hello.")
    await talk.remember()
    context = await talk.context(settings=SMALL, lookups=True)
    assert (context.past, fenced_in(context.request)) == (0, [])


# -- forks, rewinds, clears ----------------------------------------------------------------------------------


async def told(talk: Talk, numbers: range) -> None:
    for number in numbers:
        await talk.append(*turn(number))
        await talk.remember()


async def test_a_fork_starts_with_the_brief_in_force_at_its_fork_point(talk: Talk, remember: Speak) -> None:
    remember(*[f"Version {number}." for number in range(30)])
    await told(talk, range(20))
    before = await version_sent(talk)
    side = await talk.fork()
    assert await version_sent(side) == before
    assert await side.brief() == await talk.brief()


async def test_later_versions_of_the_parent_do_not_reach_a_fork(talk: Talk, remember: Speak) -> None:
    remember(*[f"Version {number}." for number in range(30)])
    await told(talk, range(4))
    side = await talk.fork()
    await told(talk, range(4, 20))
    for number in range(100, 116):
        await side.append(*turn(number))
    assert (await side.brief()) == (await briefs(talk))[3]
    assert await version_sent(side) == "Version 3."


async def test_a_fork_goes_on_from_its_fork_point_and_leaves_its_parent_alone(talk: Talk, remember: Speak) -> None:
    heard = Listening()
    remember("Version 0.", "Version 1.", heard.then("Version 0 and 100."))
    await told(talk, range(1))
    side = await talk.fork()
    await told(talk, range(1, 2))
    await told(side, range(100, 101))
    assert things(heard.shown[0]) == [100]
    assert "Version 0." in heard.shown[0]
    assert [one.text for one in await briefs(side)] == ["Version 0.", "Version 0 and 100."]
    assert [one.text for one in await briefs(talk)] == ["Version 0.", "Version 1."]


async def test_a_rewind_brings_back_the_brief_of_that_moment(talk: Talk, remember: Speak) -> None:
    heard = Listening()
    remember(*[f"Version {number}." for number in range(8)], heard.then("Gone another way."))
    await told(talk, range(4))
    mark = await talk.mark("crossroads")
    await told(talk, range(4, 8))
    back = await talk.rewind(to="crossroads")
    brief = await back.brief()
    assert brief is not None
    assert (brief.text, brief.covers < mark.seq) == ("Version 3.", True)
    await told(back, range(100, 101))
    assert things(heard.shown[0]) == [100]
    assert "Version 3." in heard.shown[0]


async def test_a_rewind_into_turns_that_no_version_covered_yet_has_them_covered_anew(
    talk: Talk, remember: Speak
) -> None:
    """The version that covers them came later, and stays on the other branch."""
    heard = Listening()
    remember("All four.", heard.then("The first two."))
    seqs = [(await talk.append(*turn(number)))[-1].seq for number in range(4)]
    await talk.remember()
    back = await talk.rewind(to=seqs[1])
    assert await back.brief() is None
    await back.remember()
    assert things(heard.shown[0]) == [0, 1]
    assert "All four." not in heard.shown[0]


async def test_after_a_clear_nothing_of_what_came_before_is_told(talk: Talk, remember: Speak) -> None:
    heard = Listening()
    remember(*[f"Version {number}." for number in range(3)], *[heard.then("Afresh.")] * 20)
    await told(talk, range(3))
    await talk.clear()
    assert await talk.brief() is None
    await told(talk, range(100, 116))
    assert things(heard.shown[0]) == [100]
    assert "Version" not in heard.shown[0]
    newest = (await briefs(talk))[-1]
    assert (newest.turns, await version_sent(talk)) == (16, "Afresh.")
    assert "Thing 2" not in newest.facts


async def test_what_a_clear_put_aside_can_still_be_found(talk: Talk, remember: Speak) -> None:
    remember("The vault.")
    await say(talk, "The vault code is 4-8-15.")
    await talk.remember()
    await talk.clear()
    assert [hit.text for hit in await talk.recall("vault code")][:1] == ["The vault code is 4-8-15."]


async def test_nothing_more_is_asked_of_the_model_than_is_due(talk: Talk, someone: str, remember: Speak) -> None:
    remember(*["Fine."] * 5)
    await say(talk, "One.")
    for _ in range(4):
        await talk.remember()
    assert left(f"{someone}-memory") == 4
    assert await failures(talk) == []
