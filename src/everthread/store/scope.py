"""Whose rows the work at hand may touch: the second wall between tenants (docs/decisions/0044).

Every query names its tenant. Should one forget to, PostgreSQL finds nothing beyond the scope: `within` a tenant, only
what is that tenant's. A service puts each request within the tenant that it was signed in for, and all that is done
for the request, tasks that it begins included, stays there. A program that opens a store in its own process has set no
scope and sees what it asks for, as the operator does; so do workers while they look around, and the command line.

A file of SQLite has the first wall only, and no scope changes what it finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from everthread.store.conversations import OPERATOR, check_tenant

_scope: ContextVar[str] = ContextVar("everthread_scope", default=OPERATOR)


def scope() -> str:
    """The tenant whose rows can be reached, or OPERATOR."""
    return _scope.get()


@contextmanager
def within(tenant: str) -> Iterator[None]:
    """Whatever is done meanwhile, and in tasks that are begun meanwhile, reaches the rows of this tenant only."""
    with _scoped(check_tenant(tenant)):
        yield


@contextmanager
def as_operator() -> Iterator[None]:
    """Whatever is done meanwhile may reach all rows: for what serves all tenants, whoever happens to begin it."""
    with _scoped(OPERATOR):
        yield


@contextmanager
def _scoped(scope: str) -> Iterator[None]:
    before = _scope.set(scope)
    try:
        yield
    finally:
        _scope.reset(before)
