"""A tool call that several branches share runs once: approved on one of them, it is not approved on another."""

from __future__ import annotations

import asyncio
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from everthread import Everthread, Talk
from everthread.agent import start
from everthread.core.branches import ENDLESS
from everthread.core.events import Command, Mark
from everthread.errors import AlreadyApproved, BadValue, NotWaiting
from everthread.store.conversations import Owner
from everthread.testing.scripted import call
from everthread.tools import tool
from everthread.transfer import export_lines, read_file
from tests.agent.conftest import Speak
from tests.agent.support import heard, results, said, state

PAID: list[int] = []


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay somebody."""
    PAID.append(amount)
    return f"Paid {amount}."


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    PAID.clear()


async def waiting(talk: Talk, speak: Speak) -> int:
    speak([call("pay", {"amount": 20}, id="a")], *["Done."] * 9)
    await heard(talk.say("Pay the bill.", tools=[pay]))
    [found] = await talk.waiting()
    return found.seq


async def test_what_was_approved_on_one_branch_is_refused_approval_on_another(talk: Talk, speak: Speak) -> None:
    seq = await waiting(talk, speak)
    side = await talk.fork(name="side")
    assert await said(talk.approve(tools=[pay])) == "Done."
    for named in (None, "a", seq):
        with pytest.raises(AlreadyApproved, match=f"event {seq} .* on the branch 'main'") as raised:
            await side.approve(named, tools=[pay])
        assert raised.value.branch == "main"
    assert PAID == [20]
    assert await state(side) == "waiting"


async def test_it_can_still_be_refused_there(talk: Talk, speak: Speak) -> None:
    await waiting(talk, speak)
    side = await talk.fork()
    await heard(talk.approve(tools=[pay]))
    assert await said(side.refuse(tools=[pay])) == "Done."
    assert "refused" in (await results(side))[-1].text
    assert await side.waiting() == []


async def test_a_refusal_is_of_its_own_branch(talk: Talk, speak: Speak) -> None:
    await waiting(talk, speak)
    side = await talk.fork()
    await heard(side.refuse(tools=[pay]))
    assert await said(talk.approve(tools=[pay])) == "Done."
    assert PAID == [20]


async def test_who_rewinds_to_before_an_approval_does_not_pay_twice(talk: Talk, speak: Speak) -> None:
    seq = await waiting(talk, speak)
    await heard(talk.approve(tools=[pay]))
    await talk.rewind(to=seq)
    assert [one.seq for one in await talk.waiting()] == [seq]
    with pytest.raises(AlreadyApproved):
        await talk.approve(tools=[pay])
    assert PAID == [20]


async def test_approved_on_many_branches_at_once_it_runs_on_one(
    address: str, talk: Talk, speak: Speak, model: str
) -> None:
    await waiting(talk, speak)
    async with Everthread.open(address, settings={"model": model}, keys={}) as other:
        again = await other.conversation(user=talk.conversation.user, id=talk.id)
        numbers = [(await (await talk.fork()).line()).branch.number for _ in range(6)]
        sides = [await (talk if n % 2 else again).on(number) for n, number in enumerate(numbers)]
        ended = await asyncio.gather(*(_approved(side) for side in sides))
    assert PAID == [20]
    assert sorted(ended) == [False] * 5 + [True]


@pytest.mark.parametrize("same", [True, False], ids=["the same verdict", "another"])
async def test_who_had_looked_before_it_was_approved_is_too_late_all_the_same(
    talk: Talk, speak: Speak, monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    await waiting(talk, speak)
    side = await talk.fork()
    await talk.append(Mark(name="here"))  # which is all that the branches differ in
    if not same:
        await talk.append(Mark(name="and here"))
    await heard(talk.approve(tools=[pay]))
    monkeypatch.setattr(start, "check_approved_nowhere", AsyncMock())
    with pytest.raises(AlreadyApproved):
        await side.approve(tools=[pay])
    assert PAID == [20]
    assert await state(side) == "waiting"
    assert (await side.range(1, 99))[-1].kind == "fork"


async def _approved(side: Talk) -> bool:
    try:
        await side.approve(tools=[pay])
    except AlreadyApproved:
        return False
    return True


async def test_a_call_of_another_branch_with_the_same_seq_is_another(talk: Talk, speak: Speak) -> None:
    side = await talk.fork()
    await waiting(talk, speak)
    await waiting(side, speak)
    await heard(talk.approve(tools=[pay]))
    await heard(side.approve(tools=[pay]))
    assert PAID == [20, 20]


async def test_it_is_known_of_an_imported_conversation_as_well(
    talk: Talk, speak: Speak, model: str, tmp_path: Path
) -> None:
    await waiting(talk, speak)
    await talk.fork(name="side")
    await heard(talk.approve(tools=[pay]))
    lines = [line async for line in export_lines(talk._log, talk.conversation)]
    (tmp_path / "all.jsonl").write_bytes(b"".join(lines))
    async with Everthread.open(f"sqlite:///{tmp_path}/elsewhere.db", settings={"model": model}, keys={}) as elsewhere:
        whose = Owner(talk.conversation.tenant, talk.conversation.user)
        await elsewhere.log.restore(read_file(tmp_path / "all.jsonl", whose, agent="helper"))
        moved = await elsewhere.conversation(user=talk.conversation.user, id=talk.id)
        side = await moved.on("side")
        with pytest.raises(AlreadyApproved):
            await side.approve(tools=[pay])
    assert PAID == [20]


async def test_only_what_had_begun_is_said_to_have_run(talk: Talk, speak: Speak) -> None:
    seq = await waiting(talk, speak)
    await talk.redact(seq)
    with pytest.raises(NotWaiting) as raised:
        await talk.approve(tools=[pay])
    assert "may have run" not in str(raised.value)
    assert PAID == []


@pytest.mark.parametrize("yes", [True, False])
async def test_a_verdict_is_not_redacted_because_its_call_would_wait_again(talk: Talk, speak: Speak, yes: bool) -> None:
    await waiting(talk, speak)
    await heard(talk.approve(tools=[pay]) if yes else talk.refuse(tools=[pay]))
    [seq] = [event.seq for event in await talk.range(1, ENDLESS) if event.kind == "command"]
    with pytest.raises(BadValue, match=f"{seq} is a verdict and has none"):
        await talk.redact(seq)
    assert await talk.waiting() == []


async def test_a_command_of_an_application_is_redacted_whatever_its_name_is(talk: Talk) -> None:
    [logged] = await talk.append(Command(name="approve", arguments={"seq": 3, "why": "walnuts"}))
    await talk.redact(logged.seq)
    assert "walnuts" not in str(await talk.range(1, ENDLESS))
