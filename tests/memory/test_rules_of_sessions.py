"""The rules of sessions and their recaps, a test for each."""

from __future__ import annotations

import re

import pytest

from everthread import Everthread, Talk, assistant, user
from everthread.core.events import Event
from everthread.language.digest import word_count
from everthread.testing.scripted import script
from tests.contract.support import MINUTE, Clock
from tests.memory.conftest import Speak
from tests.memory.support import Listening, failures, fenced_in, outside, recaps
from tests.memory.test_brief import briefs, busy, say
from tests.transcripts import FORMS, instructions, transcript, whole

NEVER = 3_600.0  # seconds that a model takes for a word: nobody waits for that


@pytest.fixture
async def talk(slow: Everthread, someone: str) -> Talk:
    return await slow.begin(user=someone, name="chat", settings={"strategy": "session"})


def recap_asked(heard: Listening) -> list[str]:
    """What the model was shown where a recap was asked of it."""
    return [shown for told, shown in zip(heard.told, heard.shown, strict=True) if "one session" in told]


async def visits(talk: Talk, clock: Clock, *said: str, minutes: int = 31) -> None:
    """A session for each, with memory doing its work in between."""
    for text in said:
        await say(talk, text)
        await talk.remember()
        clock.now += minutes * MINUTE


# -- when a session is over --------------------------------------------------------------------------------


@pytest.mark.parametrize(("minutes", "sessions"), [(1, 1), (29, 1), (31, 2), (60 * 24 * 400, 2)])
async def test_a_pause_of_thirty_minutes_ends_a_session(
    talk: Talk, clock: Clock, remember: Speak, minutes: int, sessions: int
) -> None:
    remember(*["Fine."] * 9)
    await visits(talk, clock, "One.", "Two.", minutes=minutes)
    assert len(await talk.sessions()) == sessions
    assert [one.session for one in await recaps(talk)] == list(range(1, sessions))


async def test_nothing_happens_until_the_next_message_comes(talk: Talk, clock: Clock, remember: Speak) -> None:
    """There is no timer: a conversation that nobody takes up again costs nothing."""
    remember(*["Fine."] * 9)
    await visits(talk, clock, "One.")
    clock.now += 60 * 24 * MINUTE
    await talk.remember()
    assert await recaps(talk) == []


async def test_the_session_that_goes_on_has_no_recap(talk: Talk, clock: Clock, remember: Speak) -> None:
    remember(*["Fine."] * 9)
    await visits(talk, clock, *["Still here."] * 6, minutes=20)
    assert await recaps(talk) == []
    assert len(await talk.sessions()) == 1


async def test_a_scheduled_message_joins_the_session_that_goes_on(
    slow: Everthread, talk: Talk, clock: Clock, someone: str
) -> None:
    script(someone, "Hello.", "It rains.", "Good night.")
    await talk.say("Hello?")
    clock.now += 20 * MINUTE
    await talk.say("Tell the weather.", origin="schedule")
    clock.now += 20 * MINUTE
    await talk.say("Thanks.")
    assert await slow.memory.drain(30)
    assert len(await talk.sessions()) == 1
    assert await recaps(talk) == []


async def test_a_scheduled_message_after_a_pause_ends_the_session_before(
    slow: Everthread, talk: Talk, clock: Clock, someone: str, remember: Speak
) -> None:
    heard = Listening()
    remember(*[heard.then("Fine.")] * 9)
    script(someone, "Hello.", "It rains.")
    await talk.say("Hello?")
    assert await slow.memory.drain(30)
    clock.now += 31 * MINUTE
    await talk.say("Tell the weather.", origin="schedule")
    assert await slow.memory.drain(30)
    assert [one.session for one in await recaps(talk)] == [1]
    assert "weather" not in recap_asked(heard)[0]


# -- the message that finds it over ------------------------------------------------------------------------


async def test_the_message_that_finds_the_session_over_is_answered_though_the_recap_never_comes(
    slow: Everthread, talk: Talk, clock: Clock, someone: str
) -> None:
    script(someone, "Hello.", "Welcome back.", "Still here.")
    await talk.say("Hello?")
    assert await slow.memory.drain(30)
    script(f"{someone}-memory", "They greeted each other.", pace=NEVER)
    clock.now += 31 * MINUTE
    assert str(await talk.say("I am back.")) == "Welcome back."
    assert str(await talk.say("Are you?")) == "Still here."
    assert await recaps(talk) == []
    await slow.memory.close(0)


