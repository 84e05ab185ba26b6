"""Another program holds the file: Everthread waits without blocking the loop, and says so when it gives up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest

from everthread import Everthread, Talk, user
from everthread.errors import Busy
from tests.failures.aftermath import clear, intact, texts
from tests.failures.children import lock_held
from tests.waiting import PATIENCE, turned


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talk.db"


@asynccontextmanager
async def _opened(path: Path, *, patience: float) -> AsyncIterator[Talk]:
    async with Everthread.open(f"sqlite:///{path}", patience=patience) as et:
        talk = await et.conversation(user="ana")
        if not await texts(talk):
            await talk.append(user("before"))
        yield talk


@pytest.mark.parametrize("kind", ["IMMEDIATE", "EXCLUSIVE"])
async def test_a_lock_that_outlasts_patience_is_an_error_that_says_how_long(path: Path, kind: str) -> None:
    async with _opened(path, patience=0.3) as talk:
        with lock_held(path, kind):
            with pytest.raises(Busy) as refused:
                await talk.append(user("during"))
            assert await texts(talk) == ["before"]  # reading goes on
        assert clear(refused.value, str(path), "0.3 s", "wait for it")
        await talk.append(user("after"))
    assert await intact(f"sqlite:///{path}", talk) == ["before", "after"]


@pytest.mark.parametrize("kind", ["IMMEDIATE", "EXCLUSIVE"])
async def test_a_lock_that_ends_within_patience_is_not_felt(path: Path, kind: str) -> None:
    async with _opened(path, patience=PATIENCE) as talk:
        with lock_held(path, kind) as holder:
            waiting = asyncio.gather(*(talk.append(user(f"during {n}")) for n in range(20)))
            await turned()  # the loop goes on
            assert not waiting.done()
            holder.kill()
            await waiting
    assert sorted(await intact(f"sqlite:///{path}", talk)) == sorted(["before", *(f"during {n}" for n in range(20))])


async def test_everyone_who_waits_for_a_lock_gets_the_error_and_nothing_is_written_later(path: Path) -> None:
    async with _opened(path, patience=0.2) as talk:
        with lock_held(path, "IMMEDIATE"):
            appends = (talk.append(user(f"during {n}")) for n in range(10))
            results = await asyncio.gather(*appends, return_exceptions=True)
        assert [type(result) for result in results] == [Busy] * 10
    assert await intact(f"sqlite:///{path}", talk) == ["before"]


async def test_forking_and_redacting_wait_for_a_lock_as_appending_does(path: Path) -> None:
    async with _opened(path, patience=PATIENCE) as talk:
        with lock_held(path, "IMMEDIATE") as holder:
            forking = asyncio.create_task(talk.fork(name="side"))
            redacting = asyncio.create_task(talk.redact(1))
            await turned()
            assert not forking.done()
            assert not redacting.done()
            holder.kill()
            fork, _ = await asyncio.gather(forking, redacting)
        assert (await fork.line()).branch.name == "side"
    assert await intact(f"sqlite:///{path}", talk) == [""]


async def test_opening_a_store_that_stays_locked_is_an_error_that_says_how_long(path: Path) -> None:
    apsw.Connection(str(path)).execute("PRAGMA user_version = 0")  # still without write-ahead log: readers wait too
    with lock_held(path, "EXCLUSIVE"):
        with pytest.raises(Busy) as refused:
            await Everthread.open(f"sqlite:///{path}", patience=0.3)
        assert clear(refused.value, str(path), "0.3 s")


async def test_opening_a_store_whose_lock_ends_within_patience_succeeds(path: Path) -> None:
    apsw.Connection(str(path)).execute("PRAGMA user_version = 0")
    with lock_held(path, "EXCLUSIVE") as holder:
        opening = asyncio.create_task(_said_before(path))
        await turned()  # the loop goes on
        assert not opening.done()
        holder.kill()
        talk = await opening
    assert await intact(f"sqlite:///{path}", talk) == ["before"]


async def _said_before(path: Path) -> Talk:
    async with _opened(path, patience=PATIENCE) as talk:
        return talk


async def test_a_store_can_be_opened_and_read_while_another_program_writes(path: Path) -> None:
    async with _opened(path, patience=1) as talk:
        pass
    with lock_held(path, "EXCLUSIVE"):
        async with Everthread.open(f"sqlite:///{path}", patience=1) as et:
            assert await texts(await et.conversation(user="ana", id=talk.id)) == ["before"]


async def test_redactions_while_large_appends_are_under_way_succeed(path: Path) -> None:
    """Redacting empties the write-ahead log, for which a thread that is committing something else is in the way."""
    async with _opened(path, patience=PATIENCE) as talk:
        secrets = await talk.append(*(user("walnuts") for _ in range(5)))

        async def write() -> None:
            for _ in range(10):
                await talk.append(*(user("x") for _ in range(1_001)))

        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(write())
            for event in secrets:
                await talk.redact(event.seq)
        assert not any(b"walnuts" in file.read_bytes() for file in path.parent.iterdir())
    assert "walnuts" not in await intact(f"sqlite:///{path}", talk)
