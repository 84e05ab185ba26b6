"""Schedules on both stores: what they say and when, who sees them, and how they are forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from everthread import Everthread, Schedule, ScheduleFailed, Talk, User, schedule_tool, wire
from everthread.core.schedules import BACK_OFF, MOST
from everthread.core.times import moment
from everthread.errors import BadValue, NoCredit, UnknownConversation, UnknownSchedule
from everthread.jobs import schedules as jobs
from everthread.store.beside import schedules
from everthread.store.engine import Outcome, Script, Tell
from everthread.store.open import open_log
from everthread.store.postgres.engine import PostgresEngine
from everthread.testing.scripted import call, script
from tests.contract.support import START, Clock, assert_sound, engine_of, everything, files_of, strays, texts
from tests.waiting import until

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)  # twelve hours after the clock begins
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MODEL = {"model": "scripted:scheduled"}


class Store:
    """A store with a clock that moves only when told to, and a model that says what it was told to."""

    def __init__(self, et: Everthread, clock: Clock, user: str) -> None:
        self.et, self.clock, self.user = et, clock, user

    def at(self, time: datetime) -> None:
        self.clock.now = (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)

    async def work(self, time: datetime) -> None:
        """What is due at a time, run."""
        self.at(time)
        await self.et._scheduled.drain()

    async def said(self, talk: Talk) -> list[tuple[str, datetime]]:
        """What schedules have said, and when."""
        events = [one for one in await everything(talk) if isinstance(one.event, User) and one.event.origin]
        return [(one.text, one.time) for one in events]


@pytest.fixture
async def store(address: str, someone: str) -> AsyncIterator[Store]:
    script("scheduled", *["Very well."] * 50)
    clock = Clock()
    et = Everthread(await open_log(address, clock=clock), MODEL)
    await clear_of_others(et)
    yield Store(et, clock, someone)
    await clear_of_others(et)  # by the real clock they are due
    await et.close()


async def clear_of_others(et: Everthread) -> None:
    """PostgreSQL's store is shared by the tests of a process, and workers work for all users."""
    engine = engine_of(et.log)
    if isinstance(engine, PostgresEngine):
        async with engine._pool.acquire() as connection:
            await connection.execute("DELETE FROM schedules")


@pytest.fixture
async def talk(store: Store) -> Talk:
    return await store.et.begin(user=store.user)


# -- what is made ----------------------------------------------------------------------------------------------


async def test_a_schedule_is_kept_listed_and_comes_back_from_its_json_form(store: Store, talk: Talk) -> None:
    once = await talk.schedule("Water the plants?", at=NOON)
    daily = await talk.schedule("Good morning", cron=" 0 8  * * 1-5", zone="Europe/Berlin", missed="skip")
    assert (once.due, once.state, once.zone) == (NOON, "active", "UTC")
    assert (daily.cron, daily.due, daily.missed) == ("0 8 * * 1-5", datetime(2026, 1, 1, 7, tzinfo=UTC), "skip")
    assert await talk.schedules() == [once, daily]
    assert await store.et.schedules(user=store.user) == [once, daily]
    form = wire.dumps(daily)
    assert wire.loads(Schedule, form) == daily
    assert b'"due":"2026-01-01T07:00:00Z"' in form


