"""The job that keeps a mirror: it follows the log, beside whatever else a process does, and never stands in its way.

Of the processes that are told to mirror into a folder one does, which holds the folder's lock; the others wait for it
to end. It hears what is written by the bells, looks by itself now and then, and once at its start at every
conversation. What was forgotten is written down for the mirror in the transaction that forgets it, so it follows that
also after a crash.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path

import msgspec

from everthread.core.ids import is_id
from everthread.core.values import Value
from everthread.errors import EverthreadError
from everthread.store.conversations import Conversation, Owner
from everthread.store.log import Log
from everthread.store.reach import as_operator
from everthread.store.verbs.forgetting import Forgotten
from everthread.store.verbs.mirrors import Owed
from everthread.transfer.mirrored import MirrorBusy, MirrorFolder, safe_name

TAKE = 2.0  # seconds between two tries to take a folder that another process keeps
MOMENT = 0.1  # seconds in which more may come, before what came is written
LOOK = 30.0  # seconds between two looks for what no bell has told of
ALL = 600.0  # seconds between two looks at every conversation
FAULT = 30.0  # seconds between two looks while something is wrong
WAIT = 5.0  # seconds that somebody who forgets waits for the process that keeps the mirror
MARGIN = 120_000_000  # microseconds: how far before the last look something new may be dated
TRIES = 10  # rounds of following what was forgotten meanwhile

_log = logging.getLogger("everthread.mirror")


class MirrorState(msgspec.Struct, Value, frozen=True, kw_only=True):
    """A mirror: its folder, how many conversations it has, of these how many the store never had, and of how many
    something was forgotten that it has still to follow."""

    folder: str
    conversations: int
    unknown: int
    owed: int


class MirrorWorker:
    def __init__(self, log: Log, folder: Path) -> None:
        self._store, self._mirror = log, MirrorFolder(folder)
        self._dirty: dict[str, None] = {}  # what was written about, in the order of the bells
        self._bell = asyncio.Event()
        self._busy = asyncio.Lock()
        self._serving: asyncio.Task[None] | None = None
        self._hearing = ExitStack()
        self._looked = self._all = 0  # when we looked last for what is new, and at everything
        self._failed: set[str] = set()
        self._resting: dict[str, datetime] = {}  # archived conversations that need no look, and since when

    # -- from the outside --------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Mirror from now on, until `close`."""
        self._hearing.enter_context(self._store.bells.hear_all(self._hear))
        with as_operator():
            self._serving = asyncio.create_task(self._serve())
        self._store.forgetting.followers.append(self.settle)

    async def sync(self, tell: Callable[[int], None] = lambda _: None) -> int:
        """Bring every file up to date, once. How many lines were added. MirrorBusy where another process keeps it."""
        with as_operator():
            if not self._mirror.is_open:
                await self._open()
            async with self._busy:
                return await self._look_at_all(tell)

    async def settle(self, _: Forgotten = ()) -> None:
        """Follow what was forgotten, or wait a while for the process that does. What is left is owed: `doctor` and
        `everthread mirror status` tell of it."""
        with as_operator():
            if self._mirror.is_open:
                await self._guarded(self._pay)
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT):
                    while await self._owed_here():  # noqa: ASYNC110 -- another process does it
                        await asyncio.sleep(0.1)
                    return
        _log.warning("What was forgotten is still in the mirror: the process that keeps it has not followed yet")

    async def _owed_here(self) -> bool:
        return any(one.folder == str(self._mirror.folder) for one in await self._store.mirrors.owed())

    async def status(self) -> MirrorState:
        """How the mirror stands, whoever keeps it."""
        with as_operator():
            unknown = total = 0
            tenants = {safe_name(one.tenant): one.tenant for one in await self._store.mirrors.everybody()}
            for path, id in self._mirror.ids():
                total += 1
                unknown += not await self._is_known(tenants.get(path.parent.parent.name), id)
            owed = [one for one in await self._store.mirrors.owed() if one.folder == str(self._mirror.folder)]
        return MirrorState(folder=str(self._mirror.folder), conversations=total, unknown=unknown, owed=len(owed))

    async def _is_known(self, tenant: str | None, id: str) -> bool:
        return tenant is not None and await self._store.mirrors.erased(tenant, id) is not None

    async def close(self) -> None:
        """Write what is left to write, and let go of the folder."""
        if self._serving:
            self._store.forgetting.followers.remove(self.settle)
            self._hearing.close()
            self._serving.cancel()
            await asyncio.wait({self._serving})
            with as_operator():  # a program may end before it has begun to mirror
                if self._mirror.is_open or await self._guarded(self._open):
                    await self._guarded(self._follow_dirty)
        self._mirror.close()

    # -- when --------------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        await self._store.watch()
        while not await self._guarded(self._open):  # noqa: ASYNC110 -- another process has it
            await asyncio.sleep(TAKE)
        while True:
            seconds = LOOK if await self._guarded(self._look) else FAULT
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._bell.wait()
                    await asyncio.sleep(MOMENT)
            self._bell.clear()

    def _hear(self, about: str) -> None:
        self._dirty[about] = None
        self._bell.set()

    async def _guarded(self, work: Callable[[], object]) -> bool:
        """Whether it could be done. Nothing that goes wrong with a mirror goes wrong with anything else."""
        try:
            async with self._busy:
                await work()  # type: ignore[misc]
        except MirrorBusy:
            return False
        except (EverthreadError, OSError) as problem:
            _log.warning("The mirror %s is behind: %s", self._mirror.folder, problem)
            return False
        except Exception:  # noqa: BLE001 -- whatever it was, the mirror is tried again
            _log.exception("The mirror %s is behind", self._mirror.folder)
            return False
        return True

    async def _open(self) -> None:
        self._mirror.open()
        try:
            await self._store.mirrors.know(self._mirror.mark, str(self._mirror.folder))
        except BaseException:
            self._mirror.close()
            raise

    # -- what --------------------------------------------------------------------------------------------------

    async def _look_at_all(self, tell: Callable[[int], None]) -> int:
        await self._pay()
        added = 0
        async for conversation in self._store.mirrors.conversations():
            added += await self._follow(conversation)
            tell(1)
        for owner in await self._store.mirrors.everybody():
            added += await self._mirror.follow_documents(self._store, owner)
        for tenant, id in await self._erased():
            self._mirror.remove(tenant, id)
        return added

    async def _erased(self) -> list[tuple[str, str]]:
        """Conversations that were erased and still have a file: of a folder that was not known when it happened."""
        ids = {id for _, id in self._mirror.ids()}
        rows = await self._store.imports.records("erased") if ids else []
        return [(row["tenant"], row["conversation"]) for row in rows if row["conversation"] in ids]

    async def _look(self) -> None:
        if not self._all or self._store.now - self._all > ALL * 1e6:
            now = self._store.now
            await self._look_at_all(lambda _: None)
            self._all = self._looked = now
        await self._follow_dirty()
        await self._pay()

    async def _follow_dirty(self) -> None:
        dirty, self._dirty = self._dirty, {}
        try:
            await self._follow_these(dirty)
        except BaseException:
            self._dirty = {**dirty, **self._dirty, "": None}  # to be done by whoever comes next
            raise

    async def _follow_these(self, dirty: dict[str, None]) -> None:
        since, now = self._looked - MARGIN, self._store.now
        if not dirty or "" in dirty:  # nobody says what: look for what is new
            owners = set[Owner]()
            async for conversation in self._store.mirrors.active_since(since):
                await self._follow(conversation)
                owners.add(conversation.owner)
            for owner in owners:
                await self._mirror.follow_documents(self._store, owner)
            self._looked = now
        for about in dirty:
            await self._follow_about(about)

    async def _follow_about(self, about: str) -> None:
        """Follow what a bell has told of: a conversation, or a user, whose documents may have changed."""
        tenant, _, name = about.removeprefix("documents/").rpartition("/")
        conversation = await self._store.mirrors.conversation(tenant, name) if is_id(name) else None
        if conversation is not None:
            await self._follow(conversation)
        elif tenant:
            await self._mirror.follow_documents(self._store, Owner(tenant, name))

    async def _follow(self, conversation: Conversation, *, anew: bool = False) -> int:
        """Bring one up to date; where that fails, the others are."""
        if conversation.erased is not None:
            self._mirror.remove(conversation.tenant, conversation.id)
            return 0
        if not anew and await self._rests(conversation):  # to follow it would restore it
            return 0
        try:
            kept = await self._mirror.follow(self._store, conversation, anew=anew)
        except (EverthreadError, OSError) as problem:
            if anew:
                raise
            if conversation.about not in self._failed:
                _log.warning("The mirror of conversation %s is behind: %s", conversation.id, problem)
            self._failed.add(conversation.about)
            return 0
        self._failed.discard(conversation.about)
        return kept.lines

    async def _rests(self, conversation: Conversation) -> bool:
        """Whether a conversation is archived and its file has all that it had then, or there is none: a mirror that was
        begun later restores nothing."""
        if conversation.archived is None or self._resting.get(conversation.about) == conversation.archived:
            return conversation.archived is not None
        archive = await self._store.archives.of(conversation.tenant, conversation.id)
        written = await asyncio.to_thread(self._mirror.events_of, conversation)
        if archive is None or (written is not None and written < archive.events):
            return False
        self._resting[conversation.about] = conversation.archived
        return True

    async def _pay(self) -> None:
        """Follow what was forgotten, and strike it out."""
        for _ in range(TRIES):
            owed = await self._store.mirrors.owed(self._mirror.mark)
            if not owed:
                return
            for tenant, id in dict.fromkeys((one.tenant, one.conversation) for one in owed):
                await self._forget(tenant, id, [one for one in owed if (one.tenant, one.conversation) == (tenant, id)])

    async def _forget(self, tenant: str, id: str, owed: list[Owed]) -> None:
        if not id:
            for owner in {*self._mirror.documented(tenant)}:
                await self._mirror.follow_documents(self._store, owner)
        else:
            conversation = await self._store.mirrors.conversation(tenant, id)
            if conversation is None:
                self._mirror.remove(tenant, id)
            else:
                await self._follow(conversation, anew=True)
        await self._store.mirrors.pay(*owed)
