"""Listening to a branch: what came, then what comes, in order and without a gap, whoever says it.

What is heard of a turn that runs is told in tests/agent/test_live.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from everthread import Everthread, Talk, assistant, user
from everthread.core.deltas import Delta
from everthread.core.logged import Logged
from everthread.errors import UnknownConversation
from tests.contract.support import engine_of, everything, module, run
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each database, and PostgreSQL with Redis as the bus of all processes."""
    if request.param != "redis":
        return str(request.param)
    server: RedisServer = request.getfixturevalue("redis")
    monkeypatch.setenv("EVERTHREAD_BUS", server.url)
    return "postgres"


async def take(events: AsyncIterator[Logged | Delta], count: int) -> list[Logged]:
    async with asyncio.timeout(PATIENCE):
        heard = [await anext(events) for _ in range(count)]
    assert all(isinstance(one, Logged) for one in heard)  # there is no turn that runs
    return [one for one in heard if isinstance(one, Logged)]


async def test_history_comes_first_and_then_what_is_said(talk: Talk) -> None:
    await talk.append(user("a"), assistant("b"))
    async with aclosing(talk.listen()) as events:  # type: ignore[type-var]
        assert [event.text for event in await take(events, 2)] == ["a", "b"]
        waiting = asyncio.create_task(take(events, 2))
        await asyncio.sleep(0)
        await talk.append(user("c"), assistant("d"))
        assert [event.text for event in await waiting] == ["c", "d"]


async def test_following_from_a_seq_leaves_out_what_came_before(talk: Talk) -> None:
    await talk.append(user("a"), user("b"), user("c"))
    async with aclosing(talk.listen(after=2)) as events:  # type: ignore[type-var]
        assert [event.text for event in await take(events, 1)] == ["c"]


async def test_a_long_history_comes_whole(talk: Talk) -> None:
    await talk.append(*(user(str(number)) for number in range(1_201)))
    async with aclosing(talk.listen()) as events:  # type: ignore[type-var]
        assert [event.seq for event in await take(events, 1_201)] == list(range(1, 1_202))


async def test_followers_miss_nothing_while_many_speak(et: Everthread, talk: Talk) -> None:
    async def listen() -> list[Logged]:
        async with aclosing(talk.listen()) as events:  # type: ignore[type-var]
            return await take(events, 100)

    async def speak(name: int) -> None:
        for number in range(10):
            await talk.append(user(f"{name}/{number}"))
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        followers = [group.create_task(listen()) for _ in range(5)]
        for name in range(10):
            group.create_task(speak(name))
    whole = await everything(talk)
    assert [follower.result() for follower in followers] == [whole] * 5


async def test_what_another_process_says_arrives(address: str, someone: str) -> None:
    async with Everthread.open(address) as et:
        talk = await et.begin(user=someone)
        await talk.append(user("here"))
        async with aclosing(talk.listen()) as events:  # type: ignore[type-var]
            await take(events, 1)
            process = asyncio.create_task(run(*module("writers.py", "write", address, someone, talk.id, "there", 5)))
            assert [event.text for event in await take(events, 10)] == [
                text for number in range(5) for text in (f"there/{number}", f"there/{number} done")
            ]
            assert (await process).status == 0


async def test_news_of_another_process_comes_without_looking_for_it(
    address: str, someone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everthread.store.log.LOOK", 10 * PATIENCE)
    await test_what_another_process_says_arrives(address, someone)


async def test_what_another_opening_says_arrives(address: str, someone: str) -> None:
    async with Everthread.open(address) as one, Everthread.open(address) as two:
        talk = await one.begin(user=someone)
        other = await two.conversation(user=someone, id=talk.id)
        async with aclosing(talk.listen()) as events:  # type: ignore[type-var]
            for number in range(3):
                waiting = asyncio.create_task(take(events, 1))
                await asyncio.sleep(0)
                await other.append(user(str(number)))
                assert [event.text for event in await waiting] == [str(number)]


async def test_a_follower_stays_on_its_branch(talk: Talk) -> None:
    await talk.append(user("a"), user("b"))
    async with aclosing(talk.listen()) as events:  # type: ignore[type-var]
        await take(events, 2)
        await talk.rewind(to=1)
        await talk.append(user("on the new branch"))
        await (await talk.on("main")).append(user("on the old one"))
        assert [event.text for event in await take(events, 1)] == ["on the old one"]


async def test_a_follower_of_a_fork_hears_its_ancestors_first(talk: Talk) -> None:
    await talk.append(user("a"), user("b"), user("c"))
    side = await talk.fork(at=2)
    async with aclosing(side.listen()) as events:  # type: ignore[type-var]
        await side.append(user("d"))
        await talk.append(user("e"))
        await side.append(user("f"))
        assert [event.text for event in await take(events, 5)] == ["a", "b", "", "d", "f"]


async def test_following_ends_with_an_error_when_the_conversation_is_erased(talk: Talk) -> None:
    await talk.append(user("a"))
    async with aclosing(talk.listen()) as events:  # type: ignore[type-var]
        await take(events, 1)
        waiting = asyncio.create_task(take(events, 1))
        await asyncio.sleep(0)
        await talk.erase()
        with pytest.raises(UnknownConversation):
            await waiting


async def test_a_redaction_reaches_a_follower_as_the_command_that_it_is(talk: Talk) -> None:
    await talk.append(user("a"))
    async with aclosing(talk.listen()) as events:  # type: ignore[type-var]
        await take(events, 1)
        await talk.redact(1)
        assert [event.kind for event in await take(events, 1)] == ["command"]


async def test_a_follower_that_stops_listening_leaves_nothing_behind(et: Everthread, talk: Talk) -> None:
    await talk.append(user("a"))
    for _ in range(5):
        async with aclosing(talk.listen()) as events:  # type: ignore[type-var]
            await take(events, 1)
        task = asyncio.create_task(take(talk.listen(), 5))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await talk.append(user("b"))


async def test_a_follower_can_be_cancelled_at_the_very_moment_of_news(et: Everthread, talk: Talk) -> None:
    """Neither the news nor the waiting may swallow the cancellation."""
    await talk.append(user("a"))

    async def listen() -> None:
        async for _ in talk.listen():
            heard.set()

    for _ in range(3):
        heard = asyncio.Event()
        task = asyncio.create_task(listen())
        await heard.wait()
        for _ in range(50):  # let it come to rest, waiting for news
            await asyncio.sleep(0.001)
        engine_of(et.log).bells.ring(talk.id)
        task.cancel()
        await asyncio.wait([task], timeout=PATIENCE / 10)
        was_cancelled = task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert was_cancelled
