"""The vault: each tenant's keys for providers, sealed before they reach the database.

AES-256-GCM, bound to the tenant, the provider and the master key's id: a row that is moved to another tenant or another
provider, or altered in any bit, is refused and never used. The master keys are kept elsewhere (`master_keys`). Nobody
is shown a key again, but for its last four characters. `keys_of` is what `Everthread.open(keys=…)` takes, so that every
model call of a tenant, a turn's or memory's, is made with that tenant's keys and never with another's.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

import msgspec

from everthread.archive import keys as archive_keys
from everthread.core.accounts import Caller, ProviderKey
from everthread.core.times import moment
from everthread.errors import BadSeal, BadValue, Forbidden, NoVaultKey
from everthread.sealing import aead, master_keys
from everthread.sealing.master_keys import REMEDY, MasterKeys
from everthread.server.bound import must_administer
from everthread.server.known import Known
from everthread.server.tokens import Secret
from everthread.store.beside.keys import SealedKey
from everthread.store.conversations import check_name
from everthread.store.log import Log
from everthread.store.times import FOREVER

LONGEST = 4_000  # characters of a provider's key
SHOWN, LEAST_SHOWN = 4, 16  # how many of its last characters are shown, of one that has at least so many


class Vault:
    def __init__(
        self, log: Log, *, environ: Mapping[str, str] = os.environ, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`environ`: where EVERTHREAD_VAULT_KEY and the configuration folder are looked up. `clock`: in seconds."""
        self._log, self._accounts, self._environ = log, log.accounts, environ
        self._known: Known[Mapping[str, str]] = Known(lambda: log.now, clock=clock)

    async def put(self, by: Caller, provider: str, key: str) -> None:
        """Keep a tenant's key for a provider, or for a server by its host and port, in place of one it may have. For
        administrators. It is used from now on: in this process at once, in others within `known.FRESH` seconds."""
        must_administer(by)
        check_name("provider", provider)
        if not key.strip() or len(key) > LONGEST or not key.strip().isascii() or not key.strip().isprintable():
            raise BadValue("the key", Secret(), f"printable ASCII of 1 to {LONGEST} characters")
        masters = await self._masters(make=True)
        new = _sealed(by.tenant, provider, key.strip(), masters, now=self._log.now)
        entry = self._accounts.entry(by.tenant, by=by.name, act="put_provider_key", about=provider)
        await self._changed(self._accounts.put_sealed(new, entry))

    async def all(self, by: Caller) -> list[ProviderKey]:
        """Which keys a tenant has, and how each ends. For administrators."""
        must_administer(by)
        masters = await self._masters()
        return [_shown(one, masters) for one in await self._accounts.sealed(by.tenant)]

    async def remove(self, by: Caller, provider: str) -> None:
        """Forget a tenant's key for a provider. For administrators."""
        must_administer(by)
        entry = self._accounts.entry(by.tenant, by=by.name, act="remove_provider_key", about=provider)
        await self._changed(self._accounts.forget_sealed(by.tenant, check_name("provider", provider), entry))

    async def keys_of(self, tenant: str) -> Mapping[str, str]:
        """A tenant's keys by provider, to make model calls with. NoVaultKey, BadSeal: then no call is made."""

        async def look() -> tuple[Mapping[str, str], int]:
            found = await self._accounts.sealed(tenant)
            masters = await self._masters() if found else {}
            return MappingProxyType({one.provider: _opened(one, masters) for one in found}), FOREVER

        return await self._known.get(tenant, look)

    async def rotate(self, by: Caller, *, new_key: bool = False) -> int:
        """Seal all keys of all tenants, and those of archives, with the newest master key; how many were sealed with
        another. For operators.
        `new_key`: make one first, where the master keys are in the file. Afterwards the older ones can go."""
        if by.via != "operator":
            raise Forbidden("The master key is the operator's", "run `everthread vault --rotate` on the machine")
        if new_key:
            await asyncio.to_thread(master_keys.put_first, self._environ)
        masters = await self._masters(make=True)
        newest = next(iter(masters))
        old = [one for one in await self._accounts.all_sealed() if one.key_id != newest]
        for one in old:
            again = _sealed(one.tenant, one.provider, _opened(one, masters), masters, now=one.made)
            await self._accounts.reseal(again, was=one)
        resealed = await archive_keys.reseal_all(self._log.archives, masters)
        await self._accounts.write_down(self._accounts.entry(by.tenant, by=by.name, act="rotate", about=newest))
        self._known.clear()
        return len(old) + resealed

    async def _masters(self, *, make: bool = False) -> MasterKeys:
        return await asyncio.to_thread(master_keys.read, self._environ, make=make)

    async def _changed(self, work: Awaitable[None]) -> None:
        try:
            await work
        finally:
            self._known.clear()


def _sealed(tenant: str, provider: str, key: str, masters: MasterKeys, *, now: int) -> SealedKey:
    """A key, sealed with the newest master key."""
    id = next(iter(masters))
    nonce, sealed = aead.seal(masters[id], key.encode(), _bound_to(tenant, provider, id))
    return SealedKey(tenant, provider, id, nonce, sealed, now)


def _opened(one: SealedKey, masters: MasterKeys) -> Secret:
    if one.key_id not in masters:
        raise NoVaultKey(f"its master key {one.key_id} is missing: {REMEDY}")
    about = _bound_to(one.tenant, one.provider, one.key_id)
    try:
        return Secret(aead.opened(masters[one.key_id], one.nonce, one.sealed, about).decode())
    except ValueError:
        raise BadSeal(one.provider) from None


def _bound_to(tenant: str, provider: str, key_id: str) -> bytes:
    """What a seal holds for and for nothing else; as a list, so that no two can be written alike."""
    return msgspec.json.encode(["everthread provider key", tenant, provider, key_id])


def _shown(one: SealedKey, masters: MasterKeys) -> ProviderKey:
    try:
        key = _opened(one, masters)
    except (BadSeal, NoVaultKey):
        return ProviderKey(tenant=one.tenant, provider=one.provider, usable=False, made=moment(one.made))
    ends = str(key[-SHOWN:]) if len(key) >= LEAST_SHOWN else ""
    return ProviderKey(tenant=one.tenant, provider=one.provider, ends=ends, made=moment(one.made))