async def test_that_message_is_kept_and_sent(
    slow: Everthread, talk: Talk, clock: Clock, someone: str, remember: Speak
) -> None:
    """An idle reset must not drop the very message that brought it about."""
    remember(*["Fine."] * 9)
    heard = Listening()
    script(someone, "Hello.", heard.then("Welcome back."))
    await talk.say("Hello?")
    clock.now += 31 * MINUTE
    await talk.say("I am back.")
    assert await slow.memory.drain(30)
    assert heard.shown[0].startswith("I am back.")
    assert "Hello?" not in outside(heard.bodies[0]["messages"][0]["content"])  # only in the recap, as reference
    assert [event.text for event in await talk.before(messages=True)][-2:] == ["I am back.", "Welcome back."]


async def test_its_tokens_are_not_among_the_reply(
    slow: Everthread, talk: Talk, clock: Clock, someone: str, remember: Speak
) -> None:
    """The recap is written while the reply is."""
    remember(*["WHISPER " * 80] * 9)
    script(someone, "Hello.", "word " * 80)
    await talk.say("Hello?")
    clock.now += 31 * MINUTE
    deltas = [delta async for delta in talk.say("I am back.")]
    assert await slow.memory.drain(30)
    assert len(await recaps(talk)) == 1
    assert "WHISPER" not in repr(deltas)


# -- what a recap is about -----------------------------------------------------------------------------------


async def test_a_recap_is_about_the_session_that_ended_and_no_other(talk: Talk, clock: Clock, remember: Speak) -> None:
    heard = Listening()
    remember(*[heard.then("Fine.")] * 20)
    await visits(talk, clock, "Apples, please.", "Bananas, please.", "Cherries, please.")
    fruits = [re.findall(r"Apples|Bananas|Cherries", shown) for shown in recap_asked(heard)]
    assert fruits == [["Apples"], ["Bananas"]]


async def test_every_pause_has_a_recap_of_its_own_in_order(talk: Talk, clock: Clock, remember: Speak) -> None:
    remember(*[f"Note {number}." for number in range(20)])
    await visits(talk, clock, *[f"Visit {number}." for number in range(5)])
    found = await recaps(talk)
    assert [one.session for one in found] == [1, 2, 3, 4]
    assert len({one.recap for one in found}) == 4


async def test_only_the_recap_of_the_session_before_is_told(talk: Talk, clock: Clock, remember: Speak) -> None:
    remember(*[f"Note {number}." for number in range(20)])
    await visits(talk, clock, *[f"Visit {number}." for number in range(5)])
    last = (await recaps(talk))[-1]
    for model in FORMS:
        context = await talk.context(model=model, settings={"clock": "off"})
        (told,) = [fence for fence in fenced_in(context.request) if fence.kind == "recap"]
        assert told.text.strip() == last.recap


async def test_a_recap_is_an_exchange_before_the_session_and_not_among_the_instructions(
    talk: Talk, clock: Clock, remember: Speak
) -> None:
    remember(*["They spoke of apples."] * 9)
    await visits(talk, clock, "Apples, please.", "And now?")
    for model in FORMS:
        context = await talk.context(model=model, instructions="Be kind.", settings={"clock": "off"})
        told = transcript(context)
        assert told[0].endswith('<reference-N kind="recap">\nThey spoke of apples.\n</reference-N>')
        assert told[1:4] == ["assistant: Noted, as background.", "user: And now?", "assistant: Noted."]
        assert instructions(context.request) == "Be kind."


async def test_it_is_asked_for_in_two_to_four_sentences_of_the_third_person(
    talk: Talk, clock: Clock, remember: Speak
) -> None:
    heard = Listening()
    remember(*[heard.then("Fine.")] * 9)
    await visits(talk, clock, "One.", "Two.")
    (told,) = [" ".join(told.split()) for told in heard.told if "one session" in told]
    assert "in two to four sentences" in told
    assert "Write in the third person" in told


async def test_it_stays_short_whatever_the_model_writes(talk: Talk, clock: Clock, remember: Speak) -> None:
    remember(*["The user asked for tea and got it. " * 250] * 9)
    await visits(talk, clock, "One.", "Two.")
    (recap,) = await recaps(talk)
    assert 0 < word_count(recap.recap) <= 120


