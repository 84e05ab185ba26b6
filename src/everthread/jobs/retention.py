"""Retention: conversations in which nothing has happened for long are erased, where a tenant or the operator says so.

Off by default. The setting `retention` holds for every tenant; a document of the tenant's own (`retention`, in days)
holds in its place, and 0 there keeps everything. What is erased is erased as if somebody had asked for it (law 9): from
log, index, mirrors and the rest, with a tombstone, logged and in the audit. A conversation with a turn that waits, or
that was open a day ago, or with a schedule that is still to be said, is not idle.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime

import msgspec

from everthread.context.build import Contexts, drop_turns_around
from everthread.core.times import moment
from everthread.core.values import Value
from everthread.errors import BadValue, EverthreadError, NotFound
from everthread.store.audit import audit
from everthread.store.conversations import Conversation, Owner, check_tenant
from everthread.store.log import Log
from everthread.store.reach import as_operator, within

SOON = 60.0  # seconds after which a process that has opened the store begins to look
LOOK = 3_600.0  # seconds between two looks
DAY = 86_400 * 1_000_000
DAYS = 36_500.0  # at most
DOCUMENT = "retention"

_log = logging.getLogger("everthread.retention")


class Retained(msgspec.Struct, Value, frozen=True, kw_only=True):
    """A conversation whose time is over: whose it is, and before when nothing new must have come."""

    tenant: str
    user: str
    conversation: str
    days: float
    before: datetime


class RetentionWorker:
    def __init__(self, log: Log, days: float, contexts: Contexts) -> None:
        self._store, self.days, self._contexts = log, days, contexts
        self._begins: asyncio.TimerHandle | None = None
        self._serving: asyncio.Task[None] | None = None

    def begin_soon(self) -> None:
        """Begin to look, beside whatever else this process does, unless it ends soon."""

        def begin() -> None:
            self._serving = asyncio.create_task(self._serve())

        with as_operator():
            self._begins = asyncio.get_running_loop().call_later(SOON, begin)

    async def close(self) -> None:
        if self._begins:
            self._begins.cancel()
        if self._serving:
            self._serving.cancel()
            await asyncio.wait({self._serving})

    async def _serve(self) -> None:
        while True:
            try:
                await self.run()
            except EverthreadError as problem:
                _log.warning("Retention could not be looked after: %s", problem)
            await asyncio.sleep(LOOK)

    # -- what --------------------------------------------------------------------------------------------------

    async def days_of(self, tenant: str) -> float:
        """After how many days a tenant's conversations are erased; 0 for never."""
        found = await self._store.documents.get(Owner(tenant, ""), DOCUMENT)
        if found is None or not found.body:
            return self.days
        with suppress(ValueError):
            return check_days(float(found.body))
        _log.warning("The retention of tenant %s cannot be read: nothing of it is erased", tenant)
        return 0.0

    async def set_days(self, tenant: str, days: float | None) -> None:
        """Say it for a tenant; None goes back to the setting."""
        body = "" if days is None else f"{check_days(days):g}"
        await self._store.documents.put(Owner(check_tenant(tenant), ""), DOCUMENT, body)
        entry = self._store.accounts.entry(tenant, by="", act="retention", about=body or "as set for all")
        await self._store.accounts.write_down(entry)
        audit.info("an operator set the retention of tenant %s to %s", tenant, body or "that of the store")

    async def due(self, tenant: str = "") -> AsyncIterator[Retained]:
        """The conversations whose time is over, of one tenant or of all; for operators. Erases nothing."""
        tenants = [tenant] if tenant else sorted({one.tenant for one in await self._store.mirrors.everybody()})
        for one in tenants:
            async for conversation, days, before in self._idle(one):
                yield Retained(
                    tenant=one,
                    user=conversation.user,
                    conversation=conversation.id,
                    days=days,
                    before=moment(before),
                )

    async def _idle(self, tenant: str) -> AsyncIterator[tuple[Conversation, float, int]]:
        days = await self.days_of(tenant)
        if days <= 0:
            return
        before = self._store.now - int(days * DAY)
        async for conversation in self._store.mirrors.idle(tenant, since=before):
            if not await self._is_open(conversation):
                yield conversation, days, before

    async def _is_open(self, conversation: Conversation) -> bool:
        """Whether a turn waits, or may still run, on any branch. Nothing of what is archived does; a look leaves it
        there."""
        if conversation.archived is not None:
            return False
        for one in await self._store.conversations.branches(conversation):
            line = await self._store.line(conversation, one.branch.number)
            head = await self._store.head(line)
            if head.state == "waiting" or (head.state == "open" and self._store.now - head.time < DAY):
                return True
        return False

    async def run(self, tenant: str = "") -> list[Retained]:
        """Erase what is due, and tell what that was."""
        with as_operator():
            due = [one async for one in self.due(tenant)]
        return [one for one in due if await self._erase(one)]

    async def _erase(self, one: Retained) -> bool:
        """Whether it was erased. One that fails keeps no other back."""
        with within(one.tenant):
            try:
                owner = Owner(one.tenant, one.user)
                conversation = await self._store.conversations.find(owner, one.conversation)
                await drop_turns_around(self._contexts, self._store.forgetting.erase(conversation))
            except NotFound:
                return False  # erased by another meanwhile
            except EverthreadError as problem:
                _log.warning("Conversation %s is not erased, or not everywhere: %s", one.conversation, problem)
                return False
            about = f"{one.conversation}: nothing new for {one.days:g} days"
            entry = self._store.accounts.entry(one.tenant, by="", act="retained", about=about)
            await self._store.accounts.write_down(entry)
            audit.info("retention erased conversation %s of tenant %s", one.conversation, one.tenant)
            return True


def check_days(days: float) -> float:
    if not math.isfinite(days) or not 0 <= days <= DAYS:
        raise BadValue("retention", days, f"a number of days from 0 (never) to {DAYS:g}")
    return days
