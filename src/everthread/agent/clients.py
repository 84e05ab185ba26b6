"""The clients of providers that are open: each is lent, kept for the next model call, and closed in the end.

Clients are told apart by all that a call is made with, the key included, so there may be one for each tenant, address
and patience that anybody ever set. The `MOST` that were used last are kept; what was not used for longest is closed, as
soon as nobody uses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from everthread.providers.client import Access, Client
from everthread.providers.prices import prices_known
from everthread.providers.registry import provider

MOST = 64  # each has some connections


class _Lent:
    """A client, and how many use it now."""

    def __init__(self, client: Client) -> None:
        self.client, self.users = client, 0


class Clients:
    """`beside`: does something that nobody waits for."""

    def __init__(self, beside: Callable[[Coroutine[Any, Any, None]], None], *, most: int = MOST) -> None:
        self._beside, self._most = beside, most
        self._open: dict[Access, _Lent] = {}  # the one that was used last is the last

    @asynccontextmanager
    async def lend(self, access: Access) -> AsyncIterator[Client]:
        """The client for an access, for as long as the block lasts."""
        if access not in self._open:
            connect = await asyncio.to_thread(_imported, access.provider)
            if access not in self._open:  # nobody else was faster
                self._open[access] = _Lent(connect(access))
        lent = self._open[access] = self._open.pop(access)
        lent.users += 1
        try:
            yield lent.client
        finally:
            lent.users -= 1
            self._let_go()

    def _let_go(self) -> None:
        """Close those that are too many, if nobody uses them."""
        idle = [access for access, lent in self._open.items() if not lent.users]
        for access in idle[: max(0, len(self._open) - self._most)]:
            self._beside(self._open.pop(access).client.close())

    def __len__(self) -> int:
        return len(self._open)

    def take_all(self) -> list[Client]:
        """All that are open, for whoever closes them: none is kept from now on."""
        kept, self._open = self._open, {}
        return [lent.client for lent in kept.values()]


def _imported(name: str) -> Callable[[Access], Client]:
    """A provider's way to connect. Off the event loop: an SDK takes a second to import, prices a fifth of one."""
    prices_known()
    return provider(name).client()
