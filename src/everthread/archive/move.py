"""Moving conversations out of the database and back.

Out: a row of the catalogue says that a file is being written; the file is put in its place and read back; then one
transaction compares what was read with the live rows, removes these, and says that the file is the conversation now.
Back: the file is read and checked as a whole; then one transaction writes the rows and says that the file is owed, that
is, to be deleted; then it is. So at every moment the conversation is whole in one of both, and whatever a crash left is
known to the catalogue: `finish` deletes files that were not finished and those that are owed. One who fails keeps no
other back.

The lease of a conversation's archiving keeps two archivers from doing the same work; that nothing is lost or twice
rests on the two transactions alone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from everthread.archive import keys
from everthread.archive.catalogue import ArchiveProblem, ArchiveProgress
from everthread.archive.pack import hash_of, pack, unpack
from everthread.archive.places import Place, absolute, place_of
from everthread.errors import (
    ArchiveError,
    DamagedArchive,
    EverthreadError,
    NoPlace,
    NotArchivable,
    NotReached,
    Outrun,
    StillVersioned,
    UnknownConversation,
)
from everthread.store.audit import audit
from everthread.store.beside import archives
from everthread.store.beside.archives import FIRST, Archive, Idle
from everthread.store.beside.holders import holder, is_dead
from everthread.store.conversations import Conversation, Owner
from everthread.store.log import Log
from everthread.store.reach import as_operator, within
from everthread.store.recall.index import hashing
from everthread.store.scripts.rows import Rows, digest
from everthread.store.verbs.forgetting import Forgotten

DAY = 86_400.0  # seconds
LEASE = 600.0  # seconds for which a conversation is one archiver's
TRIES = 3  # times that something may be written while it is archived
PAGE = 100

_log = logging.getLogger("everthread.archive")


class Rules:
    """Where archives are put and how. `place`: as the setting names it, empty for the folder beside the data, which is
    `beside`. `encrypted`: whether files that are written from now on are."""

    def __init__(self, *, place: str = "", beside: str = "", encrypted: bool = False) -> None:
        self.place, self.beside, self.encrypted = absolute(place), beside, encrypted


class Archiver:
    def __init__(self, log: Log, rules: Callable[[], Rules], *, environ: Mapping[str, str] = os.environ) -> None:
        """`rules`: asked whenever something is moved. `environ`: where the master keys are looked up."""
        self._store, self._catalogue, self._rules, self._environ = log, log.archives, rules, environ
        self._places: dict[str, Place] = {}

    # -- out -------------------------------------------------------------------------------------------------

    async def archive(self, conversation: Conversation) -> Archive:
        """Move a conversation into a file. NotArchivable: something of it is under way."""
        tenant, id = conversation.tenant, conversation.id
        async with self._alone(tenant, id) as taken:
            if not taken:
                raise NotArchivable(id, "another process is archiving it")
            if held := await self._catalogue.of(tenant, id):
                return held
            if why := await self._catalogue.kept_from(tenant, id):
                raise NotArchivable(id, why[0])
            for _ in range(TRIES):
                try:
                    return await self._move_out(tenant, id, conversation.user)
                except Outrun:
                    _log.info("Conversation %s was written while it was archived: once more", id)
        raise NotArchivable(id, "it is being written")

    async def archive_idle(self, *, days: float, tell: Callable[[ArchiveProgress], None] | None = None) -> int:
        """Archive all conversations that have been idle for so long. How many. For workers and operators: of every
        tenant and user, which is logged."""
        audit.info("the archiver looks for idle conversations of all users")
        done, failed, last = 0, 0, FIRST
        with as_operator():
            while page := await self._catalogue.idle(seconds=days * DAY, after=last, limit=PAGE):
                for one in page:
                    problem = await self._try(one)
                    done, failed = done + (not problem), failed + bool(problem)
                    if tell:
                        shown = {"conversation": one.conversation, "archived": done, "failed": failed}
                        tell(ArchiveProgress(**shown, problem=problem))  # type: ignore[arg-type]
                last = page[-1]
        _log.log(logging.INFO if done or failed else logging.DEBUG, "archived %s, not archived %s", done, failed)
        return done

    async def _try(self, one: Idle) -> str:
        """Why a conversation was not archived; empty where it was."""
        with within(one.tenant):
            try:
                await self.archive(await self._store.conversations.find(one.owner, one.conversation))
            except NotArchivable as kept:  # which is no fault: its turn comes
                return kept.why
            except EverthreadError as problem:
                _log.warning("Conversation %s was not archived: %s", one.conversation, problem)
                return str(problem)
            except Exception as problem:  # noqa: BLE001 -- whatever it was, the others are archived
                _log.exception("Conversation %s was not archived", one.conversation)
                return type(problem).__name__
        return ""

    async def _move_out(self, tenant: str, conversation: str, user: str) -> Archive:
        rules = self._rules()
        name, now = f"{conversation}-{secrets.token_hex(8)}", self._store.now
        new = Archive(tenant, conversation, name, user, "writing", rules.place, made=now)
        place, key = self._place(rules.place), None
        if rules.encrypted:
            new, key = await asyncio.to_thread(keys.made_for, new, self._environ)
        await self._catalogue.begin(new)
        try:
            rows = await self._catalogue.rows(tenant, conversation)
            if not rows["conversations"]:
                raise UnknownConversation(conversation)
            data = await asyncio.to_thread(pack, new, rows, key)
            versioned = await place.put(name, data)
            found, back = await self._read_back(new, place, key)
            done = await asyncio.to_thread(archives.described, new, found)
            done = done._replace(hash=hash_of(back), size=len(back), versioned=int(versioned and not key))
            words = await asyncio.to_thread(archives.telling_words, found, hashing(Owner(tenant, user)))
            await self._catalogue.finish(done, await asyncio.to_thread(digest, found), words)
        except Exception:
            await self._discard(new)
            raise
        if done.versioned:
            _log.warning("%s keeps versions: what is erased stays in them unless archives are encrypted", place.shown)
        audit.info("archived conversation %s", conversation)
        return done._replace(state="archived")

    async def _read_back(self, new: Archive, place: Place, key: keys.DataKey | None) -> tuple[Rows, bytes]:
        data = await place.get(new.archive)
        return await asyncio.to_thread(unpack, new, data, key), data

    async def _discard(self, new: Archive) -> None:
        """The file that was not finished is not wanted. If that cannot be said now, the next run finds it."""
        try:
            if await self._catalogue.owe(new):
                await self._delete(new)
        except EverthreadError as problem:
            _log.warning("The unfinished archive %s is left for the next run: %s", new.archive, problem)

    # -- back ------------------------------------------------------------------------------------------------

    async def restore(self, tenant: str, conversation: str) -> None:
        """Bring a conversation back, if it is archived. ArchiveError: it cannot be, and stays as it is."""
        for _ in range(TRIES):
            one = await self._catalogue.of(tenant, conversation)
            if one is None:
                return
            try:
                rows = await self.opened(one)
            except ArchiveError:
                if await self._catalogue.of(tenant, conversation) == one:
                    raise
                continue  # somebody was faster, and the file is gone
            if await self._catalogue.restore(one, rows):
                audit.info("restored conversation %s", conversation)
            await self._delete_later(one)
            return

    async def opened(self, one: Archive) -> Rows:
        """All rows of an archive, checked. For operators: it does not ask whose it is."""
        data = await self._place(one.place).get(one.archive)
        if hash_of(data) != one.hash:
            await asyncio.to_thread(self._unpacked, one, data)  # which says what is wrong, in most cases
            raise DamagedArchive(one.archive, "it is not the file that was written")
        return await asyncio.to_thread(self._unpacked, one, data)

    def _unpacked(self, one: Archive, data: bytes) -> Rows:
        return unpack(one, data, keys.key_of(one, self._environ))

    # -- what is left ----------------------------------------------------------------------------------------

    async def finish(self) -> None:
        """Finish what a crash left, and what could not be reached before. For workers."""
        with as_operator():
            for one in await self._catalogue.unfinished():
                with within(one.tenant):
                    if one.state == "writing":
                        async with self._alone(one.tenant, one.conversation) as taken:
                            if not taken or not await self._catalogue.owe(one):
                                continue
                    await self._delete_later(one)

    async def delete_owed(self, forgotten: Forgotten) -> None:
        """Delete the files of conversations that were erased, or are back. NotReached: some of what is forgotten now
        could not be; of others' nobody here is told."""
        left, why, versioned = 0, "", ""
        for one in await self._catalogue.unfinished():
            if one.state != "owed":
                continue
            if (one.tenant, one.conversation) not in forgotten:
                await self._delete_later(one)
                continue
            try:
                await self._delete_alone(one)
                versioned = self._place(one.place).shown if one.versioned else versioned
            except EverthreadError as problem:
                left, why = left + 1, str(problem)
        if left:
            raise NotReached(left, why)
        if versioned:
            raise StillVersioned(versioned)

    async def _delete(self, one: Archive) -> None:
        """The file first: while it is there, its row is."""
        await self._place(one.place).delete(one.archive)
        await self._catalogue.drop(one)

    async def _delete_alone(self, one: Archive) -> None:
        """Whoever writes the file at this moment may put it there afterwards: then its row stays for the next run."""
        async with self._alone(one.tenant, one.conversation) as taken:
            if taken:
                await self._delete(one)
            else:
                await self._place(one.place).delete(one.archive)

    async def _delete_later(self, one: Archive) -> None:
        try:
            await self._delete(one)
        except EverthreadError as problem:
            _log.warning("The file of the archive %s is still to be deleted: %s", one.archive, problem)

    # -- checking --------------------------------------------------------------------------------------------

    async def verify(self, tell: Callable[[Archive, str], None] = lambda *_: None) -> list[ArchiveProblem]:
        """Read and check every archive, and look for files that belong to nothing. For operators: of every tenant and
        user, which is logged. `tell` hears of each archive and what is wrong with it."""
        audit.info("an operator verifies all archives")
        problems, known, last = list[ArchiveProblem](), set[str](), None
        with as_operator():
            while page := await self._catalogue.all(last):
                for one in page:
                    known.add(one.archive)
                    wrong = await self._wrong(one)
                    tell(one, wrong)
                    if wrong:
                        of = one.conversation
                        problems.append(ArchiveProblem(archive=one.archive, conversation=of, problem=wrong))
                last = page[-1]
        return problems + await self._strays(known)

    async def _wrong(self, one: Archive) -> str:
        if one.state == "writing":
            return ""
        if one.state == "owed":
            return "its file is still to be deleted"
        try:
            await self.opened(one)
        except EverthreadError as problem:
            return str(problem)
        return ""

    async def _strays(self, known: set[str]) -> list[ArchiveProblem]:
        """Files in the place of today that the catalogue does not know."""
        try:
            names = await self._place(self._rules().place).names()
        except NoPlace:
            return []
        except EverthreadError as problem:
            return [ArchiveProblem(archive="", conversation="", problem=str(problem))]
        return [
            ArchiveProblem(archive=name, conversation="", problem="it belongs to no conversation of this store")
            for name in names
            if name not in known
        ]

    # -- places and leases -----------------------------------------------------------------------------------

    def _place(self, named: str) -> Place:
        """The place of an archive, as its row names it: the folder beside the data moves with the data."""
        written = named or self._rules().beside
        if not written:
            raise NoPlace
        if written not in self._places:
            self._places[written] = place_of(written)
        return self._places[written]

    @asynccontextmanager
    async def _alone(self, tenant: str, conversation: str) -> AsyncIterator[bool]:
        """Whether this is the only one that archives a conversation now."""
        leases, name, me = self._store.leases, f"archive/{conversation}", holder()
        take = partial(leases.take, tenant, name, holder=me, seconds=LEASE)
        has = await take()
        if has != me and is_dead(has):
            has = await take(over=has)
        try:
            yield has == me
        finally:
            if has == me:
                await leases.release(tenant, name, holder=me)
