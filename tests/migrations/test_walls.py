"""The second wall between tenants: PostgreSQL itself keeps a query to the tenant that its connection was given to, also
one that forgot to say whose rows it wants, or that asks for another's."""

from __future__ import annotations

import re
from typing import Any

import asyncpg
import pytest

from everthread import Everthread, assistant, user, within
from everthread.store.engine import statements
from everthread.store.postgres import wall
from tests.migrations import test_queries
from tests.migrations.databases import rows, walled
from tests.postgres_server import Server

OURS = "acme"
# The rest has no tenant: docs/decisions/0044 says of each why it needs no wall.
SHARED = {"calibrations", "everthread_migrations", "mirrors", "recall_blocks", "recall_words", "secrets"}
NAMES = [name for name in test_queries.NAMES if "tenant" in statements("${n}")[name].names]
BY_LAST = {"levels", "newest_of_kind", "recall_behind"}  # which take segments by their last events
VALUES = {"text": "x", "integer": 7, "bigint": 7, "bytea": b"{}", "double precision": 0.5}


@pytest.fixture(scope="session")
def filled(postgres: Server) -> tuple[str, dict[str, Any]]:
    """A store with conversations of the tenant "default"."""
    address = postgres.create_database("walls")
    return address, test_queries._filled(address, conversations=2, turns=60)


async def columns(address: str) -> dict[str, dict[str, str]]:
    """By table, the columns that must be given with their types."""
    asked = """
        SELECT table_name, column_name, data_type FROM information_schema.columns
        WHERE table_schema = 'public' AND is_identity = 'NO' ORDER BY 1, 2"""
    found: dict[str, dict[str, str]] = {}
    async with asyncpg.create_pool(address, min_size=0) as pool:
        for table, column, kind in await pool.fetch(asked):
            found.setdefault(table, {})[column] = kind
    return found


def inserting(table: str, kinds: dict[str, str], tenant: str) -> tuple[str, list[Any]]:
    """A statement that writes a row of a tenant's, and its values."""
    names = ", ".join(f'"{name}"' for name in kinds)
    places = ", ".join(f"${n}" for n in range(1, len(kinds) + 1))
    return (
        f"INSERT INTO {table} ({names}) VALUES ({places})",
        [tenant if name in ("tenant", "hash") else VALUES[kind] for name, kind in kinds.items()],
    )


@pytest.fixture
async def tables(postgres: Server, filled: tuple[str, dict[str, Any]]) -> dict[str, dict[str, str]]:
    """The tables that say whose their rows are, with a row of "acme" and one of "rival" in each."""
    found = {table: kinds for table, kinds in (await columns(filled[0])).items() if "tenant" in kinds}
    async with asyncpg.create_pool(filled[0], min_size=0) as pool, pool.acquire() as superuser:
        await superuser.execute("SET session_replication_role = replica")  # without their conversations
        for table, kinds in found.items():
            for tenant in (OURS, "rival"):
                if not await superuser.fetchval(f"SELECT count(*) FROM {table} WHERE tenant = $1", tenant):
                    statement, values = inserting(table, kinds, tenant)
                    await superuser.execute(statement, *values)
    return found


async def test_every_table_has_a_tenant_or_is_known_to_need_none(filled: tuple[str, dict[str, Any]]) -> None:
    found = await columns(filled[0])
    assert {table for table, kinds in found.items() if "tenant" not in kinds} == SHARED
    assert sorted(found) == wall.tables()


async def test_every_table_with_a_tenant_has_the_wall_and_the_same_one(
    tables: dict[str, dict[str, str]], filled: tuple[str, dict[str, Any]]
) -> None:
    asked = """
        SELECT relname::text, relrowsecurity AND relforcerowsecurity, count(polname), min(polname::text),
            min(polcmd::text), min(pg_get_expr(polqual, polrelid))
        FROM pg_class LEFT JOIN pg_policy ON polrelid = pg_class.oid
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' GROUP BY 1, 2"""
    async with asyncpg.create_pool(filled[0], min_size=0) as pool:
        found = {row[0]: tuple(row)[1:] for row in await pool.fetch(asked)}
    walls = {found[table] for table in tables}
    assert len(walls) == 1
    assert next(iter(walls))[:4] == (True, 1, "everthread_tenant", "*")