async def test_any_text_comes_back_as_it_was(store: Store, talk: Talk) -> None:
    made = await talk.schedule("a\0b \ud800 ü", at=NOON)
    assert [one.text for one in await talk.schedules()] == [made.text] == ["a\0b \ud800 ü"]
    await store.work(NOON)
    assert await store.said(talk) == [("a\0b \ud800 ü", NOON)]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "one of them"),
        ({"at": NOON, "cron": "0 8 * * *"}, "one of them"),
        ({"at": NOON.replace(tzinfo=None)}, "together with `zone`"),
        ({"at": NOON - 2 * DAY}, "later than now"),
        ({"at": "tomorrow"}, "a datetime"),
        ({"cron": "0 8 * *"}, "five fields"),
        ({"cron": "* * * * * *"}, "five fields"),
        ({"cron": "61 8 * * *"}, "minute"),
        ({"cron": "0 0 31 2 *"}, "day-of-month"),
        ({"cron": "0 0 */20 * 1L"}, "fifty years"),
        ({"cron": "0 8 * * *", "zone": "Mars/Olympus"}, "the name of a time zone"),
        ({"cron": "0 8 * * *", "missed": "twice"}, "once or skip"),
        ({"text": "  ", "at": NOON}, "not blank"),
        ({"text": "x" * 40_000, "at": NOON}, "at most 32,000 characters"),
    ],
)
async def test_what_cannot_be_scheduled_is_refused_with_what_may_be(talk: Talk, given: Any, told: str) -> None:
    with pytest.raises(BadValue) as refused:
        await talk.schedule(**{"text": "x", **given})
    assert told in str(refused.value)
    assert await talk.schedules() == []


async def test_a_conversation_has_so_many_schedules_and_no_more(talk: Talk) -> None:
    for _ in range(MOST):
        await talk.schedule("x", at=NOON)
    with pytest.raises(BadValue, match="at most 100 in a conversation"):
        await talk.schedule("x", at=NOON)


async def test_schedules_are_nobody_elses(store: Store, talk: Talk) -> None:
    """Not another user's, another tenant's or another conversation's; and without a user there are none."""
    mine = await talk.schedule("Mine.", at=NOON)
    other = await store.et.begin(user=f"{store.user}-2")
    abroad = await store.et.begin(user=store.user, tenant="abroad")
    beside = await store.et.begin(user=store.user)
    for another in (other, abroad, beside):
        assert await another.schedules() == []
        for act in (another.unschedule, another.pause_schedule, another.resume_schedule, another.change_schedule):
            with pytest.raises(UnknownSchedule):
                await act(mine.id)
    assert await store.et.schedules(user=other.conversation.user) == []
    assert await store.et.schedules(user=store.user, tenant="abroad") == []
    assert await store.et.schedules(user="") == []
    forged = store.et.talk(msgspec.structs.replace(talk.conversation, user=other.conversation.user))
    with pytest.raises(UnknownConversation):
        await forged.schedules()
    assert await talk.schedules() == [mine]


# -- when it is said -------------------------------------------------------------------------------------------


async def test_a_single_message_is_said_once_with_its_origin_and_answered(store: Store, talk: Talk) -> None:
    made = await talk.schedule("Water the plants?", at=NOON)
    await store.work(NOON - HOUR)
    assert await texts(talk) == []
    await store.work(NOON)
    await store.work(NOON + DAY)
    assert await texts(talk) == ["Water the plants?", "Very well."]
    [said, *_] = await talk.after(messages=True)
    assert isinstance(said.event, User)
    assert said.event.origin == f"schedule:{made.id}"
    [done] = await talk.schedules()
    assert (done.state, done.due, done.look, done.ran) == ("done", None, None, NOON)
    assert not await store.et.log.schedules.pending(talk.conversation)
    await assert_sound(store.et, talk)


async def test_a_repeated_message_is_said_at_each_of_its_times(store: Store, talk: Talk) -> None:
    await talk.schedule("Good morning", cron="0 8 * * *")
    assert await store.et.log.schedules.pending(talk.conversation)
    for day in range(3):
        await store.work(NOON - 4 * HOUR + day * DAY)
    assert [time for _, time in await store.said(talk)] == [NOON - 4 * HOUR + day * DAY for day in range(3)]
    [one] = await talk.schedules()
    assert (one.due, one.ran) == (NOON - 4 * HOUR + 3 * DAY, NOON - 4 * HOUR + 2 * DAY)


