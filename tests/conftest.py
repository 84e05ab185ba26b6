"""Fixtures: every test that asks for `address` or `et` runs once on each database."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import hypothesis
import pytest

from everthread import Everthread, Talk
from everthread.jobs.worker import Worker
from tests import examples  # noqa: F401 -- the profiles
from tests.postgres_server import Server, postgres_for_tests
from tests.redis_server import RedisServer

_numbers = count(1)

# A program that a test starts runs the same lines as the tests in this process, or is killed before it can tell them,
# and to measure it takes as long as to run it: it is measured only where `measured` is asked for.
MEASURED = "COVERAGE_PROCESS_CONFIG"
_measures = os.environ.pop(MEASURED, "") if "PYTEST_XDIST_WORKER" in os.environ else os.environ.get(MEASURED, "")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--hypothesis-profile"):
        hypothesis.settings.load_profile("sampled")


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs that the test starts run lines that no test of this process does."""
    if _measures:
        monkeypatch.setenv(MEASURED, _measures)


# In the background of a script ctrl-C is ignored, and would be by every program that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL of this test process's own; it need not survive a power cut."""
    with postgres_for_tests(durable=False) as server:
        yield server


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    """A Redis of this test process's own."""
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def _shared_database(postgres: Server) -> str:
    return postgres.create_database("shared")


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def address(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Where to open a store. PostgreSQL's is shared by the tests of a process: use a `user` of your own."""
    if engine == "sqlite":
        return f"sqlite:///{tmp_path}/talk.db"
    return str(request.getfixturevalue("_shared_database"))


@pytest.fixture
def fresh_address(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Where to open a store that nobody has opened before."""
    if engine == "sqlite":
        return f"sqlite:///{tmp_path}/fresh.db"
    server: Server = request.getfixturevalue("postgres")
    return server.create_database(f"fresh_{next(_numbers)}")


@pytest.fixture
def someone() -> str:
    """A user that no other test knows."""
    return f"user-{next(_numbers)}"


@pytest.fixture
def without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that count what is written and sent: stores are opened with memory off, unless a test says otherwise,
    and no worker looks whether something is due. What memory adds is told in tests/memory."""
    monkeypatch.setenv("EVERTHREAD_MEMORY", "false")
    monkeypatch.setattr(Worker, "remind", lambda *_: None)


@pytest.fixture
async def et(address: str) -> AsyncIterator[Everthread]:
    async with Everthread.open(address) as opened:
        yield opened


@pytest.fixture
async def talk(et: Everthread, someone: str) -> Talk:
    return await et.begin(user=someone, agent="helper")