async def test_without_a_model_it_is_four_sentences_of_what_was_said(talk: Talk, clock: Clock) -> None:
    await talk.configure(summary_model="")
    await talk.append(*[event for number in range(40) for event in _ordered(number)])
    clock.now += 31 * MINUTE
    await say(talk, "Back.")
    await talk.remember()
    (recap,) = await recaps(talk)
    assert recap.extractive
    assert 1 <= len(re.findall(r"Order AB-\d+", recap.recap)) <= 4
    assert "Back." not in recap.recap


def _ordered(number: int) -> list[Event]:
    return [user(f"Order AB-{number} is late."), assistant(f"Order AB-{number} will come on day {number}.")]


async def test_a_recap_can_be_found(talk: Talk, clock: Clock, remember: Speak) -> None:
    remember(*["They bargained over a gramophone."] * 9)
    await visits(talk, clock, "What does it cost?", "Hello again.")
    hits = await talk.recall("gramophone")
    assert [(hit.kind, hit.text) for hit in hits][:1] == [("session_ended", "They bargained over a gramophone.")]


# -- failing ---------------------------------------------------------------------------------------------------


async def test_where_the_model_fails_an_extract_stands_in_until_it_is_back(
    talk: Talk, clock: Clock, remember: Speak, at_once: None
) -> None:
    remember(busy(), "They ordered AB-1.")
    await visits(talk, clock, "Order AB-1 is late.")
    await say(talk, "Back.")
    await talk.remember()
    assert [(one.session, one.extractive) for one in await recaps(talk)] == [(1, True)]
    assert "AB-1" in (await recaps(talk))[0].recap
    await talk.remember()
    assert [(one.session, one.extractive) for one in await recaps(talk)] == [(1, True), (1, False)]
    context = await talk.context()
    assert "They ordered AB-1." in whole(context.request)
    assert len(await failures(talk)) == 1


async def test_a_recap_that_is_there_is_not_made_again(talk: Talk, clock: Clock, remember: Speak) -> None:
    heard = Listening()
    remember(*[heard.then("Fine.")] * 20)
    await visits(talk, clock, "One.", "Two.")
    clock.now -= 30 * MINUTE
    for text in ("Three.", "Four."):  # within the second session
        clock.now += MINUTE
        await say(talk, text)
        await talk.remember()
    assert len(recap_asked(heard)) == len(await recaps(talk)) == 1


# -- forks, rewinds, clears ------------------------------------------------------------------------------------


async def test_a_rewind_to_before_the_pause_has_no_recap(talk: Talk, clock: Clock, remember: Speak) -> None:
    remember(*["They spoke of apples."] * 9)
    mark = await talk.mark("start")
    await visits(talk, clock, "Apples, please.", "And now?")
    back = await talk.rewind(to=mark.seq)
    await say(back, "Pears, please.")
    assert await recaps(back) == []
    assert "apples" not in whole((await back.context()).request)


async def test_each_fork_has_the_recaps_of_its_own_line(talk: Talk, clock: Clock, remember: Speak) -> None:
    heard = Listening()
    remember(*[heard.then(f"Note {number}.") for number in range(20)])
    await visits(talk, clock, "Apples, please.")
    clock.now -= 20 * MINUTE
    side = await talk.fork()
    await say(side, "Bananas, please.")
    clock.now += 40 * MINUTE
    for branch in (talk, side):
        await say(branch, "Back.")
        await branch.remember()
    fruits = [re.findall(r"Apples|Bananas", shown) for shown in recap_asked(heard)]
    assert fruits == [["Apples"], ["Apples", "Bananas"]]
    (ours,), (theirs,) = await recaps(talk), await recaps(side)
    assert ours.recap != theirs.recap
    assert theirs.recap not in whole((await talk.context()).request)


async def test_after_a_clear_no_recap_of_what_came_before_is_told(talk: Talk, clock: Clock, remember: Speak) -> None:
    remember(*["They spoke of apples."] * 9)
    await visits(talk, clock, "Apples, please.", "And now?")
    await talk.clear()
    await say(talk, "Afresh.")
    for strategy in ("session", "budget"):
        assert "apples" not in whole((await talk.context(strategy=strategy)).request)


async def test_a_brief_goes_on_across_sessions(talk: Talk, clock: Clock, remember: Speak) -> None:
    await talk.configure(strategy="budget")
    remember(*["Fine."] * 20)
    await visits(talk, clock, "One.", "Two.", "Three.")
    assert [one.turns for one in await briefs(talk)] == [1, 2, 3]
    assert len(await recaps(talk)) == 2
