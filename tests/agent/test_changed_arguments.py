"""An approval can change the arguments: the log keeps both, the model is told, and forgetting reaches them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from everthread import AlreadyApproved, BadValue, Everthread, Logged, Redacted, Talk, tool
from everthread.agent.approval import CUT_SHORT
from everthread.agent.results import NOTE
from everthread.core.events import Command, ToolCall
from everthread.store.conversations import Owner
from everthread.testing.scripted import call
from everthread.transfer import export_lines, read_file
from tests.agent.conftest import Speak
from tests.agent.support import assert_valid, heard, kinds, results, said, state

PAID: list[tuple[int, str]] = []


@tool(approval=True)
def pay(amount: int, to: str = "Ana") -> str:
    """Pay somebody."""
    PAID.append((amount, to))
    return f"Paid {amount} to {to}."


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    PAID.clear()


@pytest.fixture
async def waits(talk: Talk, speak: Speak) -> Talk:
    """A conversation in which a payment of 20 waits."""
    speak([call("pay", {"amount": 20})], "It is paid.")
    await heard(talk.say("Pay the bill.", tools=[pay]))
    return talk


async def changes(talk: Talk) -> list[Logged]:
    events = await talk.after(limit=100)
    return [one for one in events if isinstance(one.event, Command) and one.event.name == "change_arguments"]


async def test_the_tool_runs_with_the_arguments_of_whoever_approves(waits: Talk) -> None:
    assert await said(waits.approve(arguments={"amount": 15, "to": "Tom"}, tools=[pay])) == "It is paid."
    assert PAID == [(15, "Tom")]
    assert await state(waits) == "idle"
    await assert_valid(waits)


async def test_the_log_keeps_what_the_model_asked_and_what_was_approved(waits: Talk) -> None:
    await waits.approve(arguments={"amount": 15}, tools=[pay])
    asked = [one.event for one in await waits.after(limit=100) if isinstance(one.event, ToolCall)]
    assert [json.loads(one.arguments) for one in asked] == [{"amount": 20}]
    (change,) = await changes(waits)
    assert isinstance(change.event, Command)
    assert json.loads(str(change.event.arguments["arguments"])) == {"amount": 15}
    order = await kinds(waits)
    assert order[order.index("command") :][:3] == ["command", "command", "tool_result"]


async def test_the_model_is_told_with_the_result_that_they_were_changed_and_to_what(waits: Talk) -> None:
    await waits.approve(arguments={"amount": 15}, tools=[pay])
    (result,) = await results(waits)
    assert result.text.splitlines() == [
        'The user changed the arguments of this tool call before it ran, to {"amount": 15}',
        "Paid 15 to Ana.",
    ]


async def test_the_same_arguments_are_no_change(waits: Talk) -> None:
    await waits.approve(arguments={"amount": 20}, tools=[pay])
    assert await changes(waits) == []
    assert (await results(waits))[0].text == "Paid 20 to Ana."


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"amount": "lots"}, "amount"),
        ({"amonut": 15}, "amount"),
        ({"amount": 15, "colour": "red"}, "colour"),
        (["amount", 15], "all arguments of the tool call"),
        ({"amount": {1, 2}}, "plain JSON"),
    ],
)
async def test_arguments_that_the_tool_does_not_take_are_refused_and_it_goes_on_waiting(
    waits: Talk, given: Any, words: str
) -> None:
    before = await kinds(waits)
    with pytest.raises(BadValue, match=words):
        await waits.approve(arguments=given, tools=[pay])
    assert (PAID, await kinds(waits), len(await waits.waiting())) == ([], before, 1)


async def test_redacting_the_tool_call_forgets_the_change_and_the_result_that_tells_it(waits: Talk) -> None:
    seq = (await waits.waiting())[0].seq
    await waits.approve(arguments={"amount": 15, "to": "Secret"}, tools=[pay])
    await waits.redact(seq)
    events = await waits.after(limit=100)
    assert [one.event.was for one in events if isinstance(one.event, Redacted)] == [
        "tool_call",
        "command",
        "tool_result",
    ]
    assert not any(b"Secret" in one.body for one in events)
    assert await waits.waiting() == []
    await assert_valid(waits)


async def test_redacting_the_change_forgets_the_result_that_tells_it(waits: Talk) -> None:
    await waits.approve(arguments={"amount": 15, "to": "Secret"}, tools=[pay])
    await waits.redact((await changes(waits))[0].seq)
    events = await waits.after(limit=100)
    assert [one.event.was for one in events if isinstance(one.event, Redacted)] == ["command", "tool_result"]
    assert not any(b"Secret" in one.body for one in events)
    assert await waits.waiting() == []


async def test_a_call_is_approved_once_whatever_its_arguments(waits: Talk) -> None:
    side = await waits.fork()
    await waits.approve(arguments={"amount": 15}, tools=[pay])
    with pytest.raises(AlreadyApproved):
        await side.approve(arguments={"amount": 16}, tools=[pay])
    assert PAID == [(15, "Ana")]
    assert await changes(side) == []


async def test_a_result_that_comes_late_tells_the_change_as_well(waits: Talk, speak: Speak) -> None:
    speak("We talked.", "Paid late.")
    await heard(waits.say("Something else.", tools=[pay]))
    assert await said(waits.approve(arguments={"amount": 15}, tools=[pay]))
    assert "before it ran, to {" in (await results(waits))[-1].text
    await assert_valid(waits)


async def test_a_tool_that_was_cut_short_is_told_with_its_arguments(waits: Talk) -> None:
    began = asyncio.Event()

    @tool(name="pay", approval=True)
    async def stuck(amount: int) -> str:
        began.set()
        await asyncio.Event().wait()
        return "never"

    reply = waits.approve(arguments={"amount": 15}, tools=[stuck])
    task = asyncio.create_task(heard(reply))
    await began.wait()
    await reply.cancel()
    await task
    (result,) = await results(waits)
    assert result.text == f'{NOTE}{{"amount": 15}}\n{CUT_SHORT}'
    await assert_valid(waits)


async def test_one_that_is_too_large_to_be_kept_still_says_with_which_arguments(
    address: str, someone: str, model: str, speak: Speak
) -> None:
    @tool(approval=True)
    def read(file: str) -> str:
        return f"{file} " * 10_000

    speak([call("read", {"file": "a"})], "Read.")
    async with Everthread.open(address, max_event_bytes=20_000) as et:
        talk = await et.begin(user=someone)
        await heard(talk.say("Read it.", model=model, tools=[read]))
        await heard(talk.approve(arguments={"file": "b"}, model=model, tools=[read]))
        first, second = (await results(talk))[0].text.splitlines()
    assert (first, "too large to be kept" in second) == (f'{NOTE}{{"file": "b"}}', True)


async def test_it_is_forgotten_in_an_imported_conversation_as_well(waits: Talk, tmp_path: Path) -> None:
    seq = (await waits.waiting())[0].seq
    await waits.approve(arguments={"amount": 15, "to": "Secret"}, tools=[pay])
    lines = [line async for line in export_lines(waits._log, waits.conversation)]
    (tmp_path / "all.jsonl").write_bytes(b"".join(lines))
    async with Everthread.open(f"sqlite:///{tmp_path}/elsewhere.db", keys={}) as elsewhere:
        whose = Owner(waits.conversation.tenant, waits.conversation.user)
        await elsewhere.log.restore(read_file(tmp_path / "all.jsonl", whose, agent="helper"))
        moved = await elsewhere.conversation(user=waits.conversation.user, id=waits.id)
        assert len(await changes(moved)) == 1
        await moved.redact(seq)
        assert not any(b"Secret" in one.body for one in await moved.after(limit=100))
        assert (await elsewhere.log.check(whose.tenant, moved.id))[1] == []


async def test_erasing_leaves_nothing_of_it(waits: Talk, et: Everthread) -> None:
    await waits.approve(arguments={"amount": 15, "to": "Secret"}, tools=[pay])
    assert (await et.log.check(waits.conversation.tenant, waits.id))[1] == []
    await waits.erase()
    assert await et.conversations(user=waits.conversation.user) == []
