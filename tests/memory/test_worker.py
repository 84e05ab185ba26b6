"""The worker: among others, apart, killed, told to end, and outrun while it was at it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from everthread import Everthread, GivenSettings, Talk
from everthread.core.branches import ENDLESS
from everthread.core.events import BriefUpdated, ModelCall
from everthread.jobs.worker import Did, Worker
from everthread.memory.ask import ask
from everthread.testing.scripted import left, script
from tests.memory.conftest import Speak, settings_of
from tests.memory.test_brief import briefs, busy, say
from tests.waiting import PATIENCE, until

ROOT = Path(__file__).parents[2]

# A worker apart whose model says nothing before a file is there.
WORKER = """
import asyncio, sys
from pathlib import Path
from everthread.testing.scripted import script
from everthread.cli import main
from everthread.providers.scripted import client as scripted_client
go, pieces = Path(sys.argv.pop(1)), scripted_client._pieces

async def held(body):
    while not go.exists():
        await asyncio.sleep(0.01)
    async for piece in pieces(body):
        yield piece

scripted_client._pieces = held
script("slow", *["It was said again."] * 9)
main(sys.argv[1:])
"""


class Gate:
    """Holds memory's model calls up until it is opened."""

    def __init__(self) -> None:
        self.reached, self._open = asyncio.Event(), asyncio.Event()

    async def ask(self, *given: Any, **named: Any) -> Any:
        self.reached.set()
        await self._open.wait()
        return await ask(*given, **named)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate = Gate()
    monkeypatch.setattr("everthread.memory.branch.ask", gate.ask)
    return gate


@asynccontextmanager
async def apart(
    address: str, go: Path, *arguments: str, seconds: float = 3_600
) -> AsyncIterator[asyncio.subprocess.Process]:
    """An `everthread work` of its own. Told to end, it has so many seconds."""
    settings = {"SERVERS": "", "SUMMARY_MODEL": "scripted:slow", "MEMORY_SECONDS": str(seconds)}
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", WORKER, str(go), "work", "--store", address, *arguments),
        cwd=ROOT,
        env=os.environ | {f"EVERTHREAD_{name}": value for name, value in settings.items()},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield program
    finally:
        if program.returncode is None:
            program.kill()
        await program.communicate()


async def works(talk: Talk) -> bool:
    """Whether somebody has begun to update this conversation's memory."""
    line = await talk.line()
    return bool(await talk._log.leases.term(line.tenant, f"memory/{line.conversation}/{line.branch.number}"))


# -- outrun ------------------------------------------------------------------------------------------------------


async def test_a_fork_during_an_update_keeps_the_brief_of_its_moment(
    talk: Talk, worker: Worker, remember: Speak, gate: Gate
) -> None:
    remember("Of the parent.", "Of the fork.")
    last = await say(talk, "Hello.")
    working = asyncio.create_task(worker.once(talk.conversation))
    await gate.reached.wait()
    side = await talk.fork(at=last)
    gate.open()
    await working
    assert [one.text for one in await briefs(talk)] == ["Of the parent."]
    assert await briefs(side) == []
    await say(side, "Elsewhere.")
    await worker.once(side.conversation, (await side.line()).branch.number)
    assert [(one.text, one.turns) for one in await briefs(side)] == [("Of the fork.", 2)]


async def test_a_turn_that_comes_during_an_update_is_covered_by_the_next(
    talk: Talk, worker: Worker, remember: Speak, gate: Gate
) -> None:
    remember("One.", "One and two.")
    first = await say(talk, "First.")
    working = asyncio.create_task(worker.once(talk.conversation))
    await gate.reached.wait()
    second = await say(talk, "Second.")
    gate.open()
    await working
    assert [(one.text, one.covers) for one in await briefs(talk)] == [("One.", first), ("One and two.", second)]


async def test_what_is_redacted_during_an_update_is_not_published(
    talk: Talk, worker: Worker, remember: Speak, gate: Gate
) -> None:
    """The model was shown it; what it made of that is thrown away, on every branch."""
    remember("The PIN is ZX-4711.", "Nothing secret.")
    last = await say(talk, "My PIN is ZX-4711.")
    side = await talk.fork(at=last)
    working = asyncio.create_task(worker.once(side.conversation, (await side.line()).branch.number))
    await gate.reached.wait()
    await talk.redact(last - 1)
    gate.open()
    await working
    assert [one.text for one in await briefs(side)] == ["Nothing secret."]
    assert not [one for one in await side.range(1, ENDLESS) if "ZX-4711" in repr(one.event)]
    paid = [one for one in await side.range(1, ENDLESS) if isinstance(one.event, ModelCall)]
    assert len(paid) == 2


