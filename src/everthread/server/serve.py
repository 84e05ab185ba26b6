"""Running the service: opening the store, one process or several, and ending in good order.

When it is told to end (SIGTERM), it takes no new requests, tells all who listen to come back elsewhere, and gives turns
that run a few seconds to finish; what is left of them then is interrupted, with what had come of the reply kept.
`run` is the whole program. Several processes share one socket (`processes`).
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import msgspec
import uvicorn
from starlette.types import ASGIApp

from everthread.app import Everthread
from everthread.core.loopback import LOOPBACK
from everthread.core.settings import GivenSettings
from everthread.errors import EverthreadError, OneProcessOnly
from everthread.routes import PORT
from everthread.server.app import application
from everthread.server.door import Door
from everthread.server.identity import Identity
from everthread.server.limits import Allowance
from everthread.server.logs import Format, note, to_stderr
from everthread.server.passwords import Passwords
from everthread.server.processes import Processes, ended
from everthread.server.service import Service
from everthread.server.tracing import tracing
from everthread.server.vault import Vault
from everthread.store.open import takes_bus
from everthread.tools.canvas import canvas_tools

DRAIN = 10.0  # seconds that turns are given to finish
CLOSE = 3  # seconds that connections are given to close, once all were told to
BACKLOG = 2048  # connections that may wait to be accepted


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How the service runs. `names`: by which names it may be called beside its host's own."""

    store: str
    host: str = LOOPBACK[0]
    port: int = PORT
    names: tuple[str, ...] = ()
    agents: str = ""
    settings: GivenSettings = {}
    allowance: Allowance = Allowance()
    proxies: str = LOOPBACK[0]  # whose word on a caller's address and scheme is taken
    metrics: Literal["local", "key"] = "local"  # who is told figures: callers of this machine too, or by key alone
    log_format: Format = "text"
    canvas: bool = False  # whether agents may draw on the canvas
    drain: float = DRAIN
    patience: float = 30.0  # seconds to wait for a store that is away

    @property
    def hosts(self) -> frozenset[str]:
        """By which names the service may be called; none: by any."""
        own = frozenset(LOOPBACK if self.host in LOOPBACK else ())
        return own | {name.lower() for name in self.names}


@asynccontextmanager
async def opened(
    options: Options, *, passwords: Passwords | None = None, keys: Mapping[str, str] | None = None
) -> AsyncIterator[Service]:
    """The service on an open store. Model calls of a tenant are made with its own keys from the vault, where it has
    any; else with those of the settings file and the environment. `passwords`: hashed in another way than usual.
    `keys`: in place of all these."""
    vaults: list[Vault] = []

    async def of_vault(tenant: str) -> Mapping[str, str]:
        return await vaults[0].keys_of(tenant)

    more: dict[str, Any] = {"agents": Path(options.agents) if options.agents else None, "patience": options.patience}
    more |= {"tools": canvas_tools()} if options.canvas else {}
    async with Everthread.open(
        options.store, settings=options.settings, keys=keys or of_vault, locked=True, **more
    ) as et:
        vaults.append(Vault(et.log))
        door = Door(Identity(et.log, passwords=passwords), hosts=options.hosts)
        local = options.metrics == "local"
        yield Service(et, door, vaults[0], options.allowance, tracing(os.environ), local_metrics=local)


class Server(uvicorn.Server):
    """A web server that leaves signals to us: it would end the process by them before the turns have ended."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class Ending:
    """Whether the process was told to end, by a signal or because the one that started it is gone."""

    def __init__(self) -> None:
        self.told, self.serves = asyncio.Event(), False
        self.at_once = asyncio.Event()  # told twice by ctrl-C
        self.since = 0.0

    def tell(self, *, hurry: bool = False) -> None:
        if hurry and self.told.is_set():
            self.at_once.set()
        self.since = self.since or time.monotonic()
        self.told.set()

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Signals are heard meanwhile."""
        loop, parent = asyncio.get_running_loop(), multiprocessing.parent_process()
        loop.add_signal_handler(signal.SIGTERM, self.tell)
        loop.add_signal_handler(signal.SIGINT, partial(self.tell, hurry=True))
        if parent is not None:
            loop.add_reader(parent.sentinel, self._orphaned, loop, parent.sentinel)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
            if parent is not None:
                loop.remove_reader(parent.sentinel)

    def _orphaned(self, loop: asyncio.AbstractEventLoop, sentinel: int) -> None:
        loop.remove_reader(sentinel)
        self.tell()


