"""What was said: pages, turns, sessions, totals, images and files, and what is found by its words."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from datetime import datetime
from typing import Any

from everthread import arguments
from everthread.core.branches import ENDLESS
from everthread.core.deltas import Delta
from everthread.core.events import MESSAGES, media_of
from everthread.core.logged import Logged, readable
from everthread.core.metadata import check_metadata, matches
from everthread.core.partial import place_of
from everthread.core.told import Told, items
from everthread.core.turns import Session, Turn
from everthread.store.beside.usage import By, UsageTotal
from everthread.store.conversations import Owner, Totals
from everthread.store.engine import Row
from everthread.store.log import Log
from everthread.store.recall.hits import TOKENS, Branches, Hit, Scope, recall
from everthread.store.times import FOREVER
from everthread.talk.bound import Bound
from everthread.transfer import export_lines

LOOKED = 500  # messages that are looked at together where metadata is asked for
AT_ONCE = 1_000  # events of a page that is read with one question
WITHIN = 100_000  # events among which they are looked for, unless told otherwise: half a second at most


class Reading(Bound):
    async def tail(self, *, turns: int = 20, messages: bool = False) -> list[Logged]:
        """The events of the newest turns, whole, or only the messages. Reads what was said, across a clear as well."""
        found = await self._log.tail(await self.line(), turns=arguments.count("turns", turns))
        return [one for one in found if one.kind in MESSAGES] if messages else found

    def export(self) -> AsyncIterator[bytes]:
        """The conversation as JSON Lines, with all its branches, images and files, one after another. Outdated:
        something was redacted meanwhile that may stand in what came: begin anew."""
        return export_lines(self._log, self.conversation)

    async def before(
        self,
        seq: int = ENDLESS,
        *,
        limit: int = 50,
        messages: bool = False,
        metadata: dict[str, Any] | None = None,
        within: int = WITHIN,
    ) -> list[Logged]:
        """The page of events that ends just before `seq`; the newest page where none is given.

        `metadata`: of the messages that have these values under these names. They are not indexed: the `within` events
        before `seq` are looked through. Where that gives less than a full page, go on from `seq - within`.
        """
        line, seq, limit = await self.line(), arguments.seq("seq", seq), arguments.count("limit", limit)
        if metadata is None:
            return await self._log.before(line, seq, limit=limit, messages=messages)
        wanted, found, within = check_metadata(metadata), list[Logged](), arguments.count("within", within)
        first = min(seq, (await self._log.head(line)).seq + 1) - within
        while len(found) < limit and (page := await self._log.before(line, seq, limit=LOOKED, messages=True)):
            found, seq = [*_having(wanted, page), *found], page[0].seq
            if seq <= first:
                break
        return [one for one in found if one.seq >= first][-limit:]

    async def after(
        self,
        seq: int = 0,
        *,
        limit: int = 50,
        messages: bool = False,
        metadata: dict[str, Any] | None = None,
        within: int = WITHIN,
    ) -> list[Logged]:
        """The page of events that begins just after `seq`; the first page where none is given. `metadata`: as for
        `before`, among the `within` events after `seq`."""
        line, seq, limit = await self.line(), arguments.seq("seq", seq), arguments.count("limit", limit)
        if metadata is None:
            return await self._log.after(line, seq, limit=limit, messages=messages)
        wanted, found, last = check_metadata(metadata), list[Logged](), seq + arguments.count("within", within)
        while len(found) < limit and (page := await self._log.after(line, seq, limit=LOOKED, messages=True)):
            found, seq = [*found, *_having(wanted, page)], page[-1].seq
            if seq >= last:
                break
        return [one for one in found if one.seq <= last][:limit]

    async def markers(self, kind: str, *, limit: int = 50) -> list[Logged]:
        """The newest markers of a kind, an application's own or one of Everthread's, newest first."""
        kind, limit = arguments.kind(kind), arguments.count("limit", limit)
        return await self._log.markers(await self.line(), kind, limit=limit)

    async def range(self, first: int, last: int) -> list[Logged]:
        """The events from seq `first` to seq `last`."""
        first, last = arguments.seq("first", first), arguments.seq("last", last)
        return await self._log.range(await self.line(), first, last)

    def listen(self, *, after: int = 0) -> AsyncIterator[Logged | Delta]:
        """The events after seq `after`, then the reply that runs from its first word, then deltas and events as they
        come, whoever runs the turn: without gap, and nothing twice. Stays on the branch that is current now.

        What is an event is told as one: of tool calls and their results there are no deltas here. Come back with the
        seq of the last event that you have heard.
        """
        return items(self.told(after=arguments.known("after", after)))

    def told(self, *, after: int | str = 0) -> AsyncIterator[Told]:
        """As `listen`, each item with its place: give the last one as `after`, and you go on just behind it, in the
        middle of a reply as well."""
        return self._runtime.live.listen(self.line, after=place_of(after))

    def _told_together(self, *, after: int | str = 0) -> AsyncGenerator[list[Told], None]:
        """The same, all that is there at a moment together."""
        return self._runtime.live.listen_together(self.line, after=place_of(after))

    async def turns(self, *, limit: int = 50) -> list[Turn]:
        """The newest turns, oldest first, with their sizes and states."""
        return await self._log.turns(await self.line(), limit=arguments.count("limit", limit))

    async def sessions(self, *, limit: int = 50) -> list[Session]:
        """The newest sessions, oldest first."""
        return await self._log.sessions(await self.line(), limit=arguments.count("limit", limit))

    async def totals(self) -> Totals:
        """Events, messages and tokens of the whole conversation, each counted once."""
        return await self._log.conversations.totals(self.conversation)

    async def usage(
        self,
        *,
        by: By = "conversation",
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
    ) -> list[UsageTotal]:
        """Tokens, price and time of this conversation's model calls, by conversation, turn, session, day or model; from
        `since` until just before `until`."""
        owner = (await self._log.conversations.mine(self.conversation)).owner
        first, end = arguments.micros("since", since, 0), arguments.micros("until", until, FOREVER)
        count = arguments.count("limit", limit)
        return await self._log.usage.of_owner(owner, by=by, conversation=self.id, since=first, until=end, limit=count)

    async def blob(self, hash: str) -> bytes:
        """The bytes of an image or file, by the hash in its part."""
        return await self._log.blob(await self.line(), arguments.text("hash", hash))

    async def blobs(self, events: Iterable[Logged]) -> dict[str, bytes]:
        """The bytes of all images and files that these events show: `to_openai(events, blob=blobs.get)`."""
        hashes = {media.blob for event in events for media in media_of(event.event) if media.blob}
        return {hash: await self.blob(hash) for hash in sorted(hashes)}

    async def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        tokens: int = TOKENS,
        neighbours: int = 1,
        scope: Scope = "conversation",
        branches: Branches = "line",
        kinds: Iterable[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        session: int | None = None,
    ) -> list[Hit]:
        """What was said about something, best first: any words, in any language, with what stood around it.

        `scope`: this conversation, or all of the user's. `branches`: this branch's own line, or all of them. `tokens`:
        the most that all hits together may have.
        """
        return await recall(
            self._log,
            self.conversation.owner,
            await self.line(),
            arguments.text("query", query),
            limit=arguments.count("limit", limit),
            tokens=arguments.count("tokens", tokens),
            neighbours=neighbours,
            scope=scope,
            branches=branches,
            kinds=tuple(kinds),
            since=arguments.micros("since", since, -FOREVER),
            until=arguments.micros("until", until, FOREVER),
            session=session,
        )


async def page_at_once(
    log: Log, owner: Owner, id: str, seq: int | None = None, *, forward: bool, limit: int = 50, **more: Any
) -> list[Row] | None:
    """What `before` or, `forward`, `after` gives of the current branch of somebody's conversation, as columns: with one
    question. None where that question does not tell; then the conversation is to be found first, or is not there."""
    limit = arguments.count("limit", limit)
    if more or limit > AT_ONCE:
        return None
    if forward:
        first, last = arguments.seq("seq", seq or 0) + 1, ENDLESS
    else:
        first, last = 1, arguments.seq("seq", ENDLESS if seq is None else seq) - 1
    return await log.conversations.said(owner, id, first=first, last=last, limit=limit, oldest_first=forward)


def _having(wanted: dict[str, Any], page: list[Logged]) -> list[Logged]:
    """The messages that have this metadata. Most have none at all, which their stored form shows."""
    some = readable(one for one in page if not wanted or b'"metadata":' in one.body)
    return [one for one in some if matches(getattr(one.event, "metadata", {}), wanted)]
