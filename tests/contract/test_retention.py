"""Retention: conversations that have long been idle are erased, by tenant, and only where somebody says so."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import structs

from everthread import Everthread, Talk, assistant, tool_call, user
from everthread.core.events import Event
from everthread.errors import BadValue, UnknownConversation
from everthread.jobs.retention import RetentionWorker
from everthread.store.conversations import Owner
from everthread.store.log import Log
from everthread.store.open import open_log
from tests.contract.support import START, Clock

DAY = 86_400_000_000


class Aged:
    """A store whose clock moves by days."""

    def __init__(self, log: Log, clock: Clock) -> None:
        self.et, self.clock = Everthread(log, {"memory": False}), clock

    async def begin(self, tenant: str, *said: Event) -> Talk:
        talk = await self.et.begin(user="ana", tenant=tenant)
        await talk.append(*said)
        return talk

    def worker(self, days: float) -> RetentionWorker:
        self.et.retention.days = days
        return self.et.retention

    async def is_there(self, talk: Talk) -> bool:
        try:
            await self.et.conversation(user="ana", tenant=talk.conversation.tenant, id=talk.id)
        except UnknownConversation:
            return False
        return True


@pytest.fixture
async def aged(fresh_address: str) -> object:
    clock = Clock(START)
    opened = Aged(await open_log(fresh_address, clock=clock), clock)
    yield opened
    await opened.et.close()


async def test_it_is_off_unless_somebody_says_so(aged: Aged) -> None:
    talk = await aged.begin("acme", user("Hi"), assistant("Hello."))
    aged.clock.now += 10_000 * DAY
    assert await aged.worker(0).run() == []
    assert await aged.is_there(talk)


async def test_what_is_idle_for_longer_is_erased_and_logged_and_a_dry_run_erases_nothing(
    aged: Aged, caplog: pytest.LogCaptureFixture
) -> None:
    old = await aged.begin("acme", user("Hi"), assistant("Hello."))
    waiting = await aged.begin("acme", user("Hi"), structs.replace(tool_call("buy"), waits_for="approval"))
    unanswered = await aged.begin("acme", user("Is anybody there?"))
    asked = await aged.begin("acme", user("Hi"), assistant("Hello."))
    await asked.schedule("Tea?", at=datetime(2099, 1, 1, tzinfo=UTC))
    aged.clock.now += 29 * DAY
    new = await aged.begin("acme", user("Hi"), assistant("Hello."))
    aged.clock.now += 2 * DAY
    worker = aged.worker(30)
    due = [one.conversation async for one in worker.due()]
    assert due == [old.id, unanswered.id]
    assert await aged.is_there(old)
    caplog.set_level("INFO")
    assert [one.conversation for one in await worker.run()] == [old.id, unanswered.id]
    assert [await aged.is_there(one) for one in (old, waiting, asked, new)] == [False, True, True, True]
    assert f"retention erased conversation {old.id}" in caplog.text
    assert [entry.act for entry in await aged.et.log.accounts.audited("acme")] == ["retained"] * 2
    assert await worker.run() == []


async def test_a_tenant_has_its_own(aged: Aged) -> None:
    mine, yours = [await aged.begin(tenant, user("Hi"), assistant("Hello.")) for tenant in ("acme", "rival")]
    worker = aged.worker(0)
    await worker.set_days("acme", 7)
    aged.clock.now += 8 * DAY
    assert [one.tenant for one in await worker.run()] == ["acme"]
    assert [await aged.is_there(one) for one in (mine, yours)] == [False, True]
    await worker.set_days("rival", 0)
    assert await aged.worker(1).run() == [], "0 keeps everything, whatever the setting says"
    await worker.set_days("rival", None)
    assert [one.tenant for one in await worker.run()] == ["rival"]


async def test_what_cannot_be_read_erases_nothing(aged: Aged) -> None:
    talk = await aged.begin("acme", user("Hi"), assistant("Hello."))
    await aged.et.log.documents.put(Owner("acme", ""), "retention", "soon")
    aged.clock.now += 100 * DAY
    assert await aged.worker(1).run() == []
    assert await aged.is_there(talk)
    for days in (-1.0, float("nan"), 1e9):
        with pytest.raises(BadValue):
            await aged.worker(0).set_days("acme", days)


def test_the_job_ends_with_its_store(tmp_path: Path) -> None:
    import asyncio

    async def opened() -> None:
        async with Everthread.open(f"sqlite:///{tmp_path}/a.db", settings={"retention": 30}) as et:
            assert et.retention.days == 30

    asyncio.run(opened())
