"""Within a tenant everything works that is the tenant's, in whatever task it is done, and nothing else is reached. What
serves all tenants works for all, whoever happened to begin it.

On SQLite a reach changes nothing: there these tests say that nothing is lost by it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import asyncpg
import pytest

from everthread import Everthread, GivenSettings, Talk, assistant, user, within
from everthread.core.schedules import scheduled
from everthread.errors import BadValue, EverthreadError, StoreError, UnknownBranch, UnknownConversation
from everthread.jobs import schedules
from everthread.jobs.worker import Worker
from everthread.store.conversations import Owner
from everthread.store.postgres.pool import Pool
from everthread.store.reach import as_operator, reach
from everthread.sync import Everthread as InThreads
from everthread.testing.scripted import call, script
from everthread.tools import tool
from everthread.transfer import export_lines
from tests.contract.support import assert_sound
from tests.waiting import PATIENCE, until

ACME, RIVAL = "acme", "rival"


@pytest.fixture
def settings(someone: str) -> GivenSettings:
    """With a scripted model for replies, and memory in its own words."""
    script(someone, *["I see."] * 20)
    return {"model": f"scripted:{someone}", "memory": True}


@pytest.fixture
async def store(address: str, settings: GivenSettings) -> AsyncIterator[Everthread]:
    async with Everthread.open(address, settings=settings, keys={}) as et:
        yield et


async def said(et: Everthread, someone: str, tenant: str, *, turns: int = 1) -> Talk:
    with within(tenant):
        talk = await et.begin(user=someone, tenant=tenant)
        for turn in range(turns):
            await talk.append(user(f"Bed {turn} has red roses."), assistant("I see."))
    return talk


# -- the reach itself ------------------------------------------------------------------------------------------------


def test_it_is_the_operators_unless_somebody_says_otherwise() -> None:
    assert reach() == "*"
    with within(ACME):
        assert reach() == ACME
        with as_operator():
            assert reach() == "*"
        assert reach() == ACME
    assert reach() == "*"


@pytest.mark.parametrize("tenant", ["*", "", "a\nb"])
async def test_what_could_be_taken_for_the_operator_is_no_tenant(et: Everthread, tenant: str, someone: str) -> None:
    with pytest.raises(BadValue), within(tenant):
        pass
    with pytest.raises(BadValue):
        await et.begin(user=someone, tenant=tenant)


# -- in the service's place ------------------------------------------------------------------------------------------


async def test_all_that_a_tenant_does_works_within_it(store: Everthread, someone: str) -> None:
    with within(ACME):
        talk = await store.begin(user=someone, tenant=ACME, id=f"thread-{someone}")
        assert (await talk.say("The roses are red. My PIN is ZX-4711.")).text == "I see."
        await talk.append(user("Mark this."), key="k")
        await talk.mark("here")
        side = await talk.fork()
        await side.append(user("aside"))
        await talk.remember()
        assert (await talk.context()).sent
        assert await talk.recall("roses")
        assert [event.text async for event in _first(talk, 2)] == ["The roses are red. My PIN is ZX-4711.", "I see."]
        assert [line async for line in export_lines(store.log, talk.conversation)]
        assert (await store.totals(user=someone, tenant=ACME)).conversations == 1
        assert await store.usage(user=someone, tenant=ACME)
        await assert_sound(store, talk)
        await talk.redact(1)
        assert await talk.recall("ZX-4711") == []
        assert (await store.conversation(user=someone, tenant=ACME, id=f"thread-{someone}")).id == talk.id
        assert await store.erase_user(user=someone, tenant=ACME) == 1
        assert await store.conversations(user=someone, tenant=ACME) == []
    await store.log.forgetting.finish()
    assert await store.log.forgetting.unfinished() == []


async def _first(talk: Talk, many: int) -> AsyncIterator[Any]:
    async for heard in talk.listen():
        yield heard
        many -= 1
        if not many:
            return


async def test_a_turn_goes_on_within_its_tenant_when_its_caller_has_left(address: str, someone: str) -> None:
    looks, seen = asyncio.Event(), list[str]()

    @tool
    async def look() -> str:
        """Look where we are."""
        async with asyncio.timeout(PATIENCE):
            await looks.wait()
        seen.append(reach())
        return "Here."

    script(someone, [call("look")], "I see.")
    given: GivenSettings = {"model": f"scripted:{someone}"}
    async with Everthread.open(address, settings=given, keys={}, tools=[look]) as et:
        with within(ACME):
            talk = await et.begin(user=someone, tenant=ACME)
            talk.say("Where are we?", detached=True)
        with within(RIVAL):
            looks.set()
            await until(lambda: bool(seen))
        with within(ACME):
            await until(lambda: _is_idle(talk))
    assert seen == [ACME]


async def _is_idle(talk: Talk) -> bool:
    return (await talk.after(messages=True))[-1].text == "I see."


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The reaches in which the worker has looked at a branch, and done what was due there."""
    found = list[str]()
    real = Worker._once

    async def telling(self: Worker, *given: Any, **how: Any) -> Any:
        found.append(reach())
        return await real(self, *given, **how)

    monkeypatch.setattr(Worker, "_once", telling)
    return found


