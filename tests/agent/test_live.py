"""A turn lives by itself: one runner, any number of listeners, stopped from anywhere, kept as it comes."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from everthread import Everthread, Talk, assistant, listening, user
from everthread.core.deltas import Delta, Done, TextDelta
from everthread.core.events import AgentKilled, Assistant
from everthread.core.logged import Logged
from everthread.errors import BadSetting, TurnCancelled, WrongKey
from everthread.listening import topic_of
from everthread.store import log
from everthread.store.beside.leases import of_turns
from everthread.testing.scripted import script
from tests.agent.conftest import Gate, Speak
from tests.agent.processes import process
from tests.agent.support import failing, heard, kinds, state, until_kept
from tests.waiting import PATIENCE, turned, until

WORDS = " ".join(f"word{number}" for number in range(40))


class Ear:
    """Somebody who listens, and what was heard so far: events by seq, and the text of deltas since the last event."""

    def __init__(self, talk: Talk, after: int = 0) -> None:
        self.items: list[Logged | Delta] = []
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._listen(talk, after))

    async def _listen(self, talk: Talk, after: int) -> None:
        async for item in talk.listen(after=after):
            self.items.append(item)
            self._news.set()

    @property
    def events(self) -> list[Logged]:
        return [item for item in self.items if isinstance(item, Logged)]

    @property
    def text(self) -> str:
        """Of the deltas since the last event."""
        said = ""
        for item in self.items:
            said = "" if isinstance(item, Logged) else said + str(item)
        return said

    @property
    def replies(self) -> list[tuple[str, str]]:
        """The text that was heard before each of the assistant's events, and the event's own."""
        found, said = [], ""
        for item in self.items:
            if isinstance(item, TextDelta):
                said += item.text
            elif isinstance(item, Logged):
                if item.kind == "assistant":
                    found.append((said, item.text))
                said = ""
        return found

    async def until(self, wanted: Any) -> None:
        async with asyncio.timeout(PATIENCE):
            while not wanted(self):
                self._news.clear()
                if self._task.done():
                    await self._task
                await self._news.wait()

    async def leave(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})


WRONG: Any = {"budget": 4.5}


async def joined(talk: Talk) -> None:
    """Wait until all who listen have begun to: who joins after a turn's end is not told of it."""
    topic, channels = topic_of(await talk.line()), talk._runtime.live._channels
    await until(lambda: topic in channels and all(ear.begun for ear in channels[topic].ears))


def is_over(ear: Ear) -> bool:
    return any(isinstance(item, Done) for item in ear.items)


@pytest.fixture
async def other(address: str, talk: Talk) -> AsyncIterator[Talk]:
    """The same conversation, as another process would have it."""
    async with Everthread.open(address) as et:
        yield await et.conversation(user=talk.conversation.user, id=talk.id)


# -- listening ---------------------------------------------------------------------------------------------


async def test_any_number_hear_a_turn_from_its_first_word_to_its_last(talk: Talk, speak: Speak) -> None:
    speak(WORDS, pace=0.01)
    ears = [Ear(talk) for _ in range(5)]
    await turned()
    await joined(talk)
    await talk.say("Go on.")
    for ear in ears:
        await ear.until(is_over)
        assert [event.kind for event in ear.events] == ["user", "assistant", "model_call"]
        assert ear.replies == [(WORDS, WORDS)]
        await ear.leave()


async def test_whoever_stops_a_turn_hears_of_its_end_at_once_and_not_when_it_next_looks(
    talk: Talk, speak: Speak, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "LOOK", 10 * PATIENCE)
    speak(WORDS)
    gate.hold(after=5)
    reply = talk.say("Go on.", detached=True)
    await gate.reached.wait()
    async with asyncio.timeout(PATIENCE):
        assert await talk.stop()
    with pytest.raises(TurnCancelled):
        await reply


async def test_how_a_turn_ended_is_told_at_once_and_not_when_a_listener_next_looks(
    talk: Talk, speak: Speak, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "LOOK", 10 * PATIENCE)
    speak(WORDS)
    ear = Ear(talk)
    await joined(talk)
    await talk.say("Go on.")
    await ear.until(is_over)
    await ear.leave()


