"""`log.leases`: who may do something alone, and what has come of a reply that is running under a lease."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from everthread.store.beside import leases
from everthread.store.beside.leases import Lease, LeaseName, PartialReply, Term, TurnLease
from everthread.store.engine import Engine, Script

T = TypeVar("T")


class Leases:
    def __init__(self, engine: Engine, clock: Callable[[], int]) -> None:
        self._engine = engine
        self._clock = clock

    async def take(self, tenant: str, name: str, *, holder: str, seconds: float, over: str = "") -> str:
        """Take a lease for `seconds` from now on, or renew one's own. Returns who has it now: `holder`, if it
        succeeded.

        It can be taken when nobody has it, when it has run out, and when `over` has it, whom the caller knows to be
        dead. Whoever waits for it should try again now and then.
        """
        has, _ = await self.take_and_ask(
            Lease(tenant, name, holder), seconds=seconds, over=over, ask=leases.nothing_more
        )
        return has

    async def take_and_ask(
        self, lease: Lease, *, seconds: float, over: str = "", ask: Callable[[PartialReply], Script[T]]
    ) -> tuple[str, T | None]:
        """As `take`, and what the script `ask` finds as soon as the lease is the caller's; None where it is another's.
        `ask` is given what was kept under the lease."""
        wanted, seconds = leases.name_of(lease.tenant, lease.name), leases.check(lease.holder, seconds)
        while True:
            now = self._clock()
            term = leases.term(lease.holder, now, seconds)
            taking = functools.partial(leases.take, wanted, term, now=now, over=over)
            # Whoever holds a lease in a SQLite file ends with its machine, so no flush to disk is waited for.
            if other := await self._engine.write(taking, about=wanted.about, durable=False):
                return other, None
            # Another may have been faster, and may even have released it since: then we try once more.
            if found := await self._engine.read(lambda: leases.taken(lease, ask)):
                return found

    async def renew(self, lease: Lease, *, seconds: float) -> bool:
        """Hold a lease for `seconds` from now on. False where somebody else has taken it."""
        term = leases.term(lease.holder, self._clock(), leases.check(lease.holder, seconds))
        await self._engine.write(lambda: leases.renew(lease, term.until), about=_about(lease), durable=False)
        found = await self._engine.read(lambda: leases.newest(LeaseName(lease.tenant, lease.name)))
        return found == term

    async def release(self, tenant: str, name: str, *, holder: str, open: bool = False) -> None:
        """Give a lease back, if it is still the holder's. `open`: something that was begun under it has not ended, and
        whoever takes the lease next should find it."""
        given = leases.name_of(tenant, name)
        await self._engine.write(lambda: leases.release(given, holder, open=open), about=given.about, durable=False)

    async def term(self, tenant: str, name: str) -> Term | None:
        """Who has a lease and until when; None where nobody has, or it has run out."""
        asked, now = leases.name_of(tenant, name), self._clock()
        found = await self._engine.read(lambda: leases.newest(asked))
        return found if found and found.until > now else None

    async def turns(self, tenant: str, conversation: str) -> dict[int, str]:
        """The branches of a conversation whose turns somebody has the lease of, and who."""
        now = self._clock()
        return await self._engine.read(lambda: leases.of_conversation(tenant, conversation, now=now))

    async def all_turns(self) -> list[TurnLease]:
        """The leases of all branches' turns. For workers: crosses every wall."""
        return await self._engine.read(leases.of_all_turns)

    async def named(self, tenant: str, prefix: str) -> dict[str, Term]:
        """Who has the leases whose names begin with a prefix, whether or not they have run out."""
        return await self._engine.read(lambda: leases.named(tenant, prefix))

    async def hold(self, lease: Lease, *, at: int) -> None:
        """Note that a reply begins, after event `at`. TakenOver: the lease is another's by now."""
        await self._engine.write(lambda: leases.hold(lease, at), about=_about(lease), durable=False)

    async def keep(self, lease: Lease, conversation: str, *, at: int, text: str, forgotten: int) -> None:
        """Keep what has come of a reply that follows event `at`, unless it has been written, the lease is another's, or
        something of the conversation was redacted meanwhile: `forgotten` is how often that had happened before."""
        script = functools.partial(leases.keep, lease, conversation, at=at, text=text, forgotten=forgotten)
        await self._engine.write(script, about=_about(lease), durable=False)

    async def partial(self, tenant: str, name: str) -> PartialReply | None:
        """What was kept of a reply under a lease, whether or not its holder still lives; None where nobody has it."""
        asked = leases.name_of(tenant, name)
        return await self._engine.read(lambda: leases.partial(asked))


def _about(lease: Lease) -> str:
    return LeaseName(lease.tenant, lease.name).about