async def test_memory_does_its_work_within_the_tenant_whose_turn_it_was(
    store: Everthread, someone: str, looked: list[str]
) -> None:
    for tenant in (ACME, RIVAL):
        with within(tenant):
            talk = await store.begin(user=someone, tenant=tenant)
            await talk.say("The roses are red.")
    await store.memory.drain()
    assert sorted(looked) == [ACME, RIVAL]


async def test_a_worker_apart_looks_for_all_and_works_within_each(
    address: str, settings: GivenSettings, someone: str, looked: list[str]
) -> None:
    async with Everthread.open(address, settings={**settings, "worker": "apart"}, keys={}) as et:
        for tenant in (ACME, RIVAL):
            with within(tenant):
                talk = await et.begin(user=someone, tenant=tenant)
                await talk.say("The roses are red.")
        await et.memory.drain()
        looked.clear()
        with within("nobody"):  # whoever starts it
            await et.work(until_idle=True)
    assert {ACME, RIVAL} <= set(looked)
    assert "*" not in looked


async def test_what_is_scheduled_is_said_within_its_tenant_whoever_opened_the_store(
    address: str, someone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "SOON", 0.0)
    monkeypatch.setattr(schedules, "LOOK", 0.05)
    seen = list[str]()

    @tool
    async def look() -> str:
        """Look where we are."""
        seen.append(reach())
        return "Here."

    script(someone, [call("look")], "I see.", [call("look")], "I see.")
    given: GivenSettings = {"model": f"scripted:{someone}", "memory": False}
    with within(RIVAL):
        et = await Everthread.open(address, settings=given, keys={}, tools=[look])
    try:
        now = datetime.now(UTC)
        due = scheduled("Now.", at=now - timedelta(seconds=1), now=now - timedelta(hours=1))
        for tenant in (ACME, RIVAL):
            with within(tenant):
                talk = await et.begin(user=someone, tenant=tenant)
                await et.log.schedules.add(talk.conversation, due)
                await until(partial(_is_done, talk))
    finally:
        await et.close()
    assert seen == [ACME, RIVAL]


async def _is_done(talk: Talk) -> bool:
    return all(one.state == "done" for one in await talk.schedules())


async def test_listeners_of_a_branch_hear_other_processes_whoever_listened_first(
    address: str, settings: GivenSettings, someone: str
) -> None:
    """They share what reads for them, and the first of them has gone by then."""
    async with (
        Everthread.open(address, settings=settings, keys={}) as here,
        Everthread.open(address, settings=settings, keys={}) as there,
    ):
        first = await said(here, someone, ACME)
        for listens, joins in ((as_operator(), within(ACME)), (within(ACME), as_operator())):
            with listens:
                early: Any = first.listen()
                await anext(early)
            with joins:
                late: Any = first.listen(after=(await first.after(0, limit=500))[-1].seq)
                coming = asyncio.ensure_future(anext(late))
                await until(lambda: len(here._runtime.live._channels) == 1)
            await early.aclose()
            with within(ACME):
                same = await there.conversation(user=someone, tenant=ACME, id=first.id)
                await same.append(user("Said over there."))
            async with asyncio.timeout(PATIENCE):
                assert (await coming).text == "Said over there."
            await late.aclose()


async def test_a_turn_that_was_left_is_closed_by_who_listens_within_the_tenant(
    address: str, settings: GivenSettings, someone: str
) -> None:
    async with Everthread.open(address, settings=settings, keys={}) as et:
        with within(ACME):
            talk = await et.begin(user=someone, tenant=ACME)
            line = await talk.line()
            await et.log.append(line.target, [user("Anybody?")])
            assert [one.seq async for one in _first(talk, 1)] == [1]
            assert (await talk.say("Hello?")).text == "I see."


def test_verbs_without_await_stay_within_the_tenant(address: str, settings: GivenSettings, someone: str) -> None:
    with InThreads.open(address, settings=settings, keys={}) as et:
        with within(ACME):
            mine = et.begin(user=someone, tenant=ACME)
            assert mine.say("hello").result().text == "I see."
        if address.startswith("postgres"):
            with within(RIVAL), pytest.raises(UnknownConversation):
                et.conversation(user=someone, tenant=ACME, id=mine.id)
        assert et.conversation(user=someone, tenant=ACME, id=mine.id).id == mine.id


async def test_opening_finishes_what_is_half_forgotten_whoever_opens(address: str, someone: str) -> None:
    async with Everthread.open(address) as et:
        talk = await said(et, someone, ACME)
        line = await talk.line()
        await et.log.forgetting._redact(line, 1)  # as by a process that died before it was struck out
        assert [one.conversation for one in await et.log.forgetting.unfinished()] == [talk.id]
    with within(RIVAL):
        async with Everthread.open(address) as et:
            with as_operator():
                assert await et.log.forgetting.unfinished() == []


