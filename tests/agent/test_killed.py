"""A process killed at any point of a turn: whoever comes next can go on, nothing runs twice, nothing is said twice."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from everthread import Everthread, GivenSettings, Talk
from everthread.agent.approval import CUT_SHORT
from everthread.agent.results import NOTE
from everthread.core.branches import ENDLESS
from everthread.core.deltas import Done
from everthread.errors import BadTool, NothingToResume, NotWaiting
from everthread.testing.scripted import script
from everthread.tools import tool
from tests.agent.dying import POINTS
from tests.agent.processes import ROOT
from tests.agent.support import FORMS, assert_valid, results, said, state
from tests.waiting import PATIENCE

MAY_HAVE_RUN = "may have run"
CHANGED = {"changed", "paying changed", "paid changed", "one of two changed", "late changed"}  # the same, with others
LOST = CHANGED | {"called", "running", "ran", "approved", "paying", "paid", "beside", "one of two", "late"}
WAITS = {"waiting", "approving", "changing", "beside", "one of two", "one of two changed"}  # some for approval
LATE = {"late", "late changed"}
RAN: list[str] = []


@tool(approval=True)
def pay(amount: int) -> str:
    RAN.append("pay")
    return f"paid {amount} here"


def look() -> str:
    RAN.append("look")
    return "looked here"


TOOLS = [pay, look]


@asynccontextmanager
async def left(address: str, owner: str, model: str) -> AsyncIterator[dict[str, Talk]]:
    """The conversations of a process that was killed at each of the points, by their names."""
    RAN.clear()
    command = (sys.executable, "-m", "tests.agent.dying", address, owner)
    child = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    assert child.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            there = [json.loads(await child.stdout.readline()) for _ in POINTS]
    finally:
        child.send_signal(signal.SIGKILL)
        await child.wait()
    settings: GivenSettings = {"model": model, "memory": False}
    async with Everthread.open(address, settings=settings, keys={}, tools=TOOLS) as et:
        yield {one["name"]: await _own(et, owner, one["conversation"]) for one in there}


async def _own(et: Everthread, owner: str, id: str) -> Talk:
    talk = await et.conversation(user=owner, id=id)
    await talk.set_settings({})
    return talk


async def replies(talk: Talk) -> int:
    return sum(event.text.startswith("Reply") for event in await talk.range(1, ENDLESS) if event.kind == "assistant")


async def brought_to_its_end(talk: Talk, name: str) -> None:
    """Whatever was done first: what waits is approved, what was cut short goes on, and that is all."""
    for waits in await talk.waiting():
        await talk.approve(waits.seq, settings=MODEL)
    if await state(talk) != "idle":
        await talk.resume(settings=MODEL)
    assert await state(talk) == "idle", name
    assert await talk.waiting() == []
    with pytest.raises(NothingToResume):
        await talk.resume(settings=MODEL)
    told = [MAY_HAVE_RUN in result.text for result in await results(talk)]
    assert sum(told) == (name in LOST), name
    assert len(RAN) == sum("here" in result.text for result in await results(talk)), name
    await assert_valid(talk)
    RAN.clear()


MODEL: GivenSettings = {}


@pytest.fixture(autouse=True)
def _replies(someone: str) -> None:
    script(someone, *(f"Reply {number}." for number in range(1_000)))
    MODEL["model"] = f"scripted:{someone}"


async def gone_on_with_once(talk: Talk, name: str) -> None:
    if name in WAITS:
        with pytest.raises(NothingToResume, match="waiting"):
            await talk.resume(settings=MODEL)
        assert len(await talk.waiting()) == 1, name
    else:
        assert (await said(talk.resume(settings=MODEL))).startswith("Reply"), name
        assert await state(talk) == "idle", name
    await brought_to_its_end(talk, name)
    assert await replies(talk) == 1, name
    assert RAN == []


async def test_it_is_gone_on_with_once(address: str, someone: str, model: str) -> None:
    async with left(address, someone, model) as talks:
        for name, talk in talks.items():
            await gone_on_with_once(talk, name)


async def test_arguments_that_were_changed_are_told_with_the_tool_that_was_cut_short(
    address: str, someone: str, model: str
) -> None:
    """It is not run again, with neither arguments, and the model hears with which ones it may have run: those that the
    log has. Where they were not in the log yet, nobody has approved anything."""
    async with left(address, someone, model) as talks:
        for name in sorted(CHANGED):
            talk = talks[name]
            if name not in WAITS:
                await talk.resume(settings=MODEL)
            else:
                await talk.stop()
            assert [result.text for result in await results(talk)] == [f'{NOTE}{{"amount": 15}}\n{CUT_SHORT}'], name
            assert RAN == []
            for form in FORMS:
                sent = json.dumps((await talk.context(model=form)).request)
                assert (NOTE in sent, MAY_HAVE_RUN in sent) == (True, True), (name, form)
            await brought_to_its_end(talk, name)
        unsaid = talks["changing"]
        assert len(await unsaid.waiting()) == 1
        await unsaid.approve(arguments={"amount": 16}, settings=MODEL)
        assert [result.text for result in await results(unsaid)] == [f'{NOTE}{{"amount": 16}}\npaid 16 here']


async def test_something_else_can_be_said(address: str, someone: str, model: str) -> None:
    async with left(address, someone, model) as talks:
        for name, talk in talks.items():
            assert (await said(talk.say("Go on.", settings=MODEL))).startswith("Reply"), name
            assert await state(talk) == "idle", name
            assert len(await talk.waiting()) == (name in WAITS), name
            await brought_to_its_end(talk, name)
            assert await replies(talk) == 1 + (name in WAITS), name


async def test_one_who_fails_before_anything_is_closed_leaves_it_to_the_next(
    address: str, someone: str, model: str
) -> None:
    async with left(address, someone, model) as talks:
        for name, talk in talks.items():
            for _ in range(2):
                with pytest.raises(BadTool):
                    await talk.resume(tools=[3])
            await gone_on_with_once(talk, name)


async def test_who_listens_is_told_of_the_end(address: str, someone: str, model: str) -> None:
    async with left(address, someone, model) as talks:
        for name, talk in talks.items():
            assert await _end(talk) == ("waiting" if name in WAITS else "interrupted"), name
            assert len(await talk.waiting()) == (name in WAITS), name
            await brought_to_its_end(talk, name)
            assert await replies(talk) == 1, name


async def _end(talk: Talk) -> str:
    """How the newest turn ended, as a listener hears it."""
    async with asyncio.timeout(PATIENCE), aclosing(talk.listen()) as heard:  # type: ignore[type-var]
        async for one in heard:
            if isinstance(one, Done) and one.seq >= (await talk.turns(limit=1))[-1].first:
                return one.state
    raise AssertionError("it was not told")


async def test_it_can_be_stopped(address: str, someone: str, model: str) -> None:
    async with left(address, someone, model) as talks:
        for name, talk in talks.items():
            await talk.stop()
            assert await state(talk) == ("waiting" if name in WAITS else "interrupted"), name
            assert not await talk.stop()
            await brought_to_its_end(talk, name)
            assert await replies(talk) == 1, name


@pytest.mark.parametrize("answer", ["approve", "refuse"])
async def test_what_was_answered_before_is_not_answered_again(
    address: str, someone: str, model: str, answer: str
) -> None:
    async with left(address, someone, model) as talks:
        for name, talk in talks.items():
            if POINTS[name].answers and name not in ("approving", "changing"):
                with pytest.raises(NotWaiting, match=MAY_HAVE_RUN if name in LOST else None):
                    await getattr(talk, answer)("a", settings=MODEL)
                assert RAN == []
            await brought_to_its_end(talk, name)
            assert await replies(talk) == 1, name


async def test_said_again_with_its_key_it_is_gone_on_with_once(address: str, someone: str, model: str) -> None:
    async with left(address, someone, model) as talks:
        for name, talk in talks.items():
            again = talk.say("Go.", key="go", settings=MODEL)
            if name in WAITS | LATE:
                await again
            else:
                assert (await said(again)).startswith("Reply"), name
            await brought_to_its_end(talk, name)
            assert await replies(talk) == 1, name