def listening_socket(options: Options) -> socket.socket:
    """The socket that all processes share. OSError where the address is taken. Nobody can connect before a process
    serves: a balancer goes elsewhere until then, and nothing waits for one that is still starting."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    # Said to be TCP: only then asyncio sends what is small at once (TCP_NODELAY); else an answer takes 40 ms.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        try:
            made.bind((options.host, options.port))
        except OSError:
            _share(made)  # perhaps only connections of one that has ended are left there
            made.bind((options.host, options.port))
    except OSError:
        made.close()
        raise
    made.set_inheritable(True)
    return made


def _share(at: socket.socket) -> None:
    """Let whoever comes after us have the address as soon as we have ended. Not before we listen: until then, another
    could have it at the same time."""
    at.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)


async def serve(options: Options, at: socket.socket, *, began: Callable[[], None] = lambda: None) -> None:
    """Serve in this process until it is told to end."""
    ending = Ending()
    with ending.heard():
        serving = asyncio.create_task(_serve(options, at, ending, began))
        told = asyncio.create_task(ending.told.wait())
        try:
            await asyncio.wait({serving, told}, return_when=asyncio.FIRST_COMPLETED)
            if not ending.serves:  # told before it began: there is nothing to bring to an end
                serving.cancel()
            await asyncio.wait({serving})
        finally:
            told.cancel()
            serving.cancel()
            await asyncio.wait({serving, told})
        if not serving.cancelled():
            serving.result()


async def _serve(options: Options, at: socket.socket, ending: Ending, began: Callable[[], None]) -> None:
    async with opened(options) as service, service.at_work():
        server = Server(configured(application(service), options))
        ending.serves = True
        leaving = asyncio.create_task(_leave(service, server, ending))
        _share(at)
        at.listen(BACKLOG)
        began()
        try:
            await server.serve(sockets=[at])
            drained = asyncio.create_task(service.drained(ending.since + options.drain - time.monotonic()))
            hurry = asyncio.create_task(ending.at_once.wait())
            await asyncio.wait({drained, hurry}, return_when=asyncio.FIRST_COMPLETED)
            for task in (drained, hurry):
                task.cancel()
            await asyncio.wait({drained, hurry})
            await service.drained(0)
        finally:
            leaving.cancel()


async def _leave(service: Service, server: Server, ending: Ending) -> None:
    """Once told to end, tell everybody else."""
    await ending.told.wait()
    note("leaving", {})
    service.leave()
    server.should_exit = True


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


def run(options: Options, at: socket.socket, workers: int = 1, *, began: Callable[[], None] = lambda: None) -> None:
    """The whole program, from its first line in the log until it was told to end. CannotStart, StoreError,
    OneProcessOnly. `began` is called once somebody can connect."""
    end_quietly()
    to_stderr(options.log_format)
    if workers == 1:
        asyncio.run(serve(options, at, began=began))
    else:
        serve_several(options, at, workers, began=began)


def end_quietly() -> None:
    """Until there is anything to bring to an end, being told to end is no failure."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


def serve_several(options: Options, at: socket.socket, count: int, *, began: Callable[[], None] = lambda: None) -> None:
    """Serve from several processes until told to end. OneProcessOnly: over SQLite. CannotStart."""
    if not takes_bus(options.store):
        raise OneProcessOnly(count)
    with at:
        Processes(_one, (options, at), count, began).serve()


def _one(options: Options, at: socket.socket, tells: Connection) -> None:
    end_quietly()
    to_stderr(options.log_format)
    try:
        asyncio.run(serve(options, at, began=lambda: tells.send("serves")))
    except EverthreadError as problem:
        ended(problem)