async def test_a_clear_during_an_update_leaves_nothing_of_it(
    talk: Talk, worker: Worker, remember: Speak, gate: Gate
) -> None:
    remember("Of before.")
    await say(talk, "Hello.")
    working = asyncio.create_task(worker.once(talk.conversation))
    await gate.reached.wait()
    await talk.clear()
    gate.open()
    await working
    assert await talk.brief() is None


# -- reminders ---------------------------------------------------------------------------------------------------


async def test_a_turn_that_was_appended_is_remembered_by_itself(
    lively: Everthread, someone: str, remember: Speak
) -> None:
    remember("A brief.")
    talk = await lively.begin(user=someone, name="chat")
    await say(talk, "Hello.")
    assert await lively.memory.drain(PATIENCE)
    assert [one.text for one in await briefs(talk)] == ["A brief."]


async def test_extracts_are_made_once_they_are_worth_it_or_asked_for(address: str, someone: str) -> None:
    async with Everthread.open(address, settings={"model": "local:smollm2"}) as et:
        talk = await et.begin(user=someone, name="chat")
        await say(talk, "My name is Ana.")
        assert await et.memory.drain(PATIENCE)
        assert await briefs(talk) == []
        for number in range(5):
            await say(talk, f"And {number}.")
        assert await et.memory.drain(PATIENCE)
        assert len(await briefs(talk)) == 1
        await say(talk, "One more.")
        assert await talk.remember()
        assert len(await briefs(talk)) == 2


async def test_closing_does_what_it_was_reminded_of(
    address: str, someone: str, memory_model: str, remember: Speak
) -> None:
    remember("A brief.")
    async with Everthread.open(address, settings=settings_of(someone, memory_model)) as et:
        talk = await et.begin(user=someone, name="chat")
        await say(talk, "Hello.")
    async with Everthread.open(address) as et:
        again = await et.conversation(user=someone, id=talk.id)
        assert [one.text for one in await briefs(again)] == ["A brief."]


async def test_closing_waits_no_longer_than_it_may(
    address: str, someone: str, memory_model: str, remember: Speak, gate: Gate
) -> None:
    remember("A brief.")
    settings = settings_of(someone, memory_model) | {"memory_seconds": 0.2}
    et = await Everthread.open(address, settings=settings)
    talk = await et.begin(user=someone, name="chat")
    await say(talk, "Hello.")
    draining = asyncio.create_task(et.memory.drain())
    await gate.reached.wait()
    async with asyncio.timeout(PATIENCE):
        await et.close()  # with the gate shut
    draining.cancel()
    async with Everthread.open(address, settings=settings_of(someone, memory_model)) as et:
        again = await et.conversation(user=someone, id=talk.id)
        assert await briefs(again) == []
        gate.open()
        await again.remember()
        assert [one.text for one in await briefs(again)] == ["A brief."]