async def test_runs_that_were_missed_are_made_up_for_by_one_or_left_out(store: Store, talk: Talk) -> None:
    await talk.schedule("once", cron="0 * * * *")
    await talk.schedule("skip", cron="0 * * * *", missed="skip")
    late = NOON + timedelta(minutes=30)
    await store.work(late)
    assert await store.said(talk) == [("once", late)]
    assert {one.due for one in await talk.schedules()} == {NOON + HOUR}
    await store.work(NOON + HOUR + timedelta(minutes=4))
    assert sorted(text for text, _ in await store.said(talk)) == ["once", "once", "skip"]
    await store.work(NOON + 4 * HOUR + timedelta(minutes=4))  # what is due now is not missed
    assert sorted(text for text, _ in await store.said(talk)) == ["once"] * 3 + ["skip"] * 2


@pytest.mark.parametrize("seconds", [0, 30])
async def test_of_what_a_schedule_says_every_minute_nothing_that_was_missed_is_said(
    store: Store, talk: Talk, seconds: int
) -> None:
    await talk.schedule("skip", cron="* * * * *", missed="skip")
    back = NOON + timedelta(seconds=seconds)
    await store.work(back)
    assert await store.said(talk) == [("skip", back)]  # that of noon, which is not missed
    assert [one.due for one in await talk.schedules()] == [NOON + timedelta(minutes=1)]


async def test_a_clock_that_is_set_back_runs_nothing_twice(store: Store, talk: Talk) -> None:
    made = await talk.schedule("Good morning", cron="0 8 * * *")
    await store.work(NOON)
    await store.work(NOON - 6 * HOUR)
    await talk.change_schedule(made.id, cron="0 8 * * 0-6")
    await store.work(NOON - 4 * HOUR)
    assert len(await store.said(talk)) == 1
    await store.work(NOON + DAY)
    assert len(await store.said(talk)) == 2


@pytest.mark.parametrize("jump", [DAY + HOUR, 400 * DAY, -6 * HOUR, -400 * DAY], ids=str)
@pytest.mark.parametrize("missed", ["once", "skip"])
async def test_a_clock_that_jumps_in_the_middle_of_a_run_says_nothing_twice(
    store: Store, address: str, jump: timedelta, missed: Any
) -> None:
    """Forward, every lease has run out, and another worker goes on with the turn; back, nothing is due any more."""
    reached, go_on = 0, asyncio.Event()

    async def think() -> str:
        nonlocal reached
        reached += 1
        await go_on.wait()
        return "thought"

    one, other = [Everthread(await open_log(address, clock=store.clock), MODEL, tools=[think]) for _ in range(2)]
    script("scheduled", [call("think", {})], *["Very well."] * 9)
    talk = await one.begin(user=store.user)
    await talk.schedule("Good morning", cron="0 12 * * *", missed=missed)
    store.at(NOON)
    running = asyncio.create_task(one._scheduled.drain())
    await until(lambda: reached == 1)
    store.at(NOON + jump)
    await other._scheduled.drain()
    go_on.set()
    await running
    assert len(await store.said(talk)) == 1
    events = await everything(talk)
    assert [event.text for event in events if event.kind == "assistant"] == ["Very well."]
    assert not any(isinstance(event.event, ScheduleFailed) for event in events)
    [made] = await talk.schedules()
    assert (made.ran, made.failures, made.state) == (NOON, 0, "active")
    assert made.due is not None
    assert NOON < made.due <= max(NOON, NOON + jump) + DAY
    store.at(made.due)
    await other._scheduled.drain()
    assert len(await store.said(talk)) == 2
    await assert_sound(store.et, talk)
    await one.close()
    await other.close()


async def test_it_joins_the_session_or_begins_one(store: Store, talk: Talk) -> None:
    store.at(NOON - timedelta(minutes=10))
    await talk.say("I am here.")
    await talk.schedule("soon", at=NOON)
    await talk.schedule("later", at=NOON + HOUR)
    await store.work(NOON)
    await store.work(NOON + HOUR)
    assert len(await talk.sessions()) == 2


async def test_it_is_said_on_whichever_branch_is_current(store: Store, talk: Talk) -> None:
    """A fork, a rewind and a clear leave a schedule as it is: it is the conversation's."""
    await talk.say("One.")
    await talk.schedule("two", at=NOON)
    await talk.clear()
    fork = await talk.fork()
    rewound = await talk.rewind(to=1)
    assert len(await fork.schedules()) == len(await rewound.schedules()) == 1
    await store.work(NOON)
    assert (await texts(rewound))[-2:] == ["two", "Very well."]
    assert "two" not in await texts(await talk.on("main")) + await texts(fork)


