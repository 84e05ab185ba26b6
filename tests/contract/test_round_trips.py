"""How often the store is asked, which no machine's noise changes. On PostgreSQL each question is a round trip."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from everthread import Everthread, GivenSettings, Talk, assistant, system, user
from everthread.canvas import Card
from everthread.jobs.worker import Worker
from everthread.live import LiveTurn
from everthread.store.engine import Script
from everthread.testing.scripted import script

MODEL: GivenSettings = {"model": "anthropic:claude-sonnet-4-6", "budget": 4_000}


@pytest.fixture(autouse=True)
def nobody_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker asks anything at the same time; nor does anybody attend to a turn, as happens about once a second."""
    monkeypatch.setattr(Worker, "remind", lambda *_: None)
    monkeypatch.setattr(LiveTurn, "attend", lambda _: asyncio.sleep(0))


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


async def test_a_context_takes_two_questions(address: str, someone: str) -> None:
    async with Everthread.open(address, settings={**MODEL, "memory": False}, keys={}) as et:
        await filled(await et.begin(user=someone))
    async with Everthread.open(address, settings={**MODEL, "memory": False}, keys={}) as et:
        talk = await et.conversation(user=someone)
        await (await et.begin(user=someone)).context()  # what a process reads once: the agent, the store's secret
        with counted(talk) as asked:
            context = await talk.context()
        assert 10 < context.sent < 60
        assert len(asked) <= 2, asked


async def test_before_there_is_a_brief_what_the_window_leaves_out_is_asked_for_once(address: str, someone: str) -> None:
    async with Everthread.open(address, settings={**MODEL, "memory": True}, keys={}) as et:
        await filled(await et.begin(user=someone))
    async with Everthread.open(address, settings={**MODEL, "memory": True}, keys={}) as et:
        talk = await et.conversation(user=someone)
        await (await et.begin(user=someone)).context()
        with counted(talk) as first:
            await talk.context()
        with counted(talk) as second:
            await talk.context()
        assert len(first) <= 3, first
        assert len(second) <= 2, second


async def test_so_it_does_with_a_brief(address: str, someone: str) -> None:
    async with Everthread.open(
        address, settings={**MODEL, "summary_model": f"scripted:{someone}", "memory": True}, keys={}
    ) as et:
        talk = await et.begin(user=someone)
        await filled(talk)
        script(someone, *["They spoke of roses."] * 9)
        await talk.remember()
        assert "They spoke of roses." in str((await talk.context()).request)
        with counted(talk) as asked:
            await talk.context()
        assert len(asked) <= 2, asked


@pytest.mark.parametrize("memory", [True, False])
async def test_the_next_context_takes_one_question_for_what_is_new(address: str, someone: str, memory: bool) -> None:
    async with Everthread.open(address, settings={**MODEL, "memory": memory}, keys={}) as et:
        talk = await et.begin(user=someone)
        await filled(talk)
        before = await talk.context()
        await talk.append(assistant("Roses, too."), user("And in the one before?"))
        with counted(talk) as asked:
            context = await talk.context()
        assert context.cutoff == before.cutoff
        assert "And in the one before?" in str(context.request)
        assert asked == ["news"]


async def test_so_it_does_with_a_system_message_and_settings(address: str, someone: str) -> None:
    async with Everthread.open(address, settings=MODEL, keys={}) as et:
        talk = await et.begin(user=someone)
        await talk.append(system("Be brief."))
        await talk.set_settings({"temperature": 0.5})
        await filled(talk)
        await talk.context()
        await talk.append(assistant("Roses, too."), user("And in the one before?"))
        with counted(talk) as asked:
            context = await talk.context()
        assert "Be brief." in str(context.request)
        assert context.settings.temperature == 0.5
        assert asked == ["news"]


