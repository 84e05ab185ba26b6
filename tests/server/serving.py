"""A service as it runs, on a free port of this machine, with two users of one tenant, one of another, and keys."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx2
from argon2 import PasswordHasher
from websockets.asyncio.client import ClientConnection, connect

from everthread.core.accounts import Role, Scope, operator
from everthread.server.app import application
from everthread.server.door import CSRF
from everthread.server.limits import Allowance
from everthread.server.passwords import Passwords
from everthread.server.serve import Options, Server, configured, listening_socket, opened
from everthread.server.service import Service
from everthread.testing import scripted
from tests.waiting import PATIENCE

PASSWORD = "a long enough password"
MODEL = "scripted:served"


class Person(NamedTuple):
    """Somebody who has an account, is signed in and has a key."""

    tenant: str
    user: str
    cookie: str
    csrf: str
    key: str

    @property
    def bearer(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}"}

    @property
    def page(self) -> dict[str, str]:
        """What a page that is signed in sends along."""
        return {"cookie": f"everthread={self.cookie}", CSRF: self.csrf}


class Served:
    """A running service. `http` has no caller: each request says who it is, by headers."""

    def __init__(self, service: Service, port: int, http: httpx2.AsyncClient, name: str) -> None:
        self.service, self.port, self.http, self.name = service, port, http, name
        self.people: dict[str, Person] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def join(self, user: str, *, tenant: str = "", role: Role = "user") -> Person:
        """Somebody new, who came by an invitation."""
        identity, tenant = self.service.door.identity, tenant or self.name
        link = await identity.link(operator(tenant), user, what="invitation", role=role)
        come = await self.http.post("/api/sign-in", json={"link": str(link)})
        assert come.status_code == 200, come.text
        made = Person(tenant, user, come.cookies["everthread"], come.json()["csrf"], "")
        scopes = ("read", "write", "forget", *(("admin",) if role == "administrator" else ()))
        self.http.cookies.clear()
        self.people[user] = made._replace(key=await self.key_of(made, *scopes))
        return self.people[user]

    async def key_of(self, person: Person, *scopes: Scope, **more: Any) -> str:
        """One more key, made as that person makes it."""
        asked = {"label": "a key", "scopes": list(scopes), **more}
        made = await self.http.post("/api/keys", json=asked, headers=person.page)
        assert made.status_code == 200, made.text
        return str(made.json()["secret"])

    async def begin(self, person: Person, *said: str, **about: Any) -> str:
        """A conversation of that person's, in which this was said; its id."""
        begun = await self.http.post("/api/conversations", json=about, headers=person.bearer)
        assert begun.status_code == 200, begun.text
        id = str(begun.json()["conversation"]["id"])
        events = [{"kind": "user", "parts": [{"type": "text", "text": text}]} for text in said]
        if events:
            told = await self.http.post(
                f"/api/conversations/{id}/events", json={"events": events}, headers=person.bearer
            )
            assert told.status_code == 200, told.text
        return id

    @asynccontextmanager
    async def socket(self, path: str, headers: Mapping[str, str], **more: Any) -> AsyncIterator[ClientConnection]:
        url = f"ws://127.0.0.1:{self.port}{path}"
        async with asyncio.timeout(PATIENCE), connect(url, additional_headers=dict(headers), **more) as socket:
            yield socket


async def asked(socket: ClientConnection, verb: str, arguments: Any = None, id: object = 1) -> dict[str, Any]:
    """The answer to a message, or the problem; `opened` where a conversation was to be opened."""
    await socket.send(json.dumps({"id": id, "verb": verb, "arguments": arguments or {}}))
    while True:
        told: dict[str, Any] = json.loads(await socket.recv())
        if told.get("id") == id or (verb == "open" and told["kind"] in ("opened", "problem")):
            return told


@asynccontextmanager
async def serving(
    address: str, name: str, *, allowance: Allowance | None = None, settings: Any = None, **more: Any
) -> AsyncIterator[Served]:
    """Serve a store until the end of the block. Its model says what `scripted` was told for `served`, else what it
    hears."""
    scripted.script("served")
    chosen: Any = {"model": MODEL, "memory": False, **(settings or {})}
    options = Options(
        store=address,
        port=0,
        allowance=allowance or Allowance(),
        settings=chosen,
        **more,
    )
    cheap = Passwords(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    at = listening_socket(options)
    at.listen()
    port = at.getsockname()[1]
    async with opened(options, passwords=cheap) as service:
        server = Server(configured(application(service), options))
        running = asyncio.create_task(server.serve(sockets=[at]))
        try:
            async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
                yield Served(service, port, http, name)
        finally:
            service.leave()
            server.should_exit = True
            await running
            await service.drained(10)
