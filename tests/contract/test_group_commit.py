"""On SQLite the appends that are ready at the same moment share one commit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from everthread import Everthread, Talk, user
from everthread.errors import UnknownSeq
from tests.contract.support import assert_sound, everything


@pytest.fixture
def commits() -> Iterator[list[int]]:
    """One entry for each commit of any connection that is opened from now on."""
    seen: list[int] = []

    def count(connection: apsw.Connection) -> None:
        def on_commit() -> bool:
            seen.append(1)
            return False

        connection.set_commit_hook(on_commit)

    apsw.connection_hooks.append(count)
    yield seen
    apsw.connection_hooks.remove(count)


@pytest.fixture
async def started(commits: list[int], tmp_path: Path) -> tuple[Everthread, Talk]:
    et = await Everthread.open(f"sqlite:///{tmp_path}/group.db")
    return et, await et.begin(user="ana")


async def test_sixty_four_concurrent_appends_are_few_transactions(
    started: tuple[Everthread, Talk], commits: list[int]
) -> None:
    et, talk = started
    commits.clear()
    written = await asyncio.gather(*(talk.append(user(str(number))) for number in range(64)))
    assert 1 <= len(commits) <= 4
    assert sorted(event.seq for (event,) in written) == list(range(1, 65))
    await assert_sound(et, talk)
    await et.close()


async def test_wave_after_wave_is_few_transactions(started: tuple[Everthread, Talk], commits: list[int]) -> None:
    et, talk = started

    async def speak(name: int) -> None:
        for number in range(10):
            await talk.append(user(f"{name}/{number}"))

    commits.clear()
    await asyncio.gather(*(speak(name) for name in range(64)))
    assert len(commits) <= 40
    assert len(await everything(talk)) == 640
    await et.close()


async def test_one_after_the_other_each_has_its_own(started: tuple[Everthread, Talk], commits: list[int]) -> None:
    """Durable when it returns: nobody is told before a commit of their own."""
    et, talk = started
    commits.clear()
    for number in range(1, 11):
        await talk.append(user("x"))
        assert len(commits) == number
    await et.close()


async def test_a_refused_append_does_not_break_up_the_group(
    started: tuple[Everthread, Talk], commits: list[int]
) -> None:
    et, talk = started
    commits.clear()
    results = await asyncio.gather(
        *(talk.append(user("x"), expect=10**6 if number == 7 else None) for number in range(64)),
        return_exceptions=True,
    )
    assert len(commits) <= 4
    assert [type(result) for result in results].count(UnknownSeq) == 1
    assert len(await everything(talk)) == 63
    await et.close()


async def test_conversations_share_a_commit_too(started: tuple[Everthread, Talk], commits: list[int]) -> None:
    et, _ = started
    talks = [await et.begin(user=f"user {number}") for number in range(16)]
    commits.clear()
    await asyncio.gather(*(talk.append(user("x")) for talk in talks for _ in range(4)))
    assert len(commits) <= 4
    for talk in talks:
        assert len(await everything(talk)) == 4
    await et.close()
