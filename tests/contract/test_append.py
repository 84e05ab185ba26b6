"""Appending: one transaction, gapless numbers, keys that make repeating safe, compare-and-set."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everthread import Everthread, Talk, assistant, flow_started, tool_call, tool_result, user
from everthread.core.branches import Target
from everthread.core.events import Clear, Event, Fork, Mark, Other, detach, media_of
from everthread.core.ids import is_id
from everthread.core.times import microseconds
from everthread.errors import BadValue, EventTooLarge, KeyReused, Moved, NotFound, UnknownSeq
from everthread.store.open import open_log
from tests.contract.support import MINUTE, START, Clock, assert_sound, everything, texts
from tests.core.strategies import storable
from tests.examples import examples


async def test_what_was_appended_is_returned_and_read_back(et: Everthread, talk: Talk) -> None:
    written = await talk.append(user("a"), tool_call("f"), tool_result("r", name="f"), assistant("b"))
    assert [event.seq for event in written] == [1, 2, 3, 4]
    assert [event.event for event in written] == [
        user("a"),
        tool_call("f"),
        tool_result("r", name="f"),
        assistant("b"),
    ]
    assert await everything(talk) == written
    await assert_sound(et, talk)


async def test_one_at_a_time_goes_on_where_the_last_one_ended(et: Everthread, talk: Talk) -> None:
    for number in range(1, 6):
        assert [event.seq for event in await talk.append(user(str(number)))] == [number]
    assert await texts(talk) == ["1", "2", "3", "4", "5"]
    await assert_sound(et, talk)


async def test_appending_nothing_writes_nothing(talk: Talk) -> None:
    assert await talk.append() == []
    assert await talk.append(key="k") == []
    assert await everything(talk) == []


async def test_a_thousand_events_in_one_append(et: Everthread, talk: Talk) -> None:
    written = await talk.append(*(user(str(number)) for number in range(1_500)))
    assert len(written) == 1_500
    assert len({event.micros for event in written}) == 1
    assert await everything(talk) == written
    await assert_sound(et, talk)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batch=st.lists(storable, min_size=1, max_size=5))
def test_any_event_survives_the_database(address: str, someone: str, batch: list[Event]) -> None:
    async def go() -> None:
        async with Everthread.open(address) as et:
            talk = await et.begin(user=someone)
            written = await et.log.append(talk._target, batch)  # kinds that `talk.append` refuses as well
            found = await everything(talk)
            assert found == written
            # The bytes of images and files are put aside; everything else is to the letter.
            assert [logged.event for logged in found] == [detach(event) for event in batch]
            for part in (part for event in batch for part in media_of(event) if part.data is not None):
                assert await talk.blob(part.blob) == part.data
            await assert_sound(et, talk)

    asyncio.run(go())


async def test_an_event_of_any_size_up_to_the_limit_is_kept(et: Everthread, talk: Talk) -> None:
    large = "x" * 3_000_000
    await talk.append(user(large))
    assert await texts(talk) == [large]
    await assert_sound(et, talk)


async def test_an_event_beyond_the_limit_is_refused_and_nothing_is_written(address: str, someone: str) -> None:
    async with Everthread.open(address, max_event_bytes=1_000) as et:
        talk = await et.begin(user=someone)
        await talk.append(user("before"))
        with pytest.raises(EventTooLarge) as refused:
            await talk.append(user("fits"), user("x" * 2_000), user("fits too"))
        assert refused.value.limit == 1_000
        assert await texts(talk) == ["before"]


# -- times and ids -----------------------------------------------------------------------------------------


async def test_times_are_utc_with_microseconds(talk: Talk) -> None:
    before = datetime.now(UTC)
    (event,) = await talk.append(user("now"))
    assert before - timedelta(microseconds=1) <= event.time <= datetime.now(UTC)
    assert event.time.tzinfo is UTC
    assert microseconds(event.time) == event.micros
    (again,) = await everything(talk)
    assert again.time == event.time


async def test_ids_sort_by_time_and_are_unlike_each_other(talk: Talk) -> None:
    for _ in range(20):
        await talk.append(user("x"), assistant("y"))
    ids = [event.id for event in await everything(talk)]
    assert sorted(set(ids)) == ids
    assert all(map(is_id, ids))


async def test_a_clock_that_runs_backwards_puts_no_event_before_another(address: str, someone: str) -> None:
    clock = Clock()
    et = Everthread(await open_log(address, clock=clock))
    talk = await et.begin(user=someone)
    for step in (0, -60 * MINUTE, 1, -1, 0, -500 * MINUTE):
        clock.now += step
        await talk.append(user("x"), assistant("y"))
    found = await everything(talk)
    assert [event.micros for event in found] == sorted(event.micros for event in found)
    assert {event.session for event in found} == {1}
    assert max(event.micros for event in found) == START
    await assert_sound(et, talk)
    await et.close()


# -- idempotency keys --------------------------------------------------------------------------------------


async def test_the_same_key_and_events_give_the_first_result(et: Everthread, talk: Talk) -> None:
    first = await talk.append(user("a"), assistant("b"), key="k")
    await talk.append(user("between"))
    again = await talk.append(user("a"), assistant("b"), key="k")
    assert again == first
    assert [event.id for event in again] == [event.id for event in first]
    assert len(await everything(talk)) == 3
    await assert_sound(et, talk)


OTHER_CONTENT: dict[str, list[Event]] = {
    "other text": [user("b")],
    "more": [user("a"), user("a")],
    "another kind": [assistant("a")],
    "nothing of it": [Clear()],
    "other metadata": [user("a", origin="schedule")],
}


@pytest.mark.parametrize("other", OTHER_CONTENT.values(), ids=OTHER_CONTENT.keys())
async def test_the_same_key_with_other_content_is_refused(talk: Talk, other: list[Event]) -> None:
    await talk.append(user("a"), key="k")
    with pytest.raises(KeyReused):
        await talk.append(*other, key="k")
    assert await texts(talk) == ["a"]


async def test_events_that_could_be_split_otherwise_are_other_content(talk: Talk) -> None:
    """The hash knows where one event ends: two events are not one with the same bytes."""
    await talk.append(Other(kind="app", data={"a": 1}), Other(kind="app", data={"b": 2}), key="k")
    with pytest.raises(KeyReused):
        await talk.append(Other(kind="app", data={"a": 1, "b": 2}), key="k")


async def test_a_key_belongs_to_one_conversation(et: Everthread, talk: Talk, someone: str) -> None:
    other = await et.begin(user=someone)
    await talk.append(user("a"), key="k")
    (event,) = await other.append(user("b"), key="k")
    assert event.text == "b"


async def test_a_key_is_known_on_every_branch(et: Everthread, talk: Talk) -> None:
    first = await talk.append(user("a"), key="k")
    side = await talk.fork()
    assert await side.append(user("a"), key="k") == first
    assert len(await everything(side)) == 2
    await assert_sound(et, talk)


async def test_a_key_is_remembered_after_reopening(address: str, someone: str) -> None:
    async with Everthread.open(address) as et:
        first = await (await et.conversation(user=someone)).append(user("a"), key="k")
    async with Everthread.open(address) as et:
        assert await (await et.conversation(user=someone)).append(user("a"), key="k") == first


async def test_repeating_wins_over_an_expectation_that_no_longer_holds(talk: Talk) -> None:
    first = await talk.append(user("a"), key="k", expect=0)
    assert await talk.append(user("a"), key="k", expect=0) == first


async def test_concurrent_appends_with_the_same_key_write_once(et: Everthread, talk: Talk) -> None:
    results = await asyncio.gather(*(talk.append(user("a"), assistant("b"), key="k") for _ in range(20)))
    assert all(result == results[0] for result in results)
    assert len(await everything(talk)) == 2
    await assert_sound(et, talk)


async def test_the_same_key_from_two_openings_writes_once(address: str, someone: str) -> None:
    async with Everthread.open(address) as one, Everthread.open(address) as two:
        talk = await one.begin(user=someone)
        other = await two.conversation(user=someone, id=talk.id)
        for number in range(20):
            results = await asyncio.gather(
                *(side.append(user(str(number)), key=str(number)) for side in (talk, other, talk, other))
            )
            assert all(result == results[0] for result in results)
        assert await texts(talk) == [str(number) for number in range(20)]
        await assert_sound(one, talk)


@pytest.mark.parametrize("key", ["\0", "a\nb", "\ud800", "x" * 201], ids=ascii)
async def test_a_key_is_plain_text(talk: Talk, key: str) -> None:
    with pytest.raises(BadValue):
        await talk.append(user("a"), key=key)
    assert await everything(talk) == []


# -- compare-and-set ---------------------------------------------------------------------------------------


async def test_an_expectation_that_holds_lets_the_append_through(talk: Talk) -> None:
    await talk.append(user("a"), expect=0)
    await talk.append(assistant("b"), expect=1)
    assert await texts(talk) == ["a", "b"]


async def test_somebody_else_has_spoken_since(talk: Talk) -> None:
    await talk.append(user("a"), assistant("b"))
    with pytest.raises(Moved) as moved:
        await talk.append(user("c"), expect=1)
    assert (moved.value.expected, moved.value.found) == (1, 2)
    assert await texts(talk) == ["a", "b"]


async def test_markers_in_between_do_not_disturb(et: Everthread, talk: Talk) -> None:
    await talk.append(user("a"))
    await talk.append(Mark(name="m"), flow_started("trip"), Clear())
    await talk.append(assistant("b"), expect=1)
    await talk.append(Other(kind="note"))
    await talk.append(user("c"), expect=6)  # the marker that the caller has seen is as good as the message
    assert await texts(talk) == ["a", "b", "c"]
    await assert_sound(et, talk)


async def test_an_expectation_beyond_the_end_is_an_error(talk: Talk) -> None:
    await talk.append(user("a"))
    with pytest.raises(UnknownSeq):
        await talk.append(user("b"), expect=2)
    with pytest.raises(UnknownSeq):
        await talk.append(user("b"), expect=10**12)
    with pytest.raises(Moved):
        await talk.append(user("b"), expect=-1)
    assert await texts(talk) == ["a"]


async def test_of_many_with_the_same_expectation_one_wins(et: Everthread, talk: Talk) -> None:
    await talk.append(user("a"))
    tries = [talk.append(assistant(str(number)), expect=1) for number in range(10)]
    results = await asyncio.gather(*tries, return_exceptions=True)
    assert Counter(type(result) for result in results) == {list: 1, Moved: 9}
    assert len(await everything(talk)) == 2
    await assert_sound(et, talk)


async def test_of_many_openings_with_the_same_expectation_one_wins(address: str, someone: str) -> None:
    async with Everthread.open(address) as one, Everthread.open(address) as two:
        talk = await one.begin(user=someone)
        other = await two.conversation(user=someone, id=talk.id)
        for seq in range(20):
            tries = [side.append(user(str(seq)), expect=seq) for side in (talk, other, other, talk)]
            results = await asyncio.gather(*tries, return_exceptions=True)
            assert Counter(type(result) for result in results) == {list: 1, Moved: 3}
        await assert_sound(one, talk)


# -- many at once ------------------------------------------------------------------------------------------


async def test_many_tasks_get_gapless_numbers_and_no_event_twice(et: Everthread, talk: Talk) -> None:
    async def speak(name: int) -> None:
        for number in range(10):
            written = await talk.append(user(f"{name}/{number}"), assistant("ok"))
            assert written[1].seq == written[0].seq + 1

    await asyncio.gather(*(speak(name) for name in range(20)))
    said = [text for text in await texts(talk) if text != "ok"]
    assert Counter(said) == Counter(f"{name}/{number}" for name in range(20) for number in range(10))
    for name in range(20):  # each task's own order is kept
        assert [text for text in said if text.startswith(f"{name}/")] == [f"{name}/{n}" for n in range(10)]
    await assert_sound(et, talk)


async def test_many_tasks_on_many_branches_do_not_disturb_each_other(et: Everthread, talk: Talk) -> None:
    await talk.append(user("a"))
    sides = [await talk.fork(at=1) for _ in range(6)]

    async def speak(side: Talk) -> None:
        for number in range(10):
            await side.append(user(str(number)))

    await asyncio.gather(*map(speak, sides), speak(talk))
    for side in (*sides, talk):
        assert await texts(side) == ["a", *map(str, range(10))]
    await assert_sound(et, talk)


async def test_one_refusal_among_many_leaves_the_others_alone(et: Everthread, talk: Talk) -> None:
    """Appends that are committed together do not share their errors."""
    await talk.append(user("a"))
    results = await asyncio.gather(
        *(talk.append(user(str(n)), **({"expect": 99} if n == 5 else {})) for n in range(10)),  # type: ignore[arg-type]
        return_exceptions=True,
    )
    assert [type(result) for result in results].count(UnknownSeq) == 1
    assert len(await everything(talk)) == 10
    await assert_sound(et, talk)


async def test_one_that_the_database_refuses_leaves_the_others_alone(et: Everthread, talk: Talk) -> None:
    """A branch that does not exist makes a whole group fail; each then has its own try."""
    nowhere = et.log.append(Target(talk.conversation.tenant, talk.id, 99), [user("nowhere")])
    results = await asyncio.gather(nowhere, *(talk.append(user(str(n))) for n in range(5)), return_exceptions=True)
    assert isinstance(results[0], NotFound)
    assert Counter(await texts(talk)) == Counter(map(str, range(5)))
    await assert_sound(et, talk)


async def test_a_cancelled_append_is_whole_or_absent(et: Everthread, talk: Talk) -> None:
    for number in range(20):
        task = asyncio.create_task(talk.append(user(f"{number}"), assistant(f"{number}")))
        other = asyncio.create_task(talk.append(user("other"), assistant("other")))
        for _ in range(number % 5):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert len(await other) == 2
    said = await texts(talk)
    assert said.count("other") == 40
    for number in range(20):
        assert said.count(str(number)) in (0, 2)
    await assert_sound(et, talk)


async def test_an_event_may_name_a_branch_without_being_one(et: Everthread, talk: Talk) -> None:
    """Markers are plain events to the log: one that lies about a fork makes no branch. `talk.append` refuses it."""
    await et.log.append(talk._target, [Fork(branch=7, at=7)])
    assert len(await talk.branches()) == 1
