"""Several workers, killed, and a clock that jumps: each due run happens once, or as its policy says; none is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.failures.children import ROOT
from tests.postgres_server import PrivatePostgres


def _driven(address: str, *counts: int, server: PrivatePostgres | None = None) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.failures.scheduling", address, *map(str, counts)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as driver:
        assert driver.stdin
        assert driver.stdout
        assert driver.stderr
        while (line := driver.stdout.readline()) == "restart\n":
            assert server
            server.restart(mode="immediate")
            driver.stdin.write("done\n")
            driver.stdin.flush()
        assert line, driver.stderr.read()
        driver.stdin.close()
        report: dict[str, Any] = json.loads(line)
        return report


def test_each_due_run_happens_once_though_workers_are_killed(fresh_address: str, engine: str) -> None:
    """Three workers on PostgreSQL, two on SQLite."""
    report = _driven(fresh_address, 3 if engine == "postgres" else 2, 9, 6, 2, 1)
    assert report["problems"] == []
    assert report["killed"] == 2
    assert report["runs"] > 20


@pytest.mark.prove
@pytest.mark.parametrize("seed", [1, 2])
def test_two_hundred_schedules_on_sqlite(tmp_path: Any, seed: int) -> None:
    report = _driven(f"sqlite:///{tmp_path}/talk.db", 2, 200, 30, 15, seed)
    assert report["problems"] == []
    assert report["killed"] == 15


@pytest.mark.prove
@pytest.mark.parametrize("seed", [1, 2])
def test_two_hundred_schedules_on_a_server_that_is_restarted(seed: int) -> None:
    with PrivatePostgres(durable=True) as server:
        address = server.create_database("schedules")
        report = _driven(address, 3, 200, 30, 15, seed, 5, server=server)
    assert report["problems"] == []
    assert report["killed"] == 15
