"""Importing: what a file, a zip file or a folder holds goes into a store, piece by piece, in constant memory.

It is read twice. The first time everything is checked, by itself and against what the store has, and nothing is
written: a file with a fault anywhere imports nothing. The second time it is written, a portion in each transaction.
Whoever is killed on the way imports again: what is there is compared and passed over, what is missing is added. So the
same file twice adds nothing, and a later export of a conversation adds what it has grown by since.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import structs

from everthread.core.locks import kept, unlocked
from everthread.core.values import Value
from everthread.errors import AlreadyExists, BadFormat
from everthread.store.conversations import OWN_ID, Owner
from everthread.store.log import Log
from everthread.store.scripts.restore import OwnedDocument, Portion
from everthread.transfer.lines import NOTHING_KEPT, Keeps, Read, Record
from everthread.transfer.read import Format, Reading, read
from everthread.transfer.sources import inputs
from everthread.transfer.whole_store import check_record, write_record

TOGETHER = 32  # conversations that are written at the same time, so that commits are shared
EVENTS = 2_000  # of them at most
TOLD = 1_000  # ids of conversations that are told of; the others are counted
ALIASES = 100_000  # that are remembered, to tell of one that is there twice; the store knows the others

T = TypeVar("T")
OnProgress = Callable[[str, int, int], None]  # what is being done, how many bytes of how many
Adapt = Callable[[Portion], Awaitable[Portion]]


async def as_it_is(portion: Portion) -> Portion:
    return portion


async def unlocked_portion(portion: Portion) -> Portion:
    """What came from elsewhere, without what is for the operators of a service alone to set."""
    conversation = structs.replace(portion.conversation, settings=kept(portion.conversation.settings))
    pieces = [
        (branch, first, [structs.replace(draft, event=unlocked(draft.event)) for draft in drafts])
        for branch, first, drafts in portion.pieces
    ]
    return structs.replace(portion, conversation=conversation, pieces=pieces)


class Imported(msgspec.Struct, Value, frozen=True, kw_only=True):
    """What came of an import: how many conversations and events were added, the ids of the first thousand of these, how
    many conversations were there already, all of them; versions of documents; other records of a whole store; users."""

    added: int = 0
    conversations: list[str] = []
    events: int = 0
    already: int = 0
    documents: int = 0
    records: int = 0
    users: list[str] = []


async def import_path(
    log: Log,
    path: Path,
    owner: Owner,
    *,
    agent: str,
    format: Format | None = None,
    keeps: Keeps = NOTHING_KEPT,
    torn: bool = False,
    tell: OnProgress = lambda *_: None,
    adapt: Adapt = as_it_is,
) -> Imported:
    """Import all that is at a path, as the owner's, or of those whom an Everthread export names (`keeps`).

    BadFormat: something cannot be understood, and nothing is imported. AlreadyExists: something else is there already;
    nothing is imported, unless somebody else wrote it meanwhile. `adapt` changes what is checked and written, and is
    asked for each portion twice.
    """
    how = Reading(owner, agent, format, keeps, await log.imports.key(), torn)
    found = await asyncio.to_thread(inputs, path)
    total = sum(one.size for one in found)
    checks = _Checks(log, adapt, whole=keeps.tenants)
    async for one in _read(path, how, "checking", total, tell):
        await checks.check(one)
    writing = _Writing(log, adapt)
    async for one in _read(path, how, "writing", total, tell):
        await writing.take(one)
    return await writing.finish()


async def _read(path: Path, how: Reading, what: str, total: int, tell: OnProgress) -> AsyncIterator[Read]:
    """What is read in a thread, piece by piece."""
    done = 0

    def read_more(count: int) -> None:
        nonlocal done
        done += count
        tell(what, min(done, total), total)

    pieces = read(path, how, read_more)
    with closing(pieces):
        while batch := await asyncio.to_thread(_some, pieces):
            for one in batch:
                yield one


def _some(pieces: Iterator[Read]) -> list[Read]:
    """A few at once, where they are small: it costs time to change threads."""
    found, events = list[Read](), 0
    for one in pieces:
        found.append(one)
        events += one.events if isinstance(one, Portion) else 1
        if events >= EVENTS or len(found) >= TOGETHER:
            break
    return found


class _Checks:
    """Whether the store has something else where something is to be written."""

    def __init__(self, log: Log, adapt: Adapt, *, whole: bool) -> None:
        self._log, self._adapt, self._whole = log, adapt, whole
        self._aliases: set[tuple[Owner, str]] = set()

    async def check(self, one: Read) -> None:
        if isinstance(one, OwnedDocument):
            await self._log.imports.check_document(one)
        elif isinstance(one, Record):
            if not self._whole:  # or whoever may import could make accounts
                raise BadFormat("it is of a whole store, which operators import with its tenants", where=one.where)
            check_record(one)
        elif not one.source:
            portion = await self._adapt(one)
            await self._log.imports.check(portion)
            self._check_alias(portion)

    def _check_alias(self, portion: Portion) -> None:
        conversation = portion.conversation
        if not conversation.alias or not portion.last:
            return
        if (named := (conversation.owner, conversation.alias)) in self._aliases:
            raise AlreadyExists(OWN_ID, conversation.alias)
        if len(self._aliases) < ALIASES:
            self._aliases.add(named)


class _Writing:
    """Portions on their way into the store: those of a long conversation one by one, short conversations together."""

    def __init__(self, log: Log, adapt: Adapt) -> None:
        self._log, self._adapt = log, adapt
        self._together: list[Portion] = []
        self._known: dict[str, str] = {}  # under which id the history that is being written is known
        self._grown = 0  # events that were added to the conversation that is being written
        self._done = Imported()
        self._users: set[str] = set()
        self._documents: set[tuple[Owner, str]] = set()

    async def take(self, one: Read) -> None:
        if isinstance(one, OwnedDocument):
            await self._flush()
            if not await self._log.documents.get(one.owner, one.document.name, version=one.document.version):
                await self._log.restore([], [one])
                self._documents.add((one.owner, one.document.name))
            self._users.add(one.owner.user)
        elif isinstance(one, Record):
            await self._flush()
            added = await write_record(self._log, one)
            self._done = structs.replace(self._done, records=self._done.records + added)
        else:
            await self._take_portion(await self._placed(await self._adapt(one)))

    async def _placed(self, portion: Portion) -> Portion:
        """A history of another program under the id that it has already, where it was imported before."""
        if not portion.source:
            return portion
        if portion.source not in self._known:
            known = await self._log.imports.known(portion.conversation.owner, portion.source)
            self._known = {portion.source: known or portion.conversation.id}
        conversation = structs.replace(portion.conversation, id=self._known[portion.source])
        return structs.replace(portion, conversation=conversation)

    async def _take_portion(self, portion: Portion) -> None:
        self._users.add(portion.conversation.user)
        if portion.last and not self._grown_before(portion):
            self._together.append(portion)
            if len(self._together) >= TOGETHER or sum(one.events for one in self._together) >= EVENTS:
                await self._flush()
            return
        await self._flush()
        self._grown += await self._log.imports.grow(portion)
        if portion.last:
            self._note(portion, self._grown)
            self._grown = 0

    def _grown_before(self, portion: Portion) -> bool:
        """Whether a portion goes on with a conversation, and does not begin it."""
        return any(first > branch.at + 1 for branch, first, _ in portion.pieces) or self._grown > 0

    async def _flush(self) -> None:
        together, self._together = self._together, []
        is_new = await gathered([self._is_new(one) for one in together])
        added = await gathered([self._log.imports.grow(one) for one in together])
        for portion, count, new in zip(together, added, is_new, strict=True):
            self._note(portion, count, new=new)

    async def _is_new(self, portion: Portion) -> bool:
        conversation = portion.conversation
        return await self._log.mirrors.erased(conversation.tenant, conversation.id) is None

    def _note(self, portion: Portion, events: int, *, new: bool = False) -> None:
        done, id = self._done, portion.conversation.id
        if not events and not new:
            self._done = structs.replace(done, already=done.already + 1)
            return
        told = [*done.conversations, id] if len(done.conversations) < TOLD else done.conversations
        self._done = structs.replace(done, added=done.added + 1, conversations=told, events=done.events + events)

    async def finish(self) -> Imported:
        await self._flush()
        return structs.replace(self._done, documents=len(self._documents), users=sorted(self._users))


async def gathered(work: list[Awaitable[T]]) -> list[T]:
    """All of it; where one fails, the others are done first."""
    done = await asyncio.gather(*work, return_exceptions=True)
    for one in done:
        if isinstance(one, BaseException):
            raise one
    return [one for one in done if not isinstance(one, BaseException)]
