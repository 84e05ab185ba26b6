"""A damaged log: what is damaged is named, everything else can be read, and the conversation goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from everthread import Everthread, EverthreadError, Talk, assistant, file, user
from everthread.core.branches import ENDLESS
from everthread.errors import Corrupt, StoreError
from everthread.store.sqlite.engine import SqliteEngine
from tests.failures.aftermath import TENANT, clear, intact, sound
from tests.waiting import PATIENCE


class Vandal:
    """Changes rows behind the log's back."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def run(self, sql: str, *values: Any) -> None:
        """`sql` with parameters written $1, $2 …, on either database."""
        if self._address.startswith("sqlite"):
            connection = apsw.Connection(self._address.removeprefix("sqlite:///"))
            connection.set_busy_timeout(10_000)
            connection.execute(sql.replace("$", "?"), values)
            connection.close()
        else:
            # As a replica, which checks no foreign keys: a vandal would not be stopped by them either.
            settings = {"session_replication_role": "replica"}
            async with asyncpg.create_pool(self._address, min_size=0, server_settings=settings) as pool:
                await pool.execute(sql, *values)

    async def values(self, sql: str, *values: Any) -> list[Any]:
        """The first column of what a query finds."""
        if self._address.startswith("sqlite"):
            connection = apsw.Connection(self._address.removeprefix("sqlite:///"))
            rows = connection.execute(sql.replace("$", "?"), values).fetchall()
            connection.close()
            return [row[0] for row in rows]
        async with asyncpg.create_pool(self._address, min_size=0) as pool:
            return [row[0] for row in await pool.fetch(sql, *values)]


@pytest.fixture
def vandal(address: str) -> Vandal:
    return Vandal(address)


@pytest.fixture
async def said(talk: Talk) -> Talk:
    """A conversation of six messages; the fifth shows a file."""
    await talk.append(user("one"), assistant("two"), user("three"), assistant("four"))
    await talk.append(user("five", file(b"walnuts")), assistant("six"))
    return talk


GARBAGE = {
    "bytes that are not text": b"\xff\xfe\x00garbage",
    "nothing": b"",
    "half of it": b'{"kind":"user","parts":[{"type":"te',
    "not an object": b"[]",
    "no kind": b"{}",
    "a kind that is no text": b'{"kind":5}',
    "a kind that cannot be": b'{"kind":"No Such Kind!"}',
    "parts that are no parts": b'{"kind":"user","parts":5}',
    "a part of an unknown type": b'{"kind":"user","parts":[{"type":"smell"}]}',
    "an unknown field": b'{"kind":"user","surprise":1}',
    "brackets without end": b"[" * 100_000,
    "an object in an object in an object …": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
}


@pytest.mark.parametrize("body", [pytest.param(body, id=word) for word, body in GARBAGE.items()])
async def test_a_damaged_event_is_named_when_it_is_looked_at_and_the_rest_is_read(
    et: Everthread, said: Talk, vandal: Vandal, body: bytes
) -> None:
    await vandal.run("UPDATE events SET body = $1 WHERE conversation = $2 AND seq = 3", body, said.id)
    page = await said.after(0)
    assert [event.seq for event in page] == [1, 2, 3, 4, 5, 6]
    with pytest.raises(Corrupt) as refused:
        _ = page[2].event
    assert clear(refused.value, "Event 3 on branch 1", "`everthread doctor`", "the rest can be read")
    assert [event.text for event in page if event.seq != 3] == ["one", "two", "four", "five", "six"]

    count, wrong = await et.log.check(TENANT, said.id)
    assert count == 6
    assert len(wrong) == 1
    assert "main: event 3 " in wrong[0]
    assert said.id in wrong[0]

    (event,) = await said.append(user("seven"))
    assert event.seq == 7
    assert (await said.totals()).events == 7
    assert len(await said.turns()) == 4


async def test_a_conversation_with_a_damaged_event_can_be_forked_rewound_and_erased(
    said: Talk, vandal: Vandal, et: Everthread, someone: str
) -> None:
    await vandal.run("UPDATE events SET body = $1 WHERE conversation = $2 AND seq = 3", b"?", said.id)
    fork = await said.fork(at=4)
    await fork.append(user("elsewhere"))
    assert [event.text for event in await fork.after(3, messages=True)] == ["four", "elsewhere"]
    again = await said.rewind(to=2)
    assert [event.text for event in await again.after(0, messages=True)] == ["one", "two"]
    await said.erase()
    assert await et.conversations(user=someone) == []


