"""API keys, and providers' keys as the vault has sealed them. Of an API key there is only the hash."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from everthread.core.accounts import ApiKey, AuditEntry, Role
from everthread.core.times import microseconds, moment
from everthread.errors import AccountDisabled, BadValue, KeyRefused, UnknownKey
from everthread.store.beside import accounts
from everthread.store.beside.accounts import audited, joined, split
from everthread.store.conversations import Owner
from everthread.store.engine import Ask, Outcome, Row, Script, Tell

MOST = 200  # that a user may have, or all applications of a tenant together
_TIMES = ("made", "until", "seen", "revoked")


class FoundKey(NamedTuple):
    """An API key, with the role of the user whose it is; None for an application's."""

    key: ApiKey
    role: Role | None


class SealedKey(NamedTuple):
    """A provider's key of a tenant, as it is kept."""

    tenant: str
    provider: str
    key_id: str
    nonce: bytes
    sealed: bytes
    made: int


# -- API keys --------------------------------------------------------------------------------------------------------


def add(new: ApiKey, hash: str, entry: AuditEntry | None) -> Script[Outcome[None]]:
    if (yield Ask("api_key_by_hash", {"hash": hash, "user": ""})):
        return Outcome(None, landed=True)
    if new.user and (yield from accounts.must_find(Owner(new.tenant, new.user))).disabled is not None:
        raise AccountDisabled
    there = yield from of_user(new.tenant, new.user, after="", limit=MOST)
    if sum(one.revoked is None and one.until > new.made for one in there) >= MOST:
        raise BadValue("the number of API keys", len(there), f"at most {MOST} that hold: revoke some")
    return Outcome(None, [Tell("insert_api_key", [{**_row(new), "hash": hash}]), *audited(entry)])


def by_hash(hash: str, *, now: int, acts_for: str) -> Script[FoundKey]:
    """The API key with this hash, of any tenant, if it holds. `acts_for`: the user whom an application names."""
    rows = yield Ask("api_key_by_hash", {"hash": hash, "user": acts_for})
    if not rows:
        raise KeyRefused("is not known here")
    found, [role, disabled] = _key(rows[0][:11]), rows[0][11:]
    if found.revoked is not None:
        raise KeyRefused("was revoked")
    if microseconds(found.until) <= now:
        raise KeyRefused("has run out")
    if disabled is not None:
        raise AccountDisabled
    if found.user and role is None:
        raise KeyRefused("is of a user who has no account any more")
    return FoundKey(found, role if found.user else None)


def find(tenant: str, id: str) -> Script[ApiKey]:
    rows = yield Ask("api_key", {"tenant": tenant, "id": id})
    if not rows:
        raise UnknownKey(id)
    return _key(rows[0])


def of_tenant(tenant: str, *, after: str, limit: int) -> Script[list[ApiKey]]:
    return [_key(row) for row in (yield Ask("api_keys", {"tenant": tenant, "after": after, "limit": limit}))]


def of_user(tenant: str, user: str, *, after: str, limit: int) -> Script[list[ApiKey]]:
    """A user's; those of applications are of the user ''."""
    values = {"tenant": tenant, "user": user, "after": after, "limit": limit}
    return [_key(row) for row in (yield Ask("api_keys_of_user", values))]


def see(key: ApiKey, now: int) -> Script[Outcome[None]]:
    yield from ()
    return Outcome(None, [Tell("see_api_key", [{"tenant": key.tenant, "id": key.id, "seen": now}])])


def revoke(tenant: str, id: str, entry: AuditEntry | None, *, now: int) -> Script[Outcome[None]]:
    yield from find(tenant, id)
    return Outcome(None, [Tell("revoke_api_key", [{"tenant": tenant, "id": id, "revoked": now}]), *audited(entry)])


def _row(key: ApiKey) -> dict[str, Any]:
    times = {name: None if (time := getattr(key, name)) is None else microseconds(time) for name in _TIMES}
    return {**msgspec.structs.asdict(key), **times, "scopes": joined(key.scopes)}


def _key(row: Row) -> ApiKey:
    values = dict(zip(ApiKey.__struct_fields__, row, strict=True))
    times = {name: None if values[name] is None else moment(values[name]) for name in _TIMES}
    return ApiKey(**{**values, **times, "scopes": split(values["scopes"])})


# -- providers' keys -------------------------------------------------------------------------------------------------


def sealed_of(tenant: str) -> Script[list[SealedKey]]:
    return [_sealed(row) for row in (yield Ask("provider_keys", {"tenant": tenant}))]


def all_sealed() -> Script[list[SealedKey]]:
    return [_sealed(row) for row in (yield Ask("all_provider_keys", {}))]


def put_sealed(new: SealedKey, entry: AuditEntry | None) -> Script[Outcome[None]]:
    yield from ()
    return Outcome(None, [Tell("put_provider_key", [new._asdict()]), *audited(entry)])


def reseal(new: SealedKey, *, was: bytes) -> Script[Outcome[None]]:
    yield from ()
    return Outcome(None, [Tell("reseal_provider_key", [{**new._asdict(), "was": was}])])


def forget_sealed(tenant: str, provider: str, entry: AuditEntry | None) -> Script[Outcome[None]]:
    yield from ()
    return Outcome(None, [Tell("forget_provider_key", [{"tenant": tenant, "provider": provider}]), *audited(entry)])


def _sealed(row: Row) -> SealedKey:
    tenant, provider, key_id, nonce, sealed, made = row
    return SealedKey(tenant, provider, key_id, bytes(nonce), bytes(sealed), made)
