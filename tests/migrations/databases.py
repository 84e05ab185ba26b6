"""Databases as seen from outside: rows read by plain SQL, and databases as older versions made them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import apsw
import asyncpg

from everthread.store.migrate import migrations

# Parents before children, as the foreign keys want it.
TABLES = ("conversations", "branches", "events", "receipts", "blobs", "blob_uses")


async def rows(address: str, sql: str) -> list[tuple[Any, ...]]:
    if path := _path(address):
        connection = apsw.Connection(path)
        found = connection.execute(sql).fetchall()
        connection.close()
        return [tuple(row) for row in found]
    async with asyncpg.create_pool(address, min_size=0) as pool:
        return [tuple(row) for row in await pool.fetch(sql)]


async def run(address: str, sql: str) -> None:
    if path := _path(address):
        connection = apsw.Connection(path)
        connection.execute(sql)
        connection.close()
        return
    async with asyncpg.create_pool(address, min_size=0) as pool:
        await pool.execute(sql)


@asynccontextmanager
async def walled(address: str, *, tenant: str | None = "default", cache: int = 100) -> AsyncIterator[Any]:
    """A connection to PostgreSQL as a store's own are, behind the wall between tenants: as the role that is neither
    owner nor superuser, with the variable that says whose rows it sees, or without. `cache`: the driver's own."""
    connection = await asyncpg.connect(address, statement_cache_size=cache)
    try:
        role = await connection.fetchval("SELECT quote_ident('everthread_rows_' || current_user)")
        await connection.execute(f"SET ROLE {role}")
        if tenant is not None:
            await connection.execute("SELECT set_config('everthread.tenant', $1, false)", tenant)
        yield connection
    finally:
        await connection.close()


async def make_older(address: str, *, version: int) -> None:
    """An empty database as the version with this migration, and none after it, made it."""
    for migration in migrations("sqlite" if _path(address) else "postgres")[:version]:
        await run(address, migration.sql)
        values = f"({migration.version}, '{migration.name}', 0)"
        await run(address, f"INSERT INTO everthread_migrations VALUES {values}")


async def copy(conversation: str, source: str, target: str) -> None:
    """Every row about a conversation, in the columns that the target has."""
    for table in TABLES:
        names = await _columns(target, table)
        columns = ", ".join(f'"{name}"' for name in names)
        found = await rows(source, f"SELECT {columns} FROM {table} WHERE conversation = '{conversation}'")
        if path := _path(target):
            connection = apsw.Connection(path)
            with connection:
                places = ", ".join("?" * len(names))
                connection.executemany(f"INSERT INTO {table} ({columns}) VALUES ({places})", found)
            connection.close()
        else:
            async with asyncpg.create_pool(target, min_size=0) as pool:
                await pool.copy_records_to_table(table, records=found, columns=names)


async def _columns(address: str, table: str) -> Sequence[str]:
    if _path(address):
        sql = f"SELECT name FROM pragma_table_info('{table}')"
    else:
        sql = f"SELECT attname FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0"
    return [row[0] for row in await rows(address, sql)]


def _path(address: str) -> str:
    """The file, where it is one."""
    return address.removeprefix("sqlite:///") if address.startswith("sqlite") else ""
