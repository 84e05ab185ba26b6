"""`log.mirrors`: which folders mirror this store, what they have still to follow, and what there is to be mirrored.

For operators: what is asked here crosses every wall. What is forgotten is written down for each mirror with the
transaction that forgets it (`owe_mirrors`), and struck out by whoever keeps that folder, once it has followed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

from everthread.store.audit import audit
from everthread.store.conversations import MINUTE, Conversation, Owner, conversation_of
from everthread.store.engine import Ask, Engine, Outcome, Script, Tell

PAGE = 500
MOST = 10_000


class KnownMirror(NamedTuple):
    """A folder by the mark that it carries, where it was seen last, and when."""

    mirror: str
    folder: str
    seen: int


class Owed(NamedTuple):
    """That something of a conversation was forgotten, which a mirror has to follow."""

    tenant: str
    conversation: str
    mirror: str
    time: int
    folder: str = ""


class Mirrors:
    def __init__(self, engine: Engine, clock: Callable[[], int]) -> None:
        self._engine = engine
        self._clock = clock

    async def know(self, mirror: str, folder: str) -> None:
        """This folder mirrors the store from now on: what is forgotten is written down for it."""
        row = {"mirror": mirror, "folder": folder, "seen": self._clock()}
        await self._tell(Tell("know_mirror", [row]))

    async def all(self) -> list[KnownMirror]:
        return [KnownMirror(*row) for row in await self._ask("mirrors", {})]

    async def owed(self, mirror: str | None = None, *, limit: int = MOST) -> list[Owed]:
        """What a mirror has to follow, or any; the oldest first."""
        if mirror is None:
            return [Owed(*row) for row in await self._ask("owed", {"limit": limit})]
        return [Owed(*row) for row in await self._ask("owed_by_mirror", {"mirror": mirror, "limit": limit})]

    async def pay(self, *done: Owed) -> None:
        """The mirror has followed."""
        rows = [{name: getattr(one, name) for name in ("tenant", "conversation", "mirror", "time")} for one in done]
        if rows:
            await self._tell(Tell("pay_mirror", rows))

    async def forget(self, mirror: str) -> None:
        """A folder that is gone, or no longer mirrors: nothing is owed to it any more."""
        row = {"mirror": mirror}
        await self._tell(Tell("forget_mirror_owed", [row]), Tell("forget_mirror", [row]))
        audit.info("an operator struck out a mirror")

    # -- what there is -------------------------------------------------------------------------------------

    async def everybody(self) -> list[Owner]:
        """Every tenant and its users; the user '' is the tenant itself."""
        return [Owner(*row) for row in await self._ask("everybody", {})]

    def conversations(self) -> AsyncIterator[Conversation]:
        """All conversations of all tenants."""
        return self._pages("everybodys_conversations", {})

    def active_since(self, time: int) -> AsyncIterator[Conversation]:
        """Those with something new since a time, in microseconds; to the minute."""
        return self._pages("active_since", {"minute": time // MINUTE})

    def idle(self, tenant: str, *, since: int) -> AsyncIterator[Conversation]:
        """A tenant's conversations with nothing new since a time, in microseconds, and no schedule that is still to be
        said."""
        return self._pages("idle_of_tenant", {"tenant": tenant, "minute": since // MINUTE}, tenant=tenant)

    async def conversation(self, tenant: str, id: str) -> Conversation | None:
        """Whoever's it is; None where there never was one. What was erased says so."""
        rows = await self._ask("anybodys_conversation", {"tenant": tenant, "conversation": id})
        return conversation_of(rows[0][0], rows[0][1:]) if rows else None

    async def erased(self, tenant: str, conversation: str) -> bool | None:
        """Whether a conversation was erased; None where there never was one."""
        rows = await self._ask("conversation_exists", {"tenant": tenant, "conversation": conversation})
        return bool(rows[0][0]) if rows else None

    async def _pages(self, query: str, values: dict[str, Any], *, tenant: str = "") -> AsyncIterator[Conversation]:
        after = ""
        while page := await self._ask(query, {"tenant": tenant, **values, "after": after, "limit": PAGE}):
            for row in page:
                yield conversation_of(row[0], row[1:])
            tenant, after = page[-1][0], page[-1][1]

    async def _ask(self, query: str, values: dict[str, Any]) -> Any:
        def script() -> Script[Any]:
            return (yield Ask(query, values))

        return await self._engine.read(script, large=True)

    async def _tell(self, *statements: Tell) -> None:
        def script() -> Script[Outcome[None]]:
            yield from ()
            return Outcome(None, list(statements))

        await self._engine.write(script, about="mirrors")
