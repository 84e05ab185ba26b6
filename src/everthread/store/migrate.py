"""Bringing a database to the schema of this version, by numbered files that are never edited once released.

An older database is migrated when it is opened; a newer one is refused. `schema.sql` beside each engine's
`migrations/` says what they add up to, and a test proves it.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from everthread.errors import NewerSchema


class Migration(NamedTuple):
    version: int
    name: str
    sql: str


@cache
def migrations(engine: str) -> tuple[Migration, ...]:
    folder = files("everthread.store").joinpath(f"sql/{engine}/migrations")
    found = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return tuple(_migration(file.name, file.read_text("utf-8")) for file in found)


def missing(store: str, engine: str, applied: list[tuple[int, str]]) -> tuple[Migration, ...]:
    """What a database with these versions still needs; NewerSchema where it has one that is not known here."""
    known = migrations(engine)
    if applied and (newest := max(applied))[0] > known[-1].version:
        raise NewerSchema(store, version=newest[0], name=newest[1], known=known[-1].version)
    seen = {version for version, _ in applied}
    return tuple(migration for migration in known if migration.version not in seen)


def _migration(file: str, sql: str) -> Migration:
    match = re.fullmatch(r"(\d{4})_(\w+)\.sql", file)
    if not match:
        raise ValueError(f"{file} is not named like 0001_what_it_does.sql")
    return Migration(int(match[1]), match[2], sql)
