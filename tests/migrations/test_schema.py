"""The numbered migrations add up to schema.sql, and a conversation's keys begin with tenant and conversation."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from everthread import Everthread
from everthread.store.migrate import migrations
from tests.postgres_server import Server

ENGINES = ["sqlite", "postgres"]
TABLES = [
    *(
        "accounts",
        "api_keys",
        "archive_words",
        "archived_calls",
        "archived_quotes",
        "archives",
        "audit",
        "blob_uses",
        "blobs",
        "branches",
        "calibrations",
        "canvases",
        "conversations",
        "documents",
        "events",
    ),
    *(
        "everthread_migrations",
        "forgetting",
        "forgotten_tokens",
        "imports",
        "leases",
        "links",
        "mirrors",
        "mirrors_owe",
        "model_calls",
        "provider_keys",
        "quotes",
        "recall_blocks",
        "recall_branches",
    ),
    *("recall_conversations", "recall_words", "receipts", "reminders", "schedules", "secrets", "sign_ins"),
]
# What stands beside conversations.
OTHER_KEYS = {
    "accounts": ["tenant", "user"],
    "api_keys": ["tenant", "id"],
    "audit": ["tenant", "id"],
    "calibrations": ["model", "step"],
    "documents": ["tenant", "user", "name", "version"],
    "everthread_migrations": ["version"],
    "forgotten_tokens": ["tenant", "user", "day"],
    "imports": ["tenant", "user", "source"],
    "mirrors": ["mirror"],
    "leases": ["tenant", "name"],
    "links": ["tenant", "hash"],
    "provider_keys": ["tenant", "provider"],
    "recall_blocks": ["block"],
    "recall_conversations": ["number"],  # with which the numbers of its blocks begin
    "recall_words": ["word", "block"],
    "secrets": ["name"],
    "sign_ins": ["tenant", "hash"],
}


# By which a user's conversation is known to the application; behind the user's wall, it is the whole key.
ALIAS = ["tenant", "user", "alias"]


def _schema(engine: str) -> str:
    return files("everthread.store").joinpath(f"sql/{engine}/schema.sql").read_text("utf-8")


def _plain(sql: str) -> str:
    """SQL without comments and white space that means nothing."""
    without_comments = re.sub(r"--[^\n]*", "", sql)
    return re.sub(r"\s*([(),])\s*", r"\1", re.sub(r"\s+", " ", without_comments)).strip()


@pytest.mark.parametrize("engine", ENGINES)
def test_the_migrations_are_numbered_from_one_without_gaps_and_in_order(engine: str) -> None:
    folder = files("everthread.store").joinpath(f"sql/{engine}/migrations")
    names = sorted(file.name for file in folder.iterdir())
    assert [f"{m.version:04}_{m.name}.sql" for m in migrations(engine)] == names
    assert [migration.version for migration in migrations(engine)] == list(range(1, len(names) + 1))


def test_both_databases_have_the_same_migrations() -> None:
    assert [m[:2] for m in migrations("sqlite")] == [m[:2] for m in migrations("postgres")]


async def test_every_migration_is_recorded_in_order(fresh_address: str, engine: str, tmp_path: Path) -> None:
    await (await Everthread.open(fresh_address)).close()
    query = "SELECT version, name FROM everthread_migrations ORDER BY time, version"
    if engine == "sqlite":
        rows = apsw.Connection(fresh_address.removeprefix("sqlite:///")).execute(query).fetchall()
    else:
        rows = await _fetch(fresh_address, query)
    assert [tuple(row) for row in rows] == [(m.version, m.name) for m in migrations(engine)]


# -- SQLite ------------------------------------------------------------------------------------------------


def _described(connection: apsw.Connection) -> dict[str, str]:
    rows = connection.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    return {f"{kind} {name}": _plain(sql) for kind, name, sql in rows}


async def test_sqlites_migrations_add_up_to_its_schema(tmp_path: Path) -> None:
    await (await Everthread.open(f"sqlite:///{tmp_path}/migrated.db")).close()
    written = apsw.Connection(":memory:")
    written.execute(_schema("sqlite"))
    migrated = apsw.Connection(f"{tmp_path}/migrated.db")
    assert _described(migrated) == _described(written)
    assert {f"table {table}" for table in TABLES} <= _described(migrated).keys()


async def test_every_key_of_a_conversation_in_sqlite_begins_with_tenant_and_conversation(tmp_path: Path) -> None:
    await (await Everthread.open(f"sqlite:///{tmp_path}/talk.db")).close()
    connection = apsw.Connection(f"{tmp_path}/talk.db")
    keys = {}
    for table in TABLES:
        columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
        primary = [name for _, name in sorted((row[5], row[1]) for row in columns if row[5])]
        assert connection.execute(f"SELECT strict FROM pragma_table_list('{table}')").fetchall() == [(1,)]
        if table in OTHER_KEYS:
            assert primary == OTHER_KEYS[table]
            continue
        for _, name, unique, *_ in connection.execute(f"PRAGMA index_list({table})"):
            if unique:
                keys[name] = [row[2] for row in connection.execute(f"PRAGMA index_info({name})")]
        if primary:
            keys[f"{table} primary key"] = primary
        for row in connection.execute(f"PRAGMA foreign_key_list({table})").fetchall():
            keys.setdefault(f"{table} foreign key {row[0]}", []).append(row[3])
    assert keys.pop("conversations_by_alias") == ALIAS
    assert len(keys) >= 14
    assert {name: columns[:2] for name, columns in keys.items()} == {name: ["tenant", "conversation"] for name in keys}


# -- PostgreSQL --------------------------------------------------------------------------------------------

_COLUMNS = """
    SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, l.collname,
        pg_get_expr(d.adbin, d.adrelid), a.attidentity::text, a.attgenerated::text
    FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace
    LEFT JOIN pg_collation l ON l.oid = a.attcollation
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attnum > 0 AND NOT a.attisdropped ORDER BY c.relname, a.attnum"""
_INDEXES = "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1, 2"
_CONSTRAINTS = """
    SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2"""
_OTHERS = """
    SELECT relkind::text, relname, coalesce(reloptions::text, '') FROM pg_class
    WHERE relnamespace = 'public'::regnamespace ORDER BY 1, 2"""
_WALLS = """
    SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity, p.polname, p.polcmd::text, p.polpermissive,
        p.polroles::text, pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)
    FROM pg_class c LEFT JOIN pg_policy p ON p.polrelid = c.oid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' ORDER BY 1, 4"""
