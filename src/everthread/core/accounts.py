"""Who calls the service: accounts, API keys, callers, and what is written down of what administrators did.

Values only, without a secret in any of them: of a password it is told whether there is one, of an API key all but the
key. A caller is what every request comes down to: a tenant, a user, and what it may do.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from everthread.core.times import EPOCH
from everthread.core.values import Value

Role = Literal["user", "administrator"]
Scope = Literal["read", "write", "forget", "admin"]
Via = Literal["sign_in", "key", "operator"]

USER: Role = "user"
ADMINISTRATOR: Role = "administrator"
ROLES: tuple[Role, ...] = (USER, ADMINISTRATOR)
SCOPES: tuple[Scope, ...] = ("read", "write", "forget", "admin")
OWN_SCOPES: tuple[Scope, ...] = SCOPES[:-1]  # what everybody may do with what is theirs


class Account(msgspec.Struct, Value, frozen=True, kw_only=True):
    """A user who can sign in. `disabled`: since when nobody can, and no key of this user's is taken."""

    tenant: str
    user: str
    role: Role = USER
    has_password: bool = False
    made: datetime = EPOCH
    disabled: datetime | None = None


class ApiKey(msgspec.Struct, Value, frozen=True, kw_only=True):
    """What is known of an API key; not the key. It is a person's (`user`), or an application's, which acts for users
    that it names: those whose names begin with `users`."""

    tenant: str
    id: str
    user: str = ""
    application: str = ""
    users: str = ""
    label: str = ""
    scopes: tuple[Scope, ...] = ()
    made: datetime = EPOCH
    until: datetime = EPOCH
    seen: datetime | None = None
    revoked: datetime | None = None


class AuditEntry(msgspec.Struct, Value, frozen=True, kw_only=True):
    """What an administrator did, or an operator (`by` is empty): the act, whom it concerns, and what about."""

    tenant: str
    id: str
    time: datetime
    by: str
    act: str
    user: str = ""
    about: str = ""


class ProviderKey(msgspec.Struct, Value, frozen=True, kw_only=True):
    """A tenant's key for a provider, as it may be shown: how it ends, where it is long enough for that. Not `usable`:
    it cannot be opened, and has to be put in anew."""

    tenant: str
    provider: str
    ends: str = ""
    usable: bool = True
    made: datetime = EPOCH


class Caller(msgspec.Struct, Value, frozen=True, kw_only=True):
    """Who makes a request, and what it may do. `user` is empty for an application that has named nobody: then nothing
    of anybody's can be asked for. `entered_by`: the administrator who acts as this user. `since`: when a sign-in was
    made; `by_link`: whether by a link."""

    tenant: str
    user: str
    role: Role = USER
    scopes: tuple[Scope, ...] = ()
    via: Via
    id: str = ""
    application: str = ""
    entered_by: str = ""
    since: datetime = EPOCH
    by_link: bool = False

    def may(self, scope: Scope) -> bool:
        """Whether this caller may do such a thing. What administrators do needs the role as well as the scope."""
        return scope in self.scopes and (scope != "admin" or self.role == ADMINISTRATOR)

    @property
    def name(self) -> str:
        """Who it was, for the audit; empty for an operator."""
        return self.entered_by or (f"application {self.application}" if self.application else self.user)


def operator(tenant: str) -> Caller:
    """Whoever is on the machine itself and can read the store anyway: the command line."""
    return Caller(tenant=tenant, user="", role=ADMINISTRATOR, scopes=SCOPES, via="operator")
