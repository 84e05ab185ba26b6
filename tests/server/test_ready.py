"""`/ready` and `/metrics`: answered in time whatever the store is at, and figures told to those who may have them."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from everthread.errors import Unavailable
from everthread.server import app
from everthread.store.postgres.engine import PostgresEngine
from tests.server.serving import Served, serving


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "READY_SECONDS", 0.05)


@pytest.mark.parametrize("engine", ["postgres"])
async def test_a_process_whose_connections_are_all_in_use_says_so(served: Served, engine: str) -> None:
    at_work = served.service.et.log._engine
    assert isinstance(at_work, PostgresEngine)
    async with AsyncExitStack() as held:
        while not at_work.is_full:
            await held.enter_async_context(at_work._pool.acquire())
        answer = await served.http.get("/ready")
        assert (answer.status_code, answer.json()) == (503, {"status": "all connections to the store are in use"})
        assert answer.headers["retry-after"] == "1"
        assert (await served.http.get("/health")).status_code == 200
    assert (await served.http.get("/ready")).json() == {"status": "ready"}


async def test_a_store_that_fails_is_told_without_its_address(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_: object) -> Any:
        raise Unavailable("postgresql://db.internal/talk", "walnut")

    monkeypatch.setattr(type(served.service.et.log.calibrations), "all", fails)
    answer = await served.http.get("/ready")
    assert answer.status_code == 503
    assert answer.json() == {"status": "the store cannot be used now (Unavailable)"}


async def test_figures_are_told_to_this_machine_unless_everybody_looks_like_it(tmp_path: Path) -> None:
    """A balancer here that passes on TCP connections makes every caller a local one, and adds no header."""
    async with serving(f"sqlite:///{tmp_path}/local.db", "here") as site:
        ada = await site.join("ada", role="administrator")
        assert (await site.http.get("/metrics")).status_code == 200
        for header in ("X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"):
            assert (await site.http.get("/metrics", headers={header: "127.0.0.1"})).status_code == 401
    async with serving(f"sqlite:///{tmp_path}/local.db", "here", metrics="key", proxies="none") as site:
        assert (await site.http.get("/metrics")).status_code == 401
        assert (await site.http.get("/metrics", headers=ada.bearer)).status_code == 200
        eve = await site.join("eve")
        assert (await site.http.get("/metrics", headers=eve.bearer)).status_code == 403


async def test_with_no_proxy_nobodys_word_on_an_address_is_taken(tmp_path: Path) -> None:
    """Who guesses passwords from many addresses guesses from one."""
    async with serving(f"sqlite:///{tmp_path}/local.db", "here", proxies="none") as site:
        await site.join("ana")
        wrong = {"user": "ana", "password": "not this one either", "tenant": "here"}
        tried = [
            await site.http.post("/api/sign-in", json=wrong, headers={"X-Forwarded-For": f"203.0.113.{number}"})
            for number in range(8)
        ]
        assert tried[-1].status_code == 429
