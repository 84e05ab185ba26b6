"""Memory's model fails in every way there is, and the conversation does not notice (law 7)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from everthread import Everthread, GivenSettings, Talk, assistant, user
from everthread.core.deltas import Delta, Done, Notice, TextDelta
from everthread.core.events import MESSAGES, ModelCall
from everthread.errors import (
    BrokenOff,
    NoCredit,
    NoKey,
    NoModelFile,
    Overloaded,
    RequestRefused,
    TooLong,
    UnknownModel,
    Unreachable,
    WrongKey,
)
from everthread.language.digest import word_count
from everthread.testing.scripted import broken, call, script, thought
from tests.contract.support import everything
from tests.memory.conftest import Speak
from tests.memory.support import Listening, events_of, failures, fenced_in
from tests.memory.test_brief import briefs, say
from tests.transcripts import CHAT

NEVER = 3_600.0  # seconds that a model takes for a word: nobody waits for that
SMALL: GivenSettings = {"model": CHAT, "budget": 1_500, "clock": "off"}

RAISED: dict[str, Any] = {
    "no key": NoKey("scripted", "SCRIPTED_KEY"),
    "a wrong key": WrongKey("scripted", "401"),
    "no credit": NoCredit("scripted", "402"),
    "an unknown model": UnknownModel("scripted", "nobody", "404"),
    "a request that is too long": TooLong("scripted", "413", needed=9_000, limit=8_000),
    "a request that is refused": RequestRefused("scripted", "400"),
    "too many requests": Overloaded("scripted", "429", after=30.0),
    "silence": Unreachable("scripted", "it was silent for 300 s"),
    "a reply that is no reply": BrokenOff("scripted", "not what the protocol says"),
    "no file": NoModelFile("scripted", "no file"),
    "a stream that breaks": ["WHISPER that breaks", broken(after_words=1)],
    "a stream that breaks at once": [broken()],
}
WRITTEN: dict[str, Any] = {
    "nothing": "",
    "blanks": " \n\t ",
    "thoughts alone": [thought("WHISPER")],
    "tool calls alone": [call("write_memory", {"text": "WHISPER"}), call("nothing", "{")],
    "punctuation": "… — !?",
    "no end": "WHISPER and so on, " * 20_000,
    "a document": "# Title\n\n```json\n{}\n```\n\n## Next steps\n\n1. WHISPER",
    "characters that no request can carry": "WHISPER \ud800\x00",
}
FAILING = RAISED | WRITTEN


@pytest.fixture
async def plain(address: str, someone: str) -> AsyncIterator[Everthread]:
    """The same store without memory."""
    async with Everthread.open(address, settings={"model": f"scripted:{someone}", "memory": False}) as et:
        yield et


async def heard(talk: Talk, text: str) -> list[Delta]:
    """What a turn tells, but for its figures."""
    deltas = [delta async for delta in talk.say(text)]
    done = deltas[-1]
    assert isinstance(done, Done)
    return [*deltas[:-1], Done(state=done.state, model=done.model, seq=0)]


async def test_a_model_that_is_busy_for_a_moment_is_asked_again_by_the_same_model_call(
    talk: Talk, remember: Speak, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everthread.agent.call.FIRST_PAUSE", 0.001)
    await talk.configure(retries=1)
    remember(Overloaded("scripted", "429"), "The user says hello.")
    await say(talk, "Hello.")
    await talk.remember()
    assert [one.text for one in await briefs(talk)] == ["The user says hello."]
    assert [call.tries for call in await events_of(talk, ModelCall) if call.agent == "memory"] == [2]
    assert await failures(talk) == []


# -- the turn goes on ----------------------------------------------------------------------------------------


async def told_by(et: Everthread, someone: str, failing: Any) -> tuple[list[Delta], Talk]:
    """Three turns, and all that they told; memory's model fails all the while."""
    script(someone, "Good morning to you.", "It is noon.", "Good night.")
    script(f"{someone}-memory", *[failing] * 12)
    talk = await et.begin(user=someone, name="chat")
    deltas = []
    for text in ("Good morning.", "What time is it?", "Good night."):
        deltas += await heard(talk, text)
        assert await et.memory.drain(60)
    return deltas, talk


async def said_in(talk: Talk) -> list[tuple[str, str]]:
    return [(event.kind, event.text) for event in await everything(talk) if event.kind in MESSAGES]


async def test_turns_go_on_and_all_that_is_said_is_what_is_said_without_memory(
    et: Everthread, plain: Everthread, someone: str, at_once: None
) -> None:
    without, other = await told_by(plain, someone, "")
    for name, failing in FAILING.items():
        deltas, talk = await told_by(et, someone, failing)
        assert deltas == without, name
        assert await said_in(talk) == await said_in(other), name
        assert "WHISPER" not in repr(deltas)
        assert not [delta for delta in deltas if isinstance(delta, Notice)]
        assert all(word_count(brief.text) <= 300 for brief in await briefs(talk)), name
        assert await talk.notes() == "", name


async def test_a_model_of_memory_that_never_answers_holds_nobody_up(et: Everthread, someone: str) -> None:
    script(someone, *[f"Reply {number}." for number in range(5)])
    script(f"{someone}-memory", "WHISPER " * 9, pace=NEVER)
    talk = await et.begin(user=someone, name="chat")
    for number in range(5):
        assert str(await talk.say("Next.")) == f"Reply {number}."
    assert not await et.memory.drain(0)
    assert await briefs(talk) == []
    await et.memory.close(0)


