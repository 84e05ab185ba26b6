"""Tools that ask first: the turn waits, across restarts, until somebody says yes or no."""

from __future__ import annotations

import pytest

from everthread import Everthread, Talk
from everthread.core.deltas import CallDelta, Done
from everthread.core.events import ToolCall
from everthread.errors import NotWaiting
from everthread.testing.scripted import call
from everthread.tools import tool
from tests.agent.conftest import Speak
from tests.agent.support import assert_valid, heard, kinds, results, said, state

PAID: list[int] = []


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay somebody."""
    PAID.append(amount)
    return f"Paid {amount}."


def look() -> str:
    return "The bill is 20."


TOOLS = [pay, look]


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    PAID.clear()


async def test_a_tool_that_asks_first_does_not_run_and_the_turn_waits(talk: Talk, speak: Speak) -> None:
    speak([call("pay", {"amount": 20})], "Paid, then.")
    deltas = await heard(talk.say("Pay the bill.", tools=TOOLS))
    assert [delta.approval for delta in deltas if isinstance(delta, CallDelta)] == [True]
    assert isinstance(deltas[-1], Done)
    assert deltas[-1].state == "waiting"
    assert PAID == []
    assert await state(talk) == "waiting"
    await assert_valid(talk)


async def test_approved_it_runs_and_the_model_goes_on_in_the_same_turn(talk: Talk, speak: Speak) -> None:
    speak([call("pay", {"amount": 20})], "The bill is paid.")
    await heard(talk.say("Pay the bill.", tools=TOOLS))
    assert await said(talk.approve(tools=TOOLS)) == "The bill is paid."
    assert PAID == [20]
    assert len(await talk.turns()) == 1
    assert await state(talk) == "idle"
    assert "command" in await kinds(talk)  # who said yes, and when


async def test_refused_it_does_not_run_and_the_model_is_told_why(talk: Talk, speak: Speak) -> None:
    speak([call("pay", {"amount": 20})], "Then not.")
    await heard(talk.say("Pay the bill.", tools=TOOLS))
    assert await said(talk.refuse(why="too much", tools=TOOLS)) == "Then not."
    assert PAID == []
    assert (await results(talk))[0].text == "The user refused this tool call: too much"


async def test_tools_that_do_not_ask_run_meanwhile(talk: Talk, speak: Speak) -> None:
    speak([call("pay", {"amount": 20}), call("look")], "Done.")
    await heard(talk.say("Look and pay.", tools=TOOLS))
    assert [result.text for result in await results(talk)] == ["The bill is 20."]
    assert await state(talk) == "waiting"
    await assert_valid(talk)
    assert await said(talk.approve(tools=TOOLS)) == "Done."


async def test_of_several_each_is_answered_by_itself(talk: Talk, speak: Speak) -> None:
    speak([call("pay", {"amount": 1}, id="a"), call("pay", {"amount": 2}, id="b")], "One paid.")
    await heard(talk.say("Pay both.", tools=TOOLS))
    with pytest.raises(NotWaiting, match="2 tool calls wait for approval"):
        await talk.approve(tools=TOOLS)
    deltas = await heard(talk.approve("b", tools=TOOLS))
    assert deltas[-1].state == "waiting"  # type: ignore[union-attr]
    assert PAID == [2]
    (left,) = await talk.waiting()
    assert await said(talk.refuse(left.seq, tools=TOOLS)) == "One paid."
    assert [result.event.id for result in await results(talk)] == ["b", "a"]  # type: ignore[union-attr]


async def test_it_waits_across_a_restart(address: str, someone: str, model: str, speak: Speak) -> None:
    speak([call("pay", {"amount": 20})], "Paid after the restart.")
    async with Everthread.open(address, settings={"model": model}, tools=TOOLS) as et:
        talk = await et.begin(user=someone)
        await heard(talk.say("Pay the bill."))
    async with Everthread.open(address, settings={"model": model}, tools=TOOLS) as et:
        talk = await et.conversation(user=someone, id=talk.id)
        assert await state(talk) == "waiting"
        (waiting,) = await talk.waiting()
        assert isinstance(waiting.event, ToolCall)
        assert waiting.event.arguments == '{"amount": 20}'
        assert await said(talk.approve(waiting.seq)) == "Paid after the restart."
        assert PAID == [20]


async def test_a_new_message_parks_it_and_the_late_result_opens_a_turn_of_its_own(talk: Talk, speak: Speak) -> None:
    speak([call("pay", {"amount": 20})], "It rains.", "And now it is paid.")
    await heard(talk.say("Pay the bill.", tools=TOOLS))
    assert await said(talk.say("How is the weather?", tools=TOOLS)) == "It rains."
    assert [turn.state for turn in await talk.turns()] == ["waiting", "idle"]
    await assert_valid(talk)
    assert await said(talk.approve(tools=TOOLS)) == "And now it is paid."
    turns = await talk.turns()
    assert [turn.state for turn in turns] == ["waiting", "idle", "idle"]
    result = next(event for event in await talk.range(turns[2].first, turns[2].last) if event.kind == "tool_result")
    assert result.text == "Paid 20."
    await assert_valid(talk)
    assert await talk.waiting() == []


async def test_what_was_answered_cannot_be_answered_again(talk: Talk, speak: Speak) -> None:
    speak([call("pay", {"amount": 20})], "Paid.")
    await heard(talk.say("Pay the bill.", tools=TOOLS))
    await heard(talk.approve(tools=TOOLS))
    with pytest.raises(NotWaiting, match="No tool call waits"):
        await talk.approve(tools=TOOLS)
    assert PAID == [20]


async def test_whether_a_tool_asks_may_depend_on_its_arguments(talk: Talk, speak: Speak) -> None:
    def small(amount: int) -> str:
        return f"Paid {amount}."

    careful = tool(small, approval=lambda arguments: arguments["amount"] > 10)
    speak([call("small", {"amount": 5})], [call("small", {"amount": 50})], "never said")
    deltas = await heard(talk.say("Pay both.", tools=[careful]))
    assert [delta.approval for delta in deltas if isinstance(delta, CallDelta)] == [False, True]
    assert await state(talk) == "waiting"
