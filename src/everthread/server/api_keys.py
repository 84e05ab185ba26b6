"""API keys: made for a person, as whom it acts, or for an application, which acts for the users that it names.

A key is told once, when it is made. It has scopes and a day on which it runs out; it can be revoked. It may do no more
than whoever made it, and one that is not an administrator's makes no others.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import msgspec

from everthread.core.accounts import ADMINISTRATOR, USER, ApiKey, Caller, Role, Scope
from everthread.core.ids import is_id, make_id
from everthread.core.times import microseconds, moment
from everthread.errors import BadValue, Forbidden, KeyRefused, NoUser, UnknownKey
from everthread.routes import FOR_USER
from everthread.server import tokens
from everthread.server.bound import Bound, is_self, must_administer
from everthread.server.sign_ins import DAY, MINUTE, check_scopes
from everthread.server.tokens import Secret
from everthread.store.conversations import check_name

DAYS, MOST_DAYS = 365, 3_650


class MadeKey(msgspec.Struct, frozen=True, kw_only=True):
    """A new API key: `secret` is the key itself, told this once."""

    secret: Secret
    key: ApiKey


class Keys(Bound):
    async def make_key(
        self,
        by: Caller,
        *,
        label: str,
        user: str = "",
        application: str = "",
        users: str = "",
        scopes: Sequence[Scope] = ("read", "write"),
        days: int = DAYS,
    ) -> MadeKey:
        """Make a key: for oneself (`user`), or as an administrator for an application, which may then act for every
        user whose name begins with `users`. An operator may make one for any person. Forbidden: a key may do no more
        than who makes it."""
        asked = self._may_make(by, user, application, scopes)
        if type(days) is not int or not 1 <= days <= MOST_DAYS:
            raise BadValue("days", days, f"1 to {MOST_DAYS}")
        secret, now = tokens.make(tokens.KEY), self._log.now
        new = ApiKey(
            tenant=by.tenant,
            id=make_id(now, secrets.randbits(80)),
            user=check_name("user", user, empty=True),
            application=check_name("application", application, empty=True),
            users=check_name("users", users, empty=True),
            label=check_name("label", label),
            scopes=asked,
            made=moment(now),
            until=moment(now + days * DAY),
        )
        about = f"{new.id} {application}".strip()
        entry = self._entry(by, "make_key", user=user, about=about) if by.may("admin") else None
        await self._accounts.add_key(new, tokens.hash_of(secret, tokens.KEY), entry)
        return MadeKey(secret=secret, key=new)

    def _may_make(self, by: Caller, user: str, application: str, scopes: Sequence[Scope]) -> tuple[Scope, ...]:
        """The scopes of a key that somebody may make."""
        if bool(user) == bool(application):
            raise BadValue("user and application", (user, application), "one of them, and not both")
        if not is_self(by, user):
            must_administer(by)
            if user and by.via != "operator":
                raise Forbidden("A key for a person is made by that person", "sign in as that user")
        asked = check_scopes(scopes)
        if beyond := [one for one in asked if not by.may(one)]:
            raise Forbidden(f"A key may do no more than who makes it, so not {beyond[0]}", "leave out that scope")
        return asked

    async def keys(self, by: Caller, *, after: str = "", limit: int = 100) -> list[ApiKey]:
        """A page of one's own keys, or as an administrator of all of the tenant's, without the keys themselves; the
        next comes `after` the id of the last."""
        check_name("after", after, empty=True)
        if by.may("admin"):
            return await self._accounts.keys(by.tenant, after=after, limit=limit)
        if not by.user:
            raise NoUser(FOR_USER)
        return await self._accounts.keys(by.tenant, user=by.user, after=after, limit=limit)

    async def revoke_key(self, by: Caller, id: str) -> None:
        """No longer take a key: one's own, or as an administrator any of the tenant's. In this process at once, in
        others within `known.FRESH` seconds. UnknownKey: also where it is somebody else's."""
        if not is_id(id):
            raise UnknownKey(id)
        if not by.may("admin"):
            found = await self._accounts.key(by.tenant, id)
            if not found.user or not is_self(by, found.user):
                raise UnknownKey(id)
        entry = self._entry(by, "revoke_key", about=id) if by.may("admin") else None
        with self._changing():
            await self._accounts.revoke_key(by.tenant, id, entry)

    async def caller_of_key(self, token: str, *, user: str = "") -> Caller:
        """Who calls with this key. `user`: for whom an application does (header `Everthread-User`). KeyRefused,
        AccountDisabled, Forbidden. It is kept in mind as for `caller_of_sign_in`."""
        hash = tokens.hash_of(token, tokens.KEY)
        if not hash:
            raise KeyRefused("is not known here")
        check_name(FOR_USER, user, empty=True)

        async def look() -> tuple[Caller, int]:
            found = await self._accounts.key_of(hash, acts_for=user)
            acts_for = _acts_for(found.key, user)
            await self._used(found.key)
            return _caller(found.key, acts_for, found.role), microseconds(found.key.until)

        return await self._known.get((hash, user), look)

    async def _used(self, key: ApiKey) -> None:
        if key.seen is None or self._log.now - microseconds(key.seen) >= MINUTE:
            await self._accounts.see_key(key)


def _acts_for(key: ApiKey, named: str) -> str:
    """The user as whom a key acts; none where an application names none."""
    if key.user and named not in ("", key.user):
        raise Forbidden("This API key is one user's", f"leave out the header {FOR_USER}, or use an application's key")
    if key.application and named and not named.startswith(key.users):
        raise Forbidden("This API key is not for that user", f"name one in {FOR_USER} that begins as the key says")
    return key.user or named


def _caller(key: ApiKey, user: str, role: Role | None) -> Caller:
    """An application's is an administrator by its scope alone, whoever it acts for."""
    by_scope = ADMINISTRATOR if "admin" in key.scopes else USER
    return Caller(
        tenant=key.tenant,
        user=user,
        role=by_scope if role is None else role,
        scopes=key.scopes,
        via="key",
        id=key.id,
        application=key.application,
    )