_FUNCTIONS = "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1"
_TRIGGERS = "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1"


async def _fetch(address: str, query: str) -> list[Any]:
    async with asyncpg.create_pool(address, min_size=0) as pool:
        return [tuple(row) for row in await pool.fetch(query)]


async def test_postgres_migrations_add_up_to_its_schema(postgres: Server) -> None:
    migrated, written = postgres.create_database("migrated"), postgres.create_database("written")
    await (await Everthread.open(migrated)).close()
    async with asyncpg.create_pool(written, min_size=0) as pool:
        await pool.execute(_schema("postgres"))
    for query in (_COLUMNS, _INDEXES, _CONSTRAINTS, _OTHERS, _WALLS, _FUNCTIONS, _TRIGGERS):
        assert await _fetch(migrated, query) == await _fetch(written, query)
    assert sorted({row[0] for row in await _fetch(migrated, _COLUMNS)}) == TABLES


async def test_every_key_of_a_conversation_in_postgres_begins_with_tenant_and_conversation(postgres: Server) -> None:
    address = postgres.create_database("keys")
    await (await Everthread.open(address)).close()
    constraints = """
        SELECT conrelid::regclass::text, conname, array(
            SELECT attname::text FROM unnest(conkey) WITH ORDINALITY AS k (number, place)
            JOIN pg_attribute ON attrelid = conrelid AND attnum = number ORDER BY place)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype IN ('p', 'u', 'f', 'x')"""
    indexes = """
        SELECT indrelid::regclass::text, indexrelid::regclass::text, array(
            SELECT attname::text FROM unnest(indkey::int2[]) WITH ORDINALITY AS k (number, place)
            JOIN pg_attribute ON attrelid = indrelid AND attnum = number ORDER BY place)
        FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
        WHERE indisunique AND relnamespace = 'public'::regnamespace"""
    found = [*await _fetch(address, constraints), *await _fetch(address, indexes)]
    others = {table: columns for table, name, columns in found if table in OTHER_KEYS and name.endswith("_pkey")}
    assert others == OTHER_KEYS
    keys = {f"{table} {name}": columns for table, name, columns in found if table not in OTHER_KEYS}
    assert keys.pop("conversations conversations_by_alias") == ALIAS
    assert len(keys) >= 12
    assert {name: columns[:2] for name, columns in keys.items()} == {name: ["tenant", "conversation"] for name in keys}


async def test_both_databases_have_the_same_tables_columns_and_indexes(postgres: Server) -> None:
    """Columns may stand in another order: PostgreSQL packs a row better that way."""
    address = postgres.create_database("same")
    await (await Everthread.open(address)).close()
    in_postgres: dict[str, set[str]] = {}
    for table, column, *_ in await _fetch(address, _COLUMNS):
        in_postgres.setdefault(table, set()).add(column)
    lite = apsw.Connection(":memory:")
    lite.execute(_schema("sqlite"))
    in_sqlite = {t: {row[1] for row in lite.execute(f"PRAGMA table_info({t})")} for t in TABLES}
    assert in_postgres == in_sqlite
    named = {row[0] for row in lite.execute("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")}
    assert named <= {row[1] for row in await _fetch(address, _INDEXES)}
