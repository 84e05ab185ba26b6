"""The file behind a log in SQLite: opened, refused, migrated, and its errors in our words."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

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
    Unavailable,
)
from everthread.store.home import Inode, open_files
from everthread.store.migrate import missing
from everthread.store.private_files import make_file, make_folders

MAGIC = b"SQLite format 3\0"
_LOOK = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
_WRITE_FAILED = {
    apsw.SQLITE_IOERR_WRITE,
    apsw.SQLITE_IOERR_FSYNC,
    apsw.SQLITE_IOERR_TRUNCATE,
    apsw.SQLITE_IOERR_SHMSIZE,
}


class SqliteFile:
    def __init__(self, path: Path, *, patience: float) -> None:
        self.path = path
        self.patience = patience
        self._inode: Inode | None = None

    def open(self) -> apsw.Connection:
        """The connection that writes, to a file that is there and of this version when it returns."""
        try:
            with open_files().opening:
                open_files().check(self.path)
                there = self._is_there()
            if there:
                self._patiently(self._refuse_what_is_not_ours)
            make_folders(self.path.parent)
            with open_files().opening:
                if not self.path.exists():  # what stands beside it, SQLite makes with the same rights
                    make_file(self.path)
                connection = self.connect(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
                self._inode = open_files().add(self.path)
        except (apsw.Error, OSError, ValueError) as problem:
            raise self.translate(problem) from problem
        try:
            self._patiently(lambda: connection.pragma("journal_mode", "WAL"))
            self._patiently(lambda: self._migrate(connection))
            connection.set_busy_timeout(0)  # from now on the lock is waited for without blocking
        except BaseException as problem:
            connection.close()
            self.closed()
            if isinstance(problem, apsw.Error):
                raise self.translate(problem) from problem
            raise
        return connection

    def closed(self) -> None:
        """All connections are: who is forked from now on may open the file."""
        if self._inode:
            open_files().remove(self._inode)
            self._inode = None

    def _patiently(self, work: Callable[[], object]) -> None:
        """Do what SQLite itself does not always wait for, such as two processes turning a new file to WAL at once."""
        deadline = time.monotonic() + self.patience
        while True:
            try:
                work()
                return
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(random.uniform(0.001, 0.01))

    def _is_there(self) -> bool:
        """Whether there is a SQLite file with something in it, before anything is opened for writing, which would turn
        a short text file into a database."""
        if self.path.is_dir():
            raise NotADatabase(str(self.path), "it is a folder")
        if not self.path.exists() or not self.path.stat().st_size:
            return False
        if not open_files().has(self.path):
            with self.path.open("rb") as file:
                if file.read(len(MAGIC)) != MAGIC:
                    raise NotADatabase(str(self.path), "it is not a SQLite file")
        return True

    def _refuse_what_is_not_ours(self) -> None:
        """Refuse the database of another program before anything is written into it."""
        look = apsw.Connection(f"{self.path.absolute().as_uri()}?mode=ro", flags=_LOOK)
        try:
            look.set_busy_timeout(int(self.patience * 1000))
            self._applied(look)
        finally:
            look.close()

    def connect(self, flags: int = apsw.SQLITE_OPEN_READWRITE) -> apsw.Connection:
        connection = apsw.Connection(str(self.path), flags=flags)
        connection.set_busy_timeout(int(self.patience * 1000))
        connection.pragma("synchronous", "FULL")
        # Stable plans: otherwise every binding on a table with partial indexes prepares its statement anew.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        connection.pragma("foreign_keys", True)
        connection.pragma("secure_delete", True)  # forgotten means gone: deleted bytes are overwritten
        return connection

    def _migrate(self, connection: apsw.Connection) -> None:
        if not missing(str(self.path), "sqlite", self._applied(connection)):
            return
        with _write_transaction(connection):
            for version, name, sql in missing(str(self.path), "sqlite", self._applied(connection)):
                try:
                    connection.execute(sql)
                except (apsw.SQLError, apsw.ConstraintError) as problem:
                    why = str(problem)
                    raise MigrationFailed(str(self.path), version=version, name=name, why=why) from problem
                row = (version, name, time.time_ns() // 1000)
                connection.execute("INSERT INTO everthread_migrations VALUES (?, ?, ?)", row)

    def _applied(self, connection: apsw.Connection) -> list[tuple[int, str]]:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        if "everthread_migrations" in tables:
            return list(connection.execute("SELECT version, name FROM everthread_migrations"))
        if tables:
            raise NotADatabase(str(self.path), "it is a SQLite database of another program")
        return []

    def translate(self, problem: Exception) -> Exception:
        path = str(self.path)
        match problem:
            case EverthreadError():
                return problem
            case apsw.NotADBError():
                return NotADatabase(path, "it is not a SQLite file")
            case apsw.FullError():
                return Full(path)
            case apsw.IOError() if getattr(problem, "extendedresult", 0) in _WRITE_FAILED:
                return Full(path)
            case apsw.ReadOnlyError() | PermissionError():
                return ReadOnly(path)
            case apsw.CantOpenError() if not os.access(self.path.parent, os.W_OK | os.X_OK):
                return ReadOnly(path)
            case apsw.BusyError() | apsw.LockedError():
                return Busy(path, seconds=self.patience)
            case apsw.CorruptError():
                return Corrupt(path, str(problem))
            case ValueError():
                return BadAddress(f"sqlite:///{path}")
            case apsw.ConnectionClosedError():
                return Closed(path)
            case apsw.Error() | OSError():
                return Unavailable(path, str(problem) or type(problem).__name__)
            case _:
                return problem  # a mistake in the code, not a problem of the file


@contextmanager
def _write_transaction(connection: apsw.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
