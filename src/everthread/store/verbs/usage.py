"""`log.usage`: totals of what the providers reported of model calls.

Times are microseconds since 1970: from `since` until just before `until`.
"""

from __future__ import annotations

from everthread.store.audit import audit
from everthread.store.beside import usage
from everthread.store.beside.usage import By, UsageTotal
from everthread.store.conversations import Owner
from everthread.store.engine import Engine
from everthread.store.times import FOREVER


class UsageTotals:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def of_owner(
        self,
        owner: Owner,
        *,
        by: By,
        conversation: str = "",
        since: int = 0,
        until: int = FOREVER,
        limit: int = 1000,
    ) -> list[UsageTotal]:
        """Totals of a user's model calls, or of one conversation's, newest first. Without a user there are none."""
        span = usage.span(by, since, until, limit)
        return await self._engine.read(lambda: usage.of_owner(owner, conversation, span), large=True)

    async def tokens(self, owner: Owner, *, since: int) -> int:
        """Input and output of a user's model calls since then, with what was forgotten of them on that day: what a
        service counts against the tokens of a day."""
        return await self._engine.read(lambda: usage.tokens(owner, since))

    async def of_tenant(
        self, tenant: str, *, by: By, since: int = 0, until: int = FOREVER, limit: int = 1000
    ) -> list[UsageTotal]:
        """The same over all users of a tenant. For operators: crosses the walls between users, and is logged."""
        span = usage.span(by, since, until, limit)
        audit.info("an operator listed the usage of tenant %s", tenant)
        return await self._engine.read(lambda: usage.of_tenant(tenant, span), large=True)
