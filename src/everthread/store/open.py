"""From an address to an open log. Drivers are imported only for the address that needs them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from everthread.errors import BadAddress, BadValue, MissingExtra
from everthread.store.bus import address as bus_address
from everthread.store.bus.base import Bus
from everthread.store.engine import Engine
from everthread.store.log import Log

SQLITE = "sqlite:///"


async def open_log(address: str | Engine, *, bus: str = "", patience: float = 30.0, **options: Any) -> Log:
    """Open the log at `sqlite:///path` or `postgresql://…`, creating or migrating it as needed; or on an engine.

    `bus`: `redis://…` in place of PostgreSQL's own.
    """
    if not isinstance(address, str):
        return Log(address, **options)
    scheme, found, rest = address.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and rest not in ("/", "/:memory:"):
        return Log(await _sqlite(Path(unquote(rest[1:])), bus, patience), **options)
    if found and scheme in ("postgresql", "postgres"):
        return Log(await _postgres(address, bus, patience), **options)
    raise BadAddress(address)


def takes_bus(address: str | Engine) -> bool:
    """Whether the processes of the store at this address may have a bus of their choice; an engine has its own."""
    return isinstance(address, str) and not address.startswith("sqlite:")


def archives_beside(address: str | Engine) -> str:
    """The folder beside a file of SQLite in which its archives are; none for other stores."""
    if isinstance(address, str) and address.startswith(SQLITE):
        return f"{unquote(address.removeprefix(SQLITE))}.archives"
    return ""


async def _sqlite(path: Path, bus: str, patience: float) -> Engine:
    if bus:
        given = bus_address.without_password(bus)
        raise BadValue("bus", given, "left out with a SQLite file, whose processes need none")
    from everthread.store.sqlite.engine import SqliteEngine

    # Opening may have to wait for another process's lock.
    return await asyncio.to_thread(SqliteEngine, path, patience=patience)


async def _postgres(address: str, bus: str, patience: float) -> Engine:
    try:
        from everthread.store.postgres.engine import PostgresEngine
    except ModuleNotFoundError as missing:
        raise MissingExtra("postgres") from missing
    return await PostgresEngine.open(address, bus=_bus(bus) if bus else None, patience=patience)


def _bus(address: str) -> Bus:
    place = bus_address.read(address)
    try:
        from everthread.store.bus.redis import RedisBus
    except ModuleNotFoundError as missing:
        raise MissingExtra("redis") from missing
    return RedisBus(place)
