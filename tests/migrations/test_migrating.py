"""An older database is migrated when it is opened, a newer one refused, and a failed migration leaves no trace."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from everthread import Everthread, Talk, user
from everthread.errors import EverthreadError, NewerSchema, StoreError
from everthread.store import migrate
from everthread.store.migrate import Migration
from tests.failures import children
from tests.failures.aftermath import clear, intact
from tests.migrations.databases import make_older, rows, run
from tests.waiting import PATIENCE

# Made up, to follow the newest there is.
NEWEST = migrate.migrations("sqlite")[-1].version
NEXT, LAST = NEWEST + 1, NEWEST + 2
MOODS = "CREATE TABLE moods (whose TEXT, mood TEXT);"
GOOD = Migration(NEXT, "moods", f"{MOODS} INSERT INTO moods VALUES ('x', 'good');")
BETTER = Migration(LAST, "more_moods", "INSERT INTO moods VALUES ('x', 'better');")
FAILING = Migration(NEXT, "moods", f"{MOODS} INSERT INTO nowhere VALUES (1);")


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretend that these migrations were released after those there are."""
    real = migrate.migrations

    def release(*more: Migration) -> None:
        monkeypatch.setattr(migrate, "migrations", lambda engine: (*real(engine), *more))

    return release


async def _old(address: str) -> Talk:
    """A database as the version before made it, with something said."""
    async with Everthread.open(address) as et:
        talk = await et.begin(user="ana")
        await talk.append(user("hello"))
    return talk


async def test_an_older_database_is_migrated_when_opened_and_keeps_everything(
    fresh_address: str, released: Callable[..., None]
) -> None:
    talk = await _old(fresh_address)
    released(GOOD, BETTER)
    assert await intact(fresh_address, talk) == ["hello"]
    assert await rows(fresh_address, "SELECT mood FROM moods ORDER BY mood") == [("better",), ("good",)]
    recorded = await rows(fresh_address, "SELECT version, name FROM everthread_migrations ORDER BY version")
    assert recorded[-2:] == [(NEXT, "moods"), (LAST, "more_moods")]
    await (await Everthread.open(fresh_address)).close()  # once is enough
    assert len(await rows(fresh_address, "SELECT mood FROM moods")) == 2


@pytest.mark.parametrize("version", range(1, NEWEST + 1))
async def test_an_empty_database_of_any_older_version_is_migrated_when_opened(fresh_address: str, version: int) -> None:
    await make_older(fresh_address, version=version)
    assert await intact(fresh_address, await _old(fresh_address)) == ["hello"]
    recorded = await rows(fresh_address, "SELECT version FROM everthread_migrations ORDER BY version")
    assert recorded == [(number,) for number in range(1, NEWEST + 1)]


async def test_a_newer_database_is_refused_with_its_version_and_name(
    fresh_address: str, released: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = await _old(fresh_address)
    released(GOOD, BETTER)
    await (await Everthread.open(fresh_address)).close()
    monkeypatch.undo()
    with pytest.raises(NewerSchema) as refused:
        await Everthread.open(fresh_address)
    assert clear(refused.value, f"schema {LAST} ('more_moods')", "newer Everthread", "pip install -U everthread")
    assert (refused.value.version, refused.value.known) == (LAST, NEWEST)
    shown = fresh_address.partition("?")[0].rpartition("/")[2]
    assert shown in str(refused.value)
    released(GOOD, BETTER)
    assert await intact(fresh_address, talk) == ["hello"]


@pytest.mark.parametrize("before", [(), (GOOD,)], ids=["the first of them", "the second of them"])
async def test_a_migration_that_fails_leaves_the_database_as_it_was(
    fresh_address: str, released: Callable[..., None], monkeypatch: pytest.MonkeyPatch, before: tuple[Migration, ...]
) -> None:
    talk = await _old(fresh_address)
    failing = FAILING if not before else Migration(LAST, "fails", "INSERT INTO nowhere VALUES (1)")
    released(*before, failing)
    with pytest.raises(StoreError) as refused:
        await Everthread.open(fresh_address)
    assert clear(refused.value, fresh_address.partition("?")[0].rpartition("/")[2])
    monkeypatch.undo()
    assert len(await rows(fresh_address, "SELECT version FROM everthread_migrations")) == NEWEST
    assert await intact(fresh_address, talk) == ["hello"]


async def test_a_fresh_database_whose_making_fails_stays_empty(
    fresh_address: str, released: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    released(FAILING)
    with pytest.raises(EverthreadError):
        await Everthread.open(fresh_address)
    monkeypatch.undo()
    async with Everthread.open(fresh_address) as et:
        await (await et.begin(user="ana")).append(user("hello"))


async def test_tasks_that_open_a_fresh_database_at_the_same_time_all_succeed(fresh_address: str) -> None:
    async def work(n: int) -> Talk:
        async with Everthread.open(fresh_address) as et:
            talk = await et.begin(user="ana")
            await talk.append(user(f"{n}"))
            return talk

    talks = await asyncio.gather(*(work(n) for n in range(8)))
    for n, talk in enumerate(talks):
        assert await intact(fresh_address, talk) == [f"{n}"]


async def test_processes_that_open_a_fresh_database_at_the_same_time_all_succeed(fresh_address: str) -> None:
    ids = await asyncio.to_thread(_open_in_processes, fresh_address, 4)
    async with Everthread.open(fresh_address) as et:
        found = [conversation.id for conversation in await et.conversations(user="ana")]
    assert sorted(found) == sorted(ids)


def _open_in_processes(address: str, count: int) -> list[str]:
    command = children.command("open_and_append", address, "hello")
    pipe = subprocess.PIPE
    started = [
        subprocess.Popen(command, cwd=children.ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        for _ in range(count)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == '"ready"\n'
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    ids = []
    for process in started:
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
        ids.append(json.loads(out))
    return ids


async def test_tasks_that_open_an_older_database_at_the_same_time_migrate_it_once(
    fresh_address: str, released: Callable[..., None]
) -> None:
    talk = await _old(fresh_address)
    released(GOOD)
    opened = await asyncio.gather(*(Everthread.open(fresh_address) for _ in range(6)))
    for et in opened:
        await et.close()
    assert await rows(fresh_address, "SELECT mood FROM moods") == [("good",)]
    assert await intact(fresh_address, talk) == ["hello"]


def test_a_migration_file_with_a_bad_name_is_an_error() -> None:
    with pytest.raises(ValueError, match="not named like 0001_what_it_does"):
        migrate._migration("log.sql", "")


async def test_a_migration_that_was_missed_in_between_is_made_up_for(
    tmp_path: Path, released: Callable[..., None]
) -> None:
    address = f"sqlite:///{tmp_path}/talk.db"
    talk = await _old(address)
    released(GOOD, BETTER)
    assert await intact(address, talk) == ["hello"]
    await run(address, f"DELETE FROM everthread_migrations WHERE version = {NEXT}; DROP TABLE moods")
    await (await Everthread.open(address)).close()
    assert await rows(address, "SELECT mood FROM moods") == [("good",)]
