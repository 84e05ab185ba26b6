"""Whoever opens a store in PostgreSQL, its connections work as somebody whom the wall between tenants binds; where that
cannot be, it is said."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from everthread import Everthread, user, within
from everthread.errors import ReadOnly, UnknownConversation
from tests.migrations.databases import rows, run
from tests.postgres_server import Server

_numbers = count(1)


class Somebody:
    """A role that can log in, and a database that is theirs."""

    def __init__(self, superuser: str, name: str) -> None:
        self.superuser, self.name = superuser, name
        parts = urlsplit(superuser)
        host = parts.netloc.rpartition("@")[2]
        self.address = f"{parts.scheme}://{name}@{host}{parts.path}?{parts.query}"
        self.database = parts.path.removeprefix("/")
        self.rows = f"everthread_rows_{name}"

    async def run(self, sql: str) -> None:
        await run(self.superuser, sql)

    async def works_as(self, et: Everthread) -> tuple[Any, ...]:
        """Whom a connection of the store works as: the name, and whether policies do not concern them."""
        engine: Any = et.log._engine
        async with engine._pool.acquire() as connection:
            asked = "SELECT rolname::text, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
            return tuple(await connection.fetchrow(asked))


@pytest.fixture
async def somebody(postgres: Server) -> AsyncIterator[Somebody]:
    """They own the database, and may do nothing else."""
    number = next(_numbers)
    one = Somebody(postgres.create_database(f"roles_{number}"), f"somebody_{number}_{id(postgres) % 10**6}")
    await one.run(f"CREATE ROLE {one.name} LOGIN")
    await one.run(f'ALTER DATABASE "{one.database}" OWNER TO {one.name}')
    yield one
    await one.run(f"DROP OWNED BY {one.name} CASCADE")
    if await rows(one.superuser, f"SELECT 1 FROM pg_roles WHERE rolname = '{one.rows}'"):
        await one.run(f"DROP OWNED BY {one.rows}")
        await one.run(f"DROP ROLE {one.rows}")
    await one.run(f'ALTER DATABASE "{one.database}" OWNER TO CURRENT_USER')
    await one.run(f"DROP ROLE {one.name}")


async def speaks(et: Everthread) -> bool:
    """Whether tenants can speak, and are kept apart."""
    ana = f"ana-{next(_numbers)}"
    with within("acme"):
        await (await et.begin(user=ana, tenant="acme")).append(user("hello"))
    with within("rival"):
        talk = await et.begin(user=ana, tenant="rival")
    with within("acme"):
        with pytest.raises(UnknownConversation):
            await et.conversation(user=ana, tenant="rival", id=talk.id)
        assert await et.conversations(user=ana, tenant="rival") == []
        assert [one.totals.messages for one in await et.conversations(user=ana, tenant="acme")] == [1]
    return len(await et.conversations(user=ana, tenant="rival")) == 1


async def test_a_superuser_steps_down_on_every_connection(somebody: Somebody) -> None:
    async with Everthread.open(somebody.superuser) as et:
        assert await speaks(et)
        engine: Any = et.log._engine
        async with engine._pool.acquire(), engine._pool.acquire():  # one from before it was known, and one from after
            name, free = await somebody.works_as(et)
        assert name.startswith("everthread_rows_")
        assert not free
        owners = await rows(
            somebody.superuser, "SELECT DISTINCT tableowner::text FROM pg_tables WHERE schemaname = 'public'"
        )
        assert (name,) not in owners
        assert await et.log.problems() == []


async def test_the_owner_who_may_not_make_roles_is_bound_all_the_same(
    somebody: Somebody, caplog: pytest.LogCaptureFixture
) -> None:
    async with Everthread.open(somebody.address) as et:
        assert await speaks(et)
        assert await somebody.works_as(et) == (somebody.name, False)
        assert await et.log.problems() == []
    assert caplog.records == []
    assert await rows(somebody.address, "SELECT * FROM conversations") == []  # without the variable


async def test_an_owner_who_may_make_roles_steps_down(somebody: Somebody) -> None:
    await somebody.run(f"ALTER ROLE {somebody.name} CREATEROLE")
    for _ in range(2):
        async with Everthread.open(somebody.address) as et:
            assert await speaks(et)
            assert await somebody.works_as(et) == (somebody.rows, False)
            assert await et.log.problems() == []


async def test_tables_in_a_schema_of_ones_own_are_found_after_stepping_down(somebody: Somebody) -> None:
    """The path of schemas begins with the one that is called as the role."""
    await somebody.run(f"ALTER ROLE {somebody.name} CREATEROLE; CREATE SCHEMA {somebody.name}")
    await somebody.run(f"ALTER SCHEMA {somebody.name} OWNER TO {somebody.name}")
    async with Everthread.open(somebody.address) as et:
        engine: Any = et.log._engine
        async with engine._pool.acquire():
            assert await speaks(et)
        assert await somebody.works_as(et) == (somebody.rows, False)
    there = await rows(somebody.superuser, "SELECT schemaname::text FROM pg_tables WHERE tablename = 'events'")
    assert there == [(somebody.name,)]


async def test_a_role_of_the_operators_own_needs_nothing_and_nothing_is_made_for_it(
    somebody: Somebody, caplog: pytest.LogCaptureFixture
) -> None:
    await (await Everthread.open(somebody.superuser)).close()
    made = "SELECT count(*) FROM pg_roles"
    before = await rows(somebody.superuser, made)
    await somebody.run(
        "ALTER DATABASE "
        + (await rows(somebody.superuser, "SELECT quote_ident(current_database())"))[0][0]
        + " OWNER TO CURRENT_USER"
    )
    with pytest.raises(ReadOnly):  # it has no rights yet
        await Everthread.open(somebody.address)
    superuser = (await rows(somebody.superuser, "SELECT current_user::text"))[0][0]
    await somebody.run(f'GRANT "everthread_rows_{superuser}" TO {somebody.name}')
    caplog.clear()
    async with Everthread.open(somebody.address) as et:
        assert await speaks(et)
        assert await somebody.works_as(et) == (somebody.name, False)
        assert await et.log.problems() == []
    assert caplog.records == []
    assert await rows(somebody.superuser, made) == before


async def test_whom_nothing_binds_is_told_so(somebody: Somebody, caplog: pytest.LogCaptureFixture) -> None:
    await somebody.run(f"ALTER ROLE {somebody.name} BYPASSRLS")
    async with Everthread.open(somebody.address) as et:
        await (await et.begin(user="ana")).append(user("hello"))
        [problem] = await et.log.problems()
    assert f"{somebody.name} is a superuser or has BYPASSRLS" in problem
    assert [(one.levelno, one.getMessage()) for one in caplog.records] == [(logging.WARNING, problem)]


async def test_a_table_whose_wall_was_taken_down_is_told_of(somebody: Somebody) -> None:
    async with Everthread.open(somebody.superuser) as et:
        await somebody.run("ALTER TABLE receipts NO FORCE ROW LEVEL SECURITY; DROP POLICY everthread_tenant ON quotes")
        found = await et.log.problems()
    assert [one.split(" has ")[0] for one in found] == ["the table quotes", "the table receipts"]


async def test_rights_that_were_lost_are_given_again(somebody: Somebody) -> None:
    """As in a database that was restored on another server."""
    async with Everthread.open(somebody.superuser) as et:
        role = (await somebody.works_as(et))[0]
    await somebody.run(f'REVOKE ALL ON ALL TABLES IN SCHEMA public FROM "{role}"')
    async with Everthread.open(somebody.superuser) as et:
        assert await speaks(et)
        assert await somebody.works_as(et) == (role, False)


async def test_stores_that_are_made_at_the_same_time_share_the_role(postgres: Server) -> None:
    """Roles are the whole server's, whatever the database."""
    name = f"somebody_{next(_numbers)}_{id(postgres) % 10**6}"
    made = [Somebody(postgres.create_database(f"roles_{next(_numbers)}"), name) for _ in range(4)]
    await made[0].run(f"CREATE ROLE {name} LOGIN SUPERUSER")

    async def open_one(one: Somebody) -> tuple[Any, ...]:
        async with Everthread.open(one.address) as et:
            assert await speaks(et)
            return await one.works_as(et)

    assert await asyncio.gather(*map(open_one, [*made, *made])) == [(f"everthread_rows_{name}", False)] * 8
    for one in made:
        await one.run(f"REASSIGN OWNED BY {name} TO CURRENT_USER")
        await one.run(f"DROP OWNED BY {name}, everthread_rows_{name}")
    await made[0].run(f"DROP ROLE everthread_rows_{name}; DROP ROLE {name}")


async def test_without_the_variable_a_connection_of_the_stores_finds_nothing(somebody: Somebody) -> None:
    async with Everthread.open(somebody.superuser) as et:
        assert await speaks(et)
        role = (await somebody.works_as(et))[0]
    connection = await asyncpg.connect(somebody.superuser, server_settings={"role": role})
    try:
        assert await connection.fetch("SELECT * FROM conversations") == []
    finally:
        await connection.close()
