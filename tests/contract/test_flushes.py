"""On SQLite what must outlive the machine is flushed to disk before anybody is told; leases are not waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from everthread import Everthread, Talk, user
from everthread.store.sqlite import engine as sqlite


class _Counted(apsw.VFSFile):
    def __init__(self, base: str, name: Any, flags: list[int], seen: list[str]) -> None:
        self._seen, self._name = seen, str(name.filename() if isinstance(name, apsw.URIFilename) else name)
        super().__init__(base, name, flags)

    def xSync(self, flags: int) -> None:  # noqa: N802 — SQLite's name
        self._seen.append(self._name)
        super().xSync(flags)


class _Counting(apsw.VFS):
    """The machine's files, and a note of every flush."""

    def __init__(self, base: str, seen: list[str]) -> None:
        self._base, self._seen = base, seen
        super().__init__("counting", base, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 — SQLite's name
        return _Counted(self._base, name, flags, self._seen)


@pytest.fixture
def flushed() -> Iterator[list[str]]:
    """The file of every flush from now on."""
    seen: list[str] = []
    counting = _Counting(apsw.vfs_names()[0], seen)
    yield seen
    counting.unregister()


@pytest.fixture
async def talk(flushed: list[str], tmp_path: Path) -> AsyncIterator[Talk]:
    async with Everthread.open(f"sqlite:///{tmp_path}/flushed.db") as et:
        talk = await et.begin(user="ana")
        await talk.append(user("first"))
        flushed.clear()
        yield talk


async def _lease_and_learn(talk: Talk) -> None:
    log = talk._log
    assert await log.leases.take("default", "cake", holder="ana", seconds=30) == "ana"
    await log.calibrations.add("openai:gpt-4o", 20)
    await log.leases.release("default", "cake", holder="ana")


async def test_neither_leases_nor_calibrations_wait_for_the_disk(talk: Talk, flushed: list[str]) -> None:
    await _lease_and_learn(talk)
    assert flushed == []
    assert await talk._log.calibrations.all() == {"openai:gpt-4o": {20: 1}}


async def test_an_append_after_them_is_flushed(talk: Talk, flushed: list[str]) -> None:
    await _lease_and_learn(talk)
    await talk.append(user("second"))
    assert [name.endswith("-wal") for name in flushed] == [True]


async def test_an_append_that_shares_its_commit_with_a_lease_is_flushed(talk: Talk, flushed: list[str]) -> None:
    for n in range(3):  # after a first commit that was shared, every next one waits for who joins it
        await asyncio.gather(*(talk.append(user(f"{n}.{m}")) for m in range(3)))
        flushed.clear()
        lease = talk._log.leases.take("default", "cake", holder="ana", seconds=30)
        await asyncio.gather(talk.append(user("together")), lease)
        assert len(flushed) == 1


async def test_on_a_slow_disk_too_appends_are_flushed_and_leases_are_not(
    talk: Talk, flushed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "SLOW", -1.0)  # nothing is quick enough
    await talk.append(user("slow"))
    for n in range(3):
        flushed.clear()
        await _lease_and_learn(talk)
        assert flushed == []
        await talk.append(user(f"slow again, {n}"))
        assert flushed
