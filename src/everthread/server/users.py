"""Users, as administrators see them: who there is, who may come in, and as what. Nothing that anybody has said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everthread.core.accounts import ROLES, USER, Account, AuditEntry, Caller, Role
from everthread.errors import BadValue
from everthread.server.bound import must_administer, owner
from everthread.server.sign_ins import SignIns
from everthread.server.tokens import Secret
from everthread.store.beside.accounts import AccountRow, Change
from everthread.store.conversations import check_name
from everthread.store.verbs.accounts import NEWEST

if TYPE_CHECKING:
    from everthread.app import Everthread


class Users(SignIns):
    async def users(self, by: Caller, *, after: str = "", limit: int = 100) -> list[Account]:
        """A page of the tenant's accounts, by name; the next comes `after` the last one's."""
        must_administer(by)
        return await self._accounts.of(by.tenant, after=check_name("after", after, empty=True), limit=limit)

    async def user(self, by: Caller) -> Account | None:
        """One's own account; None for who has none, such as an application's user."""
        found = await self._accounts.get(owner(by, by.user)) if by.user else None
        return found.account if found else None

    async def invite(self, by: Caller, user: str, *, role: Role = USER) -> Secret:
        """A link's token for somebody who has no account yet; it holds for a week. AccountExists."""
        return await self.link(by, user, what="invitation", role=role)

    async def disable(self, by: Caller, user: str) -> Account:
        """Let a user in no more, by whatever: sign-ins and links end, keys are refused. LastAdministrator."""
        now = self._log.now

        def to(row: AccountRow) -> AccountRow:
            return row if row.disabled is not None else row._replace(disabled=now)

        return await self._change(by, user, "disable", to, ends="")

    async def enable(self, by: Caller, user: str) -> Account:
        """Let a user in again. Keys that were not revoked are taken again."""
        return await self._change(by, user, "enable", lambda row: row._replace(disabled=None))

    async def change_role(self, by: Caller, user: str, role: Role) -> Account:
        """Make a user an administrator, or an administrator a user. LastAdministrator."""
        if role not in ROLES:
            raise BadValue("role", role, " or ".join(ROLES))
        return await self._change(by, user, "change_role", lambda row: row._replace(role=role), about=role)

    async def erase(self, by: Caller, user: str, et: Everthread) -> int:
        """Erase a user for ever: conversations, documents, account, sign-ins, links and keys. The audit keeps that it
        was done, by whom and when, with a mark in place of the name. How many conversations. LastAdministrator."""
        must_administer(by)
        with self._changing():
            await self._accounts.let_go(owner(by, user), self._entry(by, "erase", user=user))
            return await et.erase_user(user=user, tenant=by.tenant)

    async def forget_me(self, by: Caller, et: Everthread) -> int:
        """Erase oneself for ever, as `erase` does: nobody is signed in as this user from now on. LastAdministrator."""
        with self._changing():
            await self._accounts.let_go(owner(by, by.user))
            return await et.erase_user(user=by.user, tenant=by.tenant)

    async def audit(self, by: Caller, *, before: str = NEWEST, limit: int = 100) -> list[AuditEntry]:
        """A page of what administrators and operators did, newest first; the next is `before` the id of the last."""
        must_administer(by)
        return await self._accounts.audited(by.tenant, before=check_name("before", before), limit=limit)

    async def _change(
        self, by: Caller, user: str, act: str, to: Change, *, about: str = "", ends: str | None = None
    ) -> Account:
        must_administer(by)
        entry = self._entry(by, act, user=user, about=about)
        with self._changing():
            return await self._accounts.change(owner(by, user), to, entry, ends=ends)