# -- behind other turns ----------------------------------------------------------------------------------------


async def test_it_waits_behind_a_turn_that_is_under_way(store: Store, talk: Talk) -> None:
    go_on = asyncio.Event()

    async def think() -> str:
        await go_on.wait()
        return "thought"

    script("scheduled", [call("think", {})], *["Very well."] * 10)
    await talk.schedule("scheduled", at=NOON, missed="skip")
    reply = talk.say("Think.", tools=[think], detached=True)
    await reply.accepted()
    await store.work(NOON)
    assert "scheduled" not in await texts(talk)
    go_on.set()
    await reply
    await store.work(NOON + HOUR)
    assert (await texts(talk))[-2:] == ["scheduled", "Very well."]


async def test_it_waits_behind_a_turn_that_waits_for_approval(store: Store, talk: Talk) -> None:
    tools = [schedule_tool()]
    script("scheduled", [call("schedule_message", {"text": "x", "cron": "0 8 * * *"})], *["Very well."] * 10)
    await talk.schedule("scheduled", at=NOON, missed="skip")
    await talk.say("Remind me.", tools=tools)
    for minutes in range(0, 90, 10):
        await store.work(NOON + timedelta(minutes=minutes))
    assert "scheduled" not in await texts(talk)
    await talk.refuse(tools=tools)
    await store.work(NOON + 2 * HOUR)
    assert (await texts(talk))[-2:] == ["scheduled", "Very well."]


# -- failures --------------------------------------------------------------------------------------------------


async def test_failures_are_events_are_tried_again_later_and_later_and_then_paused(store: Store, talk: Talk) -> None:
    script("scheduled", *[NoCredit("scripted:scheduled", "no money")] * 100)
    made = await talk.schedule("Good morning", cron="0 12 * * *")
    now = NOON
    for seconds in (*BACK_OFF, 0):
        await store.work(now)
        await store.work(now + timedelta(seconds=max(0, seconds - 1)))
        now += timedelta(seconds=seconds)
    failed = [one.event for one in await everything(talk) if isinstance(one.event, ScheduleFailed)]
    assert [(one.failures, one.paused) for one in failed] == [(1, False), (2, False), (3, False), (4, False), (5, True)]
    assert {one.schedule for one in failed} == {made.id}
    assert [text for text, _ in await store.said(talk)] == ["Good morning"]
    [paused] = await talk.schedules()
    assert (paused.state, paused.failures) == ("paused", 5)
    await store.work(now + 7 * DAY)
    assert len(await store.said(talk)) == 1
    script("scheduled", *["Very well."] * 10)
    resumed = await talk.resume_schedule(made.id)
    assert (resumed.state, resumed.failures) == ("active", 0)
    assert resumed.due is not None
    await store.work(resumed.due)
    assert [text for text, _ in await store.said(talk)] == ["Good morning"] * 2
    await assert_sound(store.et, talk)


async def test_a_run_that_failed_goes_on_with_the_turn_that_it_began(store: Store, talk: Talk) -> None:
    script("scheduled", *[NoCredit("scripted:scheduled", "no money")] * 20)
    await talk.schedule("Good morning", at=NOON)
    await store.work(NOON)
    script("scheduled", *["Very well."] * 10)
    await store.work(NOON + HOUR)
    assert await texts(talk) == ["Good morning", "Very well."]
    [done] = await talk.schedules()
    assert (done.state, done.failures) == ("done", 0)


async def test_a_message_that_can_not_even_be_said_has_failed_too(store: Store) -> None:
    talk = await store.et.begin(user=store.user, agent="nobody")
    await talk.schedule("Good morning", at=NOON)
    store.et._runtime._strict = True  # as where agents come from a folder, which has none of this name
    await store.work(NOON)
    [failed] = [one.event for one in await everything(talk) if isinstance(one.event, ScheduleFailed)]
    assert "nobody" in failed.reason
    assert await store.said(talk) == []


