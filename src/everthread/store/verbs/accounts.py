"""`log.accounts`: who calls the service. Accounts, links, sign-ins, API keys, sealed keys of providers, and the audit.

What is given as a hash is found across every wall, because whoever has a token has said nothing else yet; everything
else is of one tenant. Whether somebody may do what they ask for is not decided here but in `server.identity`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from everthread.core.accounts import Account, ApiKey, AuditEntry, Role
from everthread.core.ids import make_id
from everthread.core.times import moment
from everthread.store.audit import audit
from everthread.store.beside import accounts, keys
from everthread.store.beside.accounts import AccountRow, Change, FoundSignIn, LinkRow, SignInRow
from everthread.store.beside.keys import FoundKey, SealedKey
from everthread.store.conversations import Owner
from everthread.store.engine import Engine, Outcome, Script

T = TypeVar("T")
NEWEST = "~"  # after every id


class Accounts:
    def __init__(self, engine: Engine, clock: Callable[[], int]) -> None:
        self._engine = engine
        self._clock = clock
        self._last = ""  # id of an entry of the audit: what one process does is in the order in which it was done

    # -- accounts ------------------------------------------------------------------------------------------

    async def first(self, owner: Owner) -> bool:
        """Make the first account of the store, an administrator's. Whether it was made: of many who try, one does."""
        script = partial(accounts.first, owner, now=self._clock(), tried=[])
        return await self._engine.write(script, about="the first account", alone=True)

    async def get(self, owner: Owner) -> AccountRow | None:
        """An account, with what its password is held against."""
        return await self._engine.read(lambda: accounts.find(owner))

    async def of(self, tenant: str, *, after: str = "", limit: int = 100) -> list[Account]:
        """A page of a tenant's accounts, by name; the next comes `after` the last one's."""
        return await self._engine.read(lambda: accounts.page(tenant, after=after, limit=limit))

    async def any_password(self) -> bool:
        """Whether anybody, of whichever tenant, has a password."""
        return await self._engine.read(accounts.any_password)

    async def change(self, owner: Owner, to: Change, entry: AuditEntry | None, *, ends: str | None = None) -> Account:
        """Make of an account what `to` says. `ends`: the user's links and sign-ins end, but for the one of this hash.
        LastAdministrator: nobody else could administer the tenant."""
        return await self._write(owner.tenant, partial(accounts.change, owner, to, entry, ends=ends))

    async def let_go(self, owner: Owner, entry: AuditEntry | None = None) -> None:
        """Before a user is erased: it administers nothing any more. LastAdministrator."""
        await self._write(owner.tenant, partial(accounts.let_go, owner, entry))

    # -- links and sign-ins --------------------------------------------------------------------------------

    async def add_link(self, new: LinkRow, entry: AuditEntry | None) -> None:
        """Keep a link. UnknownAccount, AccountExists, AccountDisabled."""
        await self._write(new.tenant, partial(accounts.add_link, new, entry, now=self._clock()))

    async def link(self, hash: str) -> LinkRow:
        """The link with this hash; LinkUsed where there is none."""
        return await self._engine.read(lambda: accounts.link(hash))

    async def use_link(self, hash: str, new: SignInRow) -> Role:
        """Sign in by a link, once: LinkUsed, AccountDisabled."""
        return await self._write(new.tenant, partial(accounts.use_link, hash, new))

    async def sign_in(self, new: SignInRow, *, password: str, rehashed: str = "") -> Role:
        """Sign in by a password that was held against `password`: WrongPassword if that is another by now."""
        return await self._write(new.tenant, partial(accounts.sign_in, new, password=password, rehashed=rehashed))

    async def enter(self, new: SignInRow, entry: AuditEntry) -> None:
        """Sign an administrator in as somebody else, and write it down."""
        audit.info("an administrator acts as a user of tenant %s: audit entry %s", new.tenant, entry.id)
        await self._write(new.tenant, partial(accounts.enter, new, entry))

    async def signed_in(self, hash: str) -> FoundSignIn:
        """The sign-in with this hash: NotSignedIn, AccountDisabled. Whether its time is over is not looked at."""
        return await self._engine.read(lambda: accounts.signed_in(hash))

    async def see(self, row: SignInRow) -> None:
        """Write down when a sign-in was last used, and until when it holds."""
        await self._engine.write(partial(accounts.see, row), about=f"seen/{row.hash[:16]}", durable=False)

    async def sign_out(self, tenant: str, hash: str) -> None:
        """End a sign-in."""
        await self._write(tenant, partial(accounts.sign_out, tenant, hash))

    # -- API keys ------------------------------------------------------------------------------------------

    async def add_key(self, new: ApiKey, hash: str, entry: AuditEntry | None) -> None:
        """Keep what is known of an API key. UnknownAccount, AccountDisabled: of a person who cannot use it."""
        await self._write(new.tenant, partial(keys.add, new, hash, entry))

    async def key_of(self, hash: str, *, acts_for: str = "") -> FoundKey:
        """The API key with this hash, if it holds: KeyRefused, AccountDisabled. `acts_for`: whom an application
        names."""
        now = self._clock()
        return await self._engine.read(lambda: keys.by_hash(hash, now=now, acts_for=acts_for))

    async def key(self, tenant: str, id: str) -> ApiKey:
        """One by its id; UnknownKey."""
        return await self._engine.read(lambda: keys.find(tenant, id))

    async def keys(self, tenant: str, *, user: str | None = None, after: str = "", limit: int = 100) -> list[ApiKey]:
        """A tenant's API keys, those made first before the others; a user's alone, or (the user '') those of
        applications."""
        if user is None:
            return await self._engine.read(lambda: keys.of_tenant(tenant, after=after, limit=limit))
        return await self._engine.read(lambda: keys.of_user(tenant, user, after=after, limit=limit))

    async def see_key(self, key: ApiKey) -> None:
        """Write down when an API key was last used."""
        script = partial(keys.see, key, self._clock())
        await self._engine.write(script, about=f"seen/{key.id}", durable=False)

    async def revoke_key(self, tenant: str, id: str, entry: AuditEntry | None) -> None:
        """No longer take an API key; UnknownKey."""
        await self._write(tenant, partial(keys.revoke, tenant, id, entry, now=self._clock()))

    # -- providers' keys -----------------------------------------------------------------------------------

    async def sealed(self, tenant: str) -> list[SealedKey]:
        """A tenant's keys for providers, sealed."""
        return await self._engine.read(lambda: keys.sealed_of(tenant))

    async def all_sealed(self) -> list[SealedKey]:
        """Those of all tenants. For operators: crosses every wall, and is logged."""
        audit.info("an operator reads the sealed keys of all tenants")
        return await self._engine.read(keys.all_sealed)

    async def put_sealed(self, new: SealedKey, entry: AuditEntry | None) -> None:
        """Keep a tenant's key for a provider, in place of one it may have."""
        await self._write(new.tenant, partial(keys.put_sealed, new, entry))

    async def reseal(self, new: SealedKey, *, was: SealedKey) -> None:
        """Keep the same under another master key, unless it has changed."""
        await self._write(new.tenant, partial(keys.reseal, new, was=was.sealed))

    async def forget_sealed(self, tenant: str, provider: str, entry: AuditEntry | None) -> None:
        """Remove a tenant's key for a provider."""
        await self._write(tenant, partial(keys.forget_sealed, tenant, provider, entry))

    # -- the audit -----------------------------------------------------------------------------------------

    def entry(self, tenant: str, *, by: str, act: str, user: str = "", about: str = "") -> AuditEntry:
        """What is to be written into the audit, with an id and the time."""
        now = self._clock()
        self._last = make_id(now, secrets.randbits(80), after=self._last)
        return AuditEntry(tenant=tenant, id=self._last, time=moment(now), by=by, act=act, user=user, about=about)

    async def write_down(self, entry: AuditEntry) -> None:
        """Write into the audit alone."""
        await self._write(entry.tenant, partial(_only, entry))

    async def audited(self, tenant: str, *, before: str = NEWEST, limit: int = 100) -> list[AuditEntry]:
        """A page of what administrators and operators did, newest first."""
        return await self._engine.read(lambda: accounts.audit_page(tenant, before=before, limit=limit))

    async def _write(self, tenant: str, script: Callable[[], Script[Outcome[T]]]) -> T:
        return await self._engine.write(script, about=accounts.about(tenant), alone=True)


def _only(entry: AuditEntry) -> Script[Outcome[None]]:
    yield from ()
    return Outcome(None, accounts.audited(entry))