async def test_damaged_settings_are_passed_over(said: Talk, vandal: Vandal) -> None:
    changed = await said.configure(budget=5_000)
    await vandal.run("UPDATE events SET body = $1 WHERE conversation = $2 AND seq = $3", b"?", said.id, changed.seq)
    context = await said.context(model="openai:gpt-4o")
    assert context.budget == 100_000
    assert "passed over: settings of this branch that are damaged: 1" in context.degraded


async def test_a_damaged_event_can_be_redacted(said: Talk, vandal: Vandal, et: Everthread) -> None:
    """Forgotten means gone, also where it can no longer be understood."""
    await vandal.run("UPDATE events SET body = $1 WHERE conversation = $2 AND seq = 3", b"{secret", said.id)
    await said.redact(3)
    bodies = [event.body for event in await said.after(0)]
    assert not any(b"secret" in bytes(body) for body in bodies)
    assert await et.log.check(TENANT, said.id) == (7, [])


DAMAGE = [
    pytest.param("DELETE FROM events WHERE conversation = $1 AND seq = 3", "event 3 is missing", id="a row"),
    pytest.param("DELETE FROM events WHERE conversation = $1 AND seq = 1", "event 1 is missing", id="the first row"),
    pytest.param(
        "UPDATE events SET tokens_before = tokens_before + 1 WHERE conversation = $1 AND seq = 4",
        "event 4 has wrong tokens_before",
        id="a sum",
    ),
    pytest.param("UPDATE events SET turn = 9 WHERE conversation = $1 AND seq = 4", "event 4 has wrong", id="a turn"),
    pytest.param("UPDATE events SET spoken = 1 WHERE conversation = $1 AND seq = 4", "event 4 has wrong", id="spoken"),
    pytest.param("UPDATE events SET session = 5 WHERE conversation = $1 AND seq = 4", "event 4", id="a session"),
    pytest.param("UPDATE events SET state = 'open' WHERE conversation = $1 AND seq = 4", "event 4", id="a state"),
    pytest.param("UPDATE events SET kind = 'clear' WHERE conversation = $1 AND seq = 4", "event 4", id="a kind"),
    pytest.param("UPDATE blobs SET data = 'almonds' WHERE conversation = $1", "has changed", id="a file"),
    pytest.param("DELETE FROM blobs WHERE conversation = $1", "is missing", id="a missing file"),
]


@pytest.mark.parametrize(("sql", "words"), DAMAGE)
async def test_whatever_was_changed_is_named_by_the_check_and_the_conversation_goes_on(
    et: Everthread, said: Talk, vandal: Vandal, engine: str, sql: str, words: str
) -> None:
    assert await et.log.check(TENANT, said.id) == (6, [])
    await vandal.run(sql.replace("'almonds'", "x'616c6d6f6e6473'") if engine == "sqlite" else sql, said.id)
    _, wrong = await et.log.check(TENANT, said.id)
    assert any(words in problem for problem in wrong), wrong
    assert all(said.id in problem for problem in wrong)
    (event,) = await said.append(user("seven"))
    assert event.seq == 7


async def test_several_missing_rows_are_all_named(et: Everthread, said: Talk, vandal: Vandal) -> None:
    await vandal.run("DELETE FROM events WHERE conversation = $1 AND seq IN (2, 3, 4)", said.id)
    count, wrong = await et.log.check(TENANT, said.id)
    assert count == 3
    named = " ".join(problem.partition("branch main: ")[2] for problem in wrong)
    assert "2" in named
    assert "4" in named


async def test_damage_in_one_conversation_is_not_told_of_another(
    et: Everthread, said: Talk, vandal: Vandal, someone: str
) -> None:
    other = await et.begin(user=someone)
    await other.append(user("fine"))
    await vandal.run("UPDATE events SET body = $1 WHERE conversation = $2", b"?", said.id)
    assert await sound(et, other) == ["fine"]


async def test_a_newest_row_that_vanished_does_not_stop_the_same_file_from_being_said_again(
    et: Everthread, talk: Talk, vandal: Vandal
) -> None:
    """Its use of the file is still recorded: the database refuses a second one for the same seq."""
    await talk.append(user("one"))
    await talk.append(user("look", file(b"walnuts")))
    await vandal.run("DELETE FROM events WHERE conversation = $1 AND seq = 2", talk.id)
    async with asyncio.timeout(PATIENCE):
        try:
            (event,) = await talk.append(user("look", file(b"walnuts")))
        except EverthreadError as problem:
            assert clear(problem, "doctor")  # noqa: PT017  (either outcome is fair; a raw error or a hang is not)
        else:
            assert event.seq == 2
    async with asyncio.timeout(PATIENCE):
        await talk.append(user("and on"))


