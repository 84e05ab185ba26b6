"""`log.recall`: `search` finds what was said, `index` brings the index up to the log.

What is searched is always up to date: `search` first indexes what is not, and that is little where somebody, such as a
worker, indexes as things are said.
"""

from __future__ import annotations

from collections.abc import Iterable

from everthread.core.branches import Line
from everthread.errors import BadValue
from everthread.store.conversations import Owner, check_name
from everthread.store.engine import Engine
from everthread.store.recall import index, search
from everthread.store.recall.index import Indexed, Unindexed
from everthread.store.recall.search import FoundEvent, Wanted
from everthread.store.times import FOREVER, bounded

AT_ONCE = 20  # events that are indexed on the event loop
CONVERSATIONS = 1_000  # of which is kept what is known to be indexed


class Recall:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # By owner, too: for anybody but its own nothing of a line is indexed.
        self._indexed: dict[tuple[Owner, str], Indexed] = {}

    async def search(
        self,
        owner: Owner,
        query: str,
        *,
        line: Line | None = None,
        conversation: str = "",
        kinds: tuple[str, ...] = (),
        since: int = -FOREVER,
        until: int = FOREVER,
        session: int | None = None,
        limit: int = 5,
        everywhere: bool = False,
    ) -> list[FoundEvent]:
        """What an owner's log has on a query, best first: along a line, in all of a conversation, or everywhere.

        Times are microseconds since 1970: from `since` until just before `until`. Without a user nothing is found.
        """
        if line is not None and line.tenant != owner.tenant:
            raise BadValue("line", line.conversation, "of a conversation of the same tenant")
        wanted = Wanted(kinds=kinds, since=bounded(since), until=bounded(until), session=session)
        if not everywhere:
            where = line.conversation if line else check_name("conversation", conversation)
            wanted = wanted._replace(conversation=where, line=line)
        if not owner.user:
            return []
        await self._catch_up(owner, wanted)
        return await self._engine.read(lambda: search.recall(owner, query, wanted, limit=limit), large=True)

    async def _catch_up(self, owner: Owner, wanted: Wanted) -> None:
        """Index what a search would not find yet."""
        if wanted.line is None:
            await self.index(owner, wanted.conversation)
        else:
            await self._index_along(owner, wanted.line)

    async def index(self, owner: Owner, conversation: str = "") -> int:
        """Bring the index up to the log, for one conversation or all of an owner's; how many events were behind."""
        if not owner.user:
            return 0
        behind = await self._engine.read(lambda: index.unindexed(owner, conversation), large=not conversation)
        await self.index_these(owner, behind)
        return sum(found.events for found in behind)

    async def index_these(self, owner: Owner, behind: Iterable[Unindexed]) -> None:
        """Index what was found to be behind."""
        for found in behind:
            await self._index(owner, found)

    async def _index_along(self, owner: Owner, line: Line) -> None:
        """What is frozen and was found in the index once is not looked for again."""
        indexed = self._indexed.setdefault((owner, line.conversation), {})
        pieces = index.to_look_at(line, indexed)
        behind = await self._engine.read(lambda: index.unindexed_in(line, pieces))
        if indexed and not all(found.begun for found in behind):
            # A branch is new, or the conversation was archived since and nothing of it is in the index any more.
            indexed.clear()
            pieces = index.to_look_at(line, indexed)
            behind = await self._engine.read(lambda: index.unindexed_in(line, pieces))
        for found in behind:
            await self._index(owner, found)
        for piece in pieces[1:]:
            indexed[piece.branch] = max(piece.last, indexed.get(piece.branch, 0))
        if len(self._indexed) > CONVERSATIONS:
            del self._indexed[next(iter(self._indexed))]

    async def _index(self, owner: Owner, found: Unindexed) -> None:
        about = f"{owner.tenant}/{found.conversation}"
        large, more = found.events > AT_ONCE, True
        if not found.begun:
            await self._engine.write(lambda: index.begin(owner, found), about=about, alone=True)
        while more:
            more = await self._engine.write(lambda: index.advance(owner, found), about=about, large=large, alone=True)
