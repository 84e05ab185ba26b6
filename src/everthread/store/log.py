"""The log: everything that has been said, for ever.

This is the contract that all else stands on, the same over every database. Verbs take a `Line` (a branch with
its ancestors, from `line`), and having one is the permission to read it; or a `Conversation` (from `begin`, `find` or
`conversations`, which ask whose it is). That is a value, and anybody can make one: whatever is done with it is done
only if the store knows it as this owner's (`mine`). A `Line` or `Place` that was made by hand is not asked whose it is:
the log is the operator's door, and users come in by `Everthread` and `Talk` (docs/decisions/0028). All raise errors of
one tree (`everthread.errors`), and whatever is raised, the log is as it was (but for NotYetGone, which says what is
left to do).

    whose        begin  find  mine  newest_conversation  conversations  change  totals  user_totals
    branches     line  branches  fork  rewind  switch
    writing      append (key: safe to repeat; expect: compare and set)  kept  restore
    reading      head  tail  before  after  range  turns  sessions  markers  blob  blobs
    windows      window  look  fence  asks  asking
    living       newest  ended  changes  watch  bells  bus
    operators    everything  check  strays  problems  close
    beside it    leases, documents, calibrations, usage: `beside.verbs.Beside`
    finding      recall  index: `recall.verbs.Recalling`
    forgetting   redact  erase  erase_user  forget_document  finish: `erasure.Forgets`

What a database must offer for all this is `engine.Engine`.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from everthread.core.branches import ENDLESS, Current, Line
from everthread.core.deltas import Done
from everthread.core.events import Event
from everthread.core.fence import Fence, fence_of
from everthread.core.importance import Worth, worth
from everthread.core.logged import Logged
from everthread.core.turns import SESSION_GAP, Head, Session, Turn
from everthread.core.window import Lookups
from everthread.errors import UnknownBlob, UnknownConversation
from everthread.store import conversations
from everthread.store.beside import leases, secret
from everthread.store.beside.leases import Lease
from everthread.store.beside.verbs import Beside, audit
from everthread.store.bus.base import Bus
from everthread.store.conversations import BranchTotals, Conversation, Owner, Totals
from everthread.store.engine import Ask, Bells, Engine, Script
from everthread.store.erasure import Forgets
from everthread.store.recall.verbs import Recalling
from everthread.store.scripts import append as appending
from everthread.store.scripts import branch as branching
from everthread.store.scripts import check as checking
from everthread.store.scripts import check_forgotten, read
from everthread.store.scripts import restore as restoring
from everthread.store.scripts import window as windowing
from everthread.store.scripts.append import Basis, Batch, Draft, Place, Tries
from everthread.store.scripts.branch import Act
from everthread.store.scripts.read import Newest
from everthread.store.scripts.restore import Kept, Whole
from everthread.store.scripts.window import Planned, Seen, Sighted

MAX_EVENT_BYTES = 16 * 1024 * 1024
HEAVY = 64 * 1024  # bytes from which counting tokens would be felt on the event loop
LARGE = 1024 * 1024  # and writing
LOOK = 2.0  # seconds after which a follower looks for itself, should a bell not ring

T = TypeVar("T")

Clock = Callable[[], int]


def now() -> int:
    return time.time_ns() // 1000


class Log(Beside, Recalling, Forgets):
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
        self._clock = clock
        self._gap = session_gap
        self._max_bytes = max_event_bytes
        self._worth = importance
        self._lines: branching.Lines = {}
        self._indexed = {}
        self._secret: bytes | None = None
        self._owners = conversations.Owners()

    @property
    def now(self) -> int:
        """Microseconds since 1970, by the clock that dates events."""
        return self._clock()

    @property
    def bus(self) -> Bus:
        """What carries messages to the other processes of this store."""
        return self._engine.bus

    # -- conversations -------------------------------------------------------------------------------------

    async def begin(self, owner: Owner, *, agent: str, unless_one: bool = False, **details: Any) -> Conversation:
        """Begin a conversation; `unless_one` finds the newest with this agent instead, if there is one."""
        new = Conversation(tenant=owner.tenant, id="", user=owner.user, agent=agent, began=self._clock(), **details)
        chance, tried = secrets.randbits(80), list[str]()
        return self._owners.know(
            await self._engine.write(
                lambda: conversations.begin(new, chance=chance, tried=tried, unless_one=unless_one),
                about=f"{owner.tenant}/{owner.user}",
                alone=True,
            )
        )

    async def find(self, owner: Owner, id: str) -> Conversation:
        """The conversation with this id, if it is this owner's."""
        return self._owners.know(await self._engine.read(lambda: conversations.find(owner, id)))

    async def mine(self, conversation: Conversation) -> Conversation:
        """The same, if there is one that is this owner's, with this agent; else UnknownConversation.

        Neither ever changes, so what was found once is not asked for again.
        """
        if not self._owners.knows(conversation):
            owner = conversations.owner_of(conversation.tenant, conversation.user)
            if (await self.find(owner, conversation.id)).agent != conversation.agent:
                raise UnknownConversation(conversation.id)
        return conversation

    async def newest_conversation(self, owner: Owner, agent: str) -> Conversation | None:
        """The newest with this agent, if there is one."""
        found = await self._engine.read(lambda: conversations.newest(owner, agent))
        return self._owners.know(found) if found else None

    async def conversations(
        self, owner: Owner, *, agent: str = "", before: str = conversations.NEWEST, limit: int = 50
    ) -> list[Conversation]:
        """A page of a user's conversations, newest first; the next page is `before` the last one's id."""
        page = await self._engine.read(lambda: conversations.page(owner, agent=agent, before=before, limit=limit))
        return [self._owners.know(found) for found in page]

    async def change(
        self, conversation: Conversation, *, under: Lease | None = None, forgotten: int | None = None, **changes: Any
    ) -> Conversation:
        """Change name, goal or settings. `under`: as for `append`. `forgotten`: how often something of it had been
        redacted when the caller looked; Outrun if more was since."""
        held = leases.under(under) if under else None
        script = partial(conversations.change, conversation, changes, under=held, forgotten=forgotten)
        return await self._engine.write(script, about=conversation.about, alone=True)

    async def branches(self, conversation: Conversation) -> list[BranchTotals]:
        """All branches, each with its sums."""
        await self.mine(conversation)
        return await self._engine.read(lambda: conversations.branch_totals(conversation))

    async def totals(self, conversation: Conversation) -> Totals:
        """Events, messages and tokens of a conversation, each event counted once."""
        return conversations.total(await self.branches(conversation))

    async def user_totals(self, owner: Owner) -> Totals:
        """The same over all of an owner's conversations."""
        return await self._engine.read(lambda: conversations.user_totals(owner), large=True)

    # -- branches ------------------------------------------------------------------------------------------

    async def line(self, conversation: Conversation, branch: str | int | None = None) -> Line:
        """A branch by name or number, or the current one, with its ancestors."""
        await self.mine(conversation)
        return await self._engine.read(
            lambda: branching.line(conversation.tenant, conversation.id, branch, known=self._lines)
        )

    async def way(self, conversation: Conversation, branch: int | None) -> Line | Current:
        """The same, for what finds out by itself which branch is current."""
        return conversation.now if branch is None else await self.line(conversation, branch)

    async def fork(self, line: Line, *, at: int, name: str = "") -> Line:
        """A new branch that shares everything up to event `at` (0: nothing) and goes its own way."""
        act = Act(self._clock(), self._gap, Tries())
        grown = await self._engine.write(
            lambda: branching.fork(line, at, act, name=name),
            about=line.about,
            alone=True,
        )
        return branching.remember(grown, self._lines)

    async def rewind(self, line: Line, *, to: int | str, name: str = "") -> Line:
        """Go on from an earlier seq or mark: a new branch, and the current one from now on."""
        act = Act(self._clock(), self._gap, Tries())
        grown = await self._engine.write(
            lambda: branching.rewind(line, to, act, name=name),
            about=line.about,
            alone=True,
        )
        return branching.remember(grown, self._lines)

    async def switch(self, line: Line) -> Line:
        """Make this branch the current one."""
        act = Act(self._clock(), self._gap, Tries())
        return await self._engine.write(lambda: branching.switch(line, act), about=line.about, alone=True)

    # -- appending -----------------------------------------------------------------------------------------

    async def append(
        self,
        place: Place,
        events: Sequence[Event | Draft],
        *,
        key: str = "",
        expect: int | None = None,
        basis: Basis | None = None,
        under: Lease | None = None,
        gap: Callable[[], Awaitable[int | None]] | None = None,
    ) -> list[Logged]:
        """Append events in one transaction; durable when it returns.

        The same `key` with the same events again gives the first result and writes nothing; with others,
        KeyReused. `expect`: the newest message that the caller has seen; Moved if there is a newer one. `basis`: what
        a marker was made from; Outrun if it is otherwise by now. `under`: the lease that lets the caller write;
        TakenOver if another has it by now. `gap` gives the pause that ends a session, in microseconds, where it is not
        this log's; it is asked only where a message comes after a pause that may be one.
        """
        drafts = [event if isinstance(event, Draft) else Draft(event=event) for event in events]
        batch, now = await self._prepare(drafts, key, expect), self._clock()
        batch.basis, batch.under = basis, under

        async def write(gap: int, *, asks: bool = False) -> list[Logged]:
            return await self._engine.write(
                lambda: appending.append(place, batch, now=now, gap=gap, asks=asks),
                about=place.about,
                large=len(drafts) > 1_000 or batch.size > LARGE,
                alone=basis is not None or bool(batch.quotes),  # what is quoted must still be there when it is written
            )

        try:
            return await write(self._gap, asks=gap is not None)
        except appending.Pausing:
            return await write((await gap() if gap else None) or self._gap)

    async def kept(self, line: Line, key: str) -> list[Logged]:
        """What was appended with this key, on whichever branch; nothing where nothing was."""
        place = Place(line.tenant, line.conversation)
        return await self._engine.read(lambda: appending.kept(place, key))

    async def forgotten(self, line: Line) -> int:
        """How often something of the conversation was redacted."""
        key = {"tenant": line.tenant, "conversation": line.conversation}
        return await self._engine.read(lambda: appending.forgotten(key))

    async def blob(self, line: Line, hash: str) -> bytes:
        """The bytes of an image or file of the conversation."""
        if not re.fullmatch("[0-9a-f]{64}", hash):
            raise UnknownBlob(hash)

        def script() -> Script[bytes | None]:
            values = {"tenant": line.tenant, "conversation": line.conversation, "hash": hash}
            rows = yield Ask("blob", values)
            return bytes(rows[0][0]) if rows else None

        found = await self._engine.read(script)
        if found is None:
            raise UnknownBlob(hash)
        return found

    # -- reading -------------------------------------------------------------------------------------------

    async def head(self, line: Line, *, at: int | None = None) -> Head:
        """All that is known of a line after its newest event, or after event `at`."""
        return await self._engine.read(lambda: read.head(line, at=at))

    async def tail(self, line: Line, *, turns: int) -> list[Logged]:
        """The events of the newest turns, whole, oldest first."""
        return await self._engine.read(lambda: read.tail(line, turns=turns))

    async def before(self, line: Line, seq: int = ENDLESS, *, limit: int = 50, messages: bool = False) -> list[Logged]:
        """The page of events that ends just before `seq`, oldest first."""
        return await self._engine.read(
            lambda: read.newest(line, limit=limit, last=min(seq, ENDLESS) - 1, messages=messages),
            large=limit > 1_000,
        )

    async def after(self, line: Line, seq: int = 0, *, limit: int = 50, messages: bool = False) -> list[Logged]:
        """The page of events that begins just after `seq`, oldest first."""
        return await self._engine.read(
            lambda: read.onward(line, first=min(seq, ENDLESS - 1) + 1, limit=limit, messages=messages),
            large=limit > 1_000,
        )

    async def range(self, line: Line, first: int, last: int) -> list[Logged]:
        """The events from seq `first` to seq `last`."""
        return await self._engine.read(
            lambda: read.onward(line, first=min(first, ENDLESS), last=min(last, ENDLESS)), large=last - first > 1_000
        )

    async def changes(self, about: str) -> AsyncIterator[None]:
        """Yields at once, then whenever something may have been written about it, by any process."""
        await self._engine.watch()
        with self._engine.bells.listen(about) as bell:
            while True:
                bell.clear()
                yield
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK):
                        await bell.wait()

    @property
    def bells(self) -> Bells:
        """Ring for what is written: `watch` makes them ring for other processes' writes, too."""
        return self._engine.bells

    async def watch(self) -> None:
        """From now on ring the bells for what other processes write."""
        await self._engine.watch()

    async def newest(self, line: Line, *, after: int | None = None) -> Newest:
        """A page of the events after seq `after` (None: only where the line ends), and the reply that runs."""
        return await self._engine.read(lambda: read.news(line, after))

    async def ended(self, line: Line, *, at: int | None = None) -> Done | None:
        """How the newest turn, or that of event `at`, has ended; None where it is open, or no agent ran it."""
        return await self._engine.read(lambda: read.ended(line, at))

    async def turns(self, line: Line, *, limit: int = 50, last: int = ENDLESS) -> list[Turn]:
        """The newest turns that begin at or before seq `last`, oldest first."""
        return await self._engine.read(lambda: read.turns(line, limit=limit, last=last))

    async def sessions(self, line: Line, *, limit: int = 50) -> list[Session]:
        """The newest sessions, oldest first."""
        return await self._engine.read(lambda: read.sessions(line, limit=limit))

    async def window(
        self, way: Line | Current, *, at: int | None, plan: Callable[[Sighted], Planned], notes: str = ""
    ) -> Seen:
        """The turns that `plan` chooses, as they stood before event `at`, and what memory has of the rest. `notes`: a
        document of the user's that is read along."""
        asking = windowing.Asking(at, notes, self._lines)
        return await self._engine.read(lambda: windowing.window(way, asking, plan))

    async def look(
        self, way: Line | Current, *, at: int | None, ask: Callable[[Sighted], Lookups[T]], nothing: T, notes: str = ""
    ) -> T:
        """What a question in the form of `core.window` comes to; `nothing` where no turns are."""
        asking = windowing.Asking(at, notes, self._lines)
        return await self._engine.read(lambda: windowing.look(way, asking, ask, nothing), large=True)

    async def ask(self, script: Callable[[], Script[T]]) -> T:
        """Run a script that only asks: what belongs together is read together."""
        return await self._engine.read(script)

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
        return await self._engine.read(lambda: read.asks(line))

    async def asking(self, line: Line, *, after: int) -> list[Logged]:
        """The tool calls after seq `after` that made their turn wait, whether or not they still do."""
        return await self._engine.read(lambda: read.asking(line, after=after))

    async def markers(self, line: Line, kind: str, *, last: int = ENDLESS, limit: int = 50) -> list[Logged]:
        """The markers of a kind up to seq `last`, newest first."""
        return await self._engine.read(lambda: read.newest_markers(line, kind, last=last, limit=limit))

    # -- moving whole conversations, checking, closing -----------------------------------------------------

    async def restore(self, wholes: Sequence[Whole], documents: Sequence[Kept] = ()) -> None:
        """Write conversations and documents that were read elsewhere, with the ids and times they had: all or
        none. AlreadyExists: one of them is there and is another, or was erased."""
        batches = [[await self._prepare(drafts, "", None) for _, drafts in whole.branches] for whole in wholes]
        now = self._clock()
        await self._engine.write(
            lambda: restoring.restore(wholes, batches, documents, now=now, gap=self._gap),
            about=wholes[0].conversation.about if len(wholes) == 1 else "import",
            large=True,
        )

    async def blobs(self, line: Line) -> list[str]:
        """The hashes of all images and files of the conversation."""

        def script() -> Script[list[str]]:
            rows = yield Ask("blobs", {"tenant": line.tenant, "conversation": line.conversation})
            return [row[0] for row in rows]

        return await self._engine.read(script)

    async def everything(self) -> list[tuple[str, str]]:
        """Tenant and id of every conversation. For operators: crosses every wall, and is logged."""

        def script() -> Script[list[tuple[str, str]]]:
            rows = yield Ask("all_conversations", {})
            return [(row[0], row[1]) for row in rows]

        audit.info("an operator listed all conversations")
        return await self._engine.read(script, large=True)

    async def check(self, tenant: str, conversation: str) -> tuple[int, list[str]]:
        """How many events a conversation has, and what is wrong with them. For operators."""
        return await self._engine.read(lambda: checking.check_conversation(tenant, conversation), large=True)

    async def strays(self) -> list[str]:
        """What is wrong beside conversations: rows that belong to nothing, what is half-forgotten. For operators."""
        return await self._engine.read(check_forgotten.strays, large=True)

    async def problems(self) -> list[str]:
        """What the database's own check of its files finds."""
        return await self._engine.problems()

    async def close(self) -> None:
        """Finish what is under way and let go of the database."""
        await self._engine.close()

    async def _prepare(self, drafts: Sequence[Draft], key: str, expect: int | None) -> Batch:
        prepare = partial(appending.prepare, key=key, expect=expect, max_bytes=self._max_bytes, worth=self._worth)
        heavy = len(drafts) > 100 or sum([appending.weight(draft.event) for draft in drafts]) > HEAVY
        return await asyncio.to_thread(prepare, drafts) if heavy else prepare(drafts)