async def test_checking_while_others_append_finds_nothing_wrong(et: Everthread, talk: Talk) -> None:
    async def append() -> None:
        for n in range(150):
            await talk.append(user(f"{n}"))

    async with asyncio.TaskGroup() as group:
        writer = group.create_task(append())
        while not writer.done():
            _, wrong = await et.log.check(TENANT, talk.id)
            assert wrong == []


# -- a damaged file ----------------------------------------------------------------------------------------


@pytest.fixture
async def long(tmp_path: Path) -> tuple[Path, Talk]:
    """A file of some hundred pages that is closed."""
    path = tmp_path / "long.db"
    async with Everthread.open(f"sqlite:///{path}") as et:
        talk = await et.begin(user="ana")
        await talk.append(*(user(f"{n}: " + "walnut " * 50) for n in range(2_000)))
    return path, talk


def _overwrite(path: Path, first: float, last: float) -> None:
    """Overwrite the file from one share of it to another."""
    size = path.stat().st_size
    with path.open("r+b") as raw:
        raw.seek(int(size * first))
        raw.write(b"\xa5" * int(size * (last - first)))


@pytest.mark.parametrize(("first", "last"), [(0.4, 0.6), (0.9, 1.0), (0.02, 0.1)])
async def test_damaged_pages_are_reported_and_never_crash(long: tuple[Path, Talk], first: float, last: float) -> None:
    path, talk = long
    _overwrite(path, first, last)
    found = await _everything_that_is_reported(path, talk)
    assert found
    for problem in found:
        assert isinstance(problem, StoreError), repr(problem)
        assert clear(problem, str(path))


async def _everything_that_is_reported(path: Path, talk: Talk) -> list[Exception]:
    found: list[Exception] = []
    try:
        async with Everthread.open(f"sqlite:///{path}") as et:
            for work in (et.log.problems(), et.log.check(TENANT, talk.id), talk_again(et, talk.id)):
                try:
                    result = await work
                except Exception as problem:  # noqa: BLE001  (the test looks at what it is)
                    found.append(problem)
                else:
                    if isinstance(result, list) and result:
                        assert all(isinstance(line, str) for line in result)
                        found.append(Corrupt(str(path), str(result[0]).splitlines()[0]))
    except Exception as problem:  # noqa: BLE001
        found.append(problem)
    return found


async def talk_again(et: Everthread, id: str) -> None:
    talk = await et.conversation(user="ana", id=id)
    await talk.after(0, limit=ENDLESS)
    await talk.append(user("one more"))


async def test_a_damaged_first_page_is_no_database_any_more(long: tuple[Path, Talk]) -> None:
    path, _ = long
    _overwrite(path, 0, 0.001)
    before = path.read_bytes()
    with pytest.raises(StoreError) as refused:
        await Everthread.open(f"sqlite:///{path}")
    assert clear(refused.value, str(path))
    assert path.read_bytes() == before


async def test_a_file_that_was_cut_short_is_reported(long: tuple[Path, Talk]) -> None:
    path, talk = long
    with path.open("r+b") as raw:
        raw.truncate(path.stat().st_size // 2)
    found = await _everything_that_is_reported(path, talk)
    assert found
    assert all(isinstance(problem, StoreError) for problem in found), found


async def test_a_torn_write_ahead_log_loses_only_what_was_never_whole(tmp_path: Path) -> None:
    """The process dies, and the last commit is torn: everything before it is there."""
    path = tmp_path / "talk.db"
    et = await Everthread.open(f"sqlite:///{path}")
    talk = await et.begin(user="ana")
    await talk.append(user("one"))
    await talk.append(user("two"))
    copy = tmp_path / "copy.db"  # as a crash would leave it: nothing checkpointed
    copy.write_bytes(path.read_bytes())
    log = (tmp_path / "talk.db-wal").read_bytes()
    (tmp_path / "copy.db-wal").write_bytes(log[:-1000])
    await et.close()
    assert await intact(f"sqlite:///{copy}", talk) == ["one"]


async def test_a_damaged_write_ahead_log_of_someone_else_is_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "talk.db"
    async with Everthread.open(f"sqlite:///{path}") as et:
        talk = await et.begin(user="ana")
        await talk.append(user("one"))
        assert isinstance(et.log._engine, SqliteEngine)
    (tmp_path / "talk.db-wal").write_bytes(b"\xa5" * 50_000)
    assert await intact(f"sqlite:///{path}", talk) == ["one"]
