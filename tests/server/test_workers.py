"""Several processes that serve on one socket: replaced when they die, ended together, never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import httpx2
import pytest

from everthread import Everthread
from tests.postgres_server import Server
from tests.server.processes import Running, begun, client_of, key_for, options, process
from tests.waiting import until


@pytest.fixture
def fresh(postgres: Server) -> str:
    return postgres.create_database(f"workers_{os.urandom(4).hex()}")


def _children(pid: int) -> list[int]:
    """The processes that serve, of the one that started them."""
    found = []
    for listed in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        command = Path(f"/proc/{listed}/cmdline").read_bytes()
        if b"spawn_main" in command:
            found.append(int(listed))
    return found


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def _answered(one: Running) -> bool:
    try:
        async with httpx2.AsyncClient() as client:
            return (await client.get(f"{one.url}/ready")).status_code == 200
    except httpx2.HTTPError:
        return False


async def test_a_process_that_is_killed_is_replaced_and_all_end_together(fresh: str) -> None:
    """Three that start at once bring an empty database up to date: one of them does, and the others wait."""
    key = await key_for(fresh)
    async with process(options(fresh), workers=3) as one:
        await until(lambda: len(_children(one.process.pid)) == 3)
        before = set(_children(one.process.pid))
        killed = before.pop()
        os.kill(killed, signal.SIGKILL)
        await until(lambda: len(set(_children(one.process.pid)) - {killed}) == 3)
        await until(lambda: _answered(one))
        async with client_of(one.url, key) as client:
            await begun(client)
        last = _children(one.process.pid)
        assert before < set(last)
        one.tell(signal.SIGTERM)
        assert await one.ended() == 0
        assert not any(map(_lives, last))
        assert f"status {-signal.SIGKILL}" in one.err


async def test_processes_whose_first_is_killed_end(fresh: str) -> None:
    async with process(options(fresh), workers=2) as one:
        await until(lambda: len(_children(one.process.pid)) == 2)
        left = _children(one.process.pid)
        one.tell(signal.SIGKILL)
        await until(lambda: not any(map(_lives, left)))


async def test_a_store_that_cannot_be_opened_ends_it_with_an_error() -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=1"
    async with process(options(nowhere, patience=0.5), workers=2, wait=False) as one:
        assert await one.ended() == 1
        assert "cannot start" in one.err
        assert "nothing" in one.err  # which store it was
        assert "Traceback" not in one.err


async def test_a_sqlite_file_is_served_by_one_process(tmp_path: Path) -> None:
    async with process(options(f"sqlite:///{tmp_path}/a.db"), workers=2, wait=False) as one:
        assert await one.ended() == 1
        assert "A SQLite store is served by one process, not by 2" in one.err


async def test_figures_of_all_processes_are_added_up(fresh: str) -> None:
    key = await key_for(fresh)
    async with process(options(fresh), workers=2) as one:
        await until(lambda: len(_children(one.process.pid)) == 2)
        for _ in range(40):  # each on a connection of its own, so that both processes answer some
            async with client_of(one.url, key) as client:
                assert (await client.get("/api/conversations")).status_code == 200
        async with httpx2.AsyncClient() as client:
            answers = await asyncio.gather(*(client.get(f"{one.url}/metrics") for _ in range(4)))
        line = 'everthread_requests_total{method="GET",route="/api/conversations",status="200"} 40.0'
        assert all(line in answer.text for answer in answers)
        one.tell(signal.SIGTERM)
        assert await one.ended() == 0


async def test_several_that_open_an_empty_store_at_once_all_open_it(fresh: str) -> None:
    stores = await asyncio.gather(*(Everthread.open(fresh) for _ in range(6)))
    for et in stores:
        await et.close()
