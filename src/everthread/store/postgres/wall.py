"""The role under which a store's connections work, so that the policies of its tables bind them.

Policies bind neither a superuser nor whoever has BYPASSRLS, and an owner could lift them. So whoever opens a store as
one of these steps down on every connection, to a role that may read and write the rows of its tables and nothing else.
It cannot log in, belongs to that user alone (no other database of the server is opened to anybody by it), and is made
when the store is opened, by whoever may make roles. An owner who may not stays who they are: the policies bind them all
the same. Only where nothing binds is the wall down; that is logged, and `everthread doctor` tells it.

Whoever connects as a role of their own that is neither of these needs nothing, and nothing is made for them.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import asyncpg

from everthread.store import migrate

TRIES = 5  # another database's store may make the same role at this moment
RACES = (asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError, asyncpg.InternalServerError)
REFUSED = (asyncpg.InsufficientPrivilegeError, asyncpg.ReadOnlySQLTransactionError)

_OURS = """
    ours AS (
        SELECT oid, relname, relowner, relrowsecurity AND relforcerowsecurity AS walled FROM pg_class
        WHERE relkind IN ('r', 'p') AND relname = ANY ($1::text[])
            AND relnamespace = ANY (SELECT s::regnamespace FROM unnest(current_schemas(false)) AS s)
    )"""

# Who we are, and the role to step down to. `free`: policies do not bind us; `ready`: it is there, with its rights.
# The server cuts a name that is too long, here as where the role is made.
_STANDING = f"""
    WITH {_OURS}
    SELECT CAST(me.rolname AS text) AS name, me.rolsuper OR me.rolbypassrls AS free,
        EXISTS (SELECT 1 FROM ours WHERE pg_has_role(me.oid, relowner, 'USAGE')) AS owns,
        me.rolsuper OR me.rolcreaterole AS makes,
        CAST(CAST('everthread_rows_' || current_user AS name) AS text) AS role,
        coalesce(NOT r.rolsuper AND NOT r.rolbypassrls AND pg_has_role(me.oid, r.oid, 'MEMBER')
            AND has_schema_privilege(r.oid, current_schema(), 'USAGE')
            AND (SELECT bool_and(has_table_privilege(r.oid, oid, 'SELECT') AND (relname = 'everthread_migrations'
                OR (has_table_privilege(r.oid, oid, 'INSERT') AND has_table_privilege(r.oid, oid, 'UPDATE')
                    AND has_table_privilege(r.oid, oid, 'DELETE')))) FROM ours), false) AS ready,
        (SELECT string_agg(quote_ident(s), ', ' ORDER BY place)
            FROM unnest(current_schemas(false)) WITH ORDINALITY AS found (s, place)) AS schemas
    FROM pg_roles AS me
    LEFT JOIN pg_roles AS r ON r.rolname = CAST('everthread_rows_' || current_user AS name)
    WHERE me.rolname = current_user"""

# Which say whose their rows are, and have no policy that binds everybody.
_OPEN = f"""
    WITH {_OURS}
    SELECT CAST(relname AS text) FROM ours
    JOIN pg_attribute ON attrelid = ours.oid AND attname = 'tenant' AND NOT attisdropped
    WHERE NOT (walled AND EXISTS (SELECT 1 FROM pg_policy WHERE polrelid = ours.oid))
    ORDER BY relname"""


class Standing(NamedTuple):
    """Who a connection works as. `role`: to step down to, "" where that is not needed or not possible; `schemas`: where
    the tables are, which another role might not find. `makes`: the role is wanted, and could be made. `down`: why
    nothing binds the connection, "" where something does."""

    role: str
    schemas: str
    makes: bool
    down: str


async def standing(connection: Any) -> Standing:
    found = await connection.fetchrow(_STANDING, tables())
    wanted, ready = found["free"] or found["owns"], found["ready"]
    down = f"{found['name']} is a superuser or has BYPASSRLS, and cannot step down to the role {found['role']}"
    return Standing(
        role=found["role"] if wanted and ready else "",
        schemas=found["schemas"],
        makes=wanted and not ready and found["makes"],
        down=down if found["free"] and not ready else "",
    )


async def put_up(connection: Any) -> Standing:
    """Make the role if it is wanted and we may: in a transaction, under the lock of whoever migrates."""
    found = await standing(connection)
    for _ in range(TRIES if found.makes else 0):
        try:
            async with connection.transaction():
                await _make(connection)
        except RACES:
            continue
        except REFUSED:
            pass
        return await standing(connection)
    return found


async def step_down(connection: Any, to: Standing) -> None:
    """Work as the role from now on, on a connection that was made before it was known."""
    settings = "SELECT set_config('role', $1, false), set_config('search_path', $2, false)"
    await connection.execute(settings, to.role, to.schemas)


async def problems(connection: Any) -> list[str]:
    """The tables that should have the wall and do not."""
    found = await connection.fetch(_OPEN, tables())
    return [
        f"the table {row[0]} has no row-level security: nothing but its queries keeps tenants apart" for row in found
    ]


def tables() -> list[str]:
    """All that the migrations make."""
    made = (re.findall(r"CREATE TABLE (\w+)", migration.sql) for migration in migrate.migrations("postgres"))
    return sorted({name for names in made for name in names})


async def _make(connection: Any) -> None:
    found = await connection.fetchrow(_STANDING, tables())
    role = _quoted(found["role"])
    if not await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", found["role"]):
        await connection.execute(f"CREATE ROLE {role} NOLOGIN")
    if not await connection.fetchval("SELECT pg_has_role(current_user, $1::name, 'MEMBER')", found["role"]):
        await connection.execute(f"GRANT {role} TO CURRENT_USER")
    schema = await connection.fetchval("SELECT CAST(current_schema() AS text)")
    if not await connection.fetchval("SELECT has_schema_privilege($1::name, $2, 'USAGE')", found["role"], schema):
        await connection.execute(f"GRANT USAGE ON SCHEMA {_quoted(schema)} TO {role}")
    written = [_quoted(name) for name in tables() if name != "everthread_migrations"]
    await connection.execute(f"GRANT SELECT ON everthread_migrations TO {role}")
    await connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {', '.join(written)} TO {role}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
