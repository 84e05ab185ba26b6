"""Nobody writes who may not: a runner or worker whose lease another has taken writes nothing more."""

from __future__ import annotations

import asyncio
import signal

import pytest

from everthread import Everthread, Talk, user
from everthread.core.branches import ENDLESS, Target
from everthread.core.deltas import Delta
from everthread.errors import TakenOver, TurnBusy
from everthread.store.beside.leases import Lease, of_turns
from everthread.testing.scripted import script
from tests.agent.conftest import Speak
from tests.agent.processes import process
from tests.agent.support import kinds, until_kept


async def test_an_append_under_a_lease_that_is_held_is_written(et: Everthread, talk: Talk) -> None:
    lease = Lease("default", of_turns(talk.id, 1), "ana")
    await et.log.leases.take(*lease[:2], holder="ana", seconds=30)
    await et.log.append(Target("default", talk.id, 1), [user("Mine.")], under=lease)
    assert await kinds(talk) == ["user"]


@pytest.mark.parametrize("released", [False, True], ids=["another has it", "another had it, and released it"])
async def test_an_append_under_a_lease_that_another_took_is_refused(et: Everthread, talk: Talk, released: bool) -> None:
    name = of_turns(talk.id, 1)
    await et.log.leases.take("default", name, holder="ana", seconds=30)
    await et.log.leases.take("default", name, holder="bob", seconds=30, over="ana")
    if released:
        await et.log.leases.release("default", name, holder="bob")
    for events in ([user("Mine.")], [user("Mine."), user("And mine.")]):
        with pytest.raises(TakenOver):
            await et.log.append(Target("default", talk.id, 1), events, under=Lease("default", name, "ana"))
    assert await kinds(talk) == []
    await talk.append(user("What users append themselves needs no lease."))
    assert await kinds(talk) == ["user"]


async def test_a_lease_that_ran_out_and_that_nobody_took_still_holds(et: Everthread, talk: Talk) -> None:
    lease = Lease("default", of_turns(talk.id, 1), "ana")
    await et.log.leases.take(*lease[:2], holder="ana", seconds=1e-6)
    await et.log.append(Target("default", talk.id, 1), [user("Mine.")], under=lease)
    assert await kinds(talk) == ["user"]


async def test_a_refused_append_harms_no_other_that_is_committed_with_it(et: Everthread, talk: Talk) -> None:
    other = await et.begin(user=talk.conversation.user)
    await et.log.leases.take("default", of_turns(talk.id, 1), holder="bob", seconds=30)
    refused = et.log.append(
        Target("default", talk.id, 1), [user("Mine.")], under=Lease("default", of_turns(talk.id, 1), "ana")
    )
    fine = [other.append(user(str(number))) for number in range(3)]
    results = await asyncio.gather(refused, *fine, return_exceptions=True)
    assert isinstance(results[0], TakenOver)
    assert await kinds(other) == ["user"] * 3
    assert await kinds(talk) == []


async def test_a_process_that_slept_through_its_lease_writes_nothing_into_anothers_turn(
    address: str, someone: str
) -> None:
    script(someone, "I took over.")
    async with Everthread.open(address, settings={"model": f"scripted:{someone}", "memory": False}, keys={}) as et:
        talk = await et.begin(user=someone)
        async with process(address, someone, talk.id, model="sleeper", words=80, lease=2.0) as sleeper:
            sleeper.do("say", "ana", text="Talk.")
            await until_kept(talk, "sleeper5")
            sleeper.send_signal(signal.SIGSTOP)
            assert (await talk.say("And now?")).text == "I took over."  # when its lease has run out
            before = await talk.range(1, ENDLESS)
            sleeper.send_signal(signal.SIGCONT)
            await sleeper.until(lambda told: any("error" in one or "over" in one for one in told))
            assert [one.get("error") for one in sleeper.told if "error" in one or "over" in one] == ["TakenOver"]
            assert await talk.range(1, ENDLESS) == before
    assert [event.kind for event in before] == [
        *("user", "assistant", "agent_killed"),  # what had come of the reply was kept
        *("user", "assistant", "model_call"),
    ]


async def test_a_turn_whose_lease_was_taken_tells_its_caller_and_does_not_say_that_it_is_done(
    et: Everthread, talk: Talk, speak: Speak, model: str
) -> None:
    speak("one two three four five six", pace=0.05)
    deltas: list[Delta] = []

    async def hear() -> None:
        async for delta in talk.say("Talk.", settings={"model": model}):
            deltas.append(delta)
            if len(deltas) == 2:
                term = await et.log.leases.term("default", of_turns(talk.id, 1))
                assert term is not None
                await et.log.leases.take("default", of_turns(talk.id, 1), holder="bob", seconds=60, over=term.holder)

    with pytest.raises(TakenOver):
        await hear()
    assert not any(delta.kind == "done" for delta in deltas)
    assert await kinds(talk) == ["user"]
    with pytest.raises(TurnBusy):
        await talk.say("Is it free?", when_busy="refuse")
