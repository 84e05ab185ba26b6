"""No turn is ever neither sent nor summarised."""

from __future__ import annotations

from everthread import Everthread, GivenSettings, Talk
from everthread.jobs.worker import Worker
from tests.memory.conftest import Speak
from tests.memory.test_brief import busy, say

SMALL: GivenSettings = {"budget": 1_500, "clock": "off"}


async def tell(talk: Talk, turns: int) -> None:
    for number in range(turns):
        await say(talk, f"Booking {number} is ABC{number:03} for {100 + number} euros. " + "It was a long day. " * 20)


async def test_what_left_the_window_before_any_brief_was_made_is_told_in_its_own_words(talk: Talk) -> None:
    await tell(talk, 20)
    context = await talk.context(settings=SMALL)
    assert context.past > 0
    system = str(context.request["messages"][0])
    assert 'kind="extract"' in system
    last_past = (context.cutoff - 1) // 2 - 1
    assert f"ABC{last_past:03}" in system
    assert context.estimate <= 1_500


async def test_it_stays_the_same_until_the_window_steps(talk: Talk) -> None:
    await tell(talk, 20)
    first = await talk.context(settings=SMALL)
    await say(talk, "One more.", "Yes.")
    second = await talk.context(settings=SMALL)
    if second.cutoff == first.cutoff:
        assert second.request["messages"][0] == first.request["messages"][0]
    else:
        assert second.cutoff > first.cutoff


async def test_where_the_brief_is_behind_only_what_it_does_not_cover_is_told(
    talk: Talk, worker: Worker, remember: Speak
) -> None:
    remember("Five bookings were made.", *[busy() for _ in range(20)])
    await tell(talk, 5)
    await worker.once(talk.conversation)
    await tell(talk, 20)
    context = await talk.context(settings=SMALL)
    system = str(context.request["messages"][0])
    assert "Five bookings were made." in system
    assert 'kind="extract"' in system


async def test_a_brief_that_covers_it_takes_its_place(talk: Talk, worker: Worker, remember: Speak) -> None:
    remember(*["Twenty bookings were made."] * 9)
    await tell(talk, 20)
    await worker.once(talk.conversation)
    system = str((await talk.context(settings=SMALL)).request["messages"][0])
    assert "Twenty bookings were made." in system
    assert 'kind="extract"' not in system


async def test_without_memory_nothing_of_it_is_made(address: str, someone: str) -> None:
    async with Everthread.open(address, settings={"model": f"scripted:{someone}", "memory": False}) as et:
        talk = await et.begin(user=someone)
        await tell(talk, 20)
        assert "extract" not in str((await talk.context(settings=SMALL)).request)
