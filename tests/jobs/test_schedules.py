"""Who runs schedules: every process that has the store open for a while, or a worker apart; and what ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from everthread import Everthread, ScheduleFailed, Talk
from everthread.core.branches import ENDLESS
from everthread.core.schedules import scheduled
from everthread.errors import Busy
from everthread.jobs import schedules
from everthread.testing.scripted import script
from tests.waiting import until

SETTINGS: Any = {"model": "scripted:beside", "memory": False}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "SOON", 0.0)
    monkeypatch.setattr(schedules, "LOOK", 0.05)


@pytest.fixture
def address(tmp_path: Any) -> str:
    return f"sqlite:///{tmp_path}/talk.db"


@asynccontextmanager
async def opened(
    address: str, *replies: Any, pace: float = 0.0, **settings: Any
) -> AsyncIterator[tuple[Everthread, Talk]]:
    script("beside", *(replies or ["Very well."] * 9), pace=pace)
    given: Any = {**SETTINGS, **settings}
    async with Everthread.open(address, settings=given, environment=False) as et:
        yield et, await et.conversation(user="ana")


async def due_now(et: Everthread, talk: Talk) -> None:
    """A schedule that was made an hour ago, and is due since a second ago."""
    now = datetime.now(UTC)
    new = scheduled("Now.", at=now - timedelta(seconds=1), now=now - timedelta(hours=1))
    await et.log.schedules.add(talk.conversation, new)


async def texts(talk: Talk) -> list[str]:
    return [one.text for one in await talk.after(messages=True)]


async def is_done(talk: Talk) -> bool:
    return all(one.state == "done" for one in await talk.schedules())


async def test_a_process_that_has_the_store_open_says_what_is_due(address: str) -> None:
    async with opened(address) as (et, talk):
        await due_now(et, talk)
        await until(lambda: is_done(talk))
        assert await texts(talk) == ["Now.", "Very well."]


async def test_it_is_left_to_a_worker_apart_where_the_settings_say_so(address: str) -> None:
    async with opened(address, worker="apart") as (et, talk):
        await due_now(et, talk)
        await until(lambda: _has_looked(et))
        assert await texts(talk) == []
        told = list[str]()
        await et.work(until_idle=True, tell=lambda did: told.append(did.what))
        assert await texts(talk) == ["Now.", "Very well."]
        assert told == ["schedule"]


async def _has_looked(et: Everthread) -> bool:
    """Whether something was due, and the process has looked at it and left it."""
    if not await et.log.schedules.due():
        return False
    await et._scheduled._look()
    await asyncio.gather(*et._scheduled._running.values())
    return True


async def test_a_worker_that_serves_hears_of_what_others_schedule(address: str) -> None:
    async with opened(address) as (et, talk), opened(address) as (other, _):
        working = asyncio.create_task(other.work())
        await due_now(et, talk)
        await until(lambda: is_done(talk))
        working.cancel()
        await asyncio.wait({working})
        assert await texts(talk) == ["Now.", "Very well."]


async def test_a_turn_that_ends_with_its_process_is_gone_on_with_by_the_next(address: str) -> None:
    async with opened(address, "one two three four", pace=60) as (et, talk):
        await due_now(et, talk)
        await until(lambda: _is_running(et, talk))
    async with opened(address) as (et, talk):
        await until(lambda: is_done(talk))
        events = await talk.range(1, ENDLESS)
        assert [one.text for one in events if one.kind == "user"] == ["Now."]
        assert [one.text for one in events if one.kind == "assistant"][-1] == "Very well."
        assert not any(isinstance(one.event, ScheduleFailed) for one in events)


async def _is_running(et: Everthread, talk: Talk) -> bool:
    return bool(await texts(talk)) and et._runtime.busy


async def test_a_turn_that_somebody_stops_has_run(address: str) -> None:
    async with opened(address, "one two three four", pace=60) as (et, talk):
        await due_now(et, talk)
        await until(lambda: _is_running(et, talk))
        await talk.stop()
        await until(lambda: is_done(talk))
        assert not any(isinstance(one.event, ScheduleFailed) for one in await talk.range(1, ENDLESS))


async def test_a_store_that_is_closed_at_once_has_begun_nothing(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "SOON", 3_600.0)
    async with opened(address) as (et, talk):
        await due_now(et, talk)
    assert et._scheduled._serving is None


async def test_a_store_that_fails_is_looked_at_again(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(address) as (et, talk):
        real, failed = et.log.schedules.due, list[int]()

        async def due(*, limit: int = 100) -> Any:
            if len(failed) < 3:
                failed.append(1)
                raise Busy("the store", seconds=1)
            return await real(limit=limit)

        monkeypatch.setattr(et.log.schedules, "due", due)
        await due_now(et, talk)
        await until(lambda: is_done(talk))
        assert len(failed) == 3