async def test_one_who_joins_late_hears_the_running_reply_from_its_first_word(
    talk: Talk, speak: Speak, gate: Gate
) -> None:
    speak(WORDS)
    gate.hold(after=20)
    first = Ear(talk)
    await joined(talk)
    reply = talk.say("Go on.", detached=True)
    await first.until(lambda ear: "word19" in ear.text)
    late, knows = Ear(talk), Ear(talk, after=1)
    for ear in (late, knows):
        await ear.until(lambda ear: "word19" in ear.text)
    gate.open()
    for ear in (first, late, knows):
        await ear.until(is_over)
        assert ear.replies == [(WORDS, WORDS)]
        await ear.leave()
    assert isinstance(late.items[0], Logged)  # what was said comes before what is being said
    assert knows.events[0].kind == "assistant"
    await reply


async def test_one_who_comes_back_hears_nothing_twice_and_misses_nothing(talk: Talk, speak: Speak) -> None:
    speak(WORDS, "Done.", pace=0.02)
    reply = talk.say("Go on.", detached=True)
    seqs: list[int] = []
    while not seqs or seqs[-1] < 3:
        ear = Ear(talk, after=seqs[-1] if seqs else 0)
        await ear.until(lambda ear: ear.items)
        await asyncio.sleep(0.05)
        await ear.leave()
        seqs += [event.seq for event in ear.events]
    assert seqs == [1, 2, 3]
    await reply


async def test_a_listener_elsewhere_hears_the_reply_while_it_runs(
    talk: Talk, other: Talk, speak: Speak, gate: Gate
) -> None:
    speak(WORDS)
    gate.hold(after=20)
    reply = talk.say("Go on.", detached=True)
    ear = Ear(other)
    await ear.until(lambda ear: "word19" in ear.text)  # though it is not over
    gate.open()
    await reply
    await ear.until(lambda ear: ear.replies)
    (told, said), *_ = ear.replies
    assert said == WORDS
    assert WORDS.startswith(told)
    assert [event.seq for event in ear.events][:2] == [1, 2]
    await ear.leave()


async def test_what_users_append_while_a_reply_runs_does_not_end_it(talk: Talk, speak: Speak, gate: Gate) -> None:
    speak(WORDS)
    gate.hold(after=20)
    ear = Ear(talk)
    await joined(talk)
    reply = talk.say("Go on.", detached=True)
    await ear.until(lambda ear: "word19" in ear.text)
    await talk.append(user("By the way."))
    gate.open()
    await reply
    await ear.until(is_over)
    said = "".join(item.text for item in ear.items if isinstance(item, TextDelta))
    assert said == WORDS
    assert [event.kind for event in ear.events] == ["user", "user", "assistant", "model_call"]
    await ear.leave()


async def test_the_end_tells_what_was_sent_and_what_it_took(talk: Talk, speak: Speak) -> None:
    speak("Hello.")
    ear = Ear(talk)
    await joined(talk)
    deltas = await heard(talk.say("Hello?"))
    await ear.until(is_over)
    await ear.leave()
    done = deltas[-1]
    assert isinstance(done, Done)
    assert done == ear.items[-1]
    context = await talk.context(at=2)
    assert (done.cutoff, done.sent, done.past, done.degraded) == (1, 1, 0, context.degraded)
    assert done.calls == 1
    assert done.estimate == context.estimate
    assert done.budget == context.budget


async def test_one_who_joins_after_the_end_is_told_of_it_and_one_who_knows_it_is_not(talk: Talk, speak: Speak) -> None:
    speak("Hello.")
    *_, done = await heard(talk.say("Hello?"))
    late, knows = Ear(talk, after=1), Ear(talk, after=3)
    await late.until(is_over)
    assert late.items[-1] == done
    assert [event.seq for event in late.events] == [2, 3]
    await talk.append(user("And now?"))
    await knows.until(lambda ear: ear.events)
    assert [type(item) for item in knows.items] == [Logged]
    await late.leave()
    await knows.leave()


async def test_one_who_listens_elsewhere_is_told_of_every_end(talk: Talk, other: Talk, speak: Speak) -> None:
    """Also of those which another turn follows at once."""
    speak("One.", "Two.", "Three.")
    ear = Ear(other)
    first, *rest = [talk.say(f"Number {number}.", detached=True) for number in range(3)]
    await first
    for reply in rest:
        await reply
    await ear.until(lambda ear: len(ear.events) == 9 and isinstance(ear.items[-1], Done))
    ends = [item for item in ear.items if isinstance(item, Done)]
    assert ends[-1].seq == 9
    assert [done.seq for done in ends] == sorted({done.seq for done in ends} & {3, 6, 9})
    await ear.leave()


