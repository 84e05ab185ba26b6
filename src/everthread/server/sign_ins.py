"""Coming in: the first account, one-time links, passwords, and the sign-ins that come of them.

A sign-in holds for thirty days after it was last seen, and for a year at most. A link holds for ten minutes, an
invitation for a week, and each once. An administrator who acts as a user (`enter`) does so for a quarter of an hour,
may only read unless more was asked for, and stands in the audit before anything is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from everthread.core.accounts import ADMINISTRATOR, OWN_SCOPES, ROLES, SCOPES, USER, Account, Caller, Role, Scope
from everthread.core.times import microseconds, moment
from everthread.errors import BadValue, Forbidden, LinkUsed, NotSignedIn, UnknownAccount, WrongPassword
from everthread.server import passwords, tokens
from everthread.server.bound import Bound, is_self, must_administer, must_be_self, owner
from everthread.server.tokens import Secret
from everthread.store.beside.accounts import (
    ENTERED,
    INVITATION,
    LINK,
    PASSWORD,
    AccountRow,
    LinkRow,
    SignInRow,
    joined,
    split,
)
from everthread.store.beside.accounts import SIGN_IN as SIGN_IN_LINK
from everthread.store.conversations import Owner, check_name, is_name, owner_of

SECOND = 1_000_000  # microseconds
MINUTE, DAY = 60 * SECOND, 86_400 * SECOND
TEN_MINUTES, QUARTER, WEEK = 10 * MINUTE, 15 * MINUTE, 7 * DAY
UNSEEN, AT_MOST = 30 * DAY, 365 * DAY
LONGEST_WHY = 400

FIRST_USER, TENANT = "me", "default"  # those of the command line


class SignedIn(msgspec.Struct, frozen=True, kw_only=True):
    """A sign-in that was just made. `token` is for the cookie and is told this once; `csrf` is for the page."""

    token: Secret
    csrf: Secret
    caller: Caller
    until: datetime


class SignIns(Bound):
    # -- coming in -----------------------------------------------------------------------------------------

    async def first(self, user: str = FIRST_USER, *, tenant: str = TENANT) -> bool:
        """Make the first account, an administrator's without a password, if there is none at all in the store. Whether
        it was made: of several processes, by one."""
        return await self._accounts.first(owner_of(tenant, user))

    async def any_password(self) -> bool:
        """Whether somebody has a password: without one, nobody should be able to reach the service from elsewhere."""
        return await self._accounts.any_password()

    async def link(
        self, by: Caller, user: str, *, what: Literal["sign_in", "invitation"] = "sign_in", role: Role = USER
    ) -> Secret:
        """A one-time link's token: for somebody who has an account, or (`invitation`) for somebody who is to get one,
        with this role. By an administrator or an operator; for oneself, by anybody who is signed in."""
        if what not in (SIGN_IN_LINK, INVITATION) or role not in ROLES:
            raise BadValue("what and role", (what, role), f"sign_in or invitation, and {' or '.join(ROLES)}")
        own = what == SIGN_IN_LINK and is_self(by, user)
        if not own:
            must_administer(by)
        made, whose = tokens.make(tokens.LINK), owner(by, user)
        act, about, holds = ("invite", role, WEEK) if what == INVITATION else ("link", "", TEN_MINUTES)
        entry = None if own else self._entry(by, act, user=user, about=about)
        hash, until = tokens.hash_of(made, tokens.LINK), self._log.now + holds
        row = LinkRow(whose.tenant, hash, whose.user, what, role, until)
        await self._accounts.add_link(row, entry)
        return made

    async def use_link(self, token: str) -> SignedIn:
        """Sign in by a link, which nobody can do again. An invitation makes the account. LinkUsed, AccountDisabled."""
        hash = tokens.hash_of(token, tokens.LINK)
        if not hash:
            raise LinkUsed
        found = await self._accounts.link(hash)
        made, row = self._new(Owner(found.tenant, found.user), LINK)
        with self._changing():
            role = await self._accounts.use_link(hash, row)
        return _signed_in(made, row, role)

    async def sign_in(self, tenant: str, user: str, password: str, *, address: str = "") -> SignedIn:
        """Sign in by a password. `address`: from where, for counting failures. WrongPassword: also where there is no
        such user, after the same time; TooManyTries; AccountDisabled: only with the right password."""
        self._tries.begin(tenant, user, address)
        known = is_name(tenant) and is_name(user)
        found = await self._accounts.get(Owner(tenant, user)) if known else None
        held = found.password if found else ""
        if not await self._passwords.fits(password, held):
            raise WrongPassword
        rehashed = await self._passwords.hash(password) if self._passwords.is_outdated(held) else ""
        made, row = self._new(Owner(tenant, user), PASSWORD)
        role = await self._accounts.sign_in(row, password=held, rehashed=rehashed)
        self._tries.succeeded(tenant, user, address)
        return _signed_in(made, row, role)

    async def enter(self, by: Caller, user: str, why: str, *, scopes: Sequence[Scope] = ("read",)) -> SignedIn:
        """An administrator acts as a user for a quarter of an hour: to read, unless `scopes` asks for more. `why` is
        written into the audit before, with who it was."""
        must_administer(by)
        if by.application:
            raise Forbidden("An application cannot act as an administrator who enters", "sign in as an administrator")
        asked = check_scopes(scopes, OWN_SCOPES)
        about = f"{joined(asked)}: {check_name('why', why, most=LONGEST_WHY)}"
        made, row = self._new(owner(by, user), ENTERED)
        row = row._replace(entered_by=by.name, scopes=joined(asked), until=row.made + QUARTER)
        await self._accounts.enter(row, self._entry(by, "enter", user=user, about=about))
        return _signed_in(made, row, USER)

    async def entered(self, token: str) -> SignedIn:
        """The sign-in of somebody who has entered, for a page. LinkUsed: its time is over, or it is another's."""
        try:
            caller = await self.caller_of_sign_in(token)
            row = (await self._accounts.signed_in(caller.id)).row
        except NotSignedIn:
            raise LinkUsed from None
        if row.how != ENTERED:
            raise LinkUsed
        return _signed_in(Secret(token), row, USER)

    def _new(self, whose: Owner, how: str) -> tuple[Secret, SignInRow]:
        made, now = tokens.make(tokens.SIGN_IN), self._log.now
        hash = tokens.hash_of(made, tokens.SIGN_IN)
        return made, SignInRow(whose.tenant, hash, whose.user, how, "", "", now, now, now + UNSEEN)

    # -- being in ------------------------------------------------------------------------------------------

    async def caller_of_sign_in(self, token: str) -> Caller:
        """Whose sign-in this is. NotSignedIn, AccountDisabled. What was found a few seconds ago is not looked up again:
        a sign-out holds in this process at once, in others within those seconds (`known.FRESH`)."""
        hash = tokens.hash_of(token, tokens.SIGN_IN)
        if not hash:
            raise NotSignedIn

        async def look() -> tuple[Caller, int]:
            found = await self._accounts.signed_in(hash)
            if found.row.until <= self._log.now:
                raise NotSignedIn
            row = await self._seen(found.row)
            return _caller(row, found.role), row.until

        return await self._known.get(hash, look)

    async def _seen(self, row: SignInRow) -> SignInRow:
        """A sign-in that is used: at most once a minute it is written down, and holds for longer."""
        now = self._log.now
        if now - row.seen < MINUTE or row.how == ENTERED:
            return row
        row = row._replace(seen=now, until=min(now + UNSEEN, row.made + AT_MOST))
        await self._accounts.see(row)
        return row

    def csrf(self, token: str) -> Secret:
        """What a page with this sign-in must send along with whatever changes something."""
        return tokens.csrf_of(token)

    def csrf_fits(self, token: str, given: str) -> bool:
        """Whether what a page has sent along is that, found out in the same time wherever they differ."""
        return tokens.csrf_fits(token, given)

    # -- going out, and passwords --------------------------------------------------------------------------

    async def sign_out(self, by: Caller) -> None:
        """End this sign-in."""
        if by.via == "sign_in":
            with self._changing():
                await self._accounts.sign_out(by.tenant, by.id)

    async def sign_out_everywhere(self, by: Caller, user: str = "") -> None:
        """End all of a user's sign-ins and links: one's own, or as an administrator anybody's. Keys stay."""
        whose = user or by.user
        if not is_self(by, whose):
            must_administer(by)
        entry = None if is_self(by, whose) else self._entry(by, "sign_out", user=whose)
        with self._changing():
            await self._accounts.change(owner(by, whose), lambda row: row, entry, ends="")

    async def set_password(
        self, by: Caller, password: str, *, old: str = "", user: str = "", address: str = ""
    ) -> Account:
        """Set one's own password; an operator sets anybody's. All other sign-ins and links of the user end.

        `old`: the password until now, which whoever has one must know, unless they came by a link within the last ten
        minutes. BadPassword, WrongPassword, TooManyTries.
        """
        whose = user or by.user
        if by.via != "operator":
            must_be_self(by, whose)
        passwords.check(password, whose)
        was = await self._accounts.get(owner(by, whose))
        if was is None:
            raise UnknownAccount(whose)
        if was.password and by.via != "operator" and not self._by_fresh_link(by):
            await self._check_old(was, old, address)
        hash = await self._passwords.hash(password)

        def to(row: AccountRow) -> AccountRow:
            if row.password not in (was.password, hash):  # somebody else was faster
                raise WrongPassword
            return row._replace(password=hash)

        entry = self._entry(by, "set_password", user=whose) if by.via == "operator" else None
        with self._changing():
            return await self._accounts.change(owner(by, whose), to, entry, ends=by.id)

    def _by_fresh_link(self, by: Caller) -> bool:
        return by.by_link and self._log.now - microseconds(by.since) < TEN_MINUTES

    async def _check_old(self, was: AccountRow, old: str, address: str) -> None:
        self._tries.begin(was.tenant, was.user, address)
        if not await self._passwords.fits(old, was.password):
            raise WrongPassword
        self._tries.succeeded(was.tenant, was.user, address)


def check_scopes(given: Sequence[Any], allowed: Sequence[Scope] = SCOPES) -> tuple[Scope, ...]:
    """Scopes, each once and in their order."""
    if not given or isinstance(given, str) or any(one not in allowed for one in given):
        raise BadValue("scopes", given, f"some of {', '.join(allowed)}")
    return tuple(one for one in allowed if one in given)


def _signed_in(token: Secret, row: SignInRow, role: Role) -> SignedIn:
    return SignedIn(token=token, csrf=tokens.csrf_of(token), caller=_caller(row, role), until=moment(row.until))


def _caller(row: SignInRow, role: Role) -> Caller:
    by_role = SCOPES if role == ADMINISTRATOR else OWN_SCOPES
    return Caller(
        tenant=row.tenant,
        user=row.user,
        role=role,
        scopes=split(row.scopes) if row.how == ENTERED else by_role,
        via="sign_in",
        id=row.hash,
        entered_by=(row.entered_by or "an operator") if row.how == ENTERED else "",
        since=moment(row.made),
        by_link=row.how == LINK,
    )