# -- pause, change, delete -------------------------------------------------------------------------------------


async def test_paused_it_says_nothing_and_resumed_it_goes_on_from_now(store: Store, talk: Talk) -> None:
    made = await talk.schedule("hourly", cron="0 * * * *")
    single = await talk.schedule("single", at=NOON, missed="skip")
    assert {(await talk.pause_schedule(one.id)).state for one in (made, single)} == {"paused"}
    assert await store.et.log.schedules.pending(talk.conversation)
    await store.work(NOON + timedelta(minutes=30))
    assert await store.said(talk) == []
    assert (await talk.resume_schedule(made.id)).due == NOON + HOUR
    await talk.resume_schedule(single.id)
    await store.work(NOON + timedelta(minutes=31))
    assert [text for text, _ in await store.said(talk)] == ["single"]
    await store.work(NOON + HOUR)
    assert [text for text, _ in await store.said(talk)] == ["single", "hourly"]


async def test_what_is_changed_holds_from_now_on(store: Store, talk: Talk) -> None:
    made = await talk.schedule("old", cron="0 8 * * *")
    assert (await talk.change_schedule(made.id, text="new")).due == made.due
    moved = await talk.change_schedule(made.id, zone="America/New_York")
    assert moved.due == datetime(2026, 1, 1, 13, tzinfo=UTC)
    local = await talk.change_schedule(made.id, at=datetime(2026, 1, 1, 6, 0), missed="skip")  # noqa: DTZ001
    assert (local.at, local.cron, local.due) == (NOON - HOUR, "", NOON - HOUR)
    await store.work(NOON - HOUR)
    assert [text for text, _ in await store.said(talk)] == ["new"]
    again = await talk.change_schedule(made.id, at=NOON)
    assert again.state == "active"
    with pytest.raises(BadValue, match="one of them"):
        await talk.change_schedule(made.id, at=NOON, cron="0 8 * * *")
    await store.work(NOON)
    assert len(await store.said(talk)) == 2


async def test_deleted_it_says_nothing_more_and_what_it_said_stays(store: Store, talk: Talk, address: str) -> None:
    secret = await talk.schedule("swordfish", cron="0 * * * *")
    await talk.unschedule(secret.id)
    if address.startswith("sqlite"):
        assert not any(b"swordfish" in data for data in files_of(address).values())
    assert await strays(store.et) == []
    made = await talk.schedule("hourly", cron="0 * * * *")
    await store.work(NOON)
    await talk.unschedule(made.id)
    with pytest.raises(UnknownSchedule, match="list those there are"):
        await talk.unschedule(made.id)
    await store.work(NOON + HOUR)
    assert await texts(talk) == ["hourly", "Very well."]
    assert await talk.schedules() == []


# -- the model's own -------------------------------------------------------------------------------------------


async def test_a_model_schedules_once_somebody_has_approved(store: Store, talk: Talk) -> None:
    tools = [schedule_tool()]
    asked = {"text": "Stretch!", "at": "2026-01-01T13:00", "zone": "Europe/Berlin"}
    script("scheduled", [call("schedule_message", asked)], *["Very well."] * 10)
    await talk.say("Remind me at one to stretch.", tools=tools)
    assert await talk.schedules() == []
    [waiting] = await talk.waiting()
    await talk.approve(tools=tools)
    [made] = await talk.schedules()
    assert (made.text, made.due) == ("Stretch!", NOON)
    assert (made.made_conversation, made.made_branch, made.made_seq) == (talk.id, 1, waiting.seq)
    results = [one.text for one in await everything(talk) if one.kind == "tool_result"]
    assert results == [f"Scheduled as {made.id}, next for Thursday, 2026-01-01 13:00 (Europe/Berlin)."]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"text": "x"}, "one of them"),
        ({"text": "x", "at": "tomorrow"}, "a date and time"),
        ({"text": "x", "cron": "whenever"}, "five fields"),
        ({"text": "x", "cron": "0 8 * * *", "zone": "Mars"}, "the name of a time zone"),
        ({"text": "x", "at": 5}, "do not fit"),
        ({"at": "2026-01-01T13:00"}, "do not fit"),
        ({"text": "x", "at": "2025-12-24T18:00"}, "later than now"),
    ],
)
async def test_bad_arguments_come_back_as_a_result_and_nobody_is_asked(
    talk: Talk, arguments: dict[str, Any], told: str
) -> None:
    script("scheduled", [call("schedule_message", arguments)], *["Very well."] * 10)
    await talk.say("Remind me.", tools=[schedule_tool()])
    assert await talk.waiting() == []
    [result] = [one.text for one in await everything(talk) if one.kind == "tool_result"]
    assert told in result
    assert await talk.schedules() == []


