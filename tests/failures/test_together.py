"""Many callers at once: a refusal, a cancelled caller or a closing store concerns nobody else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from everthread import Everthread, EverthreadError, Talk, user
from everthread.core.logged import Logged
from everthread.errors import BadValue, KeyReused, Moved, UnknownConversation, UnknownSeq
from everthread.store.postgres.engine import PostgresEngine
from tests.failures.aftermath import intact, sound, texts
from tests.waiting import PATIENCE


async def _gather(*work: Any) -> list[Any]:
    async with asyncio.timeout(PATIENCE):
        return await asyncio.gather(*work, return_exceptions=True)


async def test_bad_appends_among_good_ones_fail_alone(et: Everthread, talk: Talk, someone: str) -> None:
    await talk.append(user("first"), key="used")
    gone = await et.begin(user=someone)
    await gone.erase()
    good = [talk.append(user(f"good {n}")) for n in range(20)]
    bad = [
        talk.append(user("bad"), key="used"),
        talk.append(user("bad"), expect=0),
        talk.append(user("bad"), expect=1_000),
        gone.append(user("bad")),
        talk.append(user("bad"), key="a\0b"),
    ]
    mixed = [*good[:10], *bad, *good[10:]]
    results = await _gather(*mixed)
    kinds = [type(result) for result in results]
    assert kinds[10:15] == [KeyReused, Moved, UnknownSeq, UnknownConversation, BadValue]
    assert kinds[:10] + kinds[15:] == [list] * 20
    said = await sound(et, talk)
    assert said[0] == "first"
    assert sorted(said[1:]) == sorted(f"good {n}" for n in range(20))


async def test_of_many_with_the_same_expectation_one_succeeds(et: Everthread, talk: Talk) -> None:
    await talk.append(user("first"))
    results = await _gather(*(talk.append(user(f"{n}"), expect=1) for n in range(20)))
    assert sorted(type(result).__name__ for result in results) == ["Moved"] * 19 + ["list"]
    assert len(await sound(et, talk)) == 2


async def test_of_many_with_the_same_key_all_get_the_first_result(et: Everthread, talk: Talk) -> None:
    results = await _gather(*(talk.append(user("once"), key="k") for _ in range(20)))
    assert [[(event.seq, event.id) for event in result] for result in results] == [
        [(event.seq, event.id) for event in results[0]]
    ] * 20
    assert await sound(et, talk) == ["once"]


async def test_of_many_with_the_same_key_and_other_content_one_is_written(et: Everthread, talk: Talk) -> None:
    results = await _gather(*(talk.append(user(f"{n}"), key="k") for n in range(20)))
    assert sorted(type(result).__name__ for result in results) == ["KeyReused"] * 19 + ["list"]
    assert len(await sound(et, talk)) == 1


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8])
async def test_a_cancelled_caller_leaves_the_others_with_their_results(et: Everthread, talk: Talk, turns: int) -> None:
    """Cancelled after some turns of the loop: before, in the middle of, or after the commit."""
    await talk.append(user("first"))
    tasks = [asyncio.create_task(talk.append(user(f"{n}"))) for n in range(12)]
    for _ in range(turns):
        await asyncio.sleep(0)
    for task in tasks[::3]:
        task.cancel()
    results = await _gather(*tasks)
    said = await sound(et, talk)
    for n, result in enumerate(results):
        if isinstance(result, list):
            assert said.count(f"{n}") == 1  # acknowledged: there, once
        else:
            assert isinstance(result, asyncio.CancelledError)
            assert n % 3 == 0
            assert said.count(f"{n}") <= 1  # cancelled: there or not, never twice


async def test_a_caller_that_gives_up_a_large_append_leaves_all_of_it_or_nothing(et: Everthread, talk: Talk) -> None:
    for delay in (0.0, 0.005, 0.02, 0.05):
        before = len(await texts(talk))
        task = asyncio.create_task(talk.append(*(user(f"{n}") for n in range(1_500))))
        await asyncio.sleep(delay)
        task.cancel()
        _, hung = await asyncio.wait([task], timeout=PATIENCE)
        if hung and isinstance(et.log._engine, PostgresEngine):
            et.log._engine._pool.terminate()  # else the test itself could not end
        assert not hung
        await talk.append(user("next"))
        assert len(await texts(talk)) - before in (1, 1_501)
    await sound(et, talk)


async def test_a_cancelled_reader_leaves_the_store_usable(et: Everthread, talk: Talk) -> None:
    await talk.append(*(user(f"{n}") for n in range(500)))
    for _ in range(30):
        tasks = [asyncio.create_task(talk.after(0, limit=2_000)) for _ in range(6)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await _gather(*tasks)
    assert len(await sound(et, talk)) == 500


@pytest.mark.parametrize("turns", [0, 1, 3])
async def test_closing_while_appends_are_under_way_loses_nothing_that_was_acknowledged(
    address: str, someone: str, turns: int
) -> None:
    et = await Everthread.open(address, patience=2)
    talk = await et.begin(user=someone)
    tasks = [asyncio.create_task(talk.append(user(f"{n}"))) for n in range(50)]
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        await et.close()
    results = await _gather(*tasks)
    said = await intact(address, talk)
    for n, result in enumerate(results):
        if isinstance(result, list):
            assert said.count(f"{n}") == 1
        else:
            assert isinstance(result, EverthreadError), repr(result)
            assert said.count(f"{n}") <= 1


async def test_closing_while_someone_follows_ends_the_following(address: str, someone: str) -> None:
    et = await Everthread.open(address, patience=0.5)
    talk = await et.begin(user=someone)
    await talk.append(user("one"))
    seen, began = list[str](), asyncio.Event()

    async def follow() -> None:
        async for event in talk.listen():
            assert isinstance(event, Logged)
            seen.append(event.text)
            began.set()

    follower = asyncio.create_task(follow())
    async with asyncio.timeout(PATIENCE):
        await began.wait()
        await et.close()
    (result,) = await _gather(follower)
    assert isinstance(result, EverthreadError), repr(result)
    assert seen == ["one"]
    assert await intact(address, talk) == ["one"]