async def test_without_the_variable_nothing_is_found_and_nothing_can_be_written(
    tables: dict[str, dict[str, str]], filled: tuple[str, dict[str, Any]], subtests: pytest.Subtests
) -> None:
    for emptied in (False, True):
        async with walled(filled[0], tenant=None) as connection:
            if emptied:  # as a variable is that was set for a transaction, once that is over
                await connection.execute("SET everthread.tenant = ''")
            for table, kinds in tables.items():
                with subtests.test(table, emptied=emptied):
                    assert await connection.fetch(f"SELECT * FROM {table}") == []
                    assert await connection.execute(f"DELETE FROM {table}") == "DELETE 0"
                    assert await connection.execute(f"UPDATE {table} SET tenant = tenant") == "UPDATE 0"
                    statement, values = inserting(table, kinds, "new")
                    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
                        await connection.execute(statement, *values)


async def test_a_tenant_finds_and_writes_only_its_own(
    tables: dict[str, dict[str, str]], filled: tuple[str, dict[str, Any]], subtests: pytest.Subtests
) -> None:
    async with walled(filled[0], tenant=OURS) as connection:
        for table, kinds in tables.items():
            with subtests.test(table):
                assert {row[0] for row in await connection.fetch(f"SELECT DISTINCT tenant FROM {table}")} == {OURS}
                assert await connection.execute(f"DELETE FROM {table} WHERE tenant = 'rival'") == "DELETE 0"
                for statement, values in (
                    inserting(table, kinds, "rival"),
                    (f"UPDATE {table} SET tenant = 'rival'", []),
                ):
                    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
                        await connection.execute(statement, *values)


async def test_the_operator_finds_everybodys(
    tables: dict[str, dict[str, str]], filled: tuple[str, dict[str, Any]], subtests: pytest.Subtests
) -> None:
    async with walled(filled[0], tenant="*") as connection:
        for table in tables:
            with subtests.test(table):
                found = {row[0] for row in await connection.fetch(f"SELECT DISTINCT tenant FROM {table}")}
                assert {OURS, "rival"} <= found


async def asked(connection: Any, name: str, values: dict[str, Any]) -> Any:
    """What a statement of ours finds, or says that it did; the name of its error, if it fails. Nothing of it stays."""
    statement = statements("${n}")[name]
    values = values | {"ran": 0} | ({"pieces": '{"1": 30}'} if name in BY_LAST else {})
    given = ", ".join(test_queries._literal(values.get(one, 0)) for one in statement.names)
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute(f"PREPARE asked AS {statement.sql}")
        if statement.sql.startswith(("INSERT", "UPDATE", "DELETE")):
            return await connection.execute(f"EXECUTE asked({given})")
        return [tuple(row) for row in await connection.fetch(f"EXECUTE asked({given})")]
    except asyncpg.PostgresError as problem:
        return type(problem).__name__
    finally:
        await transaction.rollback()
        await connection.execute("DEALLOCATE ALL")


async def test_no_statement_finds_or_changes_what_is_anothers_though_its_values_say_so(
    postgres: Server, filled: tuple[str, dict[str, Any]], subtests: pytest.Subtests
) -> None:
    """Within one tenant each finds, of another's values, what it would find in an empty store."""
    empty = postgres.create_database("walls_of_nothing")
    await (await Everthread.open(empty)).close()
    address, values = filled
    told = 0
    async with (
        walled(address, tenant="default", cache=0) as theirs,
        walled(address, tenant=OURS, cache=0) as ours,
        walled(empty, tenant="default", cache=0) as nowhere,
    ):
        for name in NAMES:
            with subtests.test(name):
                found = await asked(ours, name, values)
                if isinstance(found, str):
                    assert found == "InsufficientPrivilegeError" or found.endswith(" 0"), found
                else:
                    assert found == await asked(nowhere, name, values)
                told += found != await asked(theirs, name, values)
    assert told > len(NAMES) / 2  # of those within the tenant itself most find or change something


