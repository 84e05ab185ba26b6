"""Children with a provider that misbehaves, and in a process that is killed: each has one outcome, its limits are kept,
and none is left behind."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from everthread import AgentKilled, Everthread, FlowCompleted, Talk
from everthread.core.branches import ENDLESS
from everthread.core.ended import LEFT_OPEN
from everthread.core.outcomes import told
from everthread.jobs.sweeper import Sweeper
from everthread.store.beside.holders import is_dead
from everthread.store.beside.leases import of_turns
from tests.agent.misbehaving import HOW, LIMITS, STATES, Misbehaving, asked_for, begin, opened
from tests.agent.processes import ROOT
from tests.contract.support import assert_sound
from tests.waiting import PATIENCE, until


async def outcomes(talk: Talk) -> dict[int, FlowCompleted]:
    """By branch; each child has one at most."""
    found = [one.event for one in await talk.range(1, ENDLESS) if isinstance(one.event, FlowCompleted)]
    assert len({one.data["branch"] for one in found}) == len(found)
    return {one.data["branch"]: one for one in found}


async def assert_nothing_is_left(et: Everthread, talk: Talk) -> None:
    """Every child that was begun has ended, and nobody who lives holds the lease of one."""
    started = [one for one in await talk.range(1, ENDLESS) if one.kind == "flow_started"]
    assert len(await outcomes(talk)) == len(started)
    for one in await talk.branches():
        term = await et.log.leases.term("default", of_turns(talk.id, one.branch.number))
        assert term is None or is_dead(term.holder)
        turns = await (await talk.on(one.branch.number)).turns(limit=1)
        assert [turn.state for turn in turns if turn.state not in ("idle", "interrupted")] == []
    await assert_sound(et, talk)


async def all_end(address: str, owner: str, count: int) -> None:
    async with Misbehaving() as provider, opened(address, provider.address) as et:
        talk = await et.begin(user=owner)
        await talk.say("Hello.")
        children = await asyncio.gather(*(begin(talk, number, **LIMITS) for number in range(count)))
        for number, child in enumerate(children):
            outcome = await child
            how = HOW[number % len(HOW)]
            assert (asked_for({"task": outcome.task}), outcome.state) == (how, STATES[how]), outcome
            assert outcome.calls == (3 if how == "tools" else 1), outcome
        found = await outcomes(talk)
        assert {*found} == {child.branch for child in children}
        assert all(map(told, found.values()))
        await assert_nothing_is_left(et, talk)


async def test_whatever_the_provider_does_each_has_one_outcome_and_keeps_its_limits(address: str, someone: str) -> None:
    await all_end(address, someone, len(HOW))


@pytest.mark.prove
async def test_so_it_is_with_twenty_at_once_again_and_again(address: str, someone: str) -> None:
    for _ in range(10):
        await all_end(address, someone, 20)


@asynccontextmanager
async def killed(address: str, provider: Misbehaving, talk: Talk, count: int, *, all: bool) -> AsyncIterator[int]:
    """A process that was killed when all children had ended but those that hang (`all`), or at any moment; how many it
    had told of."""
    arguments = (address, provider.address, talk.conversation.user, talk.id, str(count))
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.agent.misbehaving", *arguments), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    told, enough = 0, count if all else random.randint(0, count)
    try:
        async with asyncio.timeout(PATIENCE):
            while told < enough:
                assert "begun" in json.loads(await child.stdout.readline())
                told += 1
            if all:
                await until(lambda: _all_but_the_hanging(provider, talk, count))
            else:
                await asyncio.sleep(random.random() / 4)
    finally:
        child.send_signal(signal.SIGKILL)
        await child.wait()
    yield told


async def _all_but_the_hanging(provider: Misbehaving, talk: Talk, count: int) -> bool:
    """Whether all others have ended, and these are under way."""
    hanging = sum(asked_for(asked.body) == "hang" for asked in provider.asked)
    return hanging == count // len(HOW) and len(await outcomes(talk)) == count - hanging


async def test_after_a_kill_the_parents_next_turn_knows_of_each(address: str, someone: str) -> None:
    async with Misbehaving() as provider, opened(address, provider.address) as et:
        talk = await et.begin(user=someone)
        async with killed(address, provider, talk, len(HOW), all=True) as begun:
            assert begun == len(HOW)
        await talk.say("And now?")
        found = await outcomes(talk)
        assert len(found) == begun
        order = [one.kind for one in await talk.range(1, ENDLESS) if one.kind in ("user", "flow_completed")]
        assert order[-1] == "user"  # which was said when all had been settled
        (hung,) = [one for one in found.values() if one.name.endswith("hang")]
        assert (hung.data["state"], hung.data["why"]) == ("killed", LEFT_OPEN)
        assert "its process ended" in told(hung)
        own = await talk.on(hung.data["branch"])
        assert (await own.range(1, ENDLESS))[-1].event == AgentKilled(reason=LEFT_OPEN)
        assert {one.state for one in await talk.children()} == {"done", "failed", "limit", "killed"}
        await assert_nothing_is_left(et, talk)


async def test_so_it_is_for_whoever_waits_for_one(address: str, someone: str) -> None:
    async with Misbehaving() as provider, opened(address, provider.address) as et:
        talk = await et.begin(user=someone)
        async with killed(address, provider, talk, len(HOW), all=True):
            pass
        states = await asyncio.gather(*(_state(talk, one.branch.number) for one in (await talk.branches())[1:]))
        assert sorted(states) == ["done", "failed", "failed", "failed", "failed", "killed", "limit"]
        assert {one.state for one in await talk.children()} == {*states}
        await assert_nothing_is_left(et, talk)


async def test_so_a_worker_finds_them_though_nobody_speaks(
    address: str, someone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everthread.jobs.children.SOON", 0.0)
    monkeypatch.setattr("everthread.jobs.children.LOOK", 0.1)
    async with Misbehaving() as provider, opened(address, provider.address) as et:
        talk = await et.begin(user=someone)
        async with killed(address, provider, talk, len(HOW), all=True) as begun:
            pass
        log = et.log
        now = log.now
        monkeypatch.setattr(log, "_clock", lambda: now + 60_000_000)  # when the leases of the dead have run out
        await until(lambda: _all_told(talk, begun))
        await assert_nothing_is_left(et, talk)


async def test_so_a_service_that_sweeps_finds_them_and_tells_how_they_ended(address: str, someone: str) -> None:
    async with Misbehaving() as provider, opened(address, provider.address) as et:
        talk = await et.begin(user=someone)
        async with killed(address, provider, talk, len(HOW), all=True) as begun:
            pass
        await Sweeper(et._runtime).sweep()
        assert len(await outcomes(talk)) == begun
        await assert_nothing_is_left(et, talk)


async def _all_told(talk: Talk, count: int) -> bool:
    return len(await outcomes(talk)) == count


async def _state(talk: Talk, branch: int) -> str:
    return (await (await talk.child(branch))).state


@pytest.mark.prove
async def test_nothing_is_left_behind_whenever_the_process_is_killed(address: str, someone: str) -> None:
    async with Misbehaving() as provider, opened(address, provider.address) as et:
        for _ in range(25):
            talk = await et.begin(user=someone)
            async with killed(address, provider, talk, 20, all=False):
                pass
            await asyncio.gather(*(talk.children() for _ in range(3)), talk.say("And now?"))
            await assert_nothing_is_left(et, talk)
