"""Tools that were cut short: told as such, never run again unasked, and nothing waits for them."""

from __future__ import annotations

import asyncio

import pytest

from everthread import Talk, assistant, user
from everthread.agent.approval import CUT_SHORT, UNASKED
from everthread.agent.reply import Reply
from everthread.core.deltas import Notice
from everthread.core.events import ToolCall
from everthread.errors import NothingToResume
from everthread.testing.scripted import call
from everthread.tools import tool
from tests.agent.conftest import Speak
from tests.agent.support import assert_valid, heard, results, said, state
from tests.contract.support import MINUTE, Clock


class Tools:
    """Tools that run until their turn is ended, and count how often they began."""

    def __init__(self) -> None:
        self.began, self.runs = asyncio.Event(), 0

        @tool(approval=True)
        async def pay() -> str:
            return await self._run()

        async def look() -> str:
            return await self._run()

        self.all = [pay, look]

    async def _run(self) -> str:
        self.runs += 1
        self.began.set()
        await asyncio.Event().wait()
        return "never"

    async def ended(self, reply: Reply) -> None:
        """Begin the turn, and end it while a tool runs."""
        task = asyncio.create_task(heard(reply))
        await self.began.wait()
        await reply.cancel()
        await task


@pytest.fixture
def tools() -> Tools:
    return Tools()


async def texts(talk: Talk) -> list[str]:
    return [result.text for result in await results(talk)]


async def test_a_turn_that_was_ended_in_a_tool_is_gone_on_with_once(talk: Talk, speak: Speak, tools: Tools) -> None:
    speak([call("look")], "Then not.", "never said")
    await tools.ended(talk.say("Look.", tools=tools.all))
    assert await texts(talk) == [CUT_SHORT]
    assert await said(talk.resume(tools=tools.all)) == "Then not."
    with pytest.raises(NothingToResume, match="is idle"):
        await talk.resume(tools=tools.all)
    assert tools.runs == 1
    await assert_valid(talk)


async def test_what_waits_for_approval_goes_on_waiting_when_the_turn_is_ended(
    talk: Talk, speak: Speak, tools: Tools
) -> None:
    speak([call("pay", id="a"), call("look", id="b")], "Then not.")
    await tools.ended(talk.say("Pay and look.", tools=tools.all))
    assert await state(talk) == "waiting"
    [waits] = await talk.waiting()
    assert isinstance(waits.event, ToolCall)
    assert waits.event.id == "a"
    with pytest.raises(NothingToResume, match="Approve or refuse"):
        await talk.resume(tools=tools.all)
    assert await said(talk.refuse(tools=tools.all)) == "Then not."
    assert await state(talk) == "idle"
    assert await texts(talk) == [CUT_SHORT, "The user refused this tool call."]


async def test_a_late_one_that_was_ended_is_told_and_its_turn_goes_on(talk: Talk, speak: Speak, tools: Tools) -> None:
    speak([call("pay")], "It rains.", "Then not.", "never said")
    await heard(talk.say("Pay.", tools=tools.all))
    await heard(talk.say("How is the weather?", tools=tools.all))
    await tools.ended(talk.approve(tools=tools.all))
    assert await texts(talk) == [CUT_SHORT]
    assert await talk.waiting() == []
    assert await said(talk.resume(tools=tools.all)) == "Then not."
    assert await state(talk) == "idle"
    assert tools.runs == 1
    await assert_valid(talk)


async def test_so_is_one_whose_turn_the_user_has_left_meanwhile(talk: Talk, speak: Speak, tools: Tools) -> None:
    speak([call("pay")], "Then not.")
    await heard(talk.say("Pay.", tools=tools.all))
    approving = talk.approve(tools=tools.all)
    task = asyncio.create_task(heard(approving))
    await tools.began.wait()
    await talk.append(user("Never mind."), assistant("All right."))
    await approving.cancel()
    await task
    assert await texts(talk) == [CUT_SHORT]
    assert await said(talk.resume(tools=tools.all)) == "Then not."
    assert await state(talk) == "idle"
    await assert_valid(talk)


async def test_a_call_that_was_redacted_while_it_waited_is_not_waited_for(
    talk: Talk, speak: Speak, tools: Tools
) -> None:
    speak([call("pay")], "Then not.")
    await heard(talk.say("Pay.", tools=tools.all))
    [waits] = await talk.waiting()
    await talk.redact(waits.seq)
    assert await talk.waiting() == []
    assert await said(talk.resume(tools=tools.all)) == "Then not."
    assert await texts(talk) == [UNASKED]
    assert await state(talk) == "idle"
    assert tools.runs == 0
    await assert_valid(talk)


async def test_after_a_clear_there_is_nothing_to_go_on_with(talk: Talk, speak: Speak, tools: Tools) -> None:
    speak([call("look")], "never said")
    await tools.ended(talk.say("Look.", tools=tools.all))
    await talk.clear()
    with pytest.raises(NothingToResume, match="cleared"):
        await talk.resume(tools=tools.all)


async def test_what_closes_a_turn_that_was_left_long_ago_belongs_to_its_session(talk: Talk, speak: Speak) -> None:
    """And the message after it begins the next."""
    clock = Clock(talk._log.now)
    talk._log._clock = clock
    await talk.append(user("Look."), ToolCall(id="a", name="look"))
    clock.now += 31 * MINUTE
    speak("Yes.")
    deltas = await heard(talk.say("I am back."))
    assert any(isinstance(delta, Notice) and delta.text.startswith("A new session") for delta in deltas)
    events = await talk.after()
    assert [(event.kind, event.session) for event in events[1:6]] == [
        *(("tool_call", 1), ("tool_result", 1), ("agent_killed", 1)),
        *(("session_started", 1), ("user", 2)),
    ]
