"""Back-up and restore, by the commands of docs/howto/operations.md: into an empty place, and everything is there."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from everthread import Everthread, assistant, file, user
from everthread.core.accounts import operator
from everthread.core.branches import ENDLESS
from everthread.server.identity import Identity
from everthread.store.open import open_log
from tests.postgres_server import PrivatePostgres, find_binaries

PAGE = Path(__file__).resolve().parents[2] / "docs/howto/operations.md"
TENANTS = ("default", "acme")


@pytest.fixture(scope="module")
def server() -> Iterator[PrivatePostgres]:
    with PrivatePostgres(durable=False) as started:
        yield started


def _commands(section: str) -> list[str]:
    """The blocks of shell commands under a heading of the page."""
    text = PAGE.read_text().partition(f"### {section}\n")[2].partition("\n### ")[0]
    return re.findall(r"```sh\n(.*?)```", text, re.DOTALL)


def _run(command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    around = {**os.environ, "PATH": f"{find_binaries()}:{os.environ['PATH']}", **environ}
    return subprocess.run(["/bin/sh", "-euc", command], env=around, capture_output=True, text=True)


async def _fill(et: Everthread) -> None:
    for tenant in TENANTS:
        for name in ("ana", "ben"):
            talk = await et.begin(user=name, tenant=tenant)
            await talk.append(
                user(f"I am {name} of {tenant}.", file(b"a picture of " + name.encode())), assistant("Hm.")
            )
            await (await talk.fork()).append(user("And elsewhere?"))
        await Identity(et.log).make_key(operator(tenant), label="a key", application="app")


async def _everything(address: str) -> dict[str, Any]:
    """All that there is: events, files and accounts; and what doctor has to say."""
    log = await open_log(address)
    try:
        found: dict[str, Any] = {"problems": [*await log.problems(), *await log.strays()]}
        for tenant, id in await log.everything():
            _, wrong = await log.check(tenant, id)
            found["problems"] += wrong
    finally:
        await log.close()
    async with Everthread.open(address) as et:
        for tenant in TENANTS:
            found[f"keys of {tenant}"] = await Identity(et.log).keys(operator(tenant))
            for name in ("ana", "ben"):
                for listed in await et.conversations(user=name, tenant=tenant):
                    talk = et.talk(listed)
                    for branch in await talk.branches():
                        line = await et.log.line(talk.conversation, branch.branch.number)
                        events = await et.log.range(line, 1, ENDLESS)
                        blobs = {hash: await et.log.blob(line, hash) for hash in await et.log.blobs(line)}
                        found[f"{tenant} {talk.id} {line.branch.number}"] = (events, blobs)
    return found


async def test_a_sqlite_file_that_is_in_use_is_backed_up_and_restored(tmp_path: Path) -> None:
    source, backup, there = tmp_path / "talk.db", tmp_path / "backup.db", tmp_path / "elsewhere" / "talk.db"
    there.parent.mkdir()
    there.with_name("talk.db-wal").write_bytes(b"left by another file")
    back_up, restore = _commands("SQLite")
    async with Everthread.open(f"sqlite:///{source}") as et:
        await _fill(et)
        done = _run(back_up, FILE=str(source), BACKUP=str(backup))
        assert done.returncode == 0, done.stderr
        before = await _everything(f"sqlite:///{source}")
        talk = await et.begin(user="ana")  # after the back-up
        await talk.append(user("Too late."))
    done = _run(restore, FILE=str(there), BACKUP=str(backup))
    assert done.returncode == 0, done.stderr
    assert there.stat().st_mode & 0o077 == 0
    assert before["problems"] == []
    assert await _everything(f"sqlite:///{there}") == before


@pytest.mark.parametrize("whose", ["a superuser's", "an owner's"])
async def test_a_postgresql_database_is_backed_up_and_restored(
    server: PrivatePostgres, tmp_path: Path, whose: str
) -> None:
    source, there = await _databases(server, whose)
    by_superuser, by_owner, restore = _commands("PostgreSQL")
    command, backup = by_superuser if whose == "a superuser's" else by_owner, str(tmp_path / "backup")
    async with Everthread.open(source) as et:
        await _fill(et)
        done = _run(command, DATABASE=source, BACKUP=backup)
        assert done.returncode == 0, done.stderr
    before = await _everything(source)
    done = _run(restore, RESTORED=there, BACKUP=backup)
    assert done.returncode == 0, done.stderr
    assert before["problems"] == []
    assert len(before) == 1 + 2 + 8  # problems, keys, branches: nothing is compared with nothing
    assert await _everything(there) == before


async def test_an_owner_who_does_not_say_that_it_is_about_all_tenants_gets_no_back_up(
    server: PrivatePostgres, tmp_path: Path
) -> None:
    source, _ = await _databases(server, "an owner's")
    by_superuser, _, _ = _commands("PostgreSQL")
    async with Everthread.open(source) as et:
        await _fill(et)
    done = _run(by_superuser, DATABASE=source, BACKUP=str(tmp_path / "backup"))
    assert done.returncode != 0
    assert "row-level security" in done.stderr


async def _databases(server: PrivatePostgres, whose: str) -> tuple[str, str]:
    """Two that are empty, of a superuser or of an owner whom row-level security binds."""
    suffix = os.urandom(3).hex()
    names = f"source_{suffix}", f"there_{suffix}"
    addresses = [server.create_database(name) for name in names]
    if whose == "an owner's":
        owner = f"owner_{suffix}"
        connection = await asyncpg.connect(server.url)
        await connection.execute(f"CREATE ROLE {owner} LOGIN")
        for name in names:
            await connection.execute(f"ALTER DATABASE {name} OWNER TO {owner}")
        await connection.close()
        addresses = [address.replace("postgres@", f"{owner}@") for address in addresses]
    return addresses[0], addresses[1]