async def test_closing_does_not_wait_for_it_for_ever(
    address: str, someone: str, memory_model: str, remember: Speak
) -> None:
    """What was begun is taken up by the next process."""
    settings: GivenSettings = {"model": f"scripted:{someone}", "summary_model": memory_model, "retries": 0}
    script(someone, "Good.")
    script(f"{someone}-memory", "WHISPER " * 9, pace=NEVER)
    async with Everthread.open(address, settings=settings) as et:
        talk = await et.begin(user=someone, name="chat")
        await talk.say("How are you?")
        await et.memory.close(0)
    remember("They greeted.")
    async with Everthread.open(address, settings=settings) as et:
        talk = await et.conversation(user=someone)
        assert await talk.remember()
        assert [one.text for one in await briefs(talk)] == ["They greeted."]


async def test_its_tokens_are_its_own(et: Everthread, someone: str, remember: Speak) -> None:
    """Neither the deltas nor the figures of a turn have them; the log does."""
    script(someone, "Good.", "Good.")
    remember(*["WHISPER " * 50] * 4)
    talk = await et.begin(user=someone, name="chat")
    usages = []
    for _ in range(2):
        *deltas, done = [delta async for delta in talk.say("How are you?")]
        assert isinstance(done, Done)
        assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == "Good."
        usages.append((done.calls, done.usage.output))
        assert await et.memory.drain(60)
    assert usages[0] == usages[1] == (1, usages[0][1])
    assert usages[0][1] < 10


# -- what serves meanwhile -----------------------------------------------------------------------------------


async def test_an_extract_serves_until_the_model_is_back_and_is_replaced(
    et: Everthread, someone: str, remember: Speak, at_once: None
) -> None:
    for name, failing in RAISED.items():
        talk = await et.begin(user=someone, name="chat")
        remember(failing, "The budget is 500 euros.")
        last = await say(talk, "The budget is 500 euros.")
        await talk.remember()
        (extract,) = await briefs(talk)
        assert (extract.extractive, extract.covers, "500 euros" in extract.text) == (True, last, True), name
        assert len(await failures(talk)) == 1, name
        await talk.remember()
        extract, brief = await briefs(talk)
        assert (brief.text, brief.extractive) == ("The budget is 500 euros.", False), name
        assert (brief.covers, brief.turns) == (extract.covers, extract.turns) == (last, 1), name
        assert await talk.brief() == brief, name


@pytest.mark.parametrize("failing", ["too many requests", "a stream that breaks", "nothing", "no end"])
async def test_no_turn_is_neither_sent_nor_told_while_it_fails(
    et: Everthread, someone: str, remember: Speak, failing: str
) -> None:
    remember(*[FAILING[failing]] * 30)
    script(someone, "Noted.")
    talk = await et.begin(user=someone, name="chat")
    for number in range(12):
        await talk.append(user(f"Ticket AB-{number} is {'very ' * 60}late."), assistant("Noted."))
    await talk.say("And now?")
    assert await et.memory.drain(60)
    context = await talk.context(settings=SMALL)
    assert context.past > 0
    told = [fence for fence in fenced_in(context.request) if fence.kind in ("brief", "extract")]
    assert max(fence.last for fence in told) >= context.cutoff - 1
    assert min(fence.first for fence in told) == 1


async def test_the_status_says_that_it_failed_and_why_until_it_is_back(
    et: Everthread, talk: Talk, remember: Speak, at_once: None
) -> None:
    remember(Unreachable("scripted", "no route"), Overloaded("scripted", "busy"), "Fine.")
    seen = []
    await say(talk, "Hello.")
    for _ in range(3):
        await talk.remember()
        status = await talk.memory()
        seen.append((status.failures, status.extractive, status.error[-40:] != "", status.behind))
    assert seen == [(1, True, True, 0), (2, True, True, 0), (0, False, False, 0)]


async def test_when_it_is_back_it_catches_up_on_all_that_was_said_meanwhile(
    et: Everthread, someone: str, remember: Speak, at_once: None
) -> None:
    """Through turns, as it is in life: nobody asks memory for anything."""
    listening = Listening()
    script(someone, *[f"Reply {number}." for number in range(6)])
    remember(*[Overloaded("scripted", "busy")] * 5, listening.then("All six."))
    talk = await et.begin(user=someone, name="chat")
    for number in range(6):
        await talk.say(f"Question {number}?")
        assert await et.memory.drain(60)
    assert [f"Question {number}?" in listening.shown[0] for number in range(6)] == [True] * 6
    newest = await talk.brief()
    assert newest is not None
    assert (newest.text, newest.turns, newest.extractive) == ("All six.", 6, False)


async def test_a_conversation_whose_memory_fails_does_not_hold_up_another(
    et: Everthread, someone: str, at_once: None
) -> None:
    """One worker serves them all."""
    script(someone, *["Good."] * 4)
    talks = [await et.begin(user=someone, name="chat") for _ in range(3)]
    await talks[0].configure(summary_model=script(f"{someone}-broken", *[Overloaded("scripted", "busy")] * 9))
    script(f"{someone}-memory", "One.", "Two.")
    for talk in talks:
        await talk.say("How are you?")
    assert await et.memory.drain(60)
    assert [[one.extractive for one in await briefs(talk)] for talk in talks] == [[True], [False], [False]]
