"""The bare engines: the same rows in and out, with the drivers alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import apsw
import asyncpg

from everthread import Talk
from everthread.core.logged import Logged
from everthread.core.turns import Head
from everthread.store.engine import statements

COLUMNS = "branch, seq, id, kind, time, turn, session, tokens, settled, body"
SELECT = (
    f"SELECT {COLUMNS} FROM events WHERE tenant = {{}} AND conversation = {{}} AND branch = 1 "
    "AND seq BETWEEN {} AND {} ORDER BY seq"
)
PLAIN = (
    "CREATE TABLE plain (tenant TEXT NOT NULL, conversation TEXT NOT NULL, branch INTEGER NOT NULL, "
    "seq INTEGER NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, time BIGINT NOT NULL, body {} NOT NULL)"
)
PLAIN_KEY = "CREATE UNIQUE INDEX plain_key ON plain (tenant, conversation, branch, seq)"
_BODY = b'{"kind":"user","parts":[{"type":"text","text":"%s"}]}' % (
    b"The quick brown fox jumps over the lazy dog, and the dog does not mind at all. " * 3
)


class Bare(Protocol):
    async def open(self) -> None: ...
    async def insert(self, rows: list[tuple[Any, ...]]) -> None: ...
    async def select(self, address: str, conversation: str, first: int, last: int) -> list[Any]: ...
    async def size_of(self, address: str) -> int: ...
    async def plain_bytes(self, events: list[Logged]) -> float: ...
    async def close(self) -> None: ...

    def rows(self, talk: Talk) -> Iterator[tuple[Any, ...]]:
        """Rows as the log would write them for a conversation of user messages."""
        for seq in count(100_001):
            time = 1_790_000_000_000_000 + seq
            head = Head(seq, talk.id, time, seq, seq, "open", 0, 1, 1, seq, time, 0, 0, 64, 64, seq * 64, seq * 64, seq)
            yield ("default", talk.id, 1, "user", _BODY, *(getattr(head, name) for name in Head.__struct_fields__))


def schema(engine: str) -> str:
    return files("everthread.store").joinpath(f"sql/{engine}/schema.sql").read_text("utf-8")


class BareSqlite(Bare):
    def __init__(self, path: Path) -> None:
        self._path = path
        self._insert = statements("?{n}")["insert_event"].sql
        self._select = SELECT.format("?1", "?2", "?3", "?4")
        self._readers: dict[str, apsw.Connection] = {}

    async def open(self) -> None:
        self._db = self._connect(self._path)
        self._db.execute(schema("sqlite"))

    async def insert(self, rows: list[tuple[Any, ...]]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        if len(rows) == 1:
            self._db.execute(self._insert, rows[0])
        else:
            self._db.executemany(self._insert, rows)
        self._db.execute("COMMIT")

    async def select(self, address: str, conversation: str, first: int, last: int) -> list[Any]:
        reader = self._readers.get(address) or self._readers.setdefault(address, self._connect(_path(address)))
        return reader.execute(self._select, ("default", conversation, first, last)).fetchall()

    async def size_of(self, address: str) -> int:
        connection = self._connect(_path(address))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        return _path(address).stat().st_size

    async def plain_bytes(self, events: list[Logged]) -> float:
        path = self._path.with_name("plain.db")
        plain = self._connect(path)
        plain.execute(f"{PLAIN.format('BLOB')}; {PLAIN_KEY}")
        plain.execute("BEGIN")
        rows = [("default", events[0].id, e.branch, e.seq, e.id, e.kind, e.micros, e.body) for e in events]
        plain.executemany("INSERT INTO plain VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        plain.execute("COMMIT")
        plain.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        plain.close()
        return path.stat().st_size / len(events)

    async def close(self) -> None:
        for connection in (self._db, *self._readers.values()):
            connection.close()

    def _connect(self, path: Path) -> apsw.Connection:
        connection = apsw.Connection(str(path))
        connection.pragma("journal_mode", "WAL")
        connection.pragma("synchronous", "FULL")
        connection.pragma("secure_delete", True)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        return connection


class BarePostgres(Bare):
    def __init__(self, url: str) -> None:
        self._url = url
        self._insert = statements("${n}")["insert_event"].sql
        self._select = SELECT.format("$1", "$2", "$3", "$4")
        self._readers: dict[str, Any] = {}

    async def open(self) -> None:
        self._db: Any = await asyncpg.connect(self._url)
        await self._db.execute(schema("postgres"))
        # The bare engine has no conversations to refer to.
        await self._db.execute("ALTER TABLE events DROP CONSTRAINT events_tenant_conversation_branch_fkey")

    async def insert(self, rows: list[tuple[Any, ...]]) -> None:
        if len(rows) == 1:
            await self._db.execute(self._insert, *rows[0])
        else:
            await self._db.executemany(self._insert, rows)

    async def select(self, address: str, conversation: str, first: int, last: int) -> list[Any]:
        if address not in self._readers:
            self._readers[address] = await asyncpg.connect(address)
        found: list[Any] = await self._readers[address].fetch(self._select, "default", conversation, first, last)
        return found

    async def size_of(self, address: str) -> int:
        connection: Any = await asyncpg.connect(address)
        size: int = await connection.fetchval("SELECT pg_total_relation_size('events')")
        await connection.close()
        return size

    async def plain_bytes(self, events: list[Logged]) -> float:
        await self._db.execute(f"{PLAIN.format('BYTEA')}; {PLAIN_KEY}")
        rows = [("default", events[0].id, e.branch, e.seq, e.id, e.kind, e.micros, e.body) for e in events]
        await self._db.executemany("INSERT INTO plain VALUES ($1, $2, $3, $4, $5, $6, $7, $8)", rows)
        size: int = await self._db.fetchval("SELECT pg_total_relation_size('plain')")
        return size / len(events)

    async def close(self) -> None:
        await asyncio.gather(*(connection.close() for connection in (self._db, *self._readers.values())))


def _path(address: str) -> Path:
    return Path(address.removeprefix("sqlite:///"))
