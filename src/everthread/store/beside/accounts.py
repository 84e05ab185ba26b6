"""Accounts, links and sign-ins, as the store keeps them: who can come in, and who is in.

Everything here that changes who may do what is written in turn with the rest of its tenant (`about`), so that of two
who use a link one wins, the last administrator stays, and nothing is written for a user who is being erased. Of tokens
there are only hashes. A script may be run again when the answer to its commit was lost, and then finds its own work by
the hash that it has made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from everthread.core.accounts import ADMINISTRATOR, USER, Account, AuditEntry, Role, Scope
from everthread.core.times import microseconds, moment
from everthread.errors import (
    AccountDisabled,
    AccountExists,
    LastAdministrator,
    LinkUsed,
    NotSignedIn,
    UnknownAccount,
    WrongPassword,
)
from everthread.store.conversations import Owner
from everthread.store.engine import Ask, Outcome, Script, Tell

SIGN_IN, INVITATION = "sign_in", "invitation"
PASSWORD, LINK, ENTERED = "password", "link", "entered"  # how somebody has signed in


class AccountRow(NamedTuple):
    """An account with what its password is checked against, which nobody is shown."""

    tenant: str
    user: str
    role: Role
    password: str
    made: int
    disabled: int | None

    def __repr__(self) -> str:
        return f"AccountRow({self.tenant!r}, {self.user!r}, {self.role!r})"

    @property
    def account(self) -> Account:
        return Account(
            tenant=self.tenant,
            user=self.user,
            role=self.role,
            has_password=bool(self.password),
            made=moment(self.made),
            disabled=None if self.disabled is None else moment(self.disabled),
        )

    @property
    def administers(self) -> bool:
        return self.role == ADMINISTRATOR and self.disabled is None


class LinkRow(NamedTuple):
    tenant: str
    hash: str
    user: str
    what: str
    role: Role
    until: int


class SignInRow(NamedTuple):
    """A sign-in. `scopes`: where an administrator has entered, what that may do, with spaces between."""

    tenant: str
    hash: str
    user: str
    how: str
    entered_by: str
    scopes: str
    made: int
    seen: int
    until: int


class FoundSignIn(NamedTuple):
    """A sign-in with the role of its user. NotSignedIn, AccountDisabled: raised where it does not hold any more."""

    row: SignInRow
    role: Role


Change = Callable[[AccountRow], AccountRow]


def about(tenant: str) -> str:
    return f"accounts/{tenant}"


# -- accounts --------------------------------------------------------------------------------------------------------


def find(owner: Owner) -> Script[AccountRow | None]:
    rows = yield Ask("account", owner._asdict())
    return AccountRow(*rows[0]) if rows else None


def must_find(owner: Owner) -> Script[AccountRow]:
    found = yield from find(owner)
    if found is None:
        raise UnknownAccount(owner.user)
    return found


def page(tenant: str, *, after: str, limit: int) -> Script[list[Account]]:
    rows = yield Ask("accounts", {"tenant": tenant, "after": after, "limit": limit})
    return [AccountRow(*row).account for row in rows]


def any_password() -> Script[bool]:
    return bool((yield Ask("any_password", {})))


def first(owner: Owner, *, now: int, tried: list[int]) -> Script[Outcome[bool]]:
    """The first account of a store, which administers it. `tried`: whether a run of this script may have made it."""
    if (yield Ask("any_account", {})):
        found = yield from find(owner)
        return Outcome(bool(tried) and found is not None and found.made == now)
    tried.append(now)
    return Outcome(True, [_insert(AccountRow(*owner, ADMINISTRATOR, "", now, None))])


def change(owner: Owner, to: Change, entry: AuditEntry | None, *, ends: str | None = None) -> Script[Outcome[Account]]:
    """Make of an account what it shall be. `entry`: what is written of it into the audit. `ends`: all of the user's
    sign-ins and links end, but for the one with this hash."""
    was = yield from must_find(owner)
    new = to(was)
    if was.administers and not new.administers:
        yield from _check_other(owner)
    writes = [Tell("update_account", [new._asdict()])] if new != was else []
    writes += [] if ends is None else _ended(owner, but=ends)
    return Outcome(new.account, [*writes, *audited(entry)])


def let_go(owner: Owner, entry: AuditEntry | None) -> Script[Outcome[None]]:
    """Before a user is erased: an administrator is none from now on, so that of two who erase each other one stays.
    Should the rest not be done, it can be asked for again. LastAdministrator."""
    was = yield from find(owner)
    writes: list[Tell] = []
    if was and was.administers:
        yield from _check_other(owner)
        writes = [Tell("update_account", [was._replace(role=USER)._asdict()])]
    return Outcome(None, [*writes, *audited(entry)])


def erase(owner: Owner, mark: str) -> Script[Outcome[None]]:
    """Remove all that there is of a user here; `mark` stands for the name in the audit from now on."""
    yield from ()
    names = ("erase_account", "erase_links", "erase_api_keys", "forget_entered")
    writes = [*_ended(owner, but=""), *(Tell(name, [owner._asdict()]) for name in names)]
    return Outcome(None, [*writes, *(Tell(name, [{**owner._asdict(), "mark": mark}]) for name in UNNAME)])


UNNAME = ("unname_audited", "unname_auditor")


def _check_other(owner: Owner) -> Script[None]:
    if not (yield Ask("other_administrator", owner._asdict())):
        raise LastAdministrator(owner.user)


def _insert(row: AccountRow) -> Tell:
    return Tell("insert_account", [row._asdict()])


# -- links -----------------------------------------------------------------------------------------------------------


def add_link(new: LinkRow, entry: AuditEntry | None, *, now: int) -> Script[Outcome[None]]:
    """Keep a link: to sign in of somebody who has an account, an invitation of somebody who has none."""
    if (yield Ask("link_by_hash", {"hash": new.hash})):
        return Outcome(None, landed=True)
    owner = Owner(new.tenant, new.user)
    there = yield from find(owner)
    if there is None and new.what == SIGN_IN:
        raise UnknownAccount(new.user)
    if there is not None and new.what == INVITATION:
        raise AccountExists(new.user)
    if there is not None and there.disabled is not None:
        raise AccountDisabled
    stale = Tell("forget_stale_links", [{"tenant": new.tenant, "now": now}])
    return Outcome(None, [stale, Tell("insert_link", [new._asdict()]), *audited(entry)])


def link(hash: str) -> Script[LinkRow]:
    """The link with this hash, of any tenant, used or not by the time that it is wanted."""
    rows = yield Ask("link_by_hash", {"hash": hash})
    if not rows:
        raise LinkUsed
    return LinkRow(*rows[0])


def use_link(hash: str, new: SignInRow) -> Script[Outcome[Role]]:
    """Sign in by a link, which is gone then; an invitation makes the account first, and no other does any more."""
    if landed := (yield from _landed(new)):
        return landed
    used = yield from link(hash)
    if used.until <= new.made:
        raise LinkUsed
    owner = Owner(used.tenant, used.user)
    there = yield from find(owner)
    if (there is None) != (used.what == INVITATION):
        raise LinkUsed
    if there is not None and there.disabled is not None:
        raise AccountDisabled
    made = [] if there else [_insert(AccountRow(*owner, used.role, "", new.made, None))]
    gone = Tell("erase_links", [owner._asdict()]) if used.what == INVITATION else Tell("forget_link", [used._asdict()])
    return Outcome(there.role if there else used.role, [*made, gone, *_signed_in(new)])


# -- sign-ins --------------------------------------------------------------------------------------------------------


def sign_in(new: SignInRow, *, password: str, rehashed: str) -> Script[Outcome[Role]]:
    """Sign in by a password that was found to be right: `password` is what it was held against, and must still stand.
    `rehashed`: what it is held against from now on."""
    if landed := (yield from _landed(new)):
        return landed
    there = yield from find(Owner(new.tenant, new.user))
    if there is None or there.password != password:
        raise WrongPassword
    if there.disabled is not None:
        raise AccountDisabled
    renewed = [Tell("update_account", [{**there._asdict(), "password": rehashed}])] if rehashed else []
    return Outcome(there.role, [*renewed, *_signed_in(new)])


def enter(new: SignInRow, entry: AuditEntry) -> Script[Outcome[Role]]:
    """An administrator acts as a user from now on; that it is so is written down in the same transaction."""
    if landed := (yield from _landed(new)):
        return landed
    return Outcome(USER, [*audited(entry), *_signed_in(new)])


def signed_in(hash: str) -> Script[FoundSignIn]:
    """The sign-in with this hash, of any tenant, if those whose it is may still come in."""
    rows = yield Ask("sign_in_by_hash", {"hash": hash})
    if not rows:
        raise NotSignedIn
    row, [role, disabled, enters, entering_disabled] = SignInRow(*rows[0][:9]), rows[0][9:]
    if row.how == ENTERED:
        # By then the administrator may be none any more; the user need not have an account.
        if row.entered_by and (enters != ADMINISTRATOR or entering_disabled is not None):
            raise NotSignedIn
        return FoundSignIn(row, USER)
    if role is None:
        raise NotSignedIn
    if disabled is not None:
        raise AccountDisabled
    return FoundSignIn(row, role)


def see(row: SignInRow) -> Script[Outcome[None]]:
    yield from ()
    return Outcome(None, [Tell("see_sign_in", [row._asdict()])])


def sign_out(tenant: str, hash: str) -> Script[Outcome[None]]:
    yield from ()
    return Outcome(None, [Tell("forget_sign_in", [{"tenant": tenant, "hash": hash}])])


def _landed(new: SignInRow) -> Script[Outcome[Role] | None]:
    """What an earlier run of the script came to, whose commit was not confirmed."""
    if not (yield Ask("sign_in_by_hash", {"hash": new.hash})):
        return None
    found = yield from signed_in(new.hash)
    return Outcome(found.role, landed=True)


def _signed_in(new: SignInRow) -> list[Tell]:
    stale = Tell("forget_stale_sign_ins", [{"tenant": new.tenant, "now": new.made}])
    return [stale, Tell("insert_sign_in", [new._asdict()])]


def _ended(owner: Owner, *, but: str) -> list[Tell]:
    return [Tell("forget_sign_ins", [{**owner._asdict(), "hash": but}]), Tell("erase_links", [owner._asdict()])]


# -- the audit -------------------------------------------------------------------------------------------------------


def audited(entry: AuditEntry | None) -> list[Tell]:
    """The statement that writes down what an administrator does, with what that is."""
    if entry is None:
        return []
    row = {**msgspec.structs.asdict(entry), "time": microseconds(entry.time), "done_by": entry.by}
    return [Tell("insert_audit", [row])]


def audit_page(tenant: str, *, before: str, limit: int) -> Script[list[AuditEntry]]:
    rows = yield Ask("audit", {"tenant": tenant, "before": before, "limit": limit})
    names = ("tenant", "id", "time", "by", "act", "user", "about")
    return [AuditEntry(**{**dict(zip(names, row, strict=True)), "time": moment(row[2])}) for row in rows]


def joined(scopes: Sequence[Scope]) -> str:
    return " ".join(scopes)


def split(scopes: str) -> tuple[Scope, ...]:
    return tuple(scopes.split())  # type: ignore[arg-type]  # as they were joined