async def test_what_waits_for_a_pause_is_done_after_it(
    lively: Everthread, someone: str, remember: Speak, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everthread.memory.spending.FIRST_PAUSE", 0.3)
    remember(busy(), "At last.")
    talk = await lively.begin(user=someone, name="chat")
    await say(talk, "Hello.")
    await until(lambda: _said(talk, "At last."))


async def _said(talk: Talk, text: str) -> bool:
    found = await talk.brief()
    return found is not None and found.text == text


async def test_the_limit_by_the_hour_holds_for_all_of_a_users_conversations_and_in_every_process(
    address: str, someone: str, memory_model: str, remember: Speak
) -> None:
    remember(*["A brief."] * 9)
    settings = settings_of(someone, memory_model) | {"memory_calls": 3}
    for _ in range(5):
        async with Everthread.open(address, settings=settings) as et:
            talk = await et.begin(user=someone, name="chat")
            await say(talk, "Hello.")
    assert left(f"{someone}-memory") == 6
    async with Everthread.open(address, settings=settings) as et:
        status = await (await et.conversation(user=someone)).memory()
        assert (status.calls, status.wait > 3_000) == (3, True)


# -- apart -------------------------------------------------------------------------------------------------------


async def test_what_is_left_to_a_worker_apart_is_done_by_it(
    address: str, someone: str, memory_model: str, remember: Speak
) -> None:
    remember("A brief.", "never said")
    settings = settings_of(someone, memory_model) | {"worker": "apart"}
    async with Everthread.open(address, settings=settings) as et:
        talk = await et.begin(user=someone, name="chat")
        await say(talk, "Hello.")
        assert await et.memory.drain(PATIENCE)
        assert await briefs(talk) == []
    told: list[Did] = []
    async with Everthread.open(address, settings=settings) as et:
        await et.work(until_idle=True, tell=told.append)
        assert [(one.what, one.conversation) for one in told if one.conversation == talk.id] == [("brief", talk.id)]
        assert [one.text for one in await briefs(et.talk(talk.conversation))] == ["A brief."]
        await et.work(until_idle=True, tell=told.append)
    assert left(f"{someone}-memory") == 1


async def test_it_finds_what_nobody_has_reminded_it_of(fresh_address: str, someone: str) -> None:
    async with Everthread.open(fresh_address, settings={"model": "local:smollm2"}) as et:
        et.memory.remind = lambda *_: None  # type: ignore[method-assign]
        talk = await et.begin(user=someone)
        for number in range(6):
            await say(talk, f"Thing {number}.")
    async with Everthread.open(fresh_address, settings={"model": "local:smollm2"}) as et:
        await et.work(until_idle=True)
        assert await et.talk(talk.conversation).brief() is None
        await et.work(until_idle=True, all=True)
        assert await et.talk(talk.conversation).brief() is not None


async def test_a_reminder_of_what_was_erased_is_let_go(address: str, someone: str) -> None:
    async with Everthread.open(address, settings={"worker": "apart"}) as et:
        talk = await et.begin(user=someone)
        await say(talk, "Hello.")
        assert await et.memory.drain(PATIENCE)
        await talk.erase()
        assert talk.id not in {one.conversation for one in await et.log.reminders.due(limit=10_000)}


async def test_a_worker_killed_in_the_middle_of_an_update_is_replaced_at_once(
    fresh_address: str, someone: str, tmp_path: Path
) -> None:
    script("slow", "Done by another.")
    settings: GivenSettings = {"worker": "apart", "summary_model": "scripted:slow"}
    async with Everthread.open(fresh_address, settings=settings) as et:
        talk = await et.begin(user=someone, name="chat")
        last = await say(talk, "Hello.")
        assert await et.memory.drain(PATIENCE)
        async with apart(fresh_address, tmp_path / "go") as program:
            await until(lambda: works(talk))
            program.kill()
            await program.wait()
        assert await briefs(talk) == []
        assert await talk.remember()  # without waiting until the lease has run out
        assert [(one.text, one.covers) for one in await briefs(talk)] == [("Done by another.", last)]


@pytest.mark.parametrize("seconds", [3_600, 0.1], ids=["in time", "too slow"])
async def test_a_worker_that_is_told_to_end_finishes_within_its_deadline(
    fresh_address: str, someone: str, tmp_path: Path, seconds: float
) -> None:
    go, in_time = tmp_path / "go", seconds > 60
    async with Everthread.open(fresh_address, settings={"worker": "apart"}) as et:
        talk = await et.begin(user=someone, name="chat")
        await say(talk, "Hello.")
        assert await et.memory.drain(PATIENCE)
        async with apart(fresh_address, go, seconds=seconds) as program:
            await until(lambda: works(talk))
            program.send_signal(signal.SIGTERM)
            if in_time:
                go.touch()
            async with asyncio.timeout(PATIENCE):
                await program.wait()
            assert program.returncode == 128 + signal.SIGTERM
        found = await briefs(talk)
        assert [one.extractive for one in found] == ([False] if in_time else [])
        assert not await works(talk)


async def test_of_many_workers_apart_one_does_it(fresh_address: str, someone: str, tmp_path: Path) -> None:
    async with Everthread.open(fresh_address, settings={"worker": "apart"}) as et:
        talks = [await et.begin(user=someone, name=f"chat {number}") for number in range(6)]
        for talk in talks:
            await say(talk, "Hello.")
        assert await et.memory.drain(PATIENCE)
        async with apart(fresh_address, tmp_path, "--once") as one, apart(fresh_address, tmp_path, "--once") as other:
            async with asyncio.timeout(PATIENCE):
                assert (await one.wait(), await other.wait()) == (0, 0)
        for talk in talks:
            events = [event.event for event in await talk.range(1, 100)]
            assert sum(isinstance(event, BriefUpdated) for event in events) == 1
            assert sum(isinstance(event, ModelCall) for event in events) == 1
