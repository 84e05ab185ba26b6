"""What Everthread writes is for the account that runs it alone, however permissive its umask is."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from everthread import Everthread, user
from everthread.cli import main
from everthread.transfer import mirror
from tests.waiting import until


@pytest.fixture(autouse=True)
def _permissive() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


async def filled(folder: Path) -> None:
    async with Everthread.open(f"sqlite:///{folder}/talk.db") as et:
        await (await et.begin(user="ana")).append(user("My PIN is ZX-4711."))


async def test_a_database_and_what_stands_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "for it"
    async with Everthread.open(f"sqlite:///{folder}/talk.db") as et:
        await (await et.begin(user="ana")).append(user("My PIN is ZX-4711."))
        files = sorted(folder.iterdir())
        assert [file.name for file in files] == ["talk.db", "talk.db-shm", "talk.db-wal"]
        assert {mode(file) for file in files} == {"0o600"}
    assert mode(folder) == mode(folder.parent) == "0o700"
    assert mode(folder / "talk.db") == "0o600"


async def test_a_folder_that_was_there_stays_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o755)
    async with Everthread.open(f"sqlite:///{folder}/talk.db"):
        assert mode(folder) == "0o755"
        assert mode(folder / "talk.db") == "0o600"


async def test_a_database_that_was_shared_on_purpose_stays_shared(tmp_path: Path) -> None:
    async with Everthread.open(f"sqlite:///{tmp_path}/talk.db"):
        pass
    (tmp_path / "talk.db").chmod(0o660)
    async with Everthread.open(f"sqlite:///{tmp_path}/talk.db") as et:
        await et.begin(user="ana")
        assert {mode(file) for file in tmp_path.iterdir()} == {"0o660"}


def test_a_database_that_every_account_can_read_is_told_of(tmp_path: Path) -> None:
    asyncio.run(filled(tmp_path))
    where = ["doctor", "--store", f"sqlite:///{tmp_path}/talk.db"]
    assert CliRunner().invoke(main, where, catch_exceptions=False).exit_code == 0
    (tmp_path / "talk.db").chmod(0o644)
    told = CliRunner().invoke(main, where, catch_exceptions=False)
    assert told.exit_code == 1
    assert "every account" in " ".join(told.output.split())


def test_an_export(tmp_path: Path) -> None:
    asyncio.run(filled(tmp_path))
    (tmp_path / "out.jsonl.part").write_text("left by a crash")
    where = ["--store", f"sqlite:///{tmp_path}/talk.db", "--user", "ana"]
    done = CliRunner().invoke(main, ["export", "-o", str(tmp_path / "out.jsonl"), *where], catch_exceptions=False)
    assert done.exit_code == 0
    assert mode(tmp_path / "out.jsonl") == "0o600"


async def test_a_mirror_while_it_is_written_and_when_it_is_there(et: Everthread, someone: str, tmp_path: Path) -> None:
    talk, path = await et.begin(user=someone), tmp_path / "mirror.jsonl"
    await talk.append(user("My PIN is ZX-4711."))
    (tmp_path / "mirror.jsonl.part").write_text("left by a crash")
    following = asyncio.create_task(mirror(et.log, talk.conversation, path))

    await until(path.exists)
    assert mode(path) == "0o600"
    following.cancel()
    with suppress(asyncio.CancelledError):
        await following