async def test_what_is_appended_by_hand_has_no_end_to_tell_of(talk: Talk) -> None:
    ear = Ear(talk)
    await talk.append(user("a"), assistant("b"), user("c"), assistant("d"))
    await ear.until(lambda ear: len(ear.events) == 4)
    await turned()
    assert len(ear.items) == 4
    await ear.leave()


async def test_nor_has_a_turn_that_nobody_let_the_agent_reply_to(talk: Talk, speak: Speak) -> None:
    speak("Hello.")
    await talk.append(user("Never answered."))
    ear = Ear(talk)
    await joined(talk)
    *_, done = await heard(talk.say("Hello?"))
    await ear.until(is_over)
    assert [event.kind for event in ear.events] == ["user", "agent_killed", "user", "assistant", "model_call"]
    assert [item for item in ear.items if isinstance(item, Done)] == [done]
    await ear.leave()


async def test_a_listener_has_a_turn_closed_whose_runner_was_killed(address: str, someone: str) -> None:
    async with Everthread.open(address) as et:
        talk = await et.begin(user=someone)
        async with process(address, someone, talk.id, model="word", words=1_000, pace=0.05) as child:
            ear = Ear(talk)
            child.do("say", "ana", text="Talk for ever.")
            await until_kept(talk, "word3")
            await child.kill()
        await ear.until(is_over)
        assert [event.kind for event in ear.events] == ["user", "assistant", "agent_killed"]
        assert ear.events[1].text.startswith("word0 word1 word2")
        assert [item.state for item in ear.items if isinstance(item, Done)] == ["interrupted"]
        await ear.leave()


# -- going on and stopping -----------------------------------------------------------------------------------


async def test_a_detached_turn_goes_on_without_its_caller(talk: Talk, speak: Speak) -> None:
    speak(WORDS, pace=0.01)
    task = asyncio.create_task(_hears_one(talk))
    await task
    ear = Ear(talk)
    await ear.until(lambda ear: ear.replies)
    assert ear.replies[-1][1] == WORDS
    await ear.leave()
    assert await state(talk) == "idle"


async def _hears_one(talk: Talk) -> None:
    async for delta in talk.say("Go on.", detached=True):
        if isinstance(delta, TextDelta):
            return


async def test_a_detached_turn_begins_at_once_and_says_when_its_message_is_kept(talk: Talk, speak: Speak) -> None:
    speak("Hello.")
    reply = talk.say("Hello?", detached=True)
    message = await reply.accepted()
    assert (message.seq, message.text) == (1, "Hello?")
    ear = Ear(talk)
    await ear.until(lambda ear: len(ear.events) == 3)
    await ear.leave()
    assert await kinds(talk) == ["user", "assistant", "model_call"]


async def test_what_is_wrong_with_a_detached_turn_is_raised_to_who_waits_for_it(talk: Talk, speak: Speak) -> None:
    speak(WrongKey("scripted", "it is not valid"))
    with pytest.raises(WrongKey):
        await talk.say("Hello?", detached=True)
    with pytest.raises(BadSetting):
        await talk.say("Hello?", settings=WRONG, detached=True).accepted()


async def test_without_it_a_caller_that_leaves_ends_the_turn(talk: Talk, speak: Speak) -> None:
    speak(WORDS, pace=0.02)
    async with aclosing(talk.say("Go on.")) as reply:
        async for delta in reply:
            if isinstance(delta, TextDelta):
                break
    assert await state(talk) == "interrupted"


@pytest.mark.parametrize("detached", [False, True])
async def test_a_turn_is_stopped_from_anywhere_and_what_had_come_is_kept(
    talk: Talk, other: Talk, speak: Speak, gate: Gate, detached: bool
) -> None:
    speak(WORDS)
    gate.hold(after=20)
    ear = Ear(talk)
    await joined(talk)
    reply = talk.say("Go on.", detached=detached)
    whole = asyncio.create_task(_whole(reply))
    await ear.until(lambda ear: len(ear.text) > 50)
    assert await other.stop()
    with pytest.raises(TurnCancelled):
        await whole
    await ear.until(is_over)
    assert [event.kind for event in ear.events] == ["user", "command", "assistant", "model_call", "agent_killed"]
    assert ear.events[2].text.startswith("word0 word1")
    killed = ear.events[-1].event
    assert isinstance(killed, AgentKilled)
    assert killed.reason == "stopped"
    assert not await other.stop()  # there is none any more
    await ear.leave()


