"""`log.conversations`: begun, found, listed, changed and counted, each only for its owner."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from typing import Any

from everthread.core.times import moment
from everthread.errors import UnknownConversation
from everthread.store import conversations, listing
from everthread.store.beside import leases
from everthread.store.beside.leases import Lease
from everthread.store.conversations import BranchTotals, Conversation, Owner, Owners, Totals
from everthread.store.engine import Engine, Row
from everthread.store.listing import ListedConversation

MANY = 200  # conversations in a page from which reading it would be felt on the event loop


class Conversations:
    def __init__(self, engine: Engine, clock: Callable[[], int], owners: Owners) -> None:
        self._engine = engine
        self._clock = clock
        self._owners = owners

    async def begin(self, owner: Owner, *, agent: str, unless_one: bool = False, **details: Any) -> Conversation:
        """Begin a conversation; `unless_one` finds the one with its alias instead, or without an alias the newest with
        this agent, if there is one."""
        began = moment(self._clock())
        new = Conversation(tenant=owner.tenant, id="", user=owner.user, agent=agent, began=began, **details)
        chance, tried = secrets.randbits(80), list[str]()
        return self._owners.know(
            await self._engine.write(
                lambda: conversations.begin(new, chance=chance, tried=tried, unless_one=unless_one),
                about=f"{owner.tenant}/{owner.user}",
                alone=True,
            )
        )

    async def find(self, owner: Owner, id: str) -> Conversation:
        """The conversation with this id or alias, if it is this owner's."""
        return self._owners.know(await self._engine.read(lambda: conversations.find(owner, id)))

    async def by_alias(self, owner: Owner, alias: str) -> Conversation | None:
        """The owner's conversation with this alias, if there is one."""
        found = await self._engine.read(lambda: conversations.by_alias(owner, alias))
        return self._owners.know(found) if found else None

    async def said(
        self, owner: Owner, id: str, *, first: int, last: int, limit: int, oldest_first: bool = False
    ) -> list[Row] | None:
        """Events of the current branch of the conversation with this id, if it is this owner's, oldest first and as the
        columns of `Logged`: with one question. `limit`: how many, the newest of them or, `oldest_first`, the oldest.
        None where it takes more to tell: there are none here, or some belong to an earlier branch."""
        script = partial(conversations.said, owner, id, first=first, last=last, limit=limit, oldest_first=oldest_first)
        return await self._engine.read(script)

    async def mine(self, conversation: Conversation) -> Conversation:
        """The same, if there is one that is this owner's, with this agent; else UnknownConversation.

        Neither ever changes, so what was found once is not asked for again.
        """
        if not self._owners.knows(conversation):
            owner = conversations.owner_of(conversation.tenant, conversation.user)
            if (await self.find(owner, conversation.id)).agent != conversation.agent:
                raise UnknownConversation(conversation.id)
        return conversation

    async def newest(self, owner: Owner, agent: str) -> Conversation | None:
        """The newest with this agent, if there is one."""
        found = await self._engine.read(lambda: conversations.newest(owner, agent))
        return self._owners.know(found) if found else None

    async def page(
        self, owner: Owner, *, agent: str = "", before: str = conversations.NEWEST, limit: int = 50
    ) -> list[Conversation]:
        """A page of a user's conversations, begun last first; the next page is `before` the last one's id."""
        page = await self._engine.read(lambda: conversations.page(owner, agent=agent, before=before, limit=limit))
        return [self._owners.know(found) for found in page]

    async def listed(
        self,
        owner: Owner,
        *,
        agent: str = "",
        metadata: dict[str, Any] | None = None,
        before: str = conversations.NEWEST,
        limit: int = 50,
    ) -> list[ListedConversation]:
        """A page of a user's conversations, last active first; the next page is `before` the last one's cursor."""
        script = partial(listing.page, owner, agent=agent, metadata=metadata or {}, before=before, limit=limit)
        page = await self._engine.read(script, large=bool(metadata) or limit > MANY)
        for one in page:
            self._owners.know(one)
        return page

    async def change(
        self, conversation: Conversation, *, under: Lease | None = None, forgotten: int | None = None, **changes: Any
    ) -> Conversation:
        """Change name, goal, settings or metadata. `under`: as for `append`. `forgotten`: how often something of it had
        been redacted when the caller looked; Outrun if more was since."""
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
