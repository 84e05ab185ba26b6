"""A service of conversations, as the library's store: `Everthread.open` takes its address."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from everthread import app
from everthread import arguments as check
from everthread.agent import personas
from everthread.agent.personas import Agents
from everthread.app import AGENT, TENANT
from everthread.archive.catalogue import ArchiveProblem, ArchiveProgress
from everthread.client.connection import Answer, Asked, Connection
from everthread.client.moving import exported, imported
from everthread.client.remote import Given, Remote, remote
from everthread.client.talk import NO_STORE, Talk
from everthread.client.visit import Visit
from everthread.core.accounts import Caller
from everthread.errors import BadValue, NotRemote
from everthread.jobs.worker import Did
from everthread.opening import Opening
from everthread.store.conversations import Conversation
from everthread.transfer.detect import Format
from everthread.transfer.importing import Imported, OnProgress

KEY = "EVERTHREAD_API_KEY"
PATIENCE = 600.0  # seconds


@remote("store")
class Everthread(Remote, app.Everthread):
    """A service of conversations. `user` and `tenant` are those of the API key; an application's key acts for any
    `user` that it may."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit

    @staticmethod
    def open(  # type: ignore[override]
        address: str, *, key: str | None = None, user: str = "", patience: float = PATIENCE
    ) -> Opening[Everthread]:
        """Open the service at an address: `async with Everthread.open("https://talk.example.com", key="evk_…") as et`,
        or `et = await Everthread.open(…)`.

        `key`: an API key of the service; else the one in EVERTHREAD_API_KEY. `user`: for whom an application's key
        acts where a verb takes none. `patience`: seconds that the service has for an answer; turns, and whatever is
        listened to, take as long as they take. Raises ServiceUnreachable, KeyRefused.
        """
        known = os.environ.get(KEY, "") if key is None else check.text("key", key)
        waits = check.seconds("patience", patience)
        connection = Connection(address, known, patience=waits)
        visit = Visit(connection, check.name("user", user, empty=True))

        async def opened() -> Everthread:
            try:
                await visit.begin()
            except BaseException:
                await visit.close()
                raise
            return Everthread(visit)

        return Opening(opened)

    def __repr__(self) -> str:
        return f"<Everthread at {self._visit.connection.address}>"

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("log", "memory", "retention", "_log", "_runtime"):
            raise AttributeError(NO_STORE)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def caller(self) -> Caller:
        """As whom the service knows us, and what we may do there."""
        return self._visit.caller

    def _for(self, given: Given) -> str:
        return self._visit.acting_for(given.get("user"), given.get("tenant", TENANT))

    async def _call(self, verb: str, *several: Any, **named: Any) -> Any:
        if verb in ("conversations", "schedules", "archives") and named.get("user") == "":
            return []  # as in the library: without a user there are none
        return await super()._call(verb, *several, **named)

    async def _after(self, verb: str, given: Given, value: Any, answer: Answer) -> Any:
        return self.talk(value.conversation) if verb in ("conversation", "begin", "restore") else value

    def talk(self, conversation: Conversation) -> Talk:
        return Talk(self._visit, conversation)

    @property
    def agents(self) -> Agents:
        return RemoteAgents(self._visit)

    def export(self, *, user: str, tenant: str = TENANT) -> AsyncIterator[bytes]:
        return exported(self._visit, Asked("GET", "/export", user=self._visit.acting_for(user, tenant)))

    async def import_file(
        self,
        path: str | Path,
        *,
        user: str,
        agent: str = AGENT,
        format: Format | None = None,
        keep_users: bool = False,
        progress: OnProgress | None = None,
        tenant: str = TENANT,
    ) -> Imported:
        acting = self._visit.acting_for(user, tenant)
        if keep_users:
            raise BadValue("keep_users", keep_users, "left out: what is imported becomes the user's")
        query = {"agent": check.name("agent", agent)} | ({"format": str(check.format(format))} if format else {})
        return await imported(self._visit, Asked("POST", "/import", query, user=acting), Path(path), progress)

    async def work(
        self, *, until_idle: bool = False, all: bool = False, tell: Callable[[Did], None] | None = None
    ) -> None:
        raise NotRemote("The worker", "the service has its own")

    async def archive_idle(self, *, tell: Callable[[ArchiveProgress], None] | None = None) -> int:
        raise NotRemote("Archiving for all users", "the service does it by itself (setting `archive`)")

    async def verify_archives(self) -> list[ArchiveProblem]:
        raise NotRemote("Verifying all archives", "run `everthread archive verify` on its machine")

    async def idle(self) -> None:
        await self._visit.idle()

    async def close(self) -> None:
        await self._visit.close()


@remote("agents")
class RemoteAgents(Remote, personas.Agents):
    """The agents of the tenant, with their versions."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit

    async def spread(self, folder: Path) -> None:
        raise NotRemote("Agents for all tenants", "operators name their folder with `everthread serve --agents`")

    async def bring(self, tenant: str) -> None:
        """Nothing: the service does it by itself."""

    def _for(self, given: Given) -> str:
        self._visit.must_be_tenant(given["tenant"])
        return self._visit.acting_for()

    def _before(self, verb: str, given: Given) -> Given:
        """An agent's JSON form leaves out the secrets of its MCP servers; to be saved, it needs them."""
        return {**given, "agent": msgspec.to_builtins(given["agent"])} if verb == "save" else given
