"""PostgreSQL restarts, in good order or not: nothing acknowledged is lost, nothing is doubled, nobody notices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import count
from typing import Any

import asyncpg
import pytest

from everthread import Everthread, Talk, user
from everthread.core.logged import Logged
from everthread.errors import Unavailable
from tests.failures.aftermath import clear, intact, sound, texts
from tests.postgres_server import PrivatePostgres
from tests.waiting import PATIENCE

_names = count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[PrivatePostgres]:
    with PrivatePostgres(durable=True) as started:
        yield started


@pytest.fixture
def address(server: PrivatePostgres) -> str:
    server.start()
    return server.create_database(f"restarts_{next(_names)}")


@pytest.fixture(params=["postgres", "redis"])
def bus(request: pytest.FixtureRequest) -> str:
    """The bus, which is away with the server or stays when that goes."""
    return "" if request.param == "postgres" else str(request.getfixturevalue("redis").url)


@pytest.fixture
async def et(address: str) -> AsyncIterator[Everthread]:
    async with Everthread.open(address, patience=60) as opened:
        yield opened


@pytest.fixture
async def talk(et: Everthread) -> Talk:
    talk = await et.begin(user="ana")
    await talk.append(user("first"))
    return talk


def _crash(server: PrivatePostgres) -> None:
    server.kill()
    server.start()


RESTARTS: dict[str, Callable[[PrivatePostgres], None]] = {
    "in good order": lambda server: server.restart(mode="fast"),
    "at once": lambda server: server.restart(mode="immediate"),
    "killed": _crash,
}


@pytest.fixture(params=RESTARTS)
def restart(request: pytest.FixtureRequest) -> Callable[[PrivatePostgres], None]:
    return RESTARTS[request.param]


async def test_a_restart_between_two_appends_is_not_noticed(
    et: Everthread, talk: Talk, server: PrivatePostgres, restart: Callable[[PrivatePostgres], None]
) -> None:
    await asyncio.to_thread(restart, server)
    assert await texts(talk) == ["first"]
    await asyncio.to_thread(restart, server)
    await talk.append(user("second"))
    assert await sound(et, talk) == ["first", "second"]


async def test_a_restart_during_appends_reads_and_following_is_not_noticed(
    server: PrivatePostgres, restart: Callable[[PrivatePostgres], None], address: str, bus: str
) -> None:
    async with Everthread.open(address, patience=60, bus=bus) as et:
        talk = await et.begin(user="ana")
        await talk.append(user("first"))
        await _restart_amid(talk, address, lambda: restart(server))


async def _restart_amid(talk: Talk, address: str, restart: Callable[[], None]) -> None:
    stop = asyncio.Event()
    acknowledged: list[str] = []
    followed: list[str] = []

    async def write(name: str) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            text = f"{name} {number}"
            key = text if number % 2 else ""
            events = [user(text)] if number % 3 else [user(text), user(f"{text} and more")]
            written = await talk.append(*events, key=key)
            acknowledged.extend(event.text for event in written)

    async def read() -> None:
        while not stop.is_set():
            seqs = [event.seq for event in await talk.after(0, limit=100_000)]
            assert seqs == list(range(1, len(seqs) + 1))
            await asyncio.sleep(0.01)

    async def follow() -> None:
        async for event in talk.listen():
            assert isinstance(event, Logged)
            followed.append(event.text)
            if event.text == "last":
                return

    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        follower = group.create_task(follow())
        workers = [group.create_task(write(name)) for name in ("a", "b", "c")] + [group.create_task(read())]
        await asyncio.sleep(0.2)
        before = len(acknowledged)
        await asyncio.to_thread(restart)
        while len(acknowledged) < before + 30:  # noqa: ASYNC110  (they go on for as long as it takes)
            await asyncio.sleep(0.01)
        stop.set()
        await asyncio.wait(workers)
        await talk.append(user("last"))
        await follower
    said = await intact(address, talk)
    assert sorted(said) == sorted(["first", *acknowledged, "last"])
    assert followed == said


async def test_a_server_that_stays_away_beyond_patience_is_unavailable_and_then_back(
    server: PrivatePostgres, address: str
) -> None:
    async with Everthread.open(address, patience=2) as et:
        talk = await et.begin(user="ana")
        await talk.append(user("first"))
        await asyncio.to_thread(server.kill)
        async with asyncio.timeout(PATIENCE):
            works: list[Awaitable[Any]] = [talk.append(user("lost")), talk.after(0)]
            for work in works:
                with pytest.raises(Unavailable) as refused:
                    await work
                assert clear(refused.value, address.partition("?")[0].rpartition("/")[2], "check")
        await asyncio.to_thread(server.start)
        await talk.append(user("second"))
        assert await sound(et, talk) == ["first", "second"]


async def test_a_store_can_be_opened_while_its_server_is_still_starting(server: PrivatePostgres, address: str) -> None:
    await asyncio.to_thread(server.kill)
    opening = asyncio.create_task(_begin(address))
    await asyncio.sleep(0.1)
    await asyncio.to_thread(server.start)
    async with asyncio.timeout(PATIENCE):
        talk = await opening
    assert await intact(address, talk) == ["first"]


async def _begin(address: str) -> Talk:
    async with Everthread.open(address, patience=60) as et:
        talk = await et.begin(user="ana")
        await talk.append(user("first"))
        return talk


async def test_closing_while_the_server_is_away_ends(server: PrivatePostgres, address: str, bus: str) -> None:
    et = await Everthread.open(address, patience=60, bus=bus)
    talk = await et.begin(user="ana")
    await talk.append(user("first"))
    following = talk.listen()
    first = await anext(following)
    assert isinstance(first, Logged)
    assert first.text == "first"
    await asyncio.to_thread(server.kill)
    async with asyncio.timeout(PATIENCE):
        await following.aclose()  # type: ignore[attr-defined]
        await et.close()
    await asyncio.to_thread(server.start)
    assert await intact(address, talk) == ["first"]


async def test_connections_that_an_operator_ends_are_replaced(
    et: Everthread, talk: Talk, server: PrivatePostgres
) -> None:
    end_all = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND application_name LIKE 'everthread%'"
    )
    async with asyncio.timeout(PATIENCE), asyncpg.create_pool(server.url, min_size=0) as operator:
        for n in range(5):
            await operator.execute(end_all)
            await asyncio.gather(*(talk.append(user(f"{n} {m}")) for m in range(10)))
    assert len(await sound(et, talk)) == 51