# -- forgetting ------------------------------------------------------------------------------------------------


async def test_a_schedule_is_forgotten_with_a_message_that_it_said(store: Store, talk: Talk, address: str) -> None:
    await talk.schedule("the swordfish password", cron="0 * * * *")
    await talk.schedule("another", at=NOON + DAY)
    await store.work(NOON)
    said = next(one for one in await everything(talk) if one.kind == "user")
    await talk.redact(said.seq)
    assert [one.text for one in await talk.schedules()] == ["another"]
    await assert_sound(store.et, talk)
    assert await strays(store.et) == []
    if address.startswith("sqlite"):
        assert not any(b"swordfish" in data for data in files_of(address).values())


async def test_why_one_has_failed_is_forgotten_with_the_message_that_it_may_repeat(store: Store, talk: Talk) -> None:
    script("scheduled", NoCredit("scripted:scheduled", "no money for: swordfish"), *["Very well."] * 9)
    await talk.schedule("the swordfish password", at=NOON)
    await store.work(NOON)
    said = next(one for one in await everything(talk) if one.kind == "user")
    assert "swordfish" in str([one.event for one in await everything(talk) if isinstance(one.event, ScheduleFailed)])
    await talk.redact(said.seq)
    assert not any(b"swordfish" in one.body for one in await everything(talk))
    await assert_sound(store.et, talk)


@pytest.mark.parametrize("which", ["tool_call", "command"])
async def test_a_schedule_is_forgotten_with_the_tool_call_that_made_it(store: Store, talk: Talk, which: str) -> None:
    """Also with the arguments that somebody gave it in place of the model's."""
    tools, wanted = [schedule_tool()], {"text": "swordfish", "cron": "0 8 * * *"}
    script("scheduled", [call("schedule_message", wanted | {"text": "sword"})], *["Very well."] * 10)
    await talk.say("Remind me.", tools=tools)
    await talk.approve(arguments=wanted, tools=tools)
    assert [one.text for one in await talk.schedules()] == ["swordfish"]
    await talk.redact(next(one.seq for one in await everything(talk) if one.kind == which))
    assert await talk.schedules() == []
    assert await strays(store.et) == []


async def test_a_tool_of_the_applications_own_is_known_by_what_it_schedules(store: Store, talk: Talk) -> None:
    """Also in another conversation, and without approval."""
    other = await store.et.begin(user=store.user)

    async def later(text: str) -> str:
        """Do it later."""
        await other.schedule(text, at=NOON)
        return "Later, then."

    script("scheduled", [call("later", {"text": "swordfish"})], *["Very well."] * 10)
    await talk.say("Later.", tools=[later])
    [made] = await other.schedules()
    assert made.made_conversation == talk.id
    await talk.redact(made.made_seq)
    assert await other.schedules() == []


async def test_a_schedule_goes_with_its_conversation_and_with_its_user(store: Store, talk: Talk) -> None:
    other = await store.et.begin(user=store.user)
    await talk.schedule("swordfish", at=NOON)
    await other.schedule("swordfish", at=NOON)
    await talk.erase()
    assert [one.conversation for one in await store.et.schedules(user=store.user)] == [other.id]
    with pytest.raises(UnknownConversation):
        await talk.schedule("again", at=NOON)
    await store.et.erase_user(user=store.user)
    assert await store.et.schedules(user=store.user) == []
    assert await strays(store.et) == []
    await store.work(NOON)


