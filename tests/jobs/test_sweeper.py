"""Turns whose process is gone are closed by another, also where nobody listens."""

from __future__ import annotations

import pytest

from everthread import Everthread, Talk, user
from everthread.core.deltas import TextDelta
from everthread.core.partial import Partial, write_partial
from everthread.jobs.sweeper import PREFIX, SILENT, Sweeper
from everthread.store.beside.leases import Lease, of_turns

PROCESS = "another-host/another-boot/17/4711"
HOLDER = f"{PROCESS}/nonce"


@pytest.fixture
def address(fresh_address: str) -> str:
    """A sweeper looks at all that there is."""
    return fresh_address


async def _left(talk: Talk) -> Lease:
    """A message whose turn a process on another machine has begun, with the beginning of a reply."""
    line = await talk.line()
    log, lease = talk._log, Lease(line.tenant, of_turns(line.conversation, line.branch.number), HOLDER)
    await log.leases.take(*lease[:2], holder=HOLDER, seconds=1_000)
    [said] = await log.append(line.target, [user("Are you there?")], under=lease)
    partial = Partial("nonce/1", said.seq, "scripted:a")
    partial.add(TextDelta(text="Well, I"))
    await log.leases.keep(lease, line.conversation, at=said.seq, text=write_partial(partial), forgotten=0)
    return lease


async def _says_that_it_lives(et: Everthread, seconds: float = 1_000) -> None:
    await et.log.leases.take("*", f"{PREFIX}{PROCESS}", holder=PROCESS, seconds=seconds)


async def _texts(talk: Talk) -> list[str]:
    return [f"{one.kind} {one.text}".strip() for one in await talk.after(0) if one.kind != "session_started"]


async def test_a_process_elsewhere_that_has_said_nothing_for_some_looks_is_gone(et: Everthread, talk: Talk) -> None:
    await _left(talk)
    await _says_that_it_lives(et)
    sweeper = Sweeper(et._runtime)
    for _ in range(SILENT):
        await sweeper.sweep()
        assert (await _texts(talk))[-1] == "user Are you there?"
    await sweeper.sweep()
    asked, came, killed = await _texts(talk)
    assert (asked, came) == ("user Are you there?", "assistant Well, I")
    assert killed.startswith("agent_killed")
    await sweeper.sweep()  # nothing of it is left, so its sign of life goes, too
    assert f"{PREFIX}{PROCESS}" not in await et.log.leases.named("*", PREFIX)


async def test_one_that_says_something_now_and_then_is_not(et: Everthread, talk: Talk) -> None:
    lease = await _left(talk)
    sweeper = Sweeper(et._runtime)
    for number in range(3 * SILENT):
        if number % (SILENT - 1) == 0:
            await _says_that_it_lives(et, 1_000 + number)
        await sweeper.sweep()
    assert await _texts(talk) == ["user Are you there?"]
    assert (await et.log.leases.term(*lease[:2])) is not None


async def test_of_one_that_never_said_anything_the_lease_is_waited_for(et: Everthread, talk: Talk) -> None:
    """A program that opened the store itself, say: it is no service, and tells nobody."""
    lease = await _left(talk)
    sweeper = Sweeper(et._runtime)
    for _ in range(2 * SILENT):
        await sweeper.sweep()
    assert await _texts(talk) == ["user Are you there?"]
    await et.log.leases.take(*lease[:2], holder=HOLDER, seconds=0.000_001)  # whose time is over by now
    await sweeper.sweep()
    assert (await _texts(talk))[1] == "assistant Well, I"


async def test_whoever_speaks_next_need_not_wait_for_it_either(et: Everthread, talk: Talk) -> None:
    await _left(talk)
    et._runtime.queues.gone.add(PROCESS)
    assert await et._runtime.close_left(await talk.line())
    assert (await _texts(talk))[1] == "assistant Well, I"
