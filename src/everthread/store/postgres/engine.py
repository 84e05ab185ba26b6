"""A log in PostgreSQL, for many processes on many machines.

An append is one statement that commits by itself, after a question for the head unless this process wrote last. No
lock is taken: the key on `seq` lets only one writer have a number, and whoever was slower reads the new head and
tries again, from then on behind an advisory lock, so that many writers on one branch queue up rather than collide.

When the server goes away in the middle, reads and writes wait for it to come back, up to `patience`. A commit
whose answer was lost is looked up before it is tried again, so nothing is written twice.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

import asyncpg

from everthread.errors import (
    BadAddress,
    Busy,
    Closed,
    Corrupt,
    EverthreadError,
    Full,
    MigrationFailed,
    NotADatabase,
    ReadOnly,
    StoreError,
    TakenOver,
    Unavailable,
)
from everthread.store.bus.base import Bus
from everthread.store.bus.postgres import PostgresBus
from everthread.store.engine import Bells, Outcome, Script, Tell, statements
from everthread.store.heads import Heads
from everthread.store.home import Home
from everthread.store.migrate import Migration, missing
from everthread.store.postgres import wall
from everthread.store.postgres.pool import Pool
from everthread.store.postgres.wall import Standing
from everthread.store.reach import as_operator

T = TypeVar("T")

MIGRATING = 0x65766572  # the advisory lock of whoever migrates
CONTENDED = 1.0  # seconds for which a branch that saw a collision is locked in advance
COLLISIONS = (asyncpg.UniqueViolationError, asyncpg.ForeignKeyViolationError, asyncpg.DeadlockDetectedError)
LOST = (
    OSError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
)

_log = logging.getLogger("everthread.store")


class PostgresEngine:
    def __init__(self, url: str, shown: str, pool: Pool, *, bus: Bus, patience: float) -> None:
        self.bells = Bells()
        self.bus = bus
        bus.hear(self._hear, self.bells.ring_all)
        self._url = url
        self._shown = shown
        self._home = Home(shown)
        self._closed = False
        self._down = ""  # why the wall between tenants is
        self._pool = pool
        self._patience = patience
        self._sql = statements("${n}")
        self._queues: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._contended: dict[str, float] = {}
        self._heads = Heads()
        self._at_work: set[asyncio.Task[Any]] = set()  # kept from the garbage collector
        self._watching: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, url: str, *, bus: Bus | None = None, patience: float = 30.0, connections: int = 10
    ) -> PostgresEngine:
        """`bus`: instead of the server's own."""
        try:
            shown = _without_password(url)
        except ValueError:
            raise BadAddress(url) from None
        pool = Pool(url, most=connections, patience=patience)
        engine = cls(url, shown, pool, bus=bus or PostgresBus(url, shown=shown), patience=patience)
        try:
            await engine._patiently(engine._prepare, waits=True)
        except BaseException:
            engine._pool.terminate()
            raise
        return engine

    # -- the contract --------------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Whether whoever asks now has to wait for a connection."""
        return self._pool.is_full

    async def read(self, script: Callable[[], Script[T]], *, large: bool = False) -> T:
        self._at_home()

        async def once() -> T:
            async with self._pool.acquire() as connection:
                return await self._ask(connection, script())

        return await self._patiently(once)

    async def write(
        self,
        script: Callable[[], Script[Outcome[T]]],
        *,
        about: str,
        large: bool = False,
        alone: bool = False,
        durable: bool = True,  # always: whoever holds a lease here may live on when the server's machine does not
    ) -> T:
        self._at_home()
        queue = self._queues.setdefault(about, asyncio.Lock())
        done = None if alone else await self._from_memory(script, about, queue)
        if done is not None:
            return done.result
        # Whoever waits may be cancelled; the write is not, because the driver may then wait for ever.
        work = asyncio.create_task(self._in_turn(script, about, alone, queue))
        self._at_work.add(work)
        work.add_done_callback(self._done)
        return (await asyncio.shield(work)).result

    def _done(self, work: asyncio.Task[Any]) -> None:
        self._at_work.discard(work)
        if not work.cancelled():
            work.exception()  # seen, whether or not the caller still is there to see it

    async def scrub(self, *, patient: bool = True) -> None:
        """Nothing to do: dead rows are PostgreSQL's to vacuum."""

    async def problems(self) -> list[str]:
        self._at_home()

        async def once() -> list[str]:
            async with self._pool.acquire() as connection:
                return await wall.problems(connection)

        return [*([self._down] if self._down else []), *await self._patiently(once)]

    async def watch(self) -> None:
        """Ring the bells when another process has written."""
        self._home.loop()
        if self._watching is None:  # and nobody waits for it: whoever follows looks for itself first
            self._watching = asyncio.create_task(self.bus.watch())

    async def close(self) -> None:
        self._home.loop()
        self._closed = True
        await self.bus.close()
        if self._watching:
            await self._watching
        try:
            async with asyncio.timeout(5):
                await self._pool.close()
        except (TimeoutError, *LOST):
            self._pool.terminate()

    def _at_home(self) -> None:
        self._home.loop()
        if self._closed:
            raise Closed(self._shown)

    # -- running scripts -----------------------------------------------------------------------------------

    async def _in_turn(
        self, script: Callable[[], Script[Outcome[T]]], about: str, alone: bool, queue: asyncio.Lock
    ) -> Outcome[T]:
        async with queue:
            outcome = await self._patiently(lambda: self._write(script, about, alone))
        self._tell_others(about, outcome)
        return outcome

    async def _write(self, script: Callable[[], Script[Outcome[T]]], about: str, alone: bool) -> Outcome[T]:
        deadline = time.monotonic() + self._patience
        before = self._heads.forget(about)  # until it is certain what is there
        while True:
            locked = alone or self._contended.get(about, 0.0) > time.monotonic()
            try:
                async with self._pool.acquire() as connection:
                    if locked:
                        async with connection.transaction():
                            await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", about)
                            outcome = await self._attempt(connection, script)
                    else:
                        outcome = await self._attempt(connection, script)
            except COLLISIONS as collision:
                # Somebody else wrote first. The script looks again, and refuses if there is a reason to.
                if time.monotonic() > deadline:
                    raise Corrupt(self._shown, _words(collision)) from collision
                self._expect_company(about)
            else:
                self._heads.remember(about, outcome, before)
                return outcome

    def _expect_company(self, about: str) -> None:
        now = time.monotonic()
        self._contended = {other: until for other, until in self._contended.items() if until > now}
        self._contended[about] = now + CONTENDED

    async def _from_memory(
        self, script: Callable[[], Script[Outcome[T]]], about: str, queue: asyncio.Lock
    ) -> Outcome[T] | None:
        """Append one event after the one that this process wrote last, without asking for the head first.

        Should somebody have written since, the key on seq refuses it; should the conversation point at
        another branch, the statement writes nothing. Anything but a plain append is not done from memory.
        """
        outcome = None if queue.locked() else self._heads.answer(script(), about)
        write = _plain_append(outcome)
        if outcome is None or write is None:
            return None
        async with queue:
            self._heads.forget(about)
            try:
                async with self._pool.acquire() as connection:
                    if not await self._all(connection, outcome, write):
                        return None
            except (asyncpg.PostgresError, *LOST):
                return None  # asked anew; and if it was written after all, that is found out
            self._heads.remember(about, outcome)
        self._tell_others(about, outcome)
        return outcome

    async def _attempt(self, connection: Any, script: Callable[[], Script[Outcome[T]]]) -> Outcome[T]:
        outcome = await self._ask(connection, script())
        await self._all(connection, outcome, *outcome.writes)
        return outcome

    async def _all(self, connection: Any, outcome: Outcome[T], *writes: Tell) -> bool:
        """Carry out the writes of an outcome, all or none. Whether the last one changed anything."""
        if len(writes) == 1 and not outcome.under:
            return _changed(await self._tell(connection, writes[0]))
        if not outcome.changes:
            return True
        done = ""
        async with connection.transaction():
            if outcome.under:
                await self._hold(connection, outcome.under)
            for write in writes:
                done = await self._tell(connection, write)
        return _changed(done)

    async def _hold(self, connection: Any, lease: Mapping[str, Any]) -> None:
        if not _changed(await self._tell(connection, Tell("write_under", [lease]))):
            raise TakenOver(lease["name"])

    async def _ask(self, connection: Any, script: Script[T]) -> T:
        try:
            ask = next(script)
            while True:
                statement = self._sql[ask.name]
                ask = script.send(await connection.fetch(statement.sql, *statement.bind(ask.values)))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def _tell(self, connection: Any, write: Tell) -> str:
        """Carry out a statement; of a single one, the server's word on what it did."""
        statement = self._sql[write.name]
        if len(write.rows) == 1:
            return str(await connection.execute(statement.sql, *statement.bind(write.rows[0])))
        await connection.executemany(statement.sql, [statement.bind(row) for row in write.rows])
        return ""

    async def _patiently(self, work: Callable[[], Awaitable[T]], *, waits: bool = False) -> T:
        """Do the work, again and again while the server cannot be reached, until patience ends. `waits`: say so, once:
        whoever starts a service would sit before a silent one."""
        deadline = time.monotonic() + self._patience
        pause = 0.02
        while True:
            try:
                return await work()
            except (asyncpg.ClientConfigurationError, OverflowError) as problem:
                raise self._translate(problem) from problem
            except LOST as problem:
                if self._closed:
                    raise Closed(self._shown) from None
                if time.monotonic() > deadline:
                    raise self._translate(problem) from problem
                if waits:
                    said = "%s is not ready yet: waiting for it, up to %g seconds"
                    _log.warning(said, self._shown, self._patience)
                    waits = False
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))
                pause = min(1.0, pause * 2)
            except asyncpg.PostgresError as problem:
                raise self._translate(problem) from problem

    # -- news ----------------------------------------------------------------------------------------------

    def _tell_others(self, about: str, outcome: Outcome[Any]) -> None:
        """Ring here, and a moment later in other processes."""
        if outcome.changes:
            self.bells.ring(about, outcome.news)
            self.bus.send(about)

    def _hear(self, topic: str, message: str) -> None:
        if not message:
            self.bells.ring(topic)

    # -- opening -------------------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        """Bring the schema up to date, and step down to the role that the wall between tenants binds."""
        with as_operator():
            async with self._pool.acquire() as connection:
                ready = not missing(self._shown, "postgres", await self._applied(connection))
                standing = await wall.standing(connection) if ready else None
                if standing is None or standing.makes:
                    standing = await self._migrate(connection)
                if standing.role:
                    await wall.step_down(connection, standing)
                    self._pool.settings |= {"role": standing.role, "search_path": standing.schemas}
        if standing.down:
            self._down = f"{standing.down}: nothing but its queries keeps the tenants of {self._shown} apart"
            _log.warning("%s", self._down)

    async def _migrate(self, connection: Any) -> Standing:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATING)
            for migration in missing(self._shown, "postgres", await self._applied(connection)):
                await self._apply(connection, migration)
            return await wall.put_up(connection)

    async def _apply(self, connection: Any, migration: Migration) -> None:
        version, name, sql = migration
        try:
            await connection.execute(sql)
        except asyncpg.DuplicateTableError as problem:
            why = "it holds tables of another program with the same names"
            raise NotADatabase(self._shown, why) from problem
        except asyncpg.SyntaxOrAccessError as problem:
            raise MigrationFailed(self._shown, version=version, name=name, why=str(problem)) from problem
        row = (version, name, time.time_ns() // 1000)
        await connection.execute("INSERT INTO everthread_migrations VALUES ($1, $2, $3)", *row)

    async def _applied(self, connection: Any) -> list[tuple[int, str]]:
        # Asked of a table, not of to_regclass, which may answer from before the lock that was waited for.
        there = "SELECT 1 FROM pg_tables WHERE schemaname = ANY (current_schemas(false)) AND tablename = $1"
        if not await connection.fetchval(there, "everthread_migrations"):
            return []
        rows: Sequence[Any] = await connection.fetch("SELECT version, name FROM everthread_migrations")
        return [(row[0], row[1]) for row in rows]

    def _translate(self, problem: Exception) -> Exception:
        match problem:
            case EverthreadError():
                return problem
            case asyncpg.ClientConfigurationError() | OverflowError():
                return BadAddress(self._url)
            case asyncpg.DiskFullError() | asyncpg.OutOfMemoryError():
                return Full(self._shown)
            case asyncpg.ReadOnlySQLTransactionError() | asyncpg.InsufficientPrivilegeError():
                return ReadOnly(self._shown)
            case asyncpg.LockNotAvailableError():
                return Busy(self._shown, seconds=self._patience)
            case (
                asyncpg.InvalidCatalogNameError()
                | asyncpg.InvalidPasswordError()
                | asyncpg.InvalidAuthorizationSpecificationError()
            ):
                return Unavailable(self._shown, str(problem))
            case (
                OSError() | asyncpg.InterfaceError() | asyncpg.InternalClientError() | asyncpg.PostgresConnectionError()
            ):
                return Unavailable(self._shown, str(problem) or type(problem).__name__)
            case asyncpg.PostgresError():
                return StoreError(f"{self._shown}: {_words(problem)}")
            case _:
                return problem


def _words(problem: Exception) -> str:
    """What the server said, without the detail beside it, which may be what a row holds."""
    return str(problem.args[0]) if problem.args else type(problem).__name__


def _plain_append(outcome: Outcome[Any] | None) -> Tell | None:
    """The statement that appends the one event of an outcome, where that is all there is to write."""
    if outcome is None or [(write.name, len(write.rows)) for write in outcome.writes] != [("insert_event", 1)]:
        return None
    return Tell("insert_event_if_current" if outcome.to_current else "insert_event", outcome.writes[0].rows)


def _changed(status: str) -> bool:
    """Whether a statement changed anything, by the server's word on it; of many rows it says nothing."""
    return not status.endswith(" 0")


def _without_password(url: str) -> str:
    """The address as it may be shown; ValueError where it is none."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return f"postgresql://{host}{f':{parts.port}' if parts.port else ''}{parts.path}"
