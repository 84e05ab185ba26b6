"""Recaps, range summaries and names."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from everthread import Everthread, GivenSettings, Talk, assistant, user
from everthread.core.events import SessionEnded, Summary
from everthread.core.tokens import count
from everthread.jobs.memory import memory_worker
from everthread.jobs.worker import Worker
from everthread.testing.scripted import script
from tests.contract.support import MINUTE, Clock
from tests.memory.conftest import Speak
from tests.memory.test_brief import say
from tests.waiting import PATIENCE


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def quick(address: str, someone: str, memory_model: str, clock: Clock) -> AsyncIterator[Everthread]:
    """Where time goes by when it is told to."""
    settings: GivenSettings = {"model": f"scripted:{someone}", "summary_model": memory_model, "retries": 0}
    async with Everthread.open(address, settings=settings) as et:
        et.log._clock = clock
        yield et


async def recaps(talk: Talk) -> list[SessionEnded]:
    found = await talk._log.markers(await talk.line(), "session_ended", limit=10)
    return [one.event for one in reversed(found) if isinstance(one.event, SessionEnded)]


async def test_a_session_that_is_over_has_its_recap_once_the_next_has_begun(
    quick: Everthread, someone: str, remember: Speak, clock: Clock
) -> None:
    remember("They planned a picnic.", "A brief.", "A brief.")
    talk = await quick.begin(user=someone, name="picnic")
    quick.memory.remind = lambda *_: None  # type: ignore[method-assign]
    worker = memory_worker(quick._runtime)
    await talk.append(user("Let us plan a picnic."), assistant("With pleasure."))
    await worker.once(talk.conversation)
    assert await recaps(talk) == []
    clock.now += 31 * MINUTE
    await say(talk, "Where were we?")
    await worker.once(talk.conversation)
    (recap,) = await recaps(talk)
    assert recap.session == 1
    assert recap.recap
    assert len(await recaps(talk)) == 1
    await worker.once(talk.conversation)
    assert len(await recaps(talk)) == 1


async def test_the_message_that_finds_the_session_over_is_answered_without_waiting(
    quick: Everthread, someone: str, clock: Clock
) -> None:
    script(someone, "Hello.", "Welcome back.")
    talk = await quick.begin(user=someone, name="chat")
    await talk.say("Hello?")
    clock.now += 31 * MINUTE
    assert str(await talk.say("I am back.")) == "Welcome back."
    assert await quick.memory.drain(PATIENCE)
    assert [one.session for one in await recaps(talk)] == [1]


async def test_range_summaries_come_every_fifty_messages_and_keep_their_tokens(et: Everthread, someone: str) -> None:
    settings: GivenSettings = {"strategy": "importance", "model": "local:smollm2", "summary_model": None}
    talk = await et.begin(user=someone, name="long", settings={k: v for k, v in settings.items() if v})
    await talk.configure(summary_model="")
    worker = memory_worker(et._runtime)
    for number in range(60):
        await say(talk, f"I prefer seat {number}A on flight LH{number}.")
        if number in (20, 30, 59):
            await worker.once(talk.conversation)
    found = await talk._log.markers(await talk.line(), "summary", limit=10)
    events = [one.event for one in found]
    assert len(events) == 2
    for event in events:
        assert isinstance(event, Summary)
        assert event.extractive
        assert count(event.text) <= 1_000


async def test_a_conversation_is_named_by_its_first_message(
    et: Everthread, talk: Talk, worker: Worker, remember: Speak
) -> None:
    remember("A brief.")
    await say(talk, "How do I bake a cake without eggs and without milk?")
    await worker.once(talk.conversation)
    again = await et.conversation(user=talk.conversation.user, id=talk.id)
    assert again.conversation.name == "How do I bake a cake without eggs and without milk"


async def test_a_name_that_was_given_stays(et: Everthread, someone: str, remember: Speak) -> None:
    remember("A brief.")
    talk = await et.begin(user=someone, name="Eggless")
    worker = memory_worker(et._runtime)
    await say(talk, "How do I bake a cake?")
    await worker.once(talk.conversation)
    assert (await et.conversation(user=someone, id=talk.id)).conversation.name == "Eggless"
