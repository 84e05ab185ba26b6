"""Sessions: the pause that ends one is a setting, and each but the first is marked where it begins."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from everthread import Everthread, Talk, assistant, user
from everthread.agent.personas import Agent
from everthread.core.branches import Target
from everthread.core.events import Mark, SessionStarted, SettingsChanged
from everthread.testing.scripted import script
from tests.contract.support import MINUTE, Clock, assert_sound, everything
from tests.saying import HOUR, NINE, say

LONG_AGO = 1_577_836_800_000_000  # 2020-01-01


@pytest.fixture
def clock() -> Clock:
    return Clock(LONG_AGO)


@asynccontextmanager
async def opened(
    address: str, clock: Clock, *, gap: timedelta | None = None, **settings: Any
) -> AsyncIterator[Everthread]:
    given: dict[str, Any] = {"settings": settings, **({"session_gap": gap} if gap else {})}
    async with Everthread.open(address, **given) as et:
        et.log._clock = clock
        yield et


async def kinds(talk: Talk) -> list[str]:
    return [event.kind for event in await everything(talk)]


# -- where a session begins ----------------------------------------------------------------------------------


async def test_a_session_that_begins_after_a_pause_is_marked_before_its_first_message(
    et: Everthread, talk: Talk, clock: Clock
) -> None:
    et.log._clock = clock
    await talk.append(user("Hello."), assistant("Hi."))
    clock.now += 31 * MINUTE
    (back,) = await talk.append(user("I am back."))
    assert await kinds(talk) == ["user", "assistant", "session_started", "user"]
    assert [one.event for one in await everything(talk)][2] == SessionStarted(session=2)
    assert (back.seq, back.session) == (4, 2)
    assert [(one.number, one.first) for one in await talk.sessions()] == [(1, 1), (2, 4)]
    await assert_sound(et, talk)


async def test_a_session_that_goes_on_is_not_marked_nor_is_the_first(et: Everthread, talk: Talk, clock: Clock) -> None:
    et.log._clock = clock
    for _ in range(3):
        await talk.append(user("Hello."), assistant("Hi."))
        clock.now += 29 * MINUTE
    await talk.append(Mark(name="here"))
    assert "session_started" not in await kinds(talk)


async def test_an_append_gives_what_was_appended_also_the_second_time(et: Everthread, talk: Talk, clock: Clock) -> None:
    et.log._clock = clock
    await talk.append(user("Hello."))
    clock.now += 31 * MINUTE
    first = await talk.append(Mark(name="back"), user("I am back."), key="once", expect=1)
    again = await talk.append(Mark(name="back"), user("I am back."), key="once", expect=1)
    assert first == again
    assert [one.kind for one in first] == ["mark", "user"]
    assert await kinds(talk) == ["user", "session_started", "mark", "user"]
    await assert_sound(et, talk)


async def test_what_was_said_at_another_time_is_appended_as_it_was(et: Everthread, talk: Talk) -> None:
    """An import brings its own marks, where it has any."""
    await say(et, talk, user("Hello."))
    await say(et, talk, user("I am back."), at=NINE + HOUR)
    assert await kinds(talk) == ["user", "user"]
    assert len(await talk.sessions()) == 2


async def test_whoever_listens_hears_of_it(et: Everthread, talk: Talk, clock: Clock) -> None:
    et.log._clock = clock
    await talk.append(user("Hello."))
    heard = talk.listen(after=1)
    clock.now += 31 * MINUTE
    await talk.append(user("I am back."))
    found = [await anext(heard), await anext(heard)]
    assert [getattr(one, "kind", "") for one in found] == ["session_started", "user"]


# -- the pause that ends one -----------------------------------------------------------------------------------

PAUSES = [(4, 1), (6, 2)]  # minutes, and how many sessions there are with a pause of five


@pytest.mark.parametrize(("minutes", "sessions"), PAUSES)
async def test_the_pause_is_a_setting_of_the_store(
    address: str, someone: str, clock: Clock, minutes: int, sessions: int
) -> None:
    async with opened(address, clock, session_gap=5) as et:
        await _visit_twice(await et.begin(user=someone), clock, minutes, sessions)


@pytest.mark.parametrize(("minutes", "sessions"), PAUSES)
async def test_and_of_a_conversation(address: str, someone: str, clock: Clock, minutes: int, sessions: int) -> None:
    async with opened(address, clock, session_gap=60) as et:
        await _visit_twice(await et.begin(user=someone, settings={"session_gap": 5}), clock, minutes, sessions)


@pytest.mark.parametrize(("minutes", "sessions"), PAUSES)
async def test_and_of_a_branch_and_those_that_were_forked_from_it(
    address: str, someone: str, clock: Clock, minutes: int, sessions: int
) -> None:
    async with opened(address, clock) as et:
        talk = await et.begin(user=someone, settings={"session_gap": 60})
        await talk.configure(session_gap=5)
        await _visit_twice(await talk.fork(), clock, minutes, sessions)


async def _visit_twice(talk: Talk, clock: Clock, minutes: int, sessions: int) -> None:
    await talk.append(user("Hello."), assistant("Hi."))
    clock.now += minutes * MINUTE
    await talk.append(user("I am back."))
    assert len(await talk.sessions()) == sessions


@pytest.mark.parametrize(("minutes", "sessions"), PAUSES)
async def test_and_of_an_agent_and_of_a_single_turn(
    address: str, someone: str, clock: Clock, minutes: int, sessions: int
) -> None:
    async with opened(address, clock, model=script(someone, *["Hi."] * 9)) as et:
        await et.agents.save("default", Agent(name=f"kind-{someone}", settings={"session_gap": 5}))
        talk = await et.begin(user=someone, agent=f"kind-{someone}")
        await talk.say("Hello.")
        clock.now += minutes * MINUTE
        await talk.say("I am back.")
        assert len(await talk.sessions()) == sessions
        clock.now += 2 * MINUTE
        await talk.say("Once more.", settings={"session_gap": 1})
        assert len(await talk.sessions()) == sessions + 1


async def test_a_setting_that_nobody_can_use_keeps_nobody_from_writing(
    et: Everthread, talk: Talk, clock: Clock
) -> None:
    et.log._clock = clock
    await talk.append(user("Hello."))
    await et.log.append(
        Target("default", talk.id), [SettingsChanged(values={"session_gap": "soon"})]
    )  # as one may find it
    clock.now += 31 * MINUTE
    await talk.append(user("I am back."))
    assert len(await talk.sessions()) == 2


async def test_without_a_setting_the_pause_is_that_with_which_the_store_was_opened(
    address: str, someone: str, clock: Clock
) -> None:
    async with opened(address, clock, gap=timedelta(minutes=10)) as et:
        talk = await et.begin(user=someone)
        for minutes, sessions in ((9, 1), (10, 2)):
            await talk.append(user("Hello."))
            clock.now += minutes * MINUTE
            await talk.append(user("I am back."))
            assert len(await talk.sessions()) == sessions
