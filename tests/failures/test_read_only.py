"""A store that may not be written can still be read, and says that it may not be written."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from everthread import Everthread, Talk, user
from everthread.errors import ReadOnly
from tests.failures import children
from tests.failures.aftermath import clear, intact
from tests.postgres_server import Server


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that others may enter, which pytest's own is not."""
    made = Path(tempfile.mkdtemp(prefix="everthread-read-only-"))
    made.chmod(0o777)
    yield made
    made.chmod(0o700)
    shutil.rmtree(made)


@pytest.fixture
async def talk(folder: Path) -> Talk:
    async with Everthread.open(f"sqlite:///{folder}/talk.db") as et:
        talk = await et.begin(user="ana")
        await talk.append(user("hello"))
    return talk


def _is_read_only(outcome: Any, path: Path) -> bool:
    name, sentence, ours = outcome
    assert (name, ours) == ("ReadOnly", True), outcome
    assert str(path) in sentence
    assert "check the permissions of the file and of its folder" in sentence
    return True


async def _ends_well(folder: Path, talk: Talk) -> bool:
    folder.chmod(0o777)
    for file in folder.iterdir():
        file.chmod(0o666)
    assert await intact(f"sqlite:///{folder}/talk.db", talk) == ["hello"]
    return True


async def test_a_read_only_file_can_be_read_but_not_appended_to(folder: Path, talk: Talk) -> None:
    (folder / "talk.db").chmod(0o444)
    report = children.run("without_rights", f"sqlite:///{folder}/talk.db", talk.id)
    assert report["open"] == "opened"
    assert report["read"] == ["hello"]
    assert _is_read_only(report["append"], folder / "talk.db")
    assert await _ends_well(folder, talk)


async def test_a_file_in_a_read_only_folder_is_read_only(folder: Path, talk: Talk) -> None:
    (folder / "talk.db").chmod(0o666)
    folder.chmod(0o555)
    report = children.run("without_rights", f"sqlite:///{folder}/talk.db", talk.id)
    failed = report["open"] if report["open"] != "opened" else report["append"]
    assert _is_read_only(failed, folder / "talk.db")
    assert await _ends_well(folder, talk)


async def test_a_read_only_file_in_a_read_only_folder_is_read_only(folder: Path, talk: Talk) -> None:
    (folder / "talk.db").chmod(0o444)
    folder.chmod(0o555)
    report = children.run("without_rights", f"sqlite:///{folder}/talk.db", talk.id)
    failed = report["open"] if report["open"] != "opened" else report["append"]
    assert _is_read_only(failed, folder / "talk.db")
    assert await _ends_well(folder, talk)


@pytest.mark.parametrize("path", ["new.db", "new/folder/talk.db"])
def test_a_store_cannot_be_made_in_a_read_only_folder(folder: Path, path: str) -> None:
    folder.chmod(0o555)
    report = children.run("without_rights", f"sqlite:///{folder}/{path}", "any")
    assert _is_read_only(report["open"], folder / path)
    assert list(folder.iterdir()) == []


async def test_a_file_that_may_not_even_be_read_says_so(folder: Path, talk: Talk) -> None:
    (folder / "talk.db").chmod(0o000)
    report = children.run("without_rights", f"sqlite:///{folder}/talk.db", talk.id)
    name, sentence, ours = report["open"]
    assert ours, report
    assert name in ("ReadOnly", "Unavailable")
    assert f"{folder}/talk.db" in sentence
    assert "permissions" in sentence
    assert await _ends_well(folder, talk)


async def test_a_postgres_that_only_allows_reading_says_so(postgres: Server) -> None:
    address = postgres.create_database("read_only")
    async with Everthread.open(address) as et:
        talk = await et.begin(user="ana")
        await talk.append(user("hello"))
    name = address.partition("?")[0].rpartition("/")[2]
    async with asyncpg.create_pool(postgres.url, min_size=0) as operator:
        await operator.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        async with Everthread.open(address) as et:
            again = await et.conversation(user="ana", id=talk.id)
            assert [event.text for event in await again.after(0)] == ["hello"]
            with pytest.raises(ReadOnly) as refused:
                await again.append(user("one more"))
        assert clear(refused.value, name, "check the permissions")
        await operator.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
    assert await intact(address, talk) == ["hello"]