async def test_so_it_does_with_a_canvas_however_often_that_has_changed(address: str, someone: str) -> None:
    async with Everthread.open(address, settings={**MODEL, "memory": False}, keys={}) as et:
        talk = await et.begin(user=someone)
        for number in range(150):
            await talk.act(Card(id=f"bed-{number % 5}", text=f"{number} roses"))
        await filled(talk)
    async with Everthread.open(address, settings={**MODEL, "memory": False}, keys={}) as et:
        talk = await et.conversation(user=someone)
        await (await et.begin(user=someone)).context()
        with counted(talk) as first:
            assert "149 roses" in str((await talk.context()).request)
        await talk.act(Card(id="bed-1", text="no roses"))
        await talk.append(assistant("Tulips."), user("And here?"))
        with counted(talk) as second:
            assert "no roses" in str((await talk.context()).request)
        assert len(first) <= 4, first  # with its newest changes, and what was kept of those before
        assert len(second) == 1, second


@pytest.mark.parametrize("memory", [True, False])
async def test_so_it_does_on_a_line_that_was_rewound_within_its_window(
    address: str, someone: str, memory: bool
) -> None:
    settings: GivenSettings = {**MODEL, "summary_model": f"scripted:{someone}", "memory": memory}
    async with Everthread.open(address, settings=settings, keys={}) as et:
        talk = await et.begin(user=someone)
        await filled(talk)
        script(someone, *["They spoke of roses."] * 9)
        if memory:
            await talk.remember()
        for number in range(5):
            (asked_last,) = await talk.append(user(f"No, bed {number}?"))
            talk = await talk.rewind(to=asked_last.seq - 1)
            await talk.append(user(f"Bed {number}?"), assistant("Roses."))
        before = await talk.context()
        assert ("They spoke of roses." in str(before.request)) == memory
        for number in range(3):
            await talk.append(user("And in the one before?"), assistant(f"Roses, too, {number} of them."))
            with counted(talk) as asked:
                context = await talk.context()
            assert context.cutoff == before.cutoff
            assert f"Roses, too, {number}" in str(context.request)
            assert asked == ["news"]


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


@contextmanager
def calls(talk: Talk) -> Iterator[list[str]]:
    """Which calls of the store are made meanwhile, whatever each of them asks."""
    engine: Any = talk._log._engine
    made: list[str] = []
    read, write = engine.read, engine.write

    async def reading(script: Any, **how: Any) -> Any:
        made.append("read")
        return await read(script, **how)

    async def writing(script: Any, **how: Any) -> Any:
        made.append(f"write {how['about']}")
        return await write(script, **how)

    engine.read, engine.write = reading, writing
    try:
        yield made
    finally:
        engine.read, engine.write = read, write


@pytest.fixture
async def remembering(address: str, someone: str) -> AsyncIterator[Talk]:
    """A conversation with a scripted model, and one for its memory."""
    settings: GivenSettings = {
        "model": f"scripted:{someone}",
        "summary_model": f"scripted:{someone}-memory",
        "memory": True,
    }
    script(someone, *["I see."] * 9)
    script(f"{someone}-memory", *["They spoke of roses."] * 9)
    async with Everthread.open(address, settings=settings, keys={}) as et:
        talk = await et.begin(user=someone)
        await talk.say("The roses are red.")
        await talk.remember()
        yield talk


async def test_an_append_is_one_call(remembering: Talk) -> None:
    with calls(remembering) as made:
        await remembering.append(user("By the way."))
    assert len(made) == 1, made


async def test_memory_makes_two_calls_where_there_is_nothing_to_do(remembering: Talk) -> None:
    await remembering.clear()  # an event for the index of recall, and nothing to tell
    worker = remembering._runtime.memory
    assert worker
    with calls(remembering) as made:
        assert not await worker.once(remembering.conversation, 1)
    assert len(made) <= 2, made


async def test_memory_makes_ten_calls_for_a_brief(remembering: Talk) -> None:
    await remembering.append(user("The tulips are blue."), assistant("I see."))
    worker = remembering._runtime.memory
    assert worker
    with calls(remembering) as made:
        assert await worker.once(remembering.conversation, 1)
    assert len(made) <= 10, made


async def test_a_message_and_its_reply_take_six_calls(remembering: Talk) -> None:
    with calls(remembering) as made:
        await remembering.say("And the tulips?")
    assert len(made) <= 6, made
