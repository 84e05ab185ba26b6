"""Whose rows the work at hand may touch: the second wall between tenants (docs/decisions/0044).

Every query names its tenant. Should one forget to, PostgreSQL finds nothing beyond its reach: `within` a tenant, only
what is that tenant's. A service puts each request within the tenant that it was signed in for, and all that is done
for the request, tasks that it begins included, stays there. A program that opens a store in its own process has set no
reach and sees what it asks for, as the operator does; so do workers while they look around, and the command line.

A file of SQLite has the first wall only, and no reach changes what it finds.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar, Token

from everthread.store.conversations import OPERATOR, check_tenant

_reach: ContextVar[str] = ContextVar("everthread_reach", default=OPERATOR)


def reach() -> str:
    """The tenant whose rows can be reached, or OPERATOR."""
    return _reach.get()


def within(tenant: str) -> AbstractContextManager[None]:
    """Whatever is done meanwhile, and in tasks that are begun meanwhile, reaches the rows of this tenant only."""
    return _Reaching(check_tenant(tenant))


def as_operator() -> AbstractContextManager[None]:
    """Whatever is done meanwhile may reach all rows: for what serves all tenants, whoever happens to begin it."""
    return _Reaching(OPERATOR)


class _Reaching:
    """A class and no generator: every request comes through here."""

    __slots__ = ("_before", "_tenant")
    _before: Token[str]

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant

    def __enter__(self) -> None:
        self._before = _reach.set(self._tenant)

    def __exit__(self, *_: object) -> None:
        _reach.reset(self._before)
