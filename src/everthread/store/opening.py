"""From an address to an open log. Drivers are imported only for the address that needs them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from everthread.errors import BadAddress, MissingExtra
from everthread.store.engine import Engine
from everthread.store.log import Log


async def open_log(address: str, *, patience: float = 30.0, **options: Any) -> Log:
    """Open the log at `sqlite:///path` or `postgresql://…`, creating or migrating it as needed."""
    return Log(await _engine(address, patience), **options)


async def _engine(address: str, patience: float) -> Engine:
    scheme, found, rest = address.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1 and rest != "/:memory:":
        from everthread.store.sqlite import SqliteEngine

        # Opening may have to wait for another process's lock.
        return await asyncio.to_thread(SqliteEngine, Path(unquote(rest[1:])), patience=patience)
    if found and scheme in ("postgresql", "postgres"):
        try:
            from everthread.store.postgres import PostgresEngine
        except ModuleNotFoundError as missing:
            raise MissingExtra("postgres") from missing
        return await PostgresEngine.open(address, patience=patience)
    raise BadAddress(address)
