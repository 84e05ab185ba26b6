"""The log: everything that has been said, for ever.

This is the contract that all else stands on, the same over every database. Verbs take a `Line` (a branch with
its ancestors, from `line`), and having one is the permission to read it; or a `Conversation` (from
`log.conversations`, which asks whose it is). That is a value, and anybody can make one: whatever is done with it is
done only if the store knows it as this owner's (`mine`). A `Line` or `Target` that was made by hand is not asked whose
it is: the log is the operator's door, and users come in by `Everthread` and `Talk` (docs/decisions/0028). All raise
errors of one tree (`everthread.errors`), and whatever is raised, the log is as it was (but for NotYetGone, which says
what is left to do).

    branches     line  way  fork  rewind  switch
    writing      append (key: safe to repeat; expect: compare and set)  go_on (a turn)  kept  restore
    reading      head  tail  before  after  range  turns  sessions  markers  forgotten  blob  blobs
    windows      window  look  ask  fence  asks  asking
    living       newest  ended  changes  watch  bells  bus
    operators    everything  check  strays  problems  close

The rest is done by subject; each is an object of `verbs/`:

    log.conversations  begin  find  by_alias  mine  newest  page  listed  change  branches  totals  user_totals
    log.recall         search  index  index_these
    log.canvas         at  now
    log.forgetting     redact  erase  erase_user  unfinished  finish  finish_later
    log.leases         take  renew  release  term;  of a running reply: hold  keep  partial
    log.documents      put  get  all  versions  forget
    log.calibrations   add  all
    log.usage          of_owner  of_tenant
    log.reminders      add  add_all  due  drop
    log.schedules      add  get  of  of_owner  pending  change  remove;  for workers: due  next_look  move
    log.accounts       first  get  of  change;  links and sign-ins;  API keys;  sealed keys;  the audit
    log.imports        grow  check  check_document  key  known
    log.mirrors        know  all  owed  pay  forget;  what there is to mirror: tenants  users  idle  changed
    log.archives       of  page  search;  for the archiver: idle  rows  begin  finish  restore  owe  drop  …

Whatever meets an archived conversation restores it and goes on, as whoever opened the store says (`on_archived`). What
a database must offer for all this is `engine.Engine`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from everthread.core.branches import ENDLESS, Current, Line, Target
from everthread.core.deltas import Done
from everthread.core.events import Event
from everthread.core.fence import Fence, fence_of
from everthread.core.importance import Worth, worth
from everthread.core.logged import Logged
from everthread.core.turns import SESSION_GAP, Head, Session, Turn
from everthread.core.window import Lookups
from everthread.errors import UnknownBlob
from everthread.store.audit import audit
from everthread.store.beside import secret
from everthread.store.beside.leases import Lease
from everthread.store.bus.base import Bus
from everthread.store.conversations import Conversation, Owners
from everthread.store.engine import Ask, Bells, Engine, Script
from everthread.store.restoring import Restore, Restoring
from everthread.store.scripts import append, check, check_forgotten, read, restore, window
from everthread.store.scripts import branch as branching
from everthread.store.scripts.append import Basis, Batch, Beside, Draft, Tries, Written
from everthread.store.scripts.branch import Act
from everthread.store.scripts.children import LeftBehind, left_behind
from everthread.store.scripts.outlook import Asking, Outlook
from everthread.store.scripts.read import Newest
from everthread.store.scripts.restore import OwnedDocument, Whole
from everthread.store.scripts.window import Planned, WindowRead
from everthread.store.verbs.accounts import Accounts
from everthread.store.verbs.archives import Archives
from everthread.store.verbs.calibrations import Calibrations
from everthread.store.verbs.canvas import Canvases
from everthread.store.verbs.conversations import Conversations
from everthread.store.verbs.documents import Documents
from everthread.store.verbs.forgetting import Forgetting
from everthread.store.verbs.imports import Imports
from everthread.store.verbs.leases import Leases
from everthread.store.verbs.mirrors import Mirrors
from everthread.store.verbs.recall import Recall
from everthread.store.verbs.reminders import Reminders
from everthread.store.verbs.schedules import Schedules
from everthread.store.verbs.usage import UsageTotals
from everthread.store.windows import Windows

MAX_EVENT_BYTES = 16 * 1024 * 1024
HEAVY = 64 * 1024  # bytes from which counting tokens would be felt on the event loop
LARGE = 1024 * 1024  # and writing
LOOK = 2.0  # seconds after which a follower looks for itself, should a bell not ring

T = TypeVar("T")
P = TypeVar("P")

Clock = Callable[[], int]
SessionGap = Callable[[], Awaitable[int | None]]


def now() -> int:
    return time.time_ns() // 1000


class Log:
    def __init__(
        self,
        engine: Engine,
        *,
        clock: Clock = now,
        session_gap: int = SESSION_GAP,
        max_event_bytes: int = MAX_EVENT_BYTES,
        importance: Worth = worth,
    ) -> None:
        self._engine = engine
        self._data = data = Restoring(engine)
        self._clock = clock
        self._gap = session_gap
        self._max_bytes = max_event_bytes
        self._worth = importance
        self._lines: branching.Lines = {}
        self._windows = Windows()
        self._secret: bytes | None = None
        owners = Owners()
        self.conversations = Conversations(data, self._time, owners)
        self.recall = Recall(data)
        self.canvas = Canvases(data)
        self.forgetting = Forgetting(data, self._time, owners, self._lines, self._windows, session_gap=session_gap)
        self.leases = Leases(data, self._time)
        self.documents = Documents(data, self._time, self.forgetting, max_bytes=max_event_bytes)
        self.calibrations = Calibrations(data)
        self.usage = UsageTotals(data)
        self.reminders = Reminders(data, self._time)
        self.schedules = Schedules(data, self._time, self.forgetting)
        self.accounts = Accounts(data, self._time)
        self.archives = Archives(engine, self._time, owners)
        self.imports = Imports(data, self._time, self._prepare, session_gap=session_gap)
        self.mirrors = Mirrors(engine, self._time)

    @property
    def now(self) -> int:
        """Microseconds since 1970, by the clock that dates events."""
        return self._time()

    def _time(self) -> int:
        return self._clock()

    def on_archived(self, restore: Restore) -> None:
        """How a conversation is brought back that somebody reads or writes and that is archived."""
        self._data.restore = restore

    @property
    def bus(self) -> Bus:
        """What carries messages to the other processes of this store."""
        return self._data.bus

    # -- branches ------------------------------------------------------------------------------------------

    async def line(self, conversation: Conversation, branch: str | int | None = None) -> Line:
        """A branch by name or number, or the current one, with its ancestors."""
        await self.conversations.mine(conversation)
        return await self._data.read(
            lambda: branching.line(conversation.tenant, conversation.id, branch, known=self._lines)
        )

    async def children_left(self, *, limit: int) -> list[LeftBehind]:
        """The children whose turns nobody runs any more. For workers: crosses every wall."""
        now = self._time()
        return await self._data.read(lambda: left_behind(now, limit))

    async def way(self, conversation: Conversation, branch: int | None) -> Line | Current:
        """The same, for what finds out by itself which branch is current."""
        return conversation.now if branch is None else await self.line(conversation, branch)

    async def fork(
        self, line: Line, *, at: int, name: str = "", word: str = "fork", markers: Sequence[Event] = ()
    ) -> Line:
        """A new branch that shares everything up to event `at` (0: nothing) and goes its own way. Without a name it is
        called by the word and its number. `markers`: with which it begins, right after the fork."""
        act = Act(self._clock(), self._gap, Tries())
        grown = await self._data.write(
            lambda: branching.fork(line, at, act, name=name, word=word, markers=markers),
            about=line.about,
            alone=True,
        )
        return branching.remember(grown, self._lines)

    async def rewind(self, line: Line, *, to: int | str, name: str = "") -> Line:
        """Go on from an earlier seq or mark: a new branch, and the current one from now on."""
        act = Act(self._clock(), self._gap, Tries())
        grown = await self._data.write(
            lambda: branching.rewind(line, to, act, name=name),
            about=line.about,
            alone=True,
        )
        return branching.remember(grown, self._lines)

    async def switch(self, line: Line) -> Line:
        """Make this branch the current one."""
        act = Act(self._clock(), self._gap, Tries())
        return await self._data.write(lambda: branching.switch(line, act), about=line.about, alone=True)

    # -- appending -----------------------------------------------------------------------------------------

    async def append(
        self,
        target: Target,
        events: Sequence[Event | Draft],
        *,
        key: str = "",
        expect: int | None = None,
        basis: Basis | None = None,
        under: Lease | None = None,
        gap: SessionGap | None = None,
        at: int | None = None,
        beside: Beside | None = None,
    ) -> list[Logged]:
        """Append events in one transaction; durable when it returns.

        The same `key` with the same events again gives the first result and writes nothing; with others,
        KeyReused. `expect`: the newest message that the caller has seen; Moved if there is a newer one. `basis`: what
        a marker was made from; Outrun if it is otherwise by now. `under`: the lease that lets the caller write;
        TakenOver if another has it by now. `gap` gives the pause that ends a session, in microseconds, where it is not
        this log's; it is asked only where a message comes after a pause that may be one. `at`: when it happened, in
        place of now: not before the newest event of the branch, and not later than now; else BadValue. `beside`: what
        is written with the events.
        """
        batch = await self._prepare(_drafts(events), key, expect)
        batch.basis, batch.under, batch.at, batch.beside = basis, under, at, beside or batch.beside
        return (await self._write(target, batch, gap)).events

    async def go_on(
        self,
        target: Target,
        events: Sequence[Event | Draft],
        *,
        under: Lease,
        key: str = "",
        basis: Basis | None = None,
        gap: SessionGap | None = None,
        gives_back: bool = False,
        beside: Beside | None = None,
    ) -> Written:
        """The same for a turn under its lease, and the head of the branch after that. `gives_back`: these events end
        it, and the lease is free once they are written."""
        batch = await self._prepare(_drafts(events), key, None)
        batch.under, batch.gives_back = under, gives_back
        batch.basis, batch.beside = basis, beside or batch.beside
        return await self._write(target, batch, gap)

    async def _write(self, target: Target, batch: Batch, gap: SessionGap | None) -> Written:
        now = self._clock()

        async def write(gap: int, *, asks: bool = False) -> Written:
            return await self._data.write(
                lambda: append.append(target, batch, now=now, gap=gap, asks=asks),
                about=target.about,
                large=len(batch.items) > 1_000 or batch.size > LARGE,
                # What is quoted, or says it, must still be there when it is written.
                alone=batch.basis is not None or bool(batch.quotes or batch.schedules),
            )

        try:
            return await write(self._gap, asks=gap is not None)
        except append.Pausing:
            return await write((await gap() if gap else None) or self._gap)

    async def kept(self, line: Line, key: str) -> list[Logged]:
        """What was appended with this key, on whichever branch; nothing where nothing was."""
        target = Target(line.tenant, line.conversation)
        return await self._data.read(lambda: append.kept(target, key))

    async def forgotten(self, line: Line) -> int:
        """How often something of the conversation was redacted."""
        key = {"tenant": line.tenant, "conversation": line.conversation}
        return await self._data.read(lambda: append.forgotten(key))

    async def blob(self, line: Line, hash: str) -> bytes:
        """The bytes of an image or file of the conversation."""
        if not re.fullmatch("[0-9a-f]{64}", hash):
            raise UnknownBlob(hash)

        def script() -> Script[bytes | None]:
            values = {"tenant": line.tenant, "conversation": line.conversation, "hash": hash}
            rows = yield Ask("blob", values)
            return bytes(rows[0][0]) if rows else None

        found = await self._data.read(script)
        if found is None:
            raise UnknownBlob(hash)
        return found

    # -- reading -------------------------------------------------------------------------------------------

    async def head(self, line: Line, *, at: int | None = None) -> Head:
        """All that is known of a line after its newest event, or after event `at`."""
        return await self._data.read(lambda: read.head(line, at=at))

    async def tail(self, line: Line, *, turns: int) -> list[Logged]:
        """The events of the newest turns, whole, oldest first."""
        return await self._data.read(lambda: read.tail(line, turns=turns))

    async def before(self, line: Line, seq: int = ENDLESS, *, limit: int = 50, messages: bool = False) -> list[Logged]:
        """The page of events that ends just before `seq`, oldest first."""
        return await self._data.read(
            lambda: read.newest(line, limit=limit, last=min(seq, ENDLESS) - 1, messages=messages),
            large=limit > 1_000,
        )

    async def after(self, line: Line, seq: int = 0, *, limit: int = 50, messages: bool = False) -> list[Logged]:
        """The page of events that begins just after `seq`, oldest first."""
        return await self._data.read(
            lambda: read.onward(line, first=min(seq, ENDLESS - 1) + 1, limit=limit, messages=messages),
            large=limit > 1_000,
        )

    async def range(self, line: Line, first: int, last: int) -> list[Logged]:
        """The events from seq `first` to seq `last`."""
        return await self._data.read(
            lambda: read.onward(line, first=min(first, ENDLESS), last=min(last, ENDLESS)), large=last - first > 1_000
        )

    async def changes(self, *about: str) -> AsyncIterator[None]:
        """Yields at once, then whenever something may have been written about one of these, by any process."""
        await self._data.watch()
        with self._data.bells.listen(*about) as bell:
            while True:
                bell.clear()
                yield
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK):
                        await bell.wait()

    @property
    def bells(self) -> Bells:
        """Ring for what is written: `watch` makes them ring for other processes' writes, too."""
        return self._data.bells

    async def watch(self) -> None:
        """From now on ring the bells for what other processes write."""
        await self._data.watch()

    async def newest(self, line: Line, *, after: int | None = None) -> Newest:
        """A page of the events after seq `after` (None: only where the line ends), and the reply that runs."""
        return await self._data.read(lambda: read.news(line, after))

    async def ended(self, line: Line, *, at: int | None = None) -> Done | None:
        """How the newest turn has ended, or the turn of event `at`; None where it is open, or no agent ran it."""
        return await self._data.read(lambda: read.ended(line, at))

    async def turns(self, line: Line, *, limit: int = 50, last: int = ENDLESS) -> list[Turn]:
        """The newest turns that begin at or before seq `last`, oldest first."""
        return await self._data.read(lambda: read.turns(line, limit=limit, last=last))

    async def sessions(self, line: Line, *, limit: int = 50) -> list[Session]:
        """The newest sessions, oldest first."""
        return await self._data.read(lambda: read.sessions(line, limit=limit))

    async def window(
        self, way: Line | Current, *, at: int | None, plan: Callable[[Outlook], Planned[P]], notes: str = ""
    ) -> tuple[WindowRead, P]:
        """The turns that a plan chooses, as they stood before event `at`, what memory has of the rest, and the plan.
        `notes`: a document of the user's that is read along."""
        asking, forgets = Asking(at, notes, self._lines, self._windows.of), self._windows.forgets
        seen, made = await self._data.read(lambda: window.window(way, asking, plan))
        if at is None and seen.read and self._windows.forgets == forgets:
            self._windows.keep(seen.outlook.line, seen.read)
        return seen, made

    async def look(
        self, way: Line | Current, *, at: int | None, ask: Callable[[Outlook], Lookups[T]], nothing: T, notes: str = ""
    ) -> T:
        """What a question in the form of `core.window` comes to; `nothing` where no turns are."""
        asking = Asking(at, notes, self._lines)
        return await self._data.read(lambda: window.look(way, asking, ask, nothing), large=True)

    async def ask(self, script: Callable[[], Script[T]]) -> T:
        """Run a script that only asks: what belongs together is read together."""
        return await self._data.read(script)

    @property
    def lines(self) -> branching.Lines:
        """Those that are known, for scripts that ask for one."""
        return self._lines

    async def fence(self, line: Line | Current) -> Fence:
        """The tags that only this store can make in a request of this conversation."""
        if self._secret is None:
            self._secret = await secret.read(self._engine)
        return fence_of(self._secret, line.about)

    async def asks(self, line: Line) -> bool:
        """Whether any tool call of the conversation has ever made its turn wait."""
        return await self._data.read(lambda: read.asks(line))

    async def asking(self, line: Line, *, after: int) -> list[Logged]:
        """The tool calls after seq `after` that made their turn wait, whether or not they still do."""
        return await self._data.read(lambda: read.asking(line, after=after))

    async def markers(self, line: Line, kind: str, *, last: int = ENDLESS, limit: int = 50) -> list[Logged]:
        """The markers of a kind up to seq `last`, newest first."""
        return await self._data.read(lambda: read.newest_markers(line, kind, last=last, limit=limit))

    # -- moving whole conversations, checking, closing -----------------------------------------------------

    async def restore(self, wholes: Sequence[Whole], documents: Sequence[OwnedDocument] = ()) -> None:
        """Write conversations and documents that were read elsewhere, with the ids and times they had: all or
        none. AlreadyExists: one of them is there and is another, or was erased."""
        batches = [[await self._prepare(drafts, "", None) for _, drafts in whole.branches] for whole in wholes]
        now = self._clock()
        await self._data.write(
            lambda: restore.restore(wholes, batches, documents, now=now, gap=self._gap),
            about=wholes[0].conversation.about if len(wholes) == 1 else "import",
            large=True,
        )

    async def blobs(self, line: Line) -> list[str]:
        """The hashes of all images and files of the conversation."""
        return await self._data.read(lambda: read.blobs(line))

    async def everything(self) -> list[tuple[str, str]]:
        """Tenant and id of every conversation. For operators: crosses every wall, and is logged."""
        audit.info("an operator listed all conversations")
        return await self._data.read(read.everything, large=True)

    async def check(self, tenant: str, conversation: str) -> tuple[int, list[str]]:
        """How many events a conversation has, and what is wrong with them. For operators."""
        return await self._data.read(lambda: check.check_conversation(tenant, conversation), large=True)

    async def strays(self) -> list[str]:
        """What is wrong beside conversations: rows that belong to nothing, what is half-forgotten. For operators."""
        return await self._data.read(check_forgotten.strays, large=True)

    async def problems(self) -> list[str]:
        """What the database's own check of its files finds."""
        return await self._data.problems()

    async def close(self) -> None:
        """Finish what is under way and let go of the database."""
        await self._data.close()

    async def _prepare(self, drafts: Sequence[Draft], key: str, expect: int | None) -> Batch:
        prepare = partial(append.prepare, key=key, expect=expect, max_bytes=self._max_bytes, worth=self._worth)
        heavy = len(drafts) > 100 or sum([append.weight(draft.event) for draft in drafts]) > HEAVY
        return await asyncio.to_thread(prepare, drafts) if heavy else prepare(drafts)


def _drafts(events: Sequence[Event | Draft]) -> list[Draft]:
    return [event if isinstance(event, Draft) else Draft(event=event) for event in events]