# That nothing is joined otherwise than look-up by look-up, whichever way is the shortest with so few rows.
LOOK_UPS = "force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off; " + "; ".join(
    f"SET enable_{way} = off" for way in ("hashjoin", "mergejoin", "material", "memoize")
)
# One of three conversations is found by another of their indexes, as the planner likes.
OTHERWISE = {"quoted_by", "quoting_unknown", "quotes_of_events"}


async def looked_up(connection: Any, name: str, values: dict[str, Any]) -> list[tuple[str, ...]]:
    """The columns of each look-up by an index."""
    statement = statements("${n}")[name]
    given = ", ".join(test_queries._literal(values.get(one, 0)) for one in statement.names)
    await connection.execute(f"PREPARE asked AS {statement.sql}")
    rows = await connection.fetch(f"EXPLAIN EXECUTE asked({given})" if given else "EXPLAIN EXECUTE asked")
    await connection.execute("DEALLOCATE asked")
    conditions = (row[0] for row in rows if "Index Cond" in row[0])
    return sorted(tuple(dict.fromkeys(re.findall(r"\(\"?(\w+)\"? (?:=|>=|<=|<|>) ", one))) for one in conditions)


async def test_the_wall_keeps_no_statement_from_an_index(
    filled: tuple[str, dict[str, Any]], subtests: pytest.Subtests
) -> None:
    address, values = filled
    values = values | {"ran": 0, "value": b""}
    async with walled(address, cache=0) as within, walled(address, cache=0) as without:
        await without.execute("RESET ROLE")  # a superuser, whom no policy concerns
        for connection in (within, without):
            await connection.execute(f"SET plan_cache_mode = {LOOK_UPS}")
        for name in sorted({*test_queries.ABOUT_ONE} - OTHERWISE):
            with subtests.test(name):
                assert await looked_up(within, name, values) == await looked_up(without, name, values)


# -- recall's tables without a wall --------------------------------------------------------------------------------


async def test_recalls_tables_without_a_wall_hold_numbers_and_no_word_or_owner(postgres: Server) -> None:
    """Whoever reads them all learns neither what was said nor by whom: to which conversation a number belongs stands
    behind the wall, and the same word of two tenants is not the same number."""
    words: dict[str, set[int]] = {}
    address = postgres.create_database("unwalled")
    async with Everthread.open(address, settings={"memory": False}) as et:
        for tenant in ("acme", "rival"):
            before = {row[0] for row in await rows(address, "SELECT word FROM recall_words")}
            with within(tenant):
                talk = await et.begin(user="ana", tenant=tenant)
                await talk.append(user("The kestrel costs 4711 ducats."), assistant("Kestrel."))
                assert len(await talk.recall("kestrel")) > 0  # which indexes it first
            words[tenant] = {row[0] for row in await rows(address, "SELECT word FROM recall_words")} - before
    assert words["acme"]
    assert len(words["acme"]) == len(words["rival"])
    assert words["acme"].isdisjoint(words["rival"])
    async with walled(address, tenant="stranger") as connection:
        seen = [await connection.fetch(f"SELECT * FROM {table}") for table in ("recall_blocks", "recall_words")]
        assert all(seen)
        numbers = re.compile(r"[0-9A-Za-z+/=,:;. -]*")
        for value in (value for table in seen for row in table for value in row.values()):
            assert isinstance(value, int) or numbers.fullmatch(value), value
        said = repr(seen).lower()
        assert not [word for word in ("kestrel", "4711", "ducat", "acme", "rival", "ana") if word in said]
        assert await connection.fetch("SELECT * FROM recall_conversations") == []


def test_no_query_reaches_them_but_by_numbers_that_come_from_behind_the_wall() -> None:
    """A join with whose the conversation is; or a word, which is its owner's alone, or a range of blocks, which begins
    with the number of a conversation that was looked up. The look for strays is an operator's."""
    open_to_all = re.compile(r"\brecall_(?:blocks|words)\b")
    reaching = {name: one.sql for name, one in statements(":{n}").items() if open_to_all.search(one.sql)}
    named = {name: statements(":{n}")[name].names for name in reaching}
    unbound = {
        name
        for name, sql in reaching.items()
        if not ({*named[name]} & {"block", "low", "word", "numbers"}) and "recall_conversations" not in sql
    }
    assert len(reaching) > 10
    assert unbound == set()
