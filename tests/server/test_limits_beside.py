"""What runs without a request of its own, children and what is scheduled, is held to the limits of its user as well;
and what a user has taken of a day's tokens is not given back by forgetting."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from everthread import Everthread, ScheduleFailed, Talk, delegate_tool
from everthread.core.branches import ENDLESS
from everthread.core.events import ModelCall
from everthread.core.schedules import Schedule, scheduled
from everthread.errors import TooMany
from everthread.jobs import schedules
from everthread.server.limits import Allowance
from everthread.testing import scripted
from everthread.testing.scripted import call
from tests.migrations.databases import rows
from tests.server.serving import Person, Served, serving
from tests.waiting import until

HERE = "/api/conversations"
LONG = "word " * 500


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "SOON", 0.0)
    monkeypatch.setattr(schedules, "LOOK", 0.05)
    monkeypatch.setattr(schedules, "BUSY", 0)


@pytest.fixture
async def site(fresh_address: str, request: pytest.FixtureRequest) -> AsyncIterator[Served]:
    """A service with the limits that a test asks for, and Ana."""
    allowance = Allowance(requests=0, **request.param)
    async with serving(fresh_address, "here", allowance=allowance) as running:
        await running.join("ana")
        yield running


one_turn = pytest.mark.parametrize("site", [{"turns": 1}], indirect=True)
two_turns = pytest.mark.parametrize("site", [{"turns": 2}], indirect=True)
few_tokens = pytest.mark.parametrize("site", [{"tokens": 1_000}], indirect=True)


def _ana(site: Served) -> Person:
    return site.people["ana"]


async def _talk(site: Served) -> Talk:
    id = await site.begin(_ana(site), "Hello.")
    return await site.service.et.conversation(user="ana", tenant="here", id=id)


async def _spend(talk: Talk, tokens: int = 1_100) -> None:
    await talk.append(ModelCall(model="scripted:served", at=1, input=tokens - 100, output=100))


async def _schedule(et: Everthread, talk: Talk, **when: Any) -> Schedule:
    """A schedule that was made an hour ago, and is due since a second ago."""
    now = datetime.now(UTC)
    when = when or {"at": now - timedelta(seconds=1)}
    return await et.log.schedules.add(talk.conversation, scheduled("Now.", now=now - timedelta(hours=1), **when))


async def _failures(talk: Talk) -> list[ScheduleFailed]:
    return [one.event for one in await talk.range(1, ENDLESS) if isinstance(one.event, ScheduleFailed)]


async def _said(talk: Talk) -> list[str]:
    return [one.text for one in await talk.after(messages=True)]


# -- children --------------------------------------------------------------------------------------------------------


@two_turns
async def test_a_child_counts_as_one_of_the_turns_at_once_until_it_has_ended(site: Served) -> None:
    talk = await _talk(site)
    scripted.script("served", LONG, LONG, pace=0.1)
    post, headers = site.http.post, _ana(site).bearer
    began = await post(f"{HERE}/{talk.id}/children", json={"task": "Count."}, headers=headers)
    assert began.status_code == 200, began.text
    assert (await post(f"{HERE}/{talk.id}/say", json={"pieces": ["Hi."]}, headers=headers)).status_code == 202
    refused = await post(f"{HERE}/{talk.id}/children", json={"task": "Another."}, headers=headers)
    assert (refused.status_code, refused.json()["what"]) == (429, "turns at once")
    assert len(await talk.children()) == 1
    await post(f"{HERE}/{talk.id}/children/{began.json()['branch']}/stop", json={}, headers=headers)
    await post(f"{HERE}/{talk.id}/stop", json={}, headers=headers)
    await until(lambda: not site.service.meter._turns)


@one_turn
async def test_a_model_that_delegates_beyond_the_limit_is_told_so(site: Served) -> None:
    talk, other = await _talk(site), await _talk(site)
    scripted.script("served", LONG, pace=0.1)
    answer = await site.http.post(f"{HERE}/{other.id}/say", json={"pieces": ["Go."]}, headers=_ana(site).bearer)
    assert answer.status_code == 202, answer.text
    scripted.script("delegating", [call("delegate", {"task": "Count.", "wait": True})], "Then I do it myself.")
    said = await talk.say("Count them.", model="scripted:delegating", tools=[delegate_tool()])
    assert str(said) == "Then I do it myself."
    results = [one.text for one in await talk.range(1, ENDLESS) if one.kind == "tool_result"]
    assert ["Too many turns at once: 1" in text for text in results] == [True]
    assert await talk.children() == []
    await site.http.post(f"{HERE}/{other.id}/stop", json={}, headers=_ana(site).bearer)


# -- schedules -------------------------------------------------------------------------------------------------------


@few_tokens
async def test_what_is_scheduled_beyond_a_days_tokens_is_refused_in_the_log_and_tried_at_its_next_time(
    site: Served,
) -> None:
    talk = await _talk(site)
    await _spend(talk)
    made = await _schedule(site.service.et, talk, cron="* * * * *")

    async def is_moved() -> bool:
        [now] = await talk.schedules()
        return now.due != made.due

    await until(is_moved)
    [now] = await talk.schedules()
    assert (now.state, now.failures) == ("active", 0)
    assert now.due is not None
    assert now.due > datetime.now(UTC) - timedelta(minutes=1)
    [told] = await _failures(talk)
    assert (told.schedule, told.paused) == (made.id, False)
    assert told.reason.startswith("Too many tokens a day: 1000 are allowed.")
    assert "Now." not in await _said(talk)


@few_tokens
async def test_a_single_message_that_is_refused_is_tried_when_the_day_is_over(site: Served) -> None:
    talk = await _talk(site)
    await _spend(talk)
    made = await _schedule(site.service.et, talk)

    async def is_refused() -> bool:
        [now] = await talk.schedules()
        return now.look != made.look

    await until(is_refused)
    [now] = await talk.schedules()
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    assert now.look is not None
    assert abs(now.look - midnight) < timedelta(minutes=1)
    assert (now.state, now.failures, now.due) == ("active", 0, made.due)
    assert len(await _failures(talk)) == 1


@one_turn
async def test_what_is_scheduled_waits_for_its_place_among_the_turns_at_once(site: Served) -> None:
    talk, other = await _talk(site), await _talk(site)
    scripted.script("served", LONG, "Very well.", pace=0.1)
    answer = await site.http.post(f"{HERE}/{other.id}/say", json={"pieces": ["Go."]}, headers=_ana(site).bearer)
    assert answer.status_code == 202
    made = await _schedule(site.service.et, talk)

    async def has_waited() -> bool:
        [now] = await talk.schedules()
        return now.look != made.look

    await until(has_waited)
    assert await _said(talk) == ["Hello."]
    await site.http.post(f"{HERE}/{other.id}/stop", json={}, headers=_ana(site).bearer)
    await until(lambda: _is_done(talk))
    assert await _said(talk) == ["Hello.", "Now.", "Very well."]
    assert await _failures(talk) == []


async def _is_done(talk: Talk) -> bool:
    return all(one.state == "done" for one in await talk.schedules())


@pytest.mark.parametrize("site", [{}], indirect=True)
async def test_nothing_scheduled_begins_once_the_process_is_about_to_end(site: Served) -> None:
    talk = await _talk(site)
    site.service.leave()
    made = await _schedule(site.service.et, talk)
    await site.service.et._scheduled._look()
    await site.service.et._scheduled.drain()
    assert await talk.schedules() == [made]
    assert await _said(talk) == ["Hello."]


# -- forgetting ------------------------------------------------------------------------------------------------------


@few_tokens
async def test_a_days_tokens_stay_counted_when_their_conversation_is_erased(site: Served, fresh_address: str) -> None:
    talk, meter = await _talk(site), site.service.meter
    await _spend(talk)
    assert (await site.http.delete(f"{HERE}/{talk.id}", headers=_ana(site).bearer)).status_code == 204
    meter._tokens.clear()
    another = await _talk(site)
    refused = await site.http.post(f"{HERE}/{another.id}/say", json={"pieces": ["Hi."]}, headers=_ana(site).bearer)
    assert (refused.status_code, refused.json().get("what")) == (429, "tokens a day")
    [kept] = await rows(fresh_address, "SELECT * FROM forgotten_tokens")
    assert (kept[0], kept[1], kept[-1]) == ("here", "ana", 1_100)
    await site.service.et.erase_user(user="ana", tenant="here")
    assert await rows(fresh_address, "SELECT * FROM forgotten_tokens") == []


@few_tokens
async def test_so_do_those_of_a_model_call_that_is_redacted(site: Served, fresh_address: str) -> None:
    talk = await _talk(site)
    await _spend(talk, 600)
    await _spend(talk, 600)
    calls = [one.seq for one in await talk.range(1, ENDLESS) if one.kind == "model_call"]
    for seq in (*calls, *calls):  # which counts nothing twice
        await talk.redact(seq)
    gate = site.service.meter.admit
    with pytest.raises(TooMany, match="tokens a day"):
        await gate(talk.conversation.owner)
    assert [row[-1] for row in await rows(fresh_address, "SELECT * FROM forgotten_tokens")] == [1_200]


@few_tokens
async def test_of_older_days_nothing_is_kept(site: Served, fresh_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log, owner = site.service.et.log, (await _talk(site)).conversation.owner
    first, second = await _talk(site), await _talk(site)
    await _spend(first, 300)
    await _spend(second, 500)
    await first.erase()
    clock, day = log.forgetting._clock, 86_400_000_000
    monkeypatch.setattr(log.forgetting, "_clock", lambda: clock() + day)
    await second.erase()
    assert await rows(fresh_address, "SELECT * FROM forgotten_tokens") == []
    assert await log.usage.tokens(owner, since=0) == 0
