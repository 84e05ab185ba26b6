"""What is done is done once, and what was said is kept, wherever a turn is cut short."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from everthread import Agent, Everthread, Talk, tool
from everthread.agent import lease
from everthread.agent.approval import CUT_SHORT
from everthread.core.branches import ENDLESS
from everthread.core.deltas import Delta, Done, TextDelta, Usage
from everthread.errors import (
    BadSetting,
    BadTool,
    BadValue,
    NothingToResume,
    Overloaded,
    TakenOver,
    TurnBusy,
    TurnCancelled,
)
from everthread.providers.prices import price_of
from everthread.testing.scripted import call
from tests.agent.conftest import Gate, Speak
from tests.agent.support import assert_valid, calls, failing, finds_its_branch, heard, kinds, results, said, state
from tests.waiting import turned


class Slow:
    """An append that takes its time, and is cancelled meanwhile."""

    def __init__(self, talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self._go = asyncio.Event(), asyncio.Event()
        self._append = talk._log.go_on
        self._kind = ""
        monkeypatch.setattr(talk._log, "go_on", self._slowly)

    def at(self, kind: str) -> None:
        self._kind = kind
        self.begun.clear()
        self._go.clear()

    def go_on(self) -> None:
        self._go.set()

    async def _slowly(self, place: Any, events: Any, **how: Any) -> Any:
        if any(event.kind == self._kind for event in events):
            self._kind = ""
            self.begun.set()
            await self._go.wait()
        return await self._append(place, events, **how)


@pytest.mark.parametrize("kind", ["user", "assistant", "tool_result", "agent_killed"])
async def test_a_turn_cancelled_during_an_append_has_it_in_the_log_once(
    talk: Talk, speak: Speak, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def clock() -> str:
        return "noon"

    speak(["Let me look.", call("clock")], "It is noon.", pace=0.001)
    slow = Slow(talk, monkeypatch)
    slow.at("tool_result" if kind == "agent_killed" else kind)
    reply = talk.say("What time is it?", tools=[clock])
    task = asyncio.create_task(heard(reply))
    await slow.begun.wait()
    if kind == "agent_killed":  # twice: while what came is kept
        reply._task.cancel()  # type: ignore[union-attr]
        await turned()
        slow.go_on()
        slow.at(kind)
        await slow.begun.wait()
    cancelling = asyncio.create_task(reply.cancel())
    await turned()
    slow.go_on()
    await cancelling
    await task
    found = await kinds(talk)
    assert found.count("user") == 1
    assert found.count("assistant") <= 1
    assert found.count("tool_result") <= 1
    assert found.count("agent_killed") == 1
    assert found[-1] == "agent_killed"
    assert len(await calls(talk)) == found.count("assistant")
    await assert_valid(talk)


async def test_a_tool_that_was_let_run_does_not_run_again(talk: Talk, speak: Speak) -> None:
    paid: list[int] = []
    running = asyncio.Event()

    @tool(approval=True)
    async def pay(amount: int) -> str:
        paid.append(amount)
        running.set()
        await asyncio.sleep(60)
        return "paid"

    speak([call("pay", {"amount": 20})], "never said")
    await heard(talk.say("Pay.", tools=[pay]))
    approving = talk.approve(tools=[pay])
    task = asyncio.create_task(heard(approving))
    await running.wait()
    await approving.cancel()
    await task
    assert await talk.waiting() == []
    assert paid == [20]
    assert await state(talk) == "interrupted"


async def test_an_approval_is_not_used_up_by_a_tool_that_is_not_there(talk: Talk, speak: Speak) -> None:
    @tool(approval=True)
    def pay() -> str:
        return "paid"

    speak([call("pay")], "Paid.")
    await heard(talk.say("Pay.", tools=[pay]))
    with pytest.raises(BadTool, match="goes on waiting"):
        await talk.approve(tools=[])
    assert len(await talk.waiting()) == 1
    assert await said(talk.approve(tools=[pay])) == "Paid."


async def test_what_a_tool_gave_before_the_turn_was_cancelled_is_kept(talk: Talk, speak: Speak) -> None:
    sent = asyncio.Event()

    async def slow() -> str:
        await asyncio.sleep(60)
        return "never"

    async def send() -> str:
        sent.set()
        return "sent"

    speak([call("slow"), call("send")])
    reply = talk.say("Both.", tools=[slow, send])
    task = asyncio.create_task(heard(reply))
    await sent.wait()
    await turned()  # it has ended, too
    await reply.cancel()
    await task
    assert [result.text for result in await results(talk)] == ["sent", CUT_SHORT]
    await assert_valid(talk)


# -- closing, leases -----------------------------------------------------------------------------------------


async def test_closing_the_store_ends_its_turns_and_keeps_what_came(
    address: str, someone: str, speak: Speak, model: str
) -> None:
    speak("one two three four five six seven eight", pace=0.05)
    async with Everthread.open(address, settings={"model": model}) as et:
        talk = await et.begin(user=someone)
        reply = talk.say("Count.")
        async for delta in reply:
            if isinstance(delta, TextDelta):
                break
    async with Everthread.open(address, settings={"model": model}) as et:
        again = await et.conversation(user=someone, id=talk.id)
        assert await kinds(again) == ["user", "assistant", "model_call", "agent_killed"]


async def test_a_turn_whose_lease_was_taken_writes_nothing_any_more(
    talk: Talk, speak: Speak, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "SECONDS", 3.0)
    speak("word " * 100_000, pace=0.4)
    line = await talk.line()
    deltas: list[Delta] = []

    async def hear() -> None:
        async for delta in talk.say("Count."):
            deltas.append(delta)
            if len(deltas) == 1:
                name = f"turn/{line.conversation}/{line.branch.number}"
                found = await talk._log.leases.term(line.tenant, name)
                assert found is not None
                await talk._log.leases.take(line.tenant, name, holder="somebody else", seconds=60, over=found.holder)

    with pytest.raises(TakenOver):
        await hear()
    assert not any(isinstance(delta, Done) for delta in deltas)
    assert await kinds(talk) == ["user"]


async def test_a_tool_that_speaks_to_its_own_branch_is_refused_at_once(talk: Talk, speak: Speak) -> None:
    async def nag(talk: Talk) -> str:
        return str(await talk.say("Are you there?"))

    speak([call("nag")], "I see.")
    assert await said(talk.say("Nag.", tools=[nag])) == "I see."
    assert "the one that this tool belongs to" in (await results(talk))[0].text


async def test_a_tool_may_speak_to_another_branch(talk: Talk, speak: Speak) -> None:
    async def ask_aside(talk: Talk) -> str:
        return str(await (await talk.fork(at=0)).say("Aside?"))

    speak([call("ask_aside")], "From aside.", "Done.")
    assert await said(talk.say("Ask.", tools=[ask_aside])) == "Done."
    assert (await results(talk))[0].text == "From aside."


async def test_a_message_that_waited_goes_to_the_branch_that_is_current_then(
    talk: Talk, speak: Speak, gate: Gate
) -> None:
    speak("Hello.")
    await heard(talk.say("Hello."))
    speak("one two three", "Here.")
    gate.hold()
    first = asyncio.create_task(heard(talk.say("Slowly.")))
    await gate.reached.wait()
    async with finds_its_branch(talk):
        second = asyncio.create_task(heard(talk.say("And me.")))
    side = await talk.rewind(to=1)
    gate.open()
    await asyncio.gather(first, second)
    assert [event.text for event in await side.after(messages=True)] == ["Hello.", "And me.", "Here."]


# -- what is raised ------------------------------------------------------------------------------------------


async def test_a_bad_setting_is_refused_before_anything_is_appended(talk: Talk) -> None:
    with pytest.raises(BadSetting, match="budget is 'foo'"):
        await talk.say("Hello", settings={"budget": "foo"})  # type: ignore[call-overload]
    with pytest.raises(BadSetting, match="model is 'bogus'"):
        await talk.say("Hello", model="bogus")
    assert await kinds(talk) == []


@pytest.mark.parametrize("nothing", ["", "  \n"])
async def test_nothing_cannot_be_said(talk: Talk, nothing: str) -> None:
    with pytest.raises(BadValue, match="something to say"):
        talk.say(nothing)
    with pytest.raises(BadValue, match="something to say"):
        talk.say()


async def test_only_what_was_cut_short_can_be_resumed(talk: Talk, speak: Speak) -> None:
    with pytest.raises(NothingToResume, match="not begun"):
        await talk.resume()
    speak("Hello.")
    await heard(talk.say("Hello?"))
    with pytest.raises(NothingToResume, match="is idle"):
        await talk.resume()
    assert len(await calls(talk)) == 1


async def test_said_again_with_the_same_key_the_model_is_not_called_again(talk: Talk, speak: Speak) -> None:
    speak("Yes.", "never said")
    await heard(talk.say("Order 17.", key="order-17"))
    deltas = await heard(talk.say("Order 17.", key="order-17"))
    assert "".join(map(str, deltas)) == "Yes."
    assert len(await calls(talk)) == 1


async def test_with_the_same_key_a_turn_that_was_cut_short_goes_on(talk: Talk, speak: Speak) -> None:
    speak(Overloaded("scripted", "busy", after=3_600), "Now.")
    await failing(talk.say("Order 17.", key="order-17"), Overloaded)
    assert await said(talk.say("Order 17.", key="order-17")) == "Now."
    assert (await kinds(talk)).count("user") == 1


async def test_an_error_that_is_raised_has_all_that_it_knows(talk: Talk, speak: Speak) -> None:
    speak(Overloaded("scripted", "busy", after=3_600))
    with pytest.raises(Overloaded) as raised:
        await talk.say("Hello?")
    assert raised.value.after == 3_600


async def test_a_turn_that_somebody_else_cancels_says_so_to_who_awaits_it(talk: Talk, speak: Speak, gate: Gate) -> None:
    speak("one two three")
    gate.hold()
    reply = talk.say("Count.")

    async def whole() -> object:
        return await reply

    task = asyncio.create_task(whole())
    await gate.reached.wait()
    await reply.cancel()
    with pytest.raises(TurnCancelled):
        await task


async def test_the_whole_can_be_awaited_twice(talk: Talk, speak: Speak) -> None:
    speak("Four.")
    reply = talk.say("Two and two?")
    assert (await reply).text == (await reply).text == "Four."


def test_odd_figures_of_a_provider_do_not_cost_the_reply() -> None:
    """More read from the cache than there was: no price can be told, and nothing else happens."""
    assert price_of("openai", "gpt-5", Usage(input=10, cache_read=50)) is None


def test_what_a_model_call_wrote_for_an_hour_is_priced_as_that() -> None:
    usage, claude = Usage(input=1_000, cache_write=1_000), ("anthropic", "claude-sonnet-4-6")
    plain = price_of(*claude, Usage(input=1_000))
    short, long = (price_of(*claude, usage, ttl=ttl) for ttl in ("5m", "1h"))
    assert plain
    assert short == pytest.approx(1.25 * plain)
    assert long == pytest.approx(2 * plain)


async def test_an_agent_that_was_changed_is_what_a_context_shows(address: str, someone: str) -> None:
    async with Everthread.open(address, settings={"model": "openai:gpt-5"}) as et:
        talk = await et.begin(user=someone, agent=someone)
        for persona in ("the old one", "the new one"):
            await et.agents.save("default", Agent(name=someone, instructions=f"You are {persona}."))
            context = await talk.context()
            assert persona in str(context.request["messages"][0])


async def test_refused_where_a_second_turn_is_under_way_nothing_is_appended(talk: Talk, speak: Speak) -> None:
    speak("word " * 100_000, pace=0.05)
    reply = talk.say("First.")
    async for delta in reply:
        if isinstance(delta, TextDelta):
            break
    with pytest.raises(TurnBusy):
        await talk.say("Second.", when_busy="refuse")
    await reply.cancel()
    assert [event.text for event in await talk.range(1, ENDLESS) if event.kind == "user"] == ["First."]