# -- the pool --------------------------------------------------------------------------------------------------------


@pytest.fixture
def shared(request: pytest.FixtureRequest) -> str:
    """A store in PostgreSQL."""
    return str(request.getfixturevalue("_shared_database"))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tenants that connections were told meanwhile, each a round trip."""
    found = list[str]()
    real = Pool._told

    async def telling(self: Pool, connection: Any, tenant: str) -> Any:
        found.append(tenant)
        return await real(self, connection, tenant)

    monkeypatch.setattr(Pool, "_told", telling)
    return found


async def _sees(et: Everthread) -> str:
    engine: Any = et.log._engine
    async with engine._pool.acquire() as connection:
        return str(await connection.fetchval("SELECT current_setting('everthread.tenant')"))


async def test_a_connection_is_told_only_when_the_tenant_is_another(shared: str, someone: str, told: list[str]) -> None:
    async with Everthread.open(shared) as et:
        for _ in range(3):
            await (await et.begin(user=someone)).append(user("hello"))
        assert told == []
        for _ in range(3):
            await said(et, someone, ACME)
        assert told == [ACME]
        await said(et, someone, RIVAL)
        assert told == [ACME, RIVAL]
        with within(ACME):
            await asyncio.gather(*(et.totals(user=someone, tenant=ACME) for _ in range(2)))
        assert told == [ACME, RIVAL, ACME]  # and another connection was made that knew it from the start
        told.clear()
        with within(ACME):
            await asyncio.gather(*(et.totals(user=someone, tenant=ACME) for _ in range(2)))
            assert await _sees(et) == ACME
        assert told == []


async def test_of_idle_connections_the_one_that_knows_the_tenant_is_taken(
    shared: str, someone: str, told: list[str]
) -> None:
    async with Everthread.open(shared) as et:
        engine: Any = et.log._engine
        async with engine._pool.acquire():  # the one that there is
            await said(et, someone, ACME)  # with another
        assert told == []
        for tenant in (ACME, "*", ACME, "*"):
            with as_operator() if tenant == "*" else within(tenant):
                assert await _sees(et) == tenant
        assert told == []


async def test_what_a_connection_sees_is_known_after_whatever_went_wrong(
    shared: str, someone: str, told: list[str]
) -> None:
    async with Everthread.open(shared) as et:
        engine: Any = et.log._engine
        with within(ACME):
            talk = await et.begin(user=someone, tenant=ACME)
            with pytest.raises(UnknownBranch):
                await talk.on("nowhere")  # refused by us
            with pytest.raises(asyncpg.PostgresError):
                async with engine._pool.acquire() as connection, connection.transaction():
                    await connection.execute("SELECT 1 / 0")  # refused by the server, in a transaction
            assert await _sees(et) == ACME
        with within(RIVAL):
            gone = asyncio.ensure_future(et.totals(user=someone, tenant=RIVAL))
            await until(lambda: RIVAL in told)
            gone.cancel()  # while the connection is told
            await asyncio.wait({gone})
        for tenant in (ACME, RIVAL, ACME):
            with within(tenant):
                assert await _sees(et) == tenant
        assert set(engine._pool._sees) == set(engine._pool._idle)


async def test_a_server_that_ends_the_connection_while_it_is_told_is_waited_for(
    shared: str, someone: str, told: list[str]
) -> None:
    async with Everthread.open(shared) as et:
        engine: Any = et.log._engine
        async with engine._pool.acquire() as connection:
            process = await connection.fetchval("SELECT pg_backend_pid()")
        superuser = await asyncpg.connect(shared)
        await superuser.execute("SELECT pg_terminate_backend($1, 10000)", process)
        await superuser.close()
        await said(et, someone, ACME)
        with within(ACME):
            assert await _sees(et) == ACME


async def test_whoever_writes_anothers_rows_is_refused_by_the_store(shared: str, someone: str) -> None:
    """Should a query ever name another tenant than the one that it is asked for."""
    async with Everthread.open(shared) as et:
        theirs = await said(et, someone, RIVAL)
        with within(ACME):
            with pytest.raises(StoreError):
                await et.log.documents.put(Owner(RIVAL, someone), "notes", "mine now")
            with pytest.raises(EverthreadError):
                await et.talk(theirs.conversation).append(user("mine now"))
        with within(RIVAL):
            assert [one.text for one in await theirs.after(0)] == ["Bed 0 has red roses.", "I see."]


async def test_the_operator_sees_and_checks_everybodys(store: Everthread, someone: str) -> None:
    for tenant in (ACME, RIVAL):
        await said(store, someone, tenant)
    found = {tenant for tenant, _ in await store.log.everything()}
    assert {ACME, RIVAL} <= found
    assert await store.log.problems() == []
