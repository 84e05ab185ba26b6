"""Leases: one has it at a time, whichever process it is in; a dead one's need not be waited for."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from everthread import Everthread, Talk
from everthread.errors import BadValue
from everthread.store.beside import holders
from everthread.store.beside.holders import holder, is_dead
from everthread.store.beside.leases import Lease, LeaseName, of_turns
from everthread.store.log import Log
from everthread.store.open import open_log
from everthread.store.times import FOREVER
from tests.contract.contenders import enter
from tests.contract.support import START, Clock, module, run
from tests.waiting import PATIENCE

TENANT = "default"
SECOND = 1_000_000


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def log(address: str, clock: Clock) -> AsyncIterator[Log]:
    opened = await open_log(address, clock=clock)
    yield opened
    await opened.close()


@pytest.fixture
def name(someone: str) -> str:
    """Of a lease that no other test takes."""
    return f"turn/{someone}/1"


# -- taking and releasing ----------------------------------------------------------------------------------


async def test_a_free_lease_is_taken_and_is_known_to_be(log: Log, name: str) -> None:
    assert await log.leases.term(TENANT, name) is None
    assert await log.leases.take(TENANT, name, holder="ana", seconds=30) == "ana"
    assert await log.leases.term(TENANT, name) == ("ana", START + 30 * SECOND)


async def test_a_lease_that_another_has_is_not_taken_and_says_who_has_it(log: Log, name: str) -> None:
    await log.leases.take(TENANT, name, holder="ana", seconds=30)
    assert await log.leases.take(TENANT, name, holder="bob", seconds=99) == "ana"
    assert await log.leases.term(TENANT, name) == ("ana", START + 30 * SECOND)


async def test_the_holder_renews_it_from_now_on(log: Log, name: str, clock: Clock) -> None:
    await log.leases.take(TENANT, name, holder="ana", seconds=30)
    clock.now += 20 * SECOND
    assert await log.leases.take(TENANT, name, holder="ana", seconds=30) == "ana"
    assert await log.leases.term(TENANT, name) == ("ana", START + 50 * SECOND)


async def test_a_lease_that_has_run_out_is_nobodys_and_the_next_one_takes_it(log: Log, name: str, clock: Clock) -> None:
    await log.leases.take(TENANT, name, holder="ana", seconds=30)
    clock.now += 30 * SECOND - 1
    assert await log.leases.take(TENANT, name, holder="bob", seconds=30) == "ana"
    clock.now += 1
    assert await log.leases.term(TENANT, name) is None
    assert await log.leases.take(TENANT, name, holder="bob", seconds=30) == "bob"
    assert await log.leases.take(TENANT, name, holder="ana", seconds=30) == "bob"  # too late to renew it


async def test_a_dead_holders_lease_is_taken_over_by_who_knows_it(log: Log, name: str) -> None:
    await log.leases.take(TENANT, name, holder="ana", seconds=30)
    assert await log.leases.take(TENANT, name, holder="bob", seconds=30, over="cyd") == "ana"
    assert await log.leases.take(TENANT, name, holder="bob", seconds=30, over="ana") == "bob"
    assert await log.leases.take(TENANT, name, holder="cyd", seconds=30, over="ana") == "bob"  # only once


async def test_a_released_lease_is_free(log: Log, name: str) -> None:
    await log.leases.take(TENANT, name, holder="ana", seconds=30)
    await log.leases.release(TENANT, name, holder="ana")
    assert await log.leases.term(TENANT, name) is None
    assert await log.leases.take(TENANT, name, holder="bob", seconds=30) == "bob"


async def test_one_released_with_something_open_is_free_and_tells_the_next_how_far_was_written(
    log: Log, name: str
) -> None:
    await log.leases.take(TENANT, name, holder="ana", seconds=30)
    await log.leases.hold(Lease(TENANT, name, "ana"), at=7)
    await log.leases.release(TENANT, name, holder="ana", open=True)
    assert await log.leases.term(TENANT, name) is None
    assert await log.leases.take(TENANT, name, holder="bob", seconds=30) == "bob"
    kept = await log.leases.partial(TENANT, name)
    assert kept
    assert (kept.holder, kept.at) == ("bob", 7)
    await log.leases.release(TENANT, name, holder="bob")
    assert await log.leases.partial(TENANT, name) is None


async def test_nobody_releases_what_is_anothers(log: Log, name: str, clock: Clock) -> None:
    await log.leases.take(TENANT, name, holder="ana", seconds=30)
    await log.leases.release(TENANT, name, holder="bob")
    clock.now += 40 * SECOND
    await log.leases.take(TENANT, name, holder="bob", seconds=30)
    await log.leases.release(TENANT, name, holder="ana")  # it was hers
    assert await log.leases.term(TENANT, name) == ("bob", START + 70 * SECOND)


async def test_leases_of_other_names_and_tenants_are_others(log: Log, name: str) -> None:
    await log.leases.take(TENANT, name, holder="ana", seconds=30)
    assert await log.leases.take(TENANT, f"{name}0", holder="bob", seconds=30) == "bob"
    assert await log.leases.take("elsewhere", name, holder="bob", seconds=30) == "bob"
    assert await log.leases.take(TENANT, name, holder="bob", seconds=30) == "ana"


async def test_a_lease_survives_its_process(address: str, name: str) -> None:
    for who in ("ana", "bob"):
        log = await open_log(address)
        assert await log.leases.take(TENANT, name, holder=who, seconds=600) == "ana"
        await log.close()


async def test_those_who_wait_hear_of_a_release_and_not_of_who_tries_in_vain(log: Log, name: str) -> None:
    await log.leases.take(TENANT, name, holder="ana", seconds=30)
    heard = log.changes(LeaseName(TENANT, name).about)
    await anext(heard)
    news = asyncio.ensure_future(anext(heard))
    await asyncio.sleep(0)
    await log.leases.take(TENANT, name, holder="bob", seconds=30)
    await asyncio.sleep(0)
    assert not news.done()
    await log.leases.release(TENANT, name, holder="ana")
    await news
    assert await log.leases.take(TENANT, name, holder="bob", seconds=30) == "bob"


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
async def test_a_lease_is_for_a_while(log: Log, name: str, seconds: float) -> None:
    with pytest.raises(BadValue, match="seconds"):
        await log.leases.take(TENANT, name, holder="ana", seconds=seconds)


async def test_the_shortest_lease_is_taken_and_the_longest_is_no_error(log: Log, name: str) -> None:
    assert await log.leases.take(TENANT, name, holder="ana", seconds=1e-9) == "ana"
    assert await log.leases.take(TENANT, name, holder="ana", seconds=1e300) == "ana"
    assert await log.leases.term(TENANT, name) == ("ana", FOREVER)


@pytest.mark.parametrize("bad", ["", "a\0b", "\ud800", "x" * 401])
async def test_names_and_holders_are_printable_and_not_too_long(log: Log, name: str, bad: str) -> None:
    with pytest.raises(BadValue):
        await log.leases.take(TENANT, bad, holder="ana", seconds=30)
    with pytest.raises(BadValue):
        await log.leases.take(TENANT, name, holder=bad, seconds=30)
    with pytest.raises(BadValue):
        await log.leases.term(TENANT, bad)


async def test_erasing_a_conversation_removes_the_leases_of_its_turns(et: Everthread, talk: Talk) -> None:
    other = await et.begin(user=talk.conversation.user)
    for conversation in (talk, other):
        for branch in (1, 2):
            await et.log.leases.take(TENANT, of_turns(conversation.id, branch), holder="ana", seconds=600)
    await talk.erase()
    assert await et.log.leases.term(TENANT, of_turns(talk.id, 1)) is None
    assert await et.log.leases.term(TENANT, of_turns(talk.id, 2)) is None
    assert await et.log.leases.term(TENANT, of_turns(other.id, 2)) is not None


# -- many at once ------------------------------------------------------------------------------------------


async def test_of_eight_tasks_one_has_it_at_a_time(address: str, name: str, tmp_path: Path) -> None:
    logs = [await open_log(address) for _ in range(2)]
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(enter(logs[n % 2], name, tmp_path / "inside", 5) for n in range(8)))
    assert await logs[0].leases.term(TENANT, name) is None
    for log in logs:
        await log.close()


async def test_of_two_processes_one_has_it_at_a_time(address: str, name: str, tmp_path: Path) -> None:
    contend = module("contenders.py", "contend", address, name, tmp_path / "inside", 4, 10)
    done = await asyncio.gather(run(*contend), run(*contend))
    assert [(process.status, process.out, process.err) for process in done] == [(0, ["done"], "")] * 2


async def test_of_eight_who_find_it_run_out_one_takes_it_and_all_are_told_who(
    address: str, name: str, clock: Clock
) -> None:
    logs = [await open_log(address, clock=clock) for _ in range(8)]
    for _ in range(5):
        found = await asyncio.gather(*(log.leases.take(TENANT, name, holder=holder(), seconds=30) for log in logs))
        assert len(set(found)) == 1
        clock.now += 30 * SECOND
    for log in logs:
        await log.close()


async def test_the_lease_of_a_killed_process_is_taken_over_at_once(address: str, name: str) -> None:
    child = await asyncio.create_subprocess_exec(
        *module("contenders.py", "hold", address, name), stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    theirs = (await child.stdout.readline()).decode().strip()
    log, ours = await open_log(address), holder()
    assert not is_dead(theirs)
    assert await log.leases.take(TENANT, name, holder=ours, seconds=30) == theirs
    child.kill()
    await child.wait()
    assert is_dead(theirs)
    assert await log.leases.take(TENANT, name, holder=ours, seconds=30, over=theirs) == ours
    await log.close()


# -- holders -----------------------------------------------------------------------------------------------


def test_a_holder_is_this_process_and_no_two_are_the_same() -> None:
    first, second = holder(), holder()
    assert first != second
    assert first.split("/")[:-1] == second.split("/")[:-1]
    assert first.split("/")[2] == str(os.getpid())
    assert not is_dead(first)


def _of_another(command: str) -> tuple[subprocess.Popen[str], str]:
    code = f"from everthread.store.beside.holders import holder; print(holder(), flush=True); {command}"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert child.stdout is not None
    return child, child.stdout.readline().strip()


def test_a_killed_process_is_dead_even_before_anybody_has_waited_for_it() -> None:
    child, theirs = _of_another("input()")
    with child:
        assert not is_dead(theirs)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is still in the table
        assert is_dead(theirs)
    assert is_dead(theirs)


def test_a_pid_that_was_given_to_a_later_process_is_not_the_holder() -> None:
    host, boot, pid, start, nonce = holder().split("/")
    assert is_dead(f"{host}/{boot}/{pid}/{int(start) - 1}/{nonce}")
    assert not is_dead(f"{host}/{boot}/{pid}/{start}/{nonce}")


OTHERS: dict[str, Callable[[str, str, str], str]] = {
    "another host": lambda host, boot, pid: f"else{host}/{boot}/{pid}/1/x",
    "another boot": lambda host, boot, pid: f"{host}/0000-0000.pid:[1]/{pid}/1/x",
    "another container on the same machine": lambda host, boot, pid: (
        f"{host}/{boot.partition('.')[0]}.pid:[1]/{pid}/1/x"
    ),
    "nothing": lambda *_: "",
    "a name": lambda *_: "ana",
    "too few parts": lambda host, boot, pid: f"{host}/{boot}/{pid}/1",
    "a pid that is none": lambda host, boot, _: f"{host}/{boot}/-1/1/x",
    "a pid that no machine has": lambda host, boot, _: f"{host}/{boot}/{10**30}/{holders.UNKNOWN}/x",
}


@pytest.mark.parametrize("other", OTHERS)
def test_of_any_other_holder_nothing_is_known(other: str) -> None:
    child, theirs = _of_another("pass")
    with child:
        child.communicate()
    host, boot, pid, *_ = theirs.split("/")
    assert is_dead(theirs)
    assert not is_dead(OTHERS[other](host, boot, pid))


def test_where_there_is_no_proc_the_pid_alone_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(holders, "PROC", tmp_path / "none")
    ours = holder()
    host, boot, _, start, nonce = ours.split("/")
    assert start == holders.UNKNOWN
    assert not is_dead(ours)
    child, _ = _of_another("pass")
    with child:
        child.communicate()
    assert is_dead(f"{host}/{boot}/{child.pid}/{start}/{nonce}")
