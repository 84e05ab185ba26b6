"""Running the service: opening the store, one process or several, and ending in good order.

When it is told to end (SIGTERM), it takes no new requests, tells all who listen to come back elsewhere, and gives turns
that run a few seconds to finish; what is left of them then is interrupted, with what had come of the reply kept.
Several processes share one socket; the first starts the others and replaces one that dies.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from starlette.types import ASGIApp

from everthread.app import Everthread
from everthread.core.settings import GivenSettings
from everthread.server.app import application
from everthread.server.door import Door
from everthread.server.identity import Identity
from everthread.server.limits import Allowance
from everthread.server.passwords import Passwords
from everthread.server.service import Service
from everthread.server.vault import Vault

PORT = 8321
DRAIN = 10.0  # seconds that turns are given to finish
CLOSE = 3  # seconds that connections are given to close, once all were told to
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
PAUSE = 0.5  # seconds between looks at the processes, and before one that died is replaced


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How the service runs. `names`: by which names it may be called beside its host's own."""

    store: str
    host: str = "127.0.0.1"
    port: int = PORT
    names: tuple[str, ...] = ()
    agents: str = ""
    settings: GivenSettings = {}
    allowance: Allowance = Allowance()
    proxies: str = "127.0.0.1"  # whose word on a caller's address and scheme is taken

    @property
    def hosts(self) -> frozenset[str]:
        """By which names the service may be called; none: by any."""
        own = LOOPBACK if self.host in LOOPBACK else frozenset[str]()
        return own | {name.lower() for name in self.names}


@asynccontextmanager
async def opened(options: Options, *, passwords: Passwords | None = None) -> AsyncIterator[Service]:
    """The service on an open store. Model calls of a tenant are made with its own keys from the vault, where it has
    any; else with those of the settings file and the environment. `passwords`: hashed in another way than usual."""
    vaults: list[Vault] = []

    async def keys(tenant: str) -> Mapping[str, str]:
        return await vaults[0].keys_of(tenant)

    agents = Path(options.agents) if options.agents else None
    async with Everthread.open(options.store, settings=options.settings, keys=keys, agents=agents, locked=True) as et:
        vaults.append(Vault(et.log))
        door = Door(Identity(et.log, passwords=passwords), hosts=options.hosts)
        yield Service(et, door, vaults[0], options.allowance)


class Server(uvicorn.Server):
    """A web server that tells the service when it is asked to end."""

    def __init__(self, config: uvicorn.Config, leave: Callable[[], None]) -> None:
        super().__init__(config)
        self._leave = leave

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._leave()
        super().handle_exit(sig, frame)


def listening_socket(options: Options) -> socket.socket:
    """The socket that all processes share. OSError where the address is taken."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    # Said to be TCP: only then asyncio sends what is small at once (TCP_NODELAY); else an answer takes 40 ms.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((options.host, options.port))
    except OSError:
        made.close()
        raise
    made.listen(2048)
    made.set_inheritable(True)
    return made


async def serve(options: Options, at: socket.socket, *, began: Callable[[], None] = lambda: None) -> None:
    """Serve in this process until it is told to end."""
    async with opened(options) as service:
        server = Server(configured(application(service), options), service.leave)
        began()
        await server.serve(sockets=[at])
        await service.drained(DRAIN)


def configured(app: ASGIApp, options: Options) -> uvicorn.Config:
    """How the web server runs an application."""
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="websockets-sansio",
        ws_per_message_deflate=False,  # half the memory of an idle connection
        ws_max_size=options.allowance.body,
        timeout_graceful_shutdown=CLOSE,
        forwarded_allow_ips=options.proxies,
        server_header=False,
    )


def serve_several(options: Options, at: socket.socket, count: int) -> None:
    """Serve from several processes until told to end."""
    context = multiprocessing.get_context("spawn")

    def begin() -> BaseProcess:
        process = context.Process(target=_one, args=(options, at))
        process.start()
        return process

    ending: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _: ending.append(got))
    processes = [begin() for _ in range(count)]
    while not ending:
        with suppress(InterruptedError):
            signal.sigtimedwait([signal.SIGCHLD], PAUSE)
        processes = [one if one.is_alive() else begin() for one in processes] if not ending else processes
    for one in processes:
        if one.pid is not None and one.is_alive():
            os.kill(one.pid, signal.SIGTERM)
    for one in processes:
        one.join()


def _one(options: Options, at: socket.socket) -> None:
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(options, at))