async def _whole(reply: Any) -> Any:
    return await reply


async def test_stopping_where_nothing_runs_changes_nothing(talk: Talk) -> None:
    assert not await talk.stop()
    assert await kinds(talk) == []


# -- what has come is kept -------------------------------------------------------------------------------------


async def test_of_a_killed_process_what_had_come_a_moment_before_is_kept(address: str, someone: str) -> None:
    script(someone, "I go on.")
    async with Everthread.open(address, settings={"model": f"scripted:{someone}", "memory": False}, keys={}) as et:
        talk = await et.begin(user=someone)
        async with process(address, someone, talk.id, model="word", words=1_000, pace=0.05) as child:
            child.do("say", "ana", text="Talk for ever.")
            await until_kept(talk, "word3")
            await child.kill()
        assert await state(talk) == "open"
        await talk.say("And now?")
        events = await talk.after(limit=10)
        assert [event.kind for event in events[:3]] == ["user", "assistant", "agent_killed"]
        kept = events[1].event
        assert isinstance(kept, Assistant)
        assert kept.interrupted
        assert kept.model == "scripted:word"
        assert events[1].text.startswith("word0 word1 word2")


async def test_who_stops_a_turn_whose_process_is_gone_closes_it_and_keeps_what_had_come(
    address: str, someone: str
) -> None:
    async with Everthread.open(address) as et:
        talk = await et.begin(user=someone)
        async with process(address, someone, talk.id, model="word", words=1_000, pace=0.05) as child:
            child.do("say", "ana", text="Talk for ever.")
            await until_kept(talk, "word3")
            await child.kill()
        assert await talk.stop()
        ear = Ear(talk)
        await ear.until(lambda ear: len(ear.events) == 3)
        assert [event.kind for event in ear.events] == ["user", "assistant", "agent_killed"]
        await ear.leave()
        assert await state(talk) == "interrupted"


# -- forgetting, forks, other users ------------------------------------------------------------------------------


async def _kept(talk: Talk) -> str:
    """What is kept of the running reply, beside the log."""
    found = await talk._log.leases.partial(
        talk.conversation.tenant, of_turns(talk.id, (await talk.line()).branch.number)
    )
    return found.text if found else ""


async def test_what_was_kept_goes_with_a_redaction_and_does_not_come_back(talk: Talk, speak: Speak, gate: Gate) -> None:
    """It may tell of what is forgotten. The reply itself lands as it is, to be redacted like any other."""
    speak(WORDS)
    gate.hold(after=20)
    reply = talk.say("My secret is a cake.", detached=True)
    await until_kept(talk, "word3")
    await talk.redact(1)
    assert await _kept(talk) == ""
    run = talk._runtime.live.running(topic_of(await talk.line()))
    assert run is not None
    await run._keep()  # what would happen a second later
    assert await _kept(talk) == ""
    gate.open()
    assert "word39" in (await reply).text


async def test_what_was_kept_goes_with_the_conversation(talk: Talk, speak: Speak) -> None:
    speak(" ".join([WORDS] * 20), pace=0.05)
    reply = talk.say("My secret is a cake.", detached=True)
    await until_kept(talk, "word3")
    await talk.erase()
    assert await talk._log.leases.partial(talk.conversation.tenant, of_turns(talk.id, 1)) is None
    await reply.cancel()
    assert await talk._log.leases.partial(talk.conversation.tenant, of_turns(talk.id, 1)) is None


async def test_a_fork_has_nothing_of_the_reply_that_runs_on_its_parent(talk: Talk, speak: Speak) -> None:
    speak(" ".join([WORDS] * 20), pace=0.05)
    reply = talk.say("Go on.", detached=True)
    await until_kept(talk, "word3")
    side = await talk.fork()
    ear = Ear(side)
    await ear.until(lambda ear: len(ear.events) == 2)
    assert await _kept(side) == ""
    await side.append(user("Here it is quiet."))
    await ear.until(lambda ear: len(ear.events) == 3)
    assert ear.text == ""
    await ear.leave()
    assert await talk.stop()
    with pytest.raises(TurnCancelled):
        await reply


