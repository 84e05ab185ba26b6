"""A program's visit to a service: the connection, as whom it calls, and the turns that it listens to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from everthread import arguments, wire
from everthread.app import TENANT
from everthread.client.connection import Asked, Connection
from everthread.core.accounts import Caller
from everthread.errors import BadValue, Forbidden, KeyRefused, NotSignedIn

ME = Asked("GET", "/me")
WANTS_A_KEY = (
    "wants an API key: set EVERTHREAD_API_KEY, or give it as `key`. `everthread keys --make LABEL` makes one, on the "
    "machine where it runs."
)


class Visit:
    def __init__(self, connection: Connection, user: str) -> None:
        """`user`: for whom an application calls where nothing else says."""
        self.connection, self._user = connection, user
        self._running: set[asyncio.Task[Any]] = set()
        self._caller: Caller | None = None
        self.leaving = False

    async def begin(self) -> None:
        """Ask the service who we are. ServiceUnreachable, NotSignedIn, KeyRefused, Forbidden."""
        try:
            answer = await self.connection.ask(ME._replace(user=self._user))
        except KeyRefused:
            raise
        except NotSignedIn:
            raise NotSignedIn(f"The service at {self.connection.address} {WANTS_A_KEY}") from None
        try:
            self._caller = wire.loads(Caller, answer.body)
        except BadValue:
            raise self.connection.unreachable("the answer there is not Everthread's") from None

    @property
    def caller(self) -> Caller:
        assert self._caller is not None
        return self._caller

    def acting_for(self, user: Any = None, tenant: Any = TENANT) -> str:
        """The user whom a request has to name; none where the key says whose it is. Forbidden: it is another's key."""
        if user is None:
            return self._user
        arguments.owner(tenant, user)
        self.must_be_tenant(tenant)
        caller = self.caller
        if not caller.application and user != caller.user:
            raise Forbidden(
                f"This API key is for the user {caller.user!r}", "name that one, or use an application's key"
            )
        return user if caller.application else ""

    def must_be_tenant(self, tenant: str) -> None:
        """Forbidden: the key is another tenant's. The one that everybody has who names none is as good as unsaid."""
        if tenant not in (self.caller.tenant, TENANT):
            raise Forbidden(f"This API key is of the tenant {self.caller.tenant!r}", "name that one, or leave it out")

    @contextmanager
    def turn(self) -> Iterator[None]:
        """While a turn is listened to, in this task."""
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            yield
        finally:
            self._running.discard(task)

    async def idle(self) -> None:
        while running := self._running - {asyncio.current_task()}:
            await asyncio.wait(running)

    async def close(self) -> None:
        """Leave: turns that are listened to end, those that are detached go on in the service."""
        self.leaving = True
        running = self._running - {asyncio.current_task()}
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        await self.connection.close()