async def test_nobody_says_by_hand_what_only_a_schedule_says(store: Store, talk: Talk) -> None:
    """And so a message that is on its way is refused when its schedule was forgotten meanwhile."""
    made = await talk.schedule("swordfish", at=NOON)
    await talk.unschedule(made.id)
    with pytest.raises(UnknownSchedule):
        await talk.append(User(parts=(), origin=made.origin))
    await talk.append(User(parts=(), origin="schedule: the application's own"))


async def test_what_is_redacted_while_it_is_on_its_way_is_not_said(
    store: Store, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talk.schedule("swordfish", cron="0 * * * *")
    await store.work(NOON)
    said = next(one for one in await everything(talk) if one.kind == "user")
    looked = jobs._Run._behind

    async def behind(run: Any) -> int:
        await talk.redact(said.seq)  # the worker has read the schedule, and has not yet said anything
        return await looked(run)

    monkeypatch.setattr(jobs._Run, "_behind", behind)
    await store.work(NOON + HOUR)
    assert not any(b"swordfish" in one.body for one in await everything(talk))
    assert await talk.schedules() == []
    assert not any(isinstance(one.event, ScheduleFailed) for one in await everything(talk))
    await assert_sound(store.et, talk)


async def test_doctor_finds_a_schedule_whose_tool_call_is_gone(store: Store, talk: Talk) -> None:
    script("scheduled", [call("schedule_message", {"text": "x", "cron": "0 8 * * *"})], *["Very well."] * 10)
    await talk.say("Remind me.", tools=[schedule_tool(approval=False)])
    [made] = await talk.schedules()
    await talk.redact(made.made_seq)

    def put_back() -> Script[Outcome[None]]:
        yield from ()
        return Outcome(None, [Tell("insert_schedule", [schedules._row(made)])])

    await engine_of(store.et.log).write(put_back, about="test")
    [problem] = await strays(store.et)
    what = f"event {made.made_seq} of conversation {talk.id}"
    assert problem == f"{what} is half-forgotten: it made the schedule {made.id}"


def test_the_clock_of_these_tests_begins_the_year() -> None:
    assert moment(START) == NOON - 12 * HOUR


async def test_a_message_that_failed_is_said_anew_where_somebody_has_spoken_since(store: Store, talk: Talk) -> None:
    script("scheduled", NoCredit("scripted", "nothing is left"), "I am here.", "Watered.")
    await talk.schedule("Water the plants.", at=NOON)
    await store.work(NOON)
    assert [one.failures for one in await talk.schedules()] == [1]
    await talk.say("Are you there?")
    await store.work(NOON + timedelta(seconds=BACK_OFF[0]))
    assert [one.state for one in await talk.schedules()] == ["done"]
    said = [(one.kind, one.text) for one in await everything(talk) if one.kind in ("user", "assistant")]
    assert said[-2:] == [("user", "Water the plants."), ("assistant", "Watered.")]


async def test_a_schedule_goes_with_the_conversation_whose_tool_made_it(store: Store, talk: Talk) -> None:
    other = await store.et.begin(user=store.user)

    async def remind() -> str:
        """Schedules in another conversation."""
        await other.schedule("SECRET", at=NOON)
        return "Scheduled."

    script("scheduled", [call("remind")], "Done.")
    await talk.say("Remind me there.", tools=[remind])
    assert len(await other.schedules()) == 1
    await talk.erase()
    assert await other.schedules() == []


async def test_the_tool_takes_no_zone_for_utc(store: Store, talk: Talk) -> None:
    script("scheduled", [call("schedule_message", {"text": "x", "cron": "0 8 * * *", "zone": ""})], "Done.")
    await talk.say("Remind me.", tools=[schedule_tool(approval=False)])
    assert [one.zone for one in await talk.schedules()] == ["UTC"]
    assert not any("error" in one.text.lower() for one in await everything(talk) if one.kind == "tool_result")
