"""What tests of who calls the service share: a tenant of one's own, clocks that move when told to, quick passwords."""

from __future__ import annotations

from datetime import timedelta

from argon2 import PasswordHasher

from everthread.core.accounts import Caller, Role, operator
from everthread.server.identity import Identity, SignedIn
from everthread.server.passwords import Passwords
from everthread.store.log import Log
from tests.contract.support import Clock
from tests.migrations.databases import rows

GOOD = "correct horse battery"
TABLES = ("accounts", "links", "sign_ins", "api_keys", "provider_keys", "audit")


def quick(time_cost: int = 1) -> Passwords:
    """Passwords that take no time: nobody should use them."""
    return Passwords(PasswordHasher(time_cost=time_cost, memory_cost=8, parallelism=1))


class Place:
    """A tenant that no other test knows, with an administrator."""

    def __init__(self, log: Log, clock: Clock, tenant: str, address: str) -> None:
        self.log, self.clock, self.tenant, self.address = log, clock, tenant, address
        self.seconds = 0.0
        self.identity = self.another()
        self.operator = operator(tenant)

    def another(self) -> Identity:
        """Another process's, as far as what was looked up goes."""
        return Identity(self.log, passwords=quick(), clock=lambda: self.seconds)

    def later(self, **time: float) -> None:
        self.clock.now += timedelta(**time) // timedelta(microseconds=1)
        self.seconds += timedelta(**time).total_seconds()

    async def join(self, user: str, role: Role = "user") -> SignedIn:
        """Somebody who was invited and came."""
        return await self.identity.use_link(await self.identity.invite(self.operator, user, role=role))

    async def admin(self, user: str = "root") -> Caller:
        return (await self.join(user, "administrator")).caller

    async def acts(self) -> list[tuple[str, str, str]]:
        """Who did what to whom, oldest first."""
        found = await self.log.accounts.audited(self.tenant, limit=1_000)
        return [(one.by, one.act, one.user) for one in reversed(found)]

    async def dump(self, *tables: str) -> str:
        """All that the database holds of this tenant, as text."""
        mine = f"WHERE tenant = '{self.tenant}'"
        return repr([await rows(self.address, f"SELECT * FROM {table} {mine}") for table in tables or TABLES])
