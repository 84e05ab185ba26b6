"""A user's conversations are found by indexes, however many there are; what older versions made is listed as well."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest

from everthread import Everthread, user
from everthread.store.engine import statements
from tests.migrations.databases import copy, make_older, run, walled
from tests.postgres_server import Server

MANY = 20_000
FILL = """
    INSERT INTO conversations (tenant, conversation, "user", agent, name, goal, settings, current, time, alias, active)
    WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {many})
    SELECT 'default', 'c' || (100000 + n), CASE WHEN n % 2 = 0 THEN 'ana' ELSE 'u' || n END, 'helper', '', '', '{{}}',
        1, n, 'thread-' || n, n / 4 FROM n"""
FILL_BRANCHES = """
    INSERT INTO branches (tenant, conversation, branch, name, at, time)
    SELECT tenant, conversation, 1, 'main', 0, time FROM conversations"""
VALUES: dict[str, Any] = {
    "tenant": "default",
    "user": "ana",
    "agent": "",
    "alias": "thread-400",
    "high": 2_000,
    "skip": 49,
    "ids": '{"c100400": 0, "c100404": 0}',
}
INTENDED = {
    "conversations_by_activity": "conversations_by_activity",
    "conversation_by_alias": "conversations_by_alias",
    "branch_heads_among": "branches_",  # either of its keys: both begin with the conversation
}


@pytest.fixture(scope="session")
def lite(tmp_path_factory: pytest.TempPathFactory) -> apsw.Connection:
    path = tmp_path_factory.mktemp("listing") / "talk.db"
    _filled(f"sqlite:///{path}")
    return apsw.Connection(str(path))


@pytest.fixture(scope="session")
def large(postgres: Server) -> str:
    address = postgres.create_database("listing")
    _filled(address)
    return address


def _filled(address: str) -> None:
    async def work() -> None:
        await (await Everthread.open(address)).close()
        for sql in (FILL.format(many=MANY), FILL_BRANCHES, "ANALYZE"):
            await run(address, sql)

    with ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(asyncio.run, work()).result()


@pytest.mark.parametrize("name", INTENDED)
def test_sqlite_finds_it_by_the_intended_index(name: str, lite: apsw.Connection) -> None:
    statement = statements("?{n}")[name]
    rows = lite.execute(f"EXPLAIN QUERY PLAN {statement.sql}", statement.bind(VALUES)).fetchall()
    plan = "\n".join(str(row[3]) for row in rows)
    assert "SCAN" not in plan.replace("SCAN j", "").replace("SCAN CONSTANT ROW", ""), plan
    assert "TEMP B-TREE" not in plan, plan
    assert INTENDED[name].replace("branches_", "PRIMARY KEY") in plan, plan


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("name", INTENDED)
async def test_postgres_finds_it_by_the_intended_index(name: str, mode: str, large: str) -> None:
    statement = statements("${n}")[name]
    given = ", ".join(
        str(VALUES[one]) if isinstance(VALUES[one], int) else f"'{VALUES[one]}'" for one in statement.names
    )
    async with walled(large) as connection:
        await connection.execute(f"SET plan_cache_mode = {mode}")
        await connection.execute(f"PREPARE asked AS {statement.sql}")
        plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN EXECUTE asked({given})"))
    assert "Seq Scan on conversations" not in plan, plan
    assert "Seq Scan on branches" not in plan, plan  # of events there are none
    assert "Sort" not in plan, plan
    assert f"using {INTENDED[name]}" in plan.replace("Backward ", ""), plan


def test_a_page_reads_no_more_than_it_gives_and_the_minutes_at_its_ends(lite: apsw.Connection) -> None:
    statement = statements("?{n}")["conversations_by_activity"]
    rows = lite.execute(statement.sql, statement.bind(VALUES)).fetchall()
    assert 50 <= len(rows) <= 54
    minutes = [int(str(row[-1])) for row in rows]
    assert minutes == sorted(minutes, reverse=True)


async def test_conversations_of_an_older_version_are_listed_by_their_newest_event(
    fresh_address: str, engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    older = f"sqlite:///{tmp_path}/older.db"
    if engine == "postgres":
        older = request.getfixturevalue("postgres").create_database("older_listing")
    async with Everthread.open(fresh_address) as et:
        ids = [(await et.begin(user="ana")).id for _ in range(3)]
        side = await (await et.conversation(user="ana", id=ids[1])).fork(at=0)
        await side.append(user("x"))
        await (await et.conversation(user="ana", id=ids[0])).append(user("y"))
    await make_older(older, version=9)
    for id in ids:
        await copy(id, fresh_address, older)
    await run(older, "UPDATE conversations SET time = 1000000000000000")
    await run(older, f"UPDATE events SET time = 2000000000000000 WHERE conversation = '{ids[1]}'")
    async with Everthread.open(older) as et:
        listed = await et.conversations(user="ana")
        assert [one.id for one in listed] == [ids[1], ids[0], ids[2]]
        assert [(one.alias, one.metadata) for one in listed] == [("", {})] * 3
        assert [one.totals.messages for one in listed] == [1, 1, 0]
