"""After an outage: the message is kept, the error says so, and it need not stand in the log twice."""

from __future__ import annotations

import asyncio

import pytest

from everthread import Talk
from everthread.core.deltas import Notice
from everthread.errors import EverthreadError, KeyReused, LimitReached, Overloaded
from everthread.testing.scripted import call
from everthread.tools import tool
from tests.agent.conftest import Speak
from tests.agent.support import failing, heard, kinds, said


def down() -> Overloaded:
    return Overloaded("scripted", "busy", after=3_600)


def look() -> str:
    return "seen"


async def forever() -> str:
    await asyncio.Event().wait()
    return "never"


async def notices(talk: Talk, text: str) -> list[str]:
    return [delta.text for delta in await heard(talk.say(text)) if isinstance(delta, Notice)]


async def test_the_error_says_that_the_message_is_kept_and_how_to_go_on(talk: Talk, speak: Speak) -> None:
    speak(down(), "Now.")
    with pytest.raises(Overloaded, match=r"The message is kept: `talk\.resume\(\)`") as raised:
        await talk.say("Order 17.")
    assert raised.value.kept == 1
    assert "talk.resume" not in raised.value.sentence
    assert "talk.resume" not in str([event.event for event in await talk.after()])  # it is for the caller alone
    assert await said(talk.resume()) == "Now."
    assert (await kinds(talk)).count("user") == 1


async def test_so_does_the_error_of_a_turn_that_failed_again_or_after_a_tool(talk: Talk, speak: Speak) -> None:
    speak(down(), [call("look")], down(), "Yes.")
    with pytest.raises(Overloaded):
        await talk.say("Look.")
    with pytest.raises(Overloaded) as raised:
        await talk.resume(tools=[look])
    assert raised.value.kept == 1
    assert await said(talk.resume(tools=[look])) == "Yes."


async def test_an_error_before_anything_was_said_promises_nothing(talk: Talk) -> None:
    with pytest.raises(EverthreadError) as raised:
        await talk.say("Hello", settings={"budget": "foo"})  # type: ignore[call-overload]
    assert not raised.value.kept
    assert "kept" not in str(raised.value)


async def test_nor_does_the_error_of_a_message_that_was_refused_after_a_kept_one(talk: Talk, speak: Speak) -> None:
    speak(down(), "Now.")
    await failing(talk.say("Order 17.", key="17"), Overloaded)
    with pytest.raises(KeyReused) as raised:
        await talk.say("Order 18.", key="17")
    assert not raised.value.kept


async def test_nor_does_one_of_a_turn_that_still_waits(talk: Talk, speak: Speak) -> None:
    @tool(approval=True)
    def pay() -> str:
        return "paid"

    speak([call("pay"), call("forever")])
    with pytest.raises(LimitReached) as raised:
        await talk.say("Pay.", tools=[pay, forever], settings={"turn_seconds": 1})
    assert not raised.value.kept


async def test_said_again_without_a_key_it_offers_to_go_on_instead(talk: Talk, speak: Speak) -> None:
    speak(down(), "Now.", "And again.", "Other.")
    await failing(talk.say("Order 17."), Overloaded)
    [notice] = await notices(talk, "Order 17.")
    assert "talk.resume()" in notice
    assert await notices(talk, "Order 17.") == []  # the one before it had its reply


async def test_something_else_said_after_a_failure_is_not_remarked_on(talk: Talk, speak: Speak) -> None:
    speak(down(), "Now.")
    await failing(talk.say("Order 17."), Overloaded)
    assert await notices(talk, "Order 18.") == []
