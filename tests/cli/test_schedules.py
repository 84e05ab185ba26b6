"""`everthread schedules`: list, add, pause, resume, change, delete; and `everthread work` says what is due."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from everthread import Everthread
from everthread.core.schedules import scheduled
from everthread.testing.scripted import script
from tests.cli.conftest import Do


@pytest.fixture
def begun(store: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A conversation in which nothing was said; its id."""
    monkeypatch.setenv("EVERTHREAD_MODEL", script("cli-schedules", *["Very well."] * 9))
    monkeypatch.setenv("TZ", "Europe/Berlin")

    async def begin() -> str:
        async with Everthread.open(store) as et:
            return (await et.begin(user="ana")).id

    return asyncio.run(begin())


def schedules(do: Do, *arguments: str) -> list[dict[str, Any]]:
    done = do("schedules", "--json", *arguments)
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def refused(do: Do, *arguments: str) -> str:
    done = do("schedules", *arguments)
    assert done.exit_code == 1
    return " ".join(done.stderr.split())


def test_a_schedule_is_added_listed_changed_paused_resumed_and_deleted(do: Do, begun: str) -> None:
    [one] = schedules(do, "--add", "Good morning", "--cron", "0 8 * * 1-5")
    assert (one["conversation"], one["zone"], one["state"]) == (begun, "Europe/Berlin", "active")
    assert schedules(do) == schedules(do, begun) == [one]
    end = one["id"][-8:].lower()
    [changed] = schedules(do, "--change", end, "--text", "Good day", "--zone", "UTC", "--missed", "skip")
    assert (changed["text"], changed["zone"], changed["missed"], changed["cron"]) == (
        *("Good day", "UTC", "skip"),
        "0 8 * * 1-5",
    )
    assert [one["state"] for one in schedules(do, "--pause", end)] == ["paused"]
    shown = do("schedules").stdout
    assert "paused" in shown
    assert "Good day" in shown
    assert [one["state"] for one in schedules(do, "--resume", end)] == ["active"]
    assert schedules(do, "--delete", end) == []
    assert "Nothing is scheduled of 'ana'" in do("schedules").stdout


def test_the_next_time_is_shown_as_this_machines_clock_shows_it(do: Do, begun: str) -> None:
    [one] = schedules(do, "--add", "Fireworks", "--at", "2099-12-31T23:59")
    assert one["at"] == one["due"] == "2099-12-31T22:59:00Z"
    shown = do("schedules").stdout
    there = datetime(2099, 12, 31, 22, 59, tzinfo=UTC).astimezone()
    assert f"{there:%Y-%m-%d %H:%M}" in shown
    assert "once" in shown


def test_it_is_nobody_elses(do: Do, begun: str) -> None:
    [one] = schedules(do, "--add", "Mine", "--cron", "0 8 * * *")
    assert schedules(do, "--user", "bob") == []
    assert "There is no schedule" in refused(do, "--user", "bob", "--delete", one["id"])


def test_what_cannot_be_done_is_said(do: Do, begun: str) -> None:
    assert "must be one of them" in refused(do, "--add", "x")
    assert "five fields" in refused(do, "--add", "x", "--cron", "daily")
    assert "such as 2026-12-24T18:00" in refused(do, "--add", "x", "--at", "soon")
    assert "given with --add or --change" in refused(do, "--cron", "0 8 * * *")
    assert "one of them at a time" in refused(do, "--add", "x", "--pause", "y")
    assert "the value of --add" in refused(do, "--add", "x", "--text", "y", "--cron", "0 8 * * *")
    schedules(do, "--add", "x", "--cron", "0 8 * * *")
    schedules(do, "--add", "y", "--cron", "0 8 * * *")
    first = schedules(do)[0]["id"]
    assert "longer: 2 are like it" in refused(do, "--pause", first[:4])
    assert "at least 4 characters" in refused(do, "--delete", "")


def test_work_says_what_is_due(do: Do, begun: str, store: str) -> None:
    async def schedule() -> None:
        """As of an hour ago, for a second ago."""
        now = datetime.now(UTC)
        async with Everthread.open(store) as et:
            talk = await et.conversation(user="ana", id=begun)
            new = scheduled("Water the plants?", at=now - timedelta(seconds=1), now=now - timedelta(hours=1))
            await et.log.schedules.add(talk.conversation, new)

    asyncio.run(schedule())
    done = do("work", "--once", "--json")
    assert {"conversation": begun, "branch": "main", "what": "schedule", "model": ""} in [
        json.loads(line) for line in done.stdout.splitlines()
    ]
    assert [one["state"] for one in schedules(do)] == ["done"]
    shown = do("show", begun).stdout
    assert "Water the plants?" in shown
    assert "Very well." in shown