async def test_a_clear_leaves_the_reply_that_runs(talk: Talk, speak: Speak, gate: Gate) -> None:
    speak(WORDS)
    gate.hold(after=20)
    ear = Ear(talk)
    await joined(talk)
    reply = talk.say("Go on.", detached=True)
    await ear.until(lambda ear: "word19" in ear.text)
    await talk.clear()
    gate.open()
    assert (await reply).text == WORDS
    await ear.until(is_over)
    assert "".join(item.text for item in ear.items if isinstance(item, TextDelta)) == WORDS
    await ear.leave()


async def test_a_replys_end_leaves_nothing_beside_the_log(talk: Talk, speak: Speak, gate: Gate) -> None:
    speak(WORDS)
    gate.hold(after=20)
    reply = talk.say("Go on.", detached=True)
    await until_kept(talk, "word3")
    gate.open()
    await reply
    assert await _kept(talk) == ""


# -- errors ----------------------------------------------------------------------------------------------------


async def test_what_went_wrong_is_raised_and_logged_and_is_no_reply(
    talk: Talk, speak: Speak, caplog: pytest.LogCaptureFixture
) -> None:
    speak(WrongKey("scripted", "it is not valid"))
    with caplog.at_level(logging.WARNING):
        said = await failing(talk.say("Hello?"), WrongKey)
    assert "".join(map(str, said)) == ""
    assert isinstance(said[-1], Done)
    assert said[-1].state == "interrupted"
    assert "it is not valid" in caplog.text
    speak(WrongKey("scripted", "it is not valid"))
    with pytest.raises(WrongKey):
        await talk.say("Hello?")


async def test_what_is_wrong_with_a_detached_turn_is_logged_where_nobody_waits_for_it(
    talk: Talk, speak: Speak, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        talk.say("Hello?", settings=WRONG, detached=True)
        await until(lambda: "budget" in caplog.text)
    assert await kinds(talk) == []


# -- what is on the way may be late, lost or too much ------------------------------------------------------------


async def test_a_listener_that_falls_far_behind_misses_nothing_and_hears_nothing_twice(
    talk: Talk, speak: Speak, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "BEHIND", 20)
    speak(" ".join([WORDS] * 2), "Done.")
    items: list[Logged | Delta] = []
    async with aclosing(talk.listen()) as hearing:  # type: ignore[type-var]
        waiting = asyncio.ensure_future(anext(hearing))
        await asyncio.sleep(0)
        await talk.say("Go on.")
        await talk.append(*(user(str(number)) for number in range(100)))
        items.append(await waiting)
        while not isinstance(items[-1], Logged) or items[-1].text != "99":
            items.append(await anext(hearing))
    assert [item.seq for item in items if isinstance(item, Logged)] == list(range(1, 104))
    told = "".join(map(str, items))
    assert " ".join([WORDS] * 2).startswith("".join(item.text for item in items if isinstance(item, TextDelta))), told


async def test_pieces_that_the_bus_loses_are_made_up_for_by_what_is_kept(
    talk: Talk, other: Talk, speak: Speak, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite there is no bus, and all of it comes this way."""
    heard_over_the_bus = listening.Channel.heard
    lost = itertools.cycle([True, False, False])
    monkeypatch.setattr(
        listening.Channel, "heard", lambda channel, frame: None if next(lost) else heard_over_the_bus(channel, frame)
    )
    whole = " ".join([WORDS] * 3)
    speak(whole, pace=0.03)
    gate.hold(after=100)
    ear = Ear(other)
    reply = talk.say("Go on.", detached=True)
    await ear.until(lambda ear: len(ear.text) > 500)
    assert whole.startswith(ear.text)
    gate.open()
    await reply
    await ear.until(lambda ear: ear.replies)
    (told, said), *_ = ear.replies
    assert said == whole
    assert whole.startswith(told)
    await ear.leave()


@pytest.mark.parametrize("text", ["\0 \ud800 \U0001f600 " * 400, "x" * 100_000], ids=["any characters", "very long"])
async def test_any_text_of_any_length_reaches_a_listener_elsewhere(
    talk: Talk, other: Talk, speak: Speak, text: str
) -> None:
    speak(f"{text} {WORDS}", pace=0.001)
    ear = Ear(other)
    await talk.say("Go on.")
    await ear.until(lambda ear: ear.replies)
    (told, said), *_ = ear.replies
    assert said.startswith(told)
    await ear.leave()
