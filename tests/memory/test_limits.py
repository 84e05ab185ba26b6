"""Memory's limits: model calls and money by the hour, and an orderly end."""

from __future__ import annotations

import pytest

from everthread import Everthread, GivenSettings, Talk
from everthread.core.events import ModelCall
from everthread.jobs.worker import Worker
from everthread.testing.scripted import script
from tests.memory.conftest import Speak
from tests.memory.test_brief import briefs, say
from tests.waiting import PATIENCE


async def memory_calls(talk: Talk) -> int:
    found = [event.event for event in await talk.range(1, 1_000)]
    return sum(isinstance(event, ModelCall) and event.agent == "memory" for event in found)


async def test_no_more_model_calls_are_made_in_an_hour_than_allowed(
    talk: Talk, worker: Worker, remember: Speak
) -> None:
    remember(*["A brief."] * 9)
    await talk.configure(memory_calls=2)
    for number in range(5):
        await say(talk, f"Thing {number}.")
        await worker.once(talk.conversation)
    assert await memory_calls(talk) == 2


async def test_no_more_money_is_spent_in_an_hour_than_allowed(
    et: Everthread, talk: Talk, worker: Worker, remember: Speak, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(et._runtime, "price", lambda *_, ttl: 0.4)
    remember(*["A brief."] * 9)
    await talk.configure(memory_dollars=1.0)
    for number in range(6):
        await say(talk, f"Thing {number}.")
        await worker.once(talk.conversation)
    assert await memory_calls(talk) == 3


async def test_memory_is_off_where_a_branch_says_so(talk: Talk, worker: Worker, remember: Speak) -> None:
    remember("never said")
    await talk.configure(memory=False)
    await say(talk, "Hello.")
    assert not await worker.once(talk.conversation)
    assert await briefs(talk) == []


async def test_a_turn_reminds_and_closing_the_store_finishes_what_was_begun(
    address: str, someone: str, memory_model: str, remember: Speak
) -> None:
    remember("A brief.")
    script(someone, "Hello.")
    settings: GivenSettings = {"model": f"scripted:{someone}", "summary_model": memory_model, "retries": 0}
    async with Everthread.open(address, settings=settings) as et:
        talk = await et.begin(user=someone, name="chat")
        await talk.say("Hello?")
        assert await et.memory.drain(PATIENCE)
        assert [one.text for one in await briefs(talk)] == ["A brief."]


async def test_the_brief_is_what_the_next_request_tells_of_what_came_before(
    lively: Everthread, someone: str, remember: Speak
) -> None:
    """All the way: said, remembered, pushed out of the window, and told."""
    script(someone, *[f"Reply {number}: " + "word " * 200 for number in range(30)])
    remember(*["There is a daughter, Mia."] * 60)
    talk = await lively.begin(user=someone, name="chat")
    for number in range(12):
        await talk.say(
            "My daughter is called Mia." if not number else f"Tell me more ({number}).", settings={"budget": 2_000}
        )
        assert await lively.memory.drain(PATIENCE)
    context = await talk.context(settings={"budget": 2_000})
    assert context.past > 0
    assert "There is a daughter, Mia." in str(context.request["messages"][0])
    assert (await talk.brief()) is not None
