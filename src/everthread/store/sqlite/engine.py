"""A log in one SQLite file.

Durable when it returns: write-ahead log with synchronous FULL, except for leases and calibrations, which need not
outlive the machine and wait for no disk (docs/decisions/0017). All appends that are ready at the same moment
are committed together, so that many callers share one flush to disk. Writing and reading happen on the event
loop itself as long as they are quick, because handing a statement to a thread costs as much as the statement;
once the disk turns slow, or the work is announced as large, a thread takes over (docs/decisions/0003).

Several processes may use one file. The write lock is waited for without blocking the loop.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apsw

from everthread.errors import Closed, EverthreadError, NotYetGone, TakenOver
from everthread.store.bus.base import Bus, NoBus
from everthread.store.engine import Bells, Outcome, Script, Tell, statements
from everthread.store.heads import Heads
from everthread.store.home import Home
from everthread.store.sqlite.file import SqliteFile

T = TypeVar("T")

SLOW = 0.005  # seconds of a statement from which a thread is worth its price
WATCH = 0.05  # seconds between two looks at what other processes have written
READERS = 4
IN_A_ROW = 8  # commits of one task before the loop gets its turn


class Waiting(NamedTuple):
    """A write in the queue."""

    script: Callable[[], Script[Outcome[Any]]]
    about: str
    large: bool
    durable: bool
    done: asyncio.Future[Any]


class SqliteEngine:
    def __init__(self, path: Path, *, patience: float = 30.0) -> None:
        """`patience`: seconds to wait for another process's write lock."""
        self.bells = Bells()
        self.bus: Bus = NoBus()
        self._file = SqliteFile(path, patience=patience)
        self._home = Home(str(path))
        self._sql = statements("?{n}")
        self._queue: list[Waiting] = []
        self._drain: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._heads = Heads()
        self._version = -1  # of the file, after our last commit
        self._seen = -1  # of what others have written
        self._committing = False  # in a thread
        self._slow_write = self._slow_read = False
        self._flushes = True  # whether a commit waits for the disk
        self._writing: asyncio.Task[Any] | None = None  # who has written since the loop last turned
        self._in_a_row = 0
        self._shared = False  # whether the last commit was
        self._together = True  # unless a group has failed: then one by one
        self._closed = False
        self._writer = self._file.open()
        self._readers: list[apsw.Connection] = []
        self._spare = asyncio.Semaphore(READERS)
        self._reading = 0

    # -- the contract --------------------------------------------------------------------------------------

    async def read(self, script: Callable[[], Script[T]], *, large: bool = False) -> T:
        self._at_home()
        await self._spare.acquire()
        try:
            reader = self._readers.pop() if self._readers else self._file.connect()
        except apsw.Error as problem:
            self._spare.release()
            raise self._file.translate(problem) from problem
        self._reading += 1
        if large or self._slow_read:
            # Should the caller be cancelled, the thread goes on, and the reader is free only when it is done.
            thread = asyncio.ensure_future(asyncio.to_thread(self._read, reader, script))
            thread.add_done_callback(lambda done: self._give_back(reader, done))
            return await asyncio.shield(thread)
        try:
            return self._read(reader, script)
        finally:
            self._give_back(reader)

    async def write(
        self,
        script: Callable[[], Script[Outcome[T]]],
        *,
        about: str,
        large: bool = False,
        alone: bool = False,
        durable: bool = True,
    ) -> T:
        loop = self._at_home()
        done: asyncio.Future[T] = loop.create_future()
        self._queue.append(Waiting(script, about, large, durable, done))
        if len(self._queue) == 1 and self._drain is None:
            if self._is_alone(loop):
                self._flush()
            else:
                # At the next turn of the loop: whoever is ready by then joins the same commit.
                loop.call_soon(self._flush)
        return done.result() if done.done() else await done

    async def scrub(self, *, patient: bool = True) -> None:
        """Overwritten pages reach the file, and the write-ahead log, which still has the old ones, is emptied."""
        self._at_home()
        deadline = time.monotonic() + (self._file.patience if patient else 0.0)
        while (await self._aside("PRAGMA wal_checkpoint(TRUNCATE)"))[0][0]:
            # Another process reads the old pages, or is at this very thing, for which SQLite does not wait.
            if time.monotonic() > deadline:
                raise NotYetGone(str(self._file.path), seconds=self._file.patience)
            await asyncio.sleep(random.uniform(0.001, 0.02))

    async def problems(self) -> list[str]:
        self._at_home()
        found = [str(row[0]) for row in await self._aside("PRAGMA integrity_check(20)")]
        return [] if found == ["ok"] else found

    async def watch(self) -> None:
        """Ring the bells when another process has written."""
        self._home.loop()
        if self._watch is None:
            self._watch = asyncio.create_task(self._look_out())

    async def close(self) -> None:
        self._home.loop()
        if self._watch:
            self._watch.cancel()
        self._closed = True
        while self._queue or self._drain or self._reading:  # noqa: ASYNC110 — a turn or two of the loop
            await asyncio.sleep(0.001)
        for connection in (*self._readers, self._writer):
            connection.close()
        self._file.closed()

    def _at_home(self) -> asyncio.AbstractEventLoop:
        loop = self._home.loop()
        if self._closed:
            raise Closed(str(self._file.path))
        return loop

    # -- writing -------------------------------------------------------------------------------------------

    def _is_alone(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether nobody seems about to share a commit: then waiting a turn of the loop would be for nothing.

        Somebody else is there when another task has written since the loop last turned, or when the last
        commit was shared. A task that never waits for anything else has to let the loop turn now and then.
        """
        task = asyncio.current_task()
        if self._writing is None:
            self._writing, self._in_a_row = task, 0
            loop.call_soon(self._loop_turned)
        self._in_a_row += 1
        return self._writing is task and not self._shared and self._in_a_row <= IN_A_ROW

    def _loop_turned(self) -> None:
        self._writing = None

    def _flush(self) -> None:
        """Commit what is queued at once, if that is quick; otherwise a task takes over, which may wait."""
        if not self._is_quick() or not self._flush_at_once():
            self._drain = asyncio.create_task(self._flush_patiently())

    def _is_quick(self) -> bool:
        """Whether what is queued is likely to be committed before the loop would miss its turn."""
        waits = self._slow_write and any(write.durable for write in self._queue)
        return not waits and not any(write.large for write in self._queue)

    def _flush_at_once(self) -> bool:
        try:
            self._begin()
        except apsw.Error:
            return False  # locked by another process, or worse: the task finds out
        queued = self._take()
        return self._settled(queued, self._commit(queued))

    def _settled(self, queued: list[Waiting], results: Sequence[Outcome[Any] | BaseException] | None) -> bool:
        """Answer those who wait; where there are no results, each is to be tried alone."""
        if results is None:
            self._queue = [*queued, *self._queue]
            self._together = False
            return False
        self._settle(queued, results)
        return True

    async def _flush_patiently(self) -> None:
        try:
            while self._queue:
                try:
                    await self._lock()
                except apsw.Error as problem:
                    queued = self._take()
                    self._settle(queued, [self._file.translate(problem)] * len(queued))
                    continue
                queued = self._take() if self._together else [self._queue.pop(0)]
                results = await self._commit_aside(queued)
                self._look()
                self._settled(queued, results)
        finally:
            self._drain = None
            self._together = True

    async def _commit_aside(self, queued: list[Waiting]) -> Sequence[Outcome[Any] | BaseException] | None:
        self._committing = True
        try:
            return await asyncio.to_thread(self._commit, queued)
        finally:
            self._committing = False

    def _take(self) -> list[Waiting]:
        queued, self._queue = self._queue, []
        self._shared = len(queued) > 1
        return queued

    def _settle(self, queued: list[Waiting], results: Sequence[Outcome[Any] | BaseException]) -> None:
        for write, result in zip(queued, results, strict=True):
            if isinstance(result, Outcome) and result.changes:
                self.bells.ring(write.about, result.news)
            if write.done.done():  # the caller was cancelled; what was committed stays committed
                continue
            if isinstance(result, Outcome):
                write.done.set_result(result.result)
            else:
                write.done.set_exception(result)

    def _begin(self) -> None:
        """Lock the file for what is queued. It waits for the disk unless none of that need outlive the machine; what
        was written without waiting is on disk with the next commit that does."""
        flushes = any(write.durable for write in self._queue)
        if flushes != self._flushes:
            self._writer.execute(f"PRAGMA synchronous = {'FULL' if flushes else 'NORMAL'}")
            self._flushes = flushes
        self._writer.execute("BEGIN IMMEDIATE")

    async def _lock(self) -> None:
        deadline = time.monotonic() + self._file.patience
        while True:
            try:
                self._begin()
                return
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(random.uniform(0.0005, 0.005))

    def _commit(self, queued: list[Waiting]) -> Sequence[Outcome[Any] | BaseException] | None:
        """Results or errors of queued writes, under the lock; None where several failed together.

        Then each has to be tried alone, so that only the bad one fails.
        """
        try:
            return self._transaction(queued)
        except Exception as problem:  # noqa: BLE001 — whatever it is, it is the answer to somebody
            return [self._file.translate(problem)] if len(queued) == 1 else None

    def _transaction(self, queued: list[Waiting]) -> list[Outcome[Any] | EverthreadError]:
        began = time.perf_counter()
        if self._writer.data_version() != self._version:  # another process has written since
            self._heads.forget_all()
        try:
            results = [self._run(write) for write in queued]
            self._writer.execute("COMMIT")
            self._version = self._writer.data_version()
        except BaseException:
            self._heads.forget_all()
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise
        slow = time.perf_counter() - began > SLOW
        if self._flushes or slow:  # how quick the disk is only shows when it is waited for
            self._slow_write = slow
        return results

    def _run(self, write: Waiting) -> Outcome[Any] | EverthreadError:
        """What a write comes to, or the error with which it refused before it wrote anything."""
        try:
            outcome = self._heads.answer(write.script(), write.about) or self._ask(self._writer, write.script())
        except EverthreadError as refusal:
            return refusal
        if outcome.under:
            self._tell(Tell("write_under", [outcome.under]))
            if not self._writer.changes():
                return TakenOver(outcome.under["name"])
        for statement in outcome.writes:
            self._tell(statement)
        if outcome.writes:
            self._heads.remember(write.about, outcome)
        return outcome

    def _tell(self, write: Tell) -> None:
        statement = self._sql[write.name]
        if len(write.rows) == 1:
            self._writer.execute(statement.sql, statement.bind(write.rows[0]))
        else:
            self._writer.executemany(statement.sql, [statement.bind(row) for row in write.rows])

    # -- reading -------------------------------------------------------------------------------------------

    def _read(self, reader: apsw.Connection, script: Callable[[], Script[T]]) -> T:
        began = time.perf_counter()
        try:
            return self._ask(reader, script())
        except apsw.Error as problem:
            raise self._file.translate(problem) from problem
        finally:
            self._slow_read = time.perf_counter() - began > SLOW

    def _give_back(self, reader: apsw.Connection, done: asyncio.Future[Any] | None = None) -> None:
        self._readers.append(reader)
        self._reading -= 1
        self._spare.release()
        if done is not None and not done.cancelled():
            done.exception()  # seen, whether or not the caller still is there to see it

    def _ask(self, connection: apsw.Connection, script: Script[T]) -> T:
        try:
            ask = next(script)
            while True:
                statement = self._sql[ask.name]
                ask = script.send(connection.execute(statement.sql, statement.bind(ask.values)).fetchall())
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def _aside(self, sql: str) -> list[Any]:
        """Something long, on a connection and in a thread of its own, which waits its turn for locks."""

        def work() -> list[Any]:
            connection = self._file.connect()
            try:
                return connection.execute(sql).fetchall()
            finally:
                connection.close()

        try:
            return await asyncio.to_thread(work)
        except apsw.Error as problem:
            raise self._file.translate(problem) from problem

    async def _look_out(self) -> None:
        while True:
            await asyncio.sleep(WATCH)
            if not self._committing:  # otherwise it looks when it is done
                self._look()

    def _look(self) -> None:
        """Ring if others have written. The writer is asked, because to it alone our own commits are no news."""
        if self._watch is None or not self.bells:
            return
        try:
            version = self._writer.pragma("data_version")
        except apsw.Error:
            return  # busy, or gone for a moment: whoever listens looks for itself as well
        if version != self._seen:
            self._seen = version
            self.bells.ring_all()
