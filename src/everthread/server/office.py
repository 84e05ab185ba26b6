"""What the service has beside conversations: one's own keys and account, and what administrators do.

These routes belong to the table as all others do; their verbs are those of `Identity`, which asks who calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from everthread.app import Everthread
from everthread.core.accounts import Account, ApiKey, Caller, Role, Scope
from everthread.core.values import Value
from everthread.routes import Route, routes
from everthread.server.api_keys import DAYS
from everthread.server.identity import Identity
from everthread.server.vault import Vault


class NewKey(msgspec.Struct, Value, frozen=True):
    """An API key that was just made: `secret` is the key itself, told this once."""

    secret: str
    key: ApiKey


class NewLink(msgspec.Struct, Value, frozen=True):
    """A one-time link that was just made: its token stands behind `#link=` in the address of the page."""

    token: str


async def make_key(
    self: Identity,
    by: Caller,
    *,
    label: str,
    application: str = "",
    users: str = "",
    scopes: Sequence[Scope] = ("read", "write"),
    days: int = DAYS,
) -> NewKey:
    """Make an API key: for oneself, or as an administrator for an application, which may then act for every user whose
    name begins with `users`. It is told this once."""
    user = "" if application else by.user
    made = await self.make_key(
        by, label=label, user=user, application=application, users=users, scopes=scopes, days=days
    )
    return NewKey(str(made.secret), made.key)


async def invite(self: Identity, by: Caller, user: str, *, role: Role = "user") -> NewLink:
    """A one-time link for somebody who has no account yet; it holds for a week."""
    return NewLink(str(await self.invite(by, user, role=role)))


async def link(self: Identity, by: Caller, user: str) -> NewLink:
    """A one-time link by which a user signs in; it holds for ten minutes."""
    return NewLink(str(await self.link(by, user)))


class Entered(msgspec.Struct, Value, frozen=True):
    """An administrator acts as a user until `until`: with `token`, as `Authorization: Bearer …`, or behind `#link=` in
    the address of the page."""

    token: str
    caller: Caller
    until: datetime


async def enter(self: Identity, by: Caller, user: str, *, why: str, scopes: Sequence[Scope] = ("read",)) -> Entered:
    """See what a user sees, for a quarter of an hour: to read, unless `scopes` asks for more. It is written into the
    audit first, with the reason."""
    made = await self.enter(by, user, why, scopes=scopes)
    return Entered(str(made.token), made.caller, made.until)


async def me(self: Identity, by: Caller) -> Caller:
    """Who one is here, and what one may do."""
    return by


async def set_password(self: Identity, by: Caller, password: str, *, old: str = "", address: str = "") -> Account:
    """Set one's own password. All other sign-ins end."""
    return await self.set_password(by, password, old=old, address=address)


async def sign_out_everywhere(self: Identity, by: Caller) -> None:
    """End all of one's own sign-ins and links. Keys stay."""
    await self.sign_out_everywhere(by)


async def erase(self: Identity, by: Caller, user: str, et: Everthread) -> int:
    """Erase a user for ever, with all that is theirs. How many conversations there were."""
    return await self.erase(by, user, et)


OFFICE: tuple[Route, ...] = (
    *routes(
        "identity",
        "",
        ("GET", "/me", me, "read"),
        ("PUT", "/password", set_password, "write"),
        ("POST", "/sign-out-everywhere", sign_out_everywhere, "write"),
        ("GET", "/keys", Identity.keys, "read"),
        ("POST", "/keys", make_key, "write"),
        ("DELETE", "/keys/{id}", Identity.revoke_key, "write"),
        ("GET", "/users", Identity.users, "admin"),
        ("POST", "/users/{user}/invite", invite, "admin"),
        ("POST", "/users/{user}/link", link, "admin"),
        ("POST", "/users/{user}/enter", enter, "admin"),
        ("POST", "/users/{user}/disable", Identity.disable, "admin"),
        ("POST", "/users/{user}/enable", Identity.enable, "admin"),
        ("PUT", "/users/{user}/role", Identity.change_role, "admin"),
        ("POST", "/users/{user}/sign-out", Identity.sign_out_everywhere, "admin"),
        ("DELETE", "/users/{user}", erase, "admin"),
        ("GET", "/audit", Identity.audit, "admin"),
    ),
    *routes(
        "vault",
        "/provider-keys",
        ("GET", "", Vault.all, "admin"),
        ("PUT", "/{provider}", Vault.put, "admin"),
        ("DELETE", "/{provider}", Vault.remove, "admin"),
    ),
)
