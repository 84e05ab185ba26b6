"""`log.archives`: the catalogue, and the transactions by which a conversation goes into a file and comes back.

Files and places are not known here; `everthread.archive` has them. What crosses walls is for workers and operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from everthread.language.words import query_of
from everthread.store.beside import archives
from everthread.store.beside.archives import FIRST, Archive, Idle
from everthread.store.conversations import MINUTE, Owner, Owners
from everthread.store.engine import Engine
from everthread.store.recall.index import hashing
from everthread.store.scripts import rows
from everthread.store.scripts.rows import Rows

MOST = 1_000


class Archives:
    def __init__(self, engine: Engine, clock: Callable[[], int], owners: Owners) -> None:
        self._engine, self._clock, self._owners = engine, clock, owners

    # -- for users ---------------------------------------------------------------------------------------------

    async def of(self, tenant: str, conversation: str) -> Archive | None:
        """The archive that holds a conversation, whoever's it is; None where none does."""
        found = await self._engine.read(lambda: archives.of(tenant, conversation))
        return next((one for one in found if one.state == "archived"), None)

    async def page(self, owner: Owner, *, offset: int = 0, limit: int = 50) -> list[Archive]:
        """A page of an owner's archives, newest first. Without a user there are none."""
        if not owner.user:
            return []
        return await self._engine.read(lambda: archives.page(owner, offset=offset, limit=limit))

    async def search(self, owner: Owner, query: str, *, limit: int) -> list[tuple[Archive, float]]:
        """An owner's archives that have words of a query, with the share that they have; those with most first."""
        asked, number = query_of(query), hashing(owner)
        words = {number(word) for word in (*asked.words, *asked.days)}
        if not owner.user or not words:
            return []
        found = await self._engine.read(lambda: archives.with_words(owner, words, MOST))
        best = sorted(found, key=lambda one: (found[one], one[1]), reverse=True)[:limit]
        held = [(await self.of(owner.tenant, conversation), found[conversation, name]) for conversation, name in best]
        return [(one, count / len(words)) for one, count in held if one]

    # -- for the archiver --------------------------------------------------------------------------------------

    async def idle(self, *, seconds: float, after: Idle = FIRST, limit: int = 100) -> list[Idle]:
        """Conversations in which nothing has happened for so long, the longest idle first."""
        before = (self._clock() - int(seconds * 1_000_000)) // MINUTE
        return await self._engine.read(lambda: archives.idle(before, after, limit))

    async def kept_from(self, tenant: str, conversation: str) -> list[str]:
        """Why a conversation cannot be archived now."""
        key = {"tenant": tenant, "conversation": conversation}
        return await self._engine.read(lambda: archives.kept_from(key))

    async def rows(self, tenant: str, conversation: str) -> Rows:
        """All rows of a conversation."""
        key = {"tenant": tenant, "conversation": conversation}
        return await self._engine.read(lambda: rows.read(key), large=True)

    async def begin(self, new: Archive) -> None:
        await self._engine.write(lambda: archives.begin(new), about=new.about, alone=True)

    async def finish(self, done: Archive, digest: bytes, words: Iterable[int]) -> None:
        """Remove the live rows of a conversation whose archive was read back."""
        script = partial(archives.finish, done, digest, tuple(words), now=done.made)
        await self._engine.write(script, about=done.about, large=True, alone=True)

    async def restore(self, one: Archive, found: Rows) -> bool:
        return await self._engine.write(lambda: archives.restore(one, found), about=one.about, large=True, alone=True)

    async def owe(self, one: Archive) -> bool:
        return await self._engine.write(lambda: archives.owe(one), about=one.about, alone=True)

    async def reseal(self, new: Archive, *, was: Archive) -> bool:
        return await self._engine.write(lambda: archives.reseal(new, was), about=new.about, alone=True)

    async def drop(self, one: Archive) -> None:
        await self._engine.write(lambda: archives.drop(one), about=one.about, alone=True)

    async def unfinished(self) -> list[Archive]:
        """Those that are being written or are to be deleted. Crosses every wall."""
        return await self._engine.read(lambda: archives.unfinished(MOST))

    async def all(self, after: Archive | None = None, *, limit: int = 100) -> list[Archive]:
        """A page of all there are. For operators: crosses every wall."""
        return await self._engine.read(lambda: archives.every(after, limit))
