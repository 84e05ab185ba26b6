"""Whoever lost a connection goes on from its place: in the middle of a reply nothing is lost and nothing told twice."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from everthread import BadValue, Talk, user
from everthread.core.deltas import Delta, TextDelta
from everthread.core.logged import Logged
from everthread.core.partial import Place, place_of
from everthread.core.told import Told
from tests.agent.conftest import Speak
from tests.waiting import PATIENCE

WORDS = " ".join(f"word{number}" for number in range(40))


async def heard(talk: Talk, after: int | str, most: int) -> list[Told]:
    """The next things that are told after a place, up to the end of the turn, or so many."""
    found: list[Told] = []
    async with asyncio.timeout(PATIENCE), aclosing(talk.told(after=after)) as told:  # type: ignore[type-var]
        async for one in told:
            found.append(one)
            if len(found) == most or _is_end(one.item):
                break
    return found


def _is_end(item: Logged | Delta) -> bool:
    return isinstance(item, Logged) and item.kind == "model_call"


@pytest.mark.parametrize("most", [1, 2, 7])
async def test_a_listener_that_comes_back_again_and_again_hears_everything_once(
    talk: Talk, speak: Speak, most: int
) -> None:
    speak(WORDS, pace=0.01)
    reply = talk.say("Go on.", detached=True)
    place, found = "0", list[Told]()
    while not found or not _is_end(found[-1].item):
        found += await heard(talk, place, most)
        place = found[-1].place
    await reply
    events = [one.item for one in found if isinstance(one.item, Logged)]
    assert [event.kind for event in events] == ["user", "assistant", "model_call"]
    told = "".join(one.item.text for one in found if isinstance(one.item, TextDelta))
    assert WORDS.startswith(told)  # what had not been told when the reply was appended is told as that event
    assert len([one.place for one in found]) == len({one.place for one in found})


async def test_who_has_fallen_behind_is_told_at_once_all_that_is_there(talk: Talk, speak: Speak) -> None:
    speak(WORDS, pace=0.01)
    async with asyncio.timeout(PATIENCE), aclosing(talk._told_together()) as told:
        listening = asyncio.ensure_future(anext(told))
        reply = talk.say("Go on.", detached=True)
        found, some = [*await listening], list[Told]()
        await reply
        while not any(_is_end(one.item) for one in found):
            found += (some := await anext(told))
    assert len(some) > 1
    kinds = [one.item.kind for one in found if isinstance(one.item, Logged)]
    assert kinds == ["user", "assistant", "model_call"]


async def test_what_was_said_before_is_told_in_few_messages_and_large_ones_by_themselves(talk: Talk) -> None:
    await talk.append(*(user(str(number)) for number in range(250)))
    await talk.append(*(user("x" * 300_000) for _ in range(2)))
    sizes = list[int]()
    async with asyncio.timeout(PATIENCE), aclosing(talk._told_together()) as told:
        while sum(sizes) < 252:
            sizes.append(len(await anext(told)))
    assert sizes == [100, 100, 51, 1]


async def test_a_place_in_a_reply_that_is_over_stands_for_its_event(talk: Talk, speak: Speak) -> None:
    speak(WORDS, pace=0.01)
    reply = talk.say("Go on.", detached=True)
    middle = (await heard(talk, 0, 2))[-1]
    assert isinstance(middle.item, TextDelta)
    await reply
    later = await heard(talk, middle.place, 2)
    assert [one.item.kind for one in later] == ["assistant", "model_call"]


async def test_the_seq_of_an_event_is_a_place(talk: Talk) -> None:
    await talk.append(user("a"), user("b"))
    (one,) = await heard(talk, 1, 1)
    assert isinstance(one.item, Logged)
    assert (one.item.text, one.place) == ("b", "2")


@pytest.mark.parametrize("place", [Place(), Place(3), Place(12, "0a1b/12", 345)])
def test_a_place_is_read_as_it_was_written(place: Place) -> None:
    assert place_of(str(place)) == place


@pytest.mark.parametrize("wrong", [-1, True, "", "x", "1.2", "1.2.", "1.x.0a/1", "1" * 11, None, 1.5])
async def test_what_is_no_place_is_refused(talk: Talk, wrong: object) -> None:
    with pytest.raises(BadValue, match="after"):
        talk.told(after=wrong)  # type: ignore[arg-type]
