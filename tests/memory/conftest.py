"""A talk with a scripted model, a scripted model for its memory, and a worker that works when told to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from everthread import Everthread, GivenSettings, Talk
from everthread.jobs.memory import memory_worker
from everthread.jobs.worker import Worker
from everthread.testing.scripted import script
from tests.contract.support import Clock
from tests.memory.store import Store
from tests.memory.support import only_turns_remind, past_clock

Speak = Callable[..., None]


@pytest.fixture
def memory_model(someone: str) -> str:
    return f"scripted:{someone}-memory"


@pytest.fixture
def remember(someone: str) -> Speak:
    """Give the model of memory its replies."""

    def remember(*replies: Any) -> None:
        script(f"{someone}-memory", *replies)

    return remember


@pytest.fixture
async def et(
    address: str, someone: str, memory_model: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Everthread]:
    """Whose own worker is reminded by `say`, and not by `append`: what is done with that is up to each test."""
    only_turns_remind(monkeypatch)
    async with Everthread.open(address, settings=settings_of(someone, memory_model)) as et:
        yield et


@pytest.fixture
async def lively(address: str, someone: str, memory_model: str) -> AsyncIterator[Everthread]:
    """Whose own worker does what it is reminded of."""
    async with Everthread.open(address, settings=settings_of(someone, memory_model)) as et:
        yield et


def settings_of(someone: str, memory_model: str) -> GivenSettings:
    """A model call of memory that fails is not made again at once, as tests count what failed."""
    return {"model": f"scripted:{someone}", "summary_model": memory_model, "retries": 0}


@pytest.fixture
async def talk(et: Everthread, someone: str) -> Talk:
    return await et.begin(user=someone)


@pytest.fixture
async def worker(et: Everthread) -> AsyncIterator[Worker]:
    worker = memory_worker(et._runtime)
    yield worker
    await worker.close()


@pytest.fixture
def clock() -> Clock:
    """Moves only when told to."""
    return past_clock()


@pytest.fixture
async def slow(et: Everthread, clock: Clock) -> Everthread:
    """Where time goes by when it is told to."""
    et.log._clock = clock
    return et


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is tried again without a pause."""
    monkeypatch.setattr("everthread.memory.spending.FIRST_PAUSE", 0.0)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    if request.param == "sqlite":
        address = f"sqlite:///{tmp_path_factory.mktemp('properties')}/talk.db"
    else:
        address = str(request.getfixturevalue("_shared_database"))
    opened = Store(address)
    yield opened
    opened.close()
