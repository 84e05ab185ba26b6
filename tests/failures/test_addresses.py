"""A store that cannot be opened says which, why, and what to do; what lay there is not touched."""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import Callable
from pathlib import Path

import apsw
import asyncpg
import pytest

from everthread import Everthread, EverthreadError, user
from everthread.errors import BadAddress, NotADatabase, StoreError, Unavailable
from tests.failures.aftermath import clear, intact
from tests.postgres_server import Server, _with_database
from tests.waiting import PATIENCE


def _text(path: Path) -> None:
    path.write_text("Dear diary, this is not a database.\n" * 300, "utf-8")


def _short_text(path: Path) -> None:
    path.write_text("eggs, flour", "utf-8")


def _other_program(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE songs (title TEXT); INSERT INTO songs VALUES ('Yesterday')")
    connection.close()


def _other_program_with_our_words(path: Path) -> None:
    """Its tables are named like ours."""
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE events (what TEXT); INSERT INTO events VALUES ('party')")
    connection.close()


def _folder_contents(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


@pytest.mark.parametrize(
    ("make", "why"),
    [
        pytest.param(_text, "not a SQLite file", id="a text file"),
        pytest.param(_short_text, "not a SQLite file", id="a shopping list"),
        pytest.param(_other_program, "another program", id="a database of another program"),
        pytest.param(_other_program_with_our_words, "another program", id="another program's table named events"),
    ],
)
async def test_what_is_not_a_database_of_ours_is_refused_and_not_touched(
    make: Callable[[Path], None], why: str, tmp_path: Path
) -> None:
    path = tmp_path / "talk.db"
    make(path)
    before = _folder_contents(tmp_path)
    with pytest.raises(NotADatabase) as refused:
        await Everthread.open(f"sqlite:///{path}")
    assert clear(refused.value, str(path), why, "choose another path")
    assert _folder_contents(tmp_path) == before


async def test_a_folder_is_not_a_database(tmp_path: Path) -> None:
    with pytest.raises(NotADatabase) as refused:
        await Everthread.open(f"sqlite:///{tmp_path}")
    assert clear(refused.value, str(tmp_path), "choose another path")


async def test_a_path_through_a_file_names_it_and_speaks_of_the_path(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes", "utf-8")
    with pytest.raises(StoreError) as refused:
        await Everthread.open(f"sqlite:///{tmp_path}/notes.txt/talk.db")
    assert clear(refused.value, f"{tmp_path}/notes.txt", "path")
    assert (tmp_path / "notes.txt").read_text("utf-8") == "notes"


async def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "talk.db"
    path.touch()
    async with Everthread.open(f"sqlite:///{path}") as et:
        talk = await et.begin(user="ana")
        await talk.append(user("hello"))
    assert await intact(f"sqlite:///{path}", talk) == ["hello"]


async def test_missing_folders_are_made(tmp_path: Path) -> None:
    async with Everthread.open(f"sqlite:///{tmp_path}/a/b/talk.db") as et:
        await (await et.begin(user="ana")).append(user("hello"))
    assert (tmp_path / "a/b/talk.db").exists()


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("", id="nothing"),
        pytest.param("talk.db", id="no scheme"),
        pytest.param("/tmp/talk.db", id="a bare path"),
        pytest.param("sqlite:talk.db", id="no slashes"),
        pytest.param("sqlite://", id="sqlite with nothing"),
        pytest.param("sqlite:///", id="sqlite with an empty path"),
        pytest.param("sqlite://talk.db", id="two slashes"),
        pytest.param("sqlite:///:memory:", id="a database that nothing would survive in"),
        pytest.param("sqlite:///a%00b.db", id="NUL in the path"),
        pytest.param("mysql://root@localhost/talk", id="another database"),
        pytest.param("://", id="only a separator"),
        pytest.param("postgresql://localhost:port/talk", id="a port that is no number"),
        pytest.param("postgresql://localhost:99999999/talk", id="a port that is too large"),
        pytest.param("postgresql://[::1/talk", id="a bracket left open"),
        pytest.param("postgresql://localhost/talk?sslmode=perhaps", id="an unknown sslmode"),
    ],
)
async def test_a_bad_address_is_refused_at_once_with_examples_of_good_ones(address: str) -> None:
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(BadAddress) as refused:
            await Everthread.open(address, patience=1000)
    assert clear(refused.value, repr(address)[:8], "sqlite:///", "postgresql://")


@pytest.mark.parametrize(
    "address",
    [
        "mysql://ana:walnut@localhost/talk",
        "postgresql://ana:walnut@localhost:port/talk",
        "postgresql://ana:walnut@127.0.0.1:1/talk",
    ],
)
async def test_no_error_shows_a_password(address: str) -> None:
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(EverthreadError) as refused:
            await Everthread.open(address, patience=0.1)
    assert "walnut" not in str(refused.value)


async def test_what_is_waited_for_is_said_before_patience_ends(caplog: pytest.LogCaptureFixture) -> None:
    """Without the password that its address has."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}/talk"
        with pytest.raises(Unavailable):
            await Everthread.open(f"postgresql://me:secret@{address}", patience=0.2)
    said = [one.getMessage() for one in caplog.records if one.name == "everthread.store"]
    assert said == [f"postgresql://{address} is not ready yet: waiting for it, up to 0.2 seconds"]


async def test_a_server_that_nobody_runs_is_unavailable_once_patience_ends() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound but not listening: nobody else gets it, and nobody answers
        port = free.getsockname()[1]
        with pytest.raises(Unavailable) as refused:
            await Everthread.open(f"postgresql://postgres@127.0.0.1:{port}/talk", patience=0.2)
    assert clear(refused.value, "127.0.0.1", "talk", "check")
    assert refused.value.__cause__ is not refused.value


async def test_an_unknown_database_is_named_at_once(postgres: Server) -> None:
    address = _with_database(postgres.url, "nowhere")
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(Unavailable) as refused:
            await Everthread.open(address, patience=1000)
    assert clear(refused.value, "nowhere", "does not exist")


async def test_a_postgres_database_with_another_programs_events_is_refused_and_not_touched(
    postgres: Server,
) -> None:
    address = postgres.create_database("of_another_program")
    async with asyncpg.create_pool(address, min_size=0) as pool:
        await pool.execute("CREATE TABLE events (what TEXT); INSERT INTO events VALUES ('party')")
        with pytest.raises(NotADatabase) as refused:
            await Everthread.open(address)
        tables = await pool.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        assert [row[0] for row in tables] == ["events"]
        assert await pool.fetchval("SELECT what FROM events") == "party"
    assert clear(refused.value, "of_another_program", "another")


async def test_a_store_that_was_closed_says_so_at_once(address: str, someone: str) -> None:
    et = await Everthread.open(address, patience=1000)
    talk = await et.begin(user=someone)
    await talk.append(user("hello"))
    await et.close()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(StoreError) as refused_write:
            await talk.append(user("too late"))
        with pytest.raises(StoreError) as refused_read:
            await talk.after(0)
    for refused in (refused_write, refused_read):
        assert clear(refused.value, "closed")
    assert await intact(address, talk) == ["hello"]


async def test_closing_twice_is_harmless(address: str, someone: str) -> None:
    et = await Everthread.open(address)
    talk = await et.begin(user=someone)
    await et.close()
    await et.close()
    assert await intact(address, talk) == []


async def test_a_file_that_vanished_while_open_is_an_error_and_not_an_empty_log(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/talk.db"
    async with Everthread.open(address) as et:
        talk = await et.begin(user="ana")
        await talk.append(user("hello"))
        (tmp_path / "talk.db").rename(tmp_path / "moved.db")
        (tmp_path / "talk.db-wal").rename(tmp_path / "moved.db-wal")
        try:
            said = [event.text for event in await talk.after(0)]
        except StoreError as problem:
            assert clear(problem, str(tmp_path / "talk.db"))  # noqa: PT017  (either outcome is fair)
        else:
            assert said == ["hello"]
    assert await intact(f"sqlite:///{tmp_path}/moved.db", talk) == ["hello"]
