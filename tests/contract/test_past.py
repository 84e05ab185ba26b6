"""History that is older than now: appended with the time at which it happened."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from everthread import Everthread, Talk, assistant, user
from everthread.errors import BadValue
from everthread.store.open import open_log
from tests.contract.support import MINUTE, Clock, assert_sound, everything

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


async def test_an_event_has_the_time_at_which_it_happened(et: Everthread, talk: Talk) -> None:
    await talk.append(user("a"), assistant("b"), at=NOON)
    await talk.append(user("c"), at=NOON + timedelta(minutes=5))
    await talk.append(assistant("d"))
    times = [event.time for event in await everything(talk)]
    assert times[:3] == [NOON, NOON, NOON + timedelta(minutes=5)]
    assert datetime.now(UTC) - times[-1] < timedelta(minutes=5)
    await assert_sound(et, talk)


async def test_sessions_are_told_by_those_times(et: Everthread, talk: Talk) -> None:
    for minutes in (0, 10, 50, 55, 300):
        await talk.append(user("a"), assistant("b"), at=NOON + timedelta(minutes=minutes))
    assert [session.number for session in await talk.sessions()] == [1, 2, 3]
    assert [session.messages for session in await talk.sessions()] == [4, 4, 2]
    await assert_sound(et, talk)


async def test_the_gap_is_the_one_of_the_settings(et: Everthread, talk: Talk) -> None:
    await talk.set_settings({"session_gap": 5})
    await talk.append(user("a"), at=NOON)
    await talk.append(user("b"), at=NOON + timedelta(minutes=10))
    assert len(await talk.sessions()) == 2


async def test_any_zone_will_do(talk: Talk) -> None:
    (event,) = await talk.append(user("a"), at=NOON.astimezone(timezone(timedelta(hours=5))))
    assert event.time == NOON


async def test_a_time_without_a_zone_is_local(talk: Talk) -> None:
    local = NOON.astimezone().replace(tzinfo=None)
    (event,) = await talk.append(user("a"), at=local)
    assert event.time == NOON


async def test_times_do_not_go_backwards_on_a_branch(talk: Talk) -> None:
    await talk.append(user("a"), at=NOON)
    with pytest.raises(BadValue, match=r"at least 2024-05-01 12:00:00.*oldest first"):
        await talk.append(user("b"), at=NOON - timedelta(microseconds=1))
    side = await talk.fork(at=1)  # which happens now
    with pytest.raises(BadValue):
        await side.append(user("b"), at=NOON)
    await talk.append(user("b"), at=NOON)
    assert [event.text for event in await talk.after(messages=True)] == ["a", "b"]


@pytest.mark.parametrize(
    "bad",
    [datetime(2999, 1, 1, tzinfo=UTC), datetime(1969, 1, 1, tzinfo=UTC), "yesterday", True],
    ids=str,
)
async def test_the_future_and_what_is_no_time_are_refused(talk: Talk, bad: datetime) -> None:
    with pytest.raises(BadValue, match="at is"):
        await talk.append(user("a"), at=bad)
    assert await everything(talk) == []


async def test_a_clock_that_ran_back_does_not_refuse_the_newest_time(address: str, someone: str) -> None:
    clock = Clock()
    et = Everthread(await open_log(address, clock=clock))
    talk = await et.begin(user=someone)
    await talk.append(user("a"))
    clock.now -= 5 * MINUTE
    newest = datetime(2026, 1, 1, tzinfo=UTC)
    (event,) = await talk.append(user("b"), at=newest)
    assert event.time == newest
    with pytest.raises(BadValue, match="a time that has passed"):
        await talk.append(user("c"), at=newest + timedelta(seconds=1))
    await et.close()


async def test_a_key_makes_it_safe_to_repeat(talk: Talk) -> None:
    first = await talk.append(user("a"), at=NOON, key="row-1")
    assert await talk.append(user("a"), at=NOON, key="row-1") == first
