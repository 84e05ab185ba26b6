"""What the parts of `Identity` share: the log, the passwords, what was looked up a moment ago, and who may do what."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from everthread.core.accounts import AuditEntry, Caller
from everthread.errors import Forbidden
from everthread.server.known import Known
from everthread.server.passwords import Passwords
from everthread.server.tries import Tries
from everthread.store.conversations import Owner, owner_of
from everthread.store.log import Log


class Bound:
    def __init__(
        self, log: Log, *, passwords: Passwords | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`passwords`: with other parameters of argon2 than its library recommends. `clock`: in seconds, by which what
        was looked up grows old; sign-ins, links and keys run out by the log's."""
        self._log, self._accounts = log, log.accounts
        self._passwords = passwords or Passwords()
        self._tries = Tries(lambda: log.now)
        self._known: Known[Caller] = Known(lambda: log.now, clock=clock)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """While something changes that callers depend on: afterwards, however it ended, all are looked up anew."""
        try:
            yield
        finally:
            self._known.clear()

    def _entry(self, by: Caller, act: str, *, user: str = "", about: str = "") -> AuditEntry:
        return self._accounts.entry(by.tenant, by=by.name, act=act, user=user, about=about)


def must_administer(by: Caller) -> None:
    if not by.may("admin"):
        raise Forbidden("This is for administrators", "ask one, or use a key that has the scope admin")


def is_self(by: Caller, user: str) -> bool:
    """Whether a person asks for what is their own: signed in, and not by a key or an administrator in their place."""
    return by.via == "sign_in" and not by.entered_by and by.user == user


def must_be_self(by: Caller, user: str) -> None:
    if not is_self(by, user):
        raise Forbidden("Only the user can do this", "sign in as that user")


def owner(by: Caller, user: str) -> Owner:
    return owner_of(by.tenant, user)
