"""How often the store is asked, which no machine's noise changes. On PostgreSQL each question is a round trip."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from everthread import Everthread, Talk, assistant, user
from everthread.jobs.worker import Worker
from everthread.store.engine import Script
from everthread.testing.scripted import script

MODEL = {"model": "anthropic:claude-sonnet-4-6", "budget": 4_000}


@pytest.fixture(autouse=True)
def nobody_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker asks anything at the same time."""
    monkeypatch.setattr(Worker, "remind", lambda *_: None)


@contextmanager
def counted(talk: Talk) -> Iterator[list[str]]:
    """The names of the questions that are asked meanwhile."""
    engine: Any = talk._log._engine
    asked: list[str] = []
    read = engine.read

    def telling(made: Callable[[], Script[Any]]) -> Callable[[], Script[Any]]:
        def run() -> Script[Any]:
            running = made()
            try:
                question = next(running)
                while True:
                    asked.append(question.name)
                    question = running.send((yield question))
            except StopIteration as done:
                return done.value

        return run

    async def reading(made: Callable[[], Script[Any]], **how: Any) -> Any:
        return await read(telling(made), **how)

    engine.read = reading
    try:
        yield asked
    finally:
        engine.read = read


async def filled(talk: Talk, turns: int = 60) -> None:
    for number in range(turns):
        await talk.append(user(f"Bed {number} has {'very ' * 60}red roses."), assistant("I see."))
    await talk.append(user("What is in the last one?"))


@pytest.mark.parametrize("memory", [True, False])
async def test_a_context_takes_two_questions(address: str, someone: str, memory: bool) -> None:
    async with Everthread.open(address, settings={**MODEL, "memory": memory}, keys={}) as et:
        await filled(await et.begin(user=someone))
    async with Everthread.open(address, settings={**MODEL, "memory": memory}, keys={}) as et:
        talk = await et.conversation(user=someone)
        await (await et.begin(user=someone)).context()  # what a process reads once: the agent, the store's secret
        with counted(talk) as asked:
            context = await talk.context()
        assert 10 < context.sent < 60
        assert len(asked) <= 2, asked


async def test_so_it_does_with_a_brief(address: str, someone: str) -> None:
    async with Everthread.open(address, settings={**MODEL, "summary_model": f"scripted:{someone}"}, keys={}) as et:
        talk = await et.begin(user=someone)
        await filled(talk)
        script(someone, *["They spoke of roses."] * 9)
        await talk.remember()
        assert "They spoke of roses." in str((await talk.context()).request)
        with counted(talk) as asked:
            await talk.context()
        assert len(asked) <= 2, asked


async def test_and_on_another_branch_once_it_is_known(address: str, someone: str) -> None:
    async with Everthread.open(address, settings=MODEL, keys={}) as et:
        talk = await et.begin(user=someone)
        await filled(talk)
        await (await talk.fork(at=4)).switch("fork-2")
        await filled(talk)
        await talk.context()
        with counted(talk) as asked:
            await talk.context()
        assert len(asked) <= 2, asked
