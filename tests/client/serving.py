"""A service in this process and on this loop, on a port of its own, and its client: what the suites of the library are
run through. What tests look at from outside (`et.log`, `talk._log`) is the service's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, cast

import uvicorn

from everthread import app
from everthread.client import Everthread, Talk
from everthread.core.accounts import SCOPES, operator
from everthread.core.branches import Line
from everthread.errors import AccountExists, UnknownKey
from everthread.opening import Opening
from everthread.server.app import application
from everthread.server.door import Door
from everthread.server.identity import Identity
from everthread.server.limits import Allowance
from everthread.server.serve import Options, Server, listening_socket
from everthread.server.service import Service
from everthread.server.vault import Vault
from everthread.store.conversations import Conversation

UNLIMITED = Allowance(requests=0, connections=0, turns=0)


class Served:
    """`service`: in this process. `address`: where it answers."""

    def __init__(self, service: Service, address: str, server: Server) -> None:
        self.service, self.address, self._server = service, address, server
        self._made: list[tuple[str, str]] = []

    @property
    def et(self) -> app.Everthread:
        return self.service.et

    async def key(self, user: str = "", *, users: str = "", tenant: str = app.TENANT, **more: Any) -> str:
        """A key of a user's, or of an application that acts for all users whose names begin with `users`."""
        identity = self.service.door.identity
        if user:
            with suppress(AccountExists):
                await identity.use_link(str(await identity.invite(operator(tenant), user)))
        whose: dict[str, Any] = {"user": user} if user else {"application": "tests", "users": users}
        given = {"label": "tests", "scopes": SCOPES} | more
        made = await identity.make_key(operator(tenant), **whose, **given)
        self._made.append((tenant, made.key.id))
        return str(made.secret)

    async def revoke(self) -> None:
        """Revoke the keys that were made: tests share a database, and it takes no more than so many that hold."""
        for tenant, id in self._made:
            with suppress(UnknownKey):  # gone with its user
                await self.service.door.identity.revoke_key(operator(tenant), id)

    def drop(self) -> None:
        """Break all connections, as a network does."""
        connections = list(self._server.server_state.connections)
        assert connections
        for connection in connections:
            connection.transport.abort()


@asynccontextmanager
async def serving(et: app.Everthread, *, limits: Allowance = UNLIMITED, port: int = 0) -> AsyncIterator[Served]:
    """A store, served."""
    service = Service(et, Door(Identity(et.log), hosts=frozenset()), Vault(et.log), limits)
    with listening_socket(Options(store="", port=port)) as at:
        config = uvicorn.Config(application(service), log_config=None, lifespan="off", timeout_graceful_shutdown=1)
        server = Server(config)
        running = asyncio.create_task(server.serve(sockets=[at]))
        try:
            while not server.started:  # noqa: ASYNC110 -- it tells nobody
                await asyncio.sleep(0.001)
            served = Served(service, f"http://127.0.0.1:{at.getsockname()[1]}", server)
            yield served
            await served.revoke()
        finally:
            service.leave()
            server.should_exit = True
            await running


class Watched(Everthread):
    """The client, with the service's own log for tests to look into."""

    log: Any

    def talk(self, conversation: Conversation) -> Talk:
        return WatchedTalk(self._visit, conversation)


class WatchedTalk(Talk):
    async def line(self) -> Line:
        """With the ancestors, which the verbs of `et.log` need."""
        found, whole = await super().line(), await self._log.line(self.conversation, self._branch)
        assert found.branch == whole.branch
        return whole

    def __getattr__(self, name: str) -> Any:
        if name in ("_log", "_runtime"):
            et = cast("Any", self._visit).et
            return et.log if name == "_log" else et._runtime
        return super().__getattr__(name)


class Through:
    """In place of the library's `Everthread`: `open` opens a store, serves it, and gives a client of that."""

    @staticmethod
    def open(address: Any, **options: Any) -> Opening[Watched]:
        store = app.Everthread.open(address, **options)  # which refuses at once what it cannot use

        async def opened() -> Watched:
            stack = AsyncExitStack()
            try:
                et = await stack.enter_async_context(store)
                served = await stack.enter_async_context(serving(et))
                client = await stack.enter_async_context(Everthread.open(served.address, key=await served.key()))
            except BaseException:
                await stack.aclose()
                raise
            watched = Watched(client._visit)
            watched.log, watched._visit.et = et.log, et  # type: ignore[attr-defined]
            watched.close = stack.aclose  # type: ignore[method-assign]
            return watched

        return Opening(opened)
