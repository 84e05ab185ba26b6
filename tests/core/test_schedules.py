"""When schedules are due: cron expressions, time zones, daylight saving; what becomes of runs that were missed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import accumulate
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from everthread.core.schedules import (
    BACK_OFF,
    after_failure,
    after_run,
    changed,
    following,
    is_due,
    is_missed,
    moment_of,
    paused,
    resumed,
    schedule_of,
    scheduled,
    skipped,
)
from everthread.errors import BadValue
from tests.core.due_times import expected_runs
from tests.examples import examples

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
ZONES = ("UTC", BERLIN, NEW_YORK, "Asia/Kathmandu", "Africa/Cairo", "America/Santiago")
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def local(text: str, zone: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


def runs(cron: str, zone: str, first: str, count: int) -> list[str]:
    """The times after a local time, as people in the zone read them, with the offset from UTC."""
    found, after = list[str](), local(first, zone)
    for _ in range(count):
        after = following(cron, zone, after) or after
        found.append(f"{after.astimezone(ZoneInfo(zone)):%m-%d %H:%M %z}")
    return found


# -- daylight saving -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "cron", "first", "expected"),
    [
        (BERLIN, "30 2 * * *", "2026-10-24T12:00", ["10-25 02:30 +0200", "10-26 02:30 +0100"]),
        (NEW_YORK, "30 1 * * *", "2026-10-31T12:00", ["11-01 01:30 -0400", "11-02 01:30 -0500"]),
    ],
)
def test_a_local_time_that_comes_twice_runs_the_first_time(
    zone: str, cron: str, first: str, expected: list[str]
) -> None:
    assert runs(cron, zone, first, 2) == expected


@pytest.mark.parametrize(
    ("zone", "cron", "first", "expected"),
    [
        (BERLIN, "30 2 * * *", "2026-03-28T12:00", ["03-29 03:00 +0200", "03-30 02:30 +0200"]),
        (BERLIN, "0,30 2 * * *", "2026-03-28T12:00", ["03-29 03:00 +0200", "03-30 02:00 +0200"]),
        (NEW_YORK, "30 2 * * *", "2026-03-07T12:00", ["03-08 03:00 -0400", "03-09 02:30 -0400"]),
    ],
)
def test_a_local_time_that_never_comes_runs_right_after_the_jump(
    zone: str, cron: str, first: str, expected: list[str]
) -> None:
    assert runs(cron, zone, first, 2) == expected


def test_whoever_asks_between_the_two_is_told_the_next_day() -> None:
    """At a quarter past two for the second time, half past two has been."""
    second = utc("2026-10-25T01:15")
    assert f"{second.astimezone(ZoneInfo(BERLIN)):%H:%M %z}" == "02:15 +0100"
    assert following("30 2 * * *", BERLIN, second) == utc("2026-10-26T01:30")


def test_every_hour_is_every_hour() -> None:
    hours = ["10-25 01:00 +0200", "10-25 02:00 +0200", "10-25 02:00 +0100", "10-25 03:00 +0100"]
    assert runs("0 * * * *", BERLIN, "2026-10-25T00:30", 4) == hours
    assert runs("0 * * * *", BERLIN, "2026-03-29T00:30", 2) == ["03-29 01:00 +0100", "03-29 03:00 +0200"]


@pytest.mark.parametrize(
    ("at", "zone", "expected"),
    [
        ("2026-12-24T18:00", BERLIN, "2026-12-24T17:00"),
        ("2026-10-25T02:30", BERLIN, "2026-10-25T00:30"),
        ("2026-03-29T02:30", BERLIN, "2026-03-29T01:00"),
        ("2026-03-08T02:30", NEW_YORK, "2026-03-08T07:00"),
        ("2026-07-01T08:00", "", ""),
    ],
)
def test_a_single_local_time_follows_the_same_rules(at: str, zone: str, expected: str) -> None:
    given = datetime.fromisoformat(at)
    if not expected:
        with pytest.raises(BadValue, match="with a time zone"):
            moment_of(given, zone)
    else:
        assert moment_of(given, zone) == utc(expected)


def test_a_time_with_a_zone_of_its_own_is_that_moment() -> None:
    given = datetime(2026, 7, 1, 8, tzinfo=ZoneInfo(NEW_YORK))
    assert moment_of(given, BERLIN) == utc("2026-07-01T12:00")
    with pytest.raises(BadValue, match="in every time zone"):
        moment_of(datetime(9999, 12, 31, 23, 0), NEW_YORK)  # noqa: DTZ001


# -- properties ------------------------------------------------------------------------------------------------

_minutes = st.sampled_from(["*", "*/7", "0", "30", "59", "0,15,45", "5-9"])
_hours = st.sampled_from(["*", "*/5", "0", "2", "8", "23", "1-3", "0,12"])
_days = st.sampled_from(["* * *", "1 * *", "* * 1-5", "* * 0", "29 2 *", "L * *", "* 3,10 *", "13 * 5"])
crons = st.builds(lambda *fields: " ".join(fields), _minutes, _hours, _days)
zones = st.sampled_from(ZONES)
moments = st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
near_jumps = st.builds(  # around the changes of 2026, where mistakes are made
    lambda day, seconds: utc(day) + timedelta(seconds=seconds),
    st.sampled_from(["2026-03-08", "2026-03-29", "2026-04-05", "2026-04-24", "2026-10-25", "2026-11-01", "2026-09-06"]),
    st.integers(-100_000, 200_000),
)


@given(cron=crons, zone=zones, after=moments | near_jumps)
@settings(max_examples=examples(300))
def test_the_next_time_is_later_and_none_lies_between(cron: str, zone: str, after: datetime) -> None:
    """From any moment before it the next time is the same one, and they only go forward."""
    found = following(cron, zone, after)
    assert found is not None
    assert found > after
    assert (found.second, found.microsecond) == (0, 0)
    for part in (0.1, 0.5, 0.999):
        between = after + (found - after) * part
        if between < found:
            assert following(cron, zone, between) == found


@given(hour=st.integers(0, 23), minute=st.integers(0, 59), zone=zones, after=moments | near_jumps)
@settings(max_examples=examples(200))
def test_a_daily_time_comes_once_on_every_local_day(hour: int, minute: int, zone: str, after: datetime) -> None:
    days = list[object]()
    for _ in range(4):
        found = following(f"{minute} {hour} * * *", zone, after)
        assert found is not None
        after, there = found, found.astimezone(ZoneInfo(zone))
        days.append(there.date())
        shift = there.hour * 60 + there.minute - hour * 60 - minute
        assert 0 <= shift <= 60  # later where the clocks jump over it
    assert len(set(days)) == len(days)


@given(cron=crons, zone=zones, now=moments, gaps=st.lists(st.integers(0, 3_000), min_size=1, max_size=20))
@settings(max_examples=examples(60))
def test_each_due_time_runs_once_or_as_its_policy_says(cron: str, zone: str, now: datetime, gaps: list[int]) -> None:
    """A worker looks now and then. What it finds within the tolerance runs, each due time once; what it finds too late
    is made up for by one run, or by none."""
    for missed in ("once", "skip"):
        one = scheduled("x", cron=cron, zone=zone, missed=missed, now=now)
        looks, ran = [now + timedelta(minutes=minutes) for minutes in accumulate(gaps)], list[datetime]()
        assume(looks[-1] - now < 60 * DAY or not cron.startswith("*"))
        expected = expected_runs(one, now, looks)
        for time in looks:
            while is_due(one, time):
                if missed == "skip" and is_missed(one, time):
                    one = skipped(one, time)
                    continue
                ran += [one.due] if one.due is not None else []
                one = after_run(one, time)
        assert ran == expected


@given(cron=crons, now=moments, back=st.integers(1, 100_000))
@settings(max_examples=examples(100))
def test_a_clock_that_is_set_back_brings_nothing_twice(cron: str, now: datetime, back: int) -> None:
    one = scheduled("x", cron=cron, now=now)
    assert one.due is not None
    ran, earlier = after_run(one, one.due), one.due - timedelta(seconds=back)
    for again in (ran, changed(ran, earlier, cron="* * * * *"), resumed(paused(ran), earlier)):
        assert again.due is not None
        assert again.due > one.due


# -- how it goes on --------------------------------------------------------------------------------------------


def test_what_fails_is_tried_later_and_later_and_then_paused() -> None:
    now = utc("2026-01-01T08:00")
    one = scheduled("x", cron="0 8 * * *", now=now - HOUR)
    for seconds in BACK_OFF:
        one = after_failure(one, now)
        assert one.look == now + timedelta(seconds=seconds)
        assert not is_missed(one, now + DAY)  # somebody has taken it up
    one = after_failure(one, now)
    assert (one.state, one.failures, one.due) == ("paused", 5, now)
    assert not is_due(one, now + DAY)


def test_one_that_is_done_is_neither_due_nor_paused() -> None:
    now = utc("2026-01-01T08:00")
    done = after_run(scheduled("x", at=now + HOUR, now=now), now + HOUR)
    assert (done.state, done.due) == ("done", None)
    assert paused(done) == resumed(done, now) == done
    assert not is_due(done, now + DAY)


def test_a_time_zone_is_named_by_a_text() -> None:
    with pytest.raises(BadValue, match="zone is 5"):
        scheduled("x", cron="0 8 * * *", zone=5, now=utc("2026-01-01T08:00"))  # type: ignore[arg-type]


def test_the_origin_of_a_message_names_its_schedule() -> None:
    one = msgspec.structs.replace(
        scheduled("x", cron="0 8 * * *", now=utc("2026-01-01")), id="01KDVDNA00N2F5ZH402NB2C20Y"
    )
    assert schedule_of(one.origin) == one.id
    assert [schedule_of(other) for other in ("", "schedule:", "schedule:daily", one.id)] == [""] * 4
