"""The tool by which a model delegates."""

from __future__ import annotations

from typing import Any

import pytest

from everthread import Agent, Everthread, FlowCompleted, FlowStarted, Talk, delegate_tool
from everthread.core.branches import ENDLESS
from everthread.core.outcomes import TOLD, Delegated, delegated, in_words, told
from everthread.errors import BadValue
from everthread.testing.scripted import call, script
from everthread.tools import tool
from tests.agent.conftest import Gate, Speak
from tests.agent.support import assert_valid, kinds, results, seen


def task(text: str, *, wait: bool, id: str = "", **more: Any) -> Any:
    return call("delegate", {"task": text, "wait": wait, **more}, id=id or text)


async def events(talk: Talk, kind: type) -> list[Any]:
    return [one.event for one in await talk.range(1, ENDLESS) if isinstance(one.event, kind)]


@pytest.fixture
def worker(someone: str) -> str:
    """A model of the children's own."""
    return f"{someone}-worker"


async def test_one_that_is_waited_for_gives_its_outcome(talk: Talk, speak: Speak, worker: str) -> None:
    speak([task("Count.", wait=True)], "Forty-two.")
    script(worker, "There are 42.")
    assert str(await talk.say("Count them.", tools=[delegate_tool(model=f"scripted:{worker}")])) == "Forty-two."
    (result,) = await results(talk)
    said = "The task “Count.”, delegated on branch 2, is done.\nIt has said:\nThere are 42."
    assert (result.text, result.event.error) == (said, False)  # type: ignore[union-attr]
    (outcome,) = await events(talk, FlowCompleted)
    assert outcome.data["told"] is True
    assert told(outcome) == ""
    await assert_valid(talk)


async def test_one_that_is_not_is_told_later(talk: Talk, speak: Speak, worker: str) -> None:
    speak([task("Count.", wait=False)], "I have asked.")
    script(worker, "There are 42.")
    await talk.say("Count them.", tools=[delegate_tool(model=f"scripted:{worker}")])
    (result,) = await results(talk)
    assert result.text.startswith("Begun on branch 2. You will be told")
    await (await talk.child(2))
    (outcome,) = await events(talk, FlowCompleted)
    assert "There are 42." in told(outcome)


async def test_several_at_once(talk: Talk, speak: Speak, worker: str) -> None:
    speak([task(f"{n}", wait=True) for n in range(5)], "Done.")
    script(worker, *(f"Result {n}." for n in range(5)))
    await talk.say("Go.", tools=[delegate_tool(model=f"scripted:{worker}", at_once=3)])
    told = [one.text for one in await results(talk)]
    assert sum("is done." in one for one in told) + sum("no more may at once" in one for one in told) == 5
    assert len(await events(talk, FlowCompleted)) == len(await events(talk, FlowStarted)) >= 3
    await assert_valid(talk)


async def test_a_child_does_not_find_the_call_that_began_it(talk: Talk, speak: Speak, worker: str) -> None:
    asked: list[Any] = []
    speak([call("look", id="a")], ["Let me ask.", task("Count.", wait=True)], "Done.")
    script(worker, seen(asked.append, "Yes."))
    await talk.say("Look, then ask.", tools=[delegate_tool(model=f"scripted:{worker}"), tool(_look, name="look")])
    said = str([body["messages"] for body in asked])
    assert all(text in said for text in ("Look, then ask.", "There.", "Count."))
    assert "Let me ask." not in said
    assert "delegate" not in said
    own = await talk.on(2)
    assert (await kinds(own))[-5:] == ["settings", "agent_killed", "user", "assistant", "model_call"]
    await assert_valid(own)


def _look() -> str:
    return "There."


async def test_it_offers_the_agents_it_was_given(address: str, someone: str, worker: str) -> None:
    offered: list[Any] = []
    script(someone, seen(offered.append, [task("Go.", wait=True, agent="scout")]), "Done.")
    script(worker, "Found.")
    tools = [delegate_tool(agents=["scout", "clerk"])]
    async with Everthread.open(address, keys={}, tools=tools) as et:
        await et.agents.save("default", Agent(name="boss", model=f"scripted:{someone}", tools=("delegate",)))
        await et.agents.save("default", Agent(name="scout", model=f"scripted:{worker}"))
        talk = await et.begin(user=someone, agent="boss")
        await talk.say("Go.")
        schema = offered[0]["tools"][0]["function"]["parameters"]
        assert schema["properties"]["agent"]["enum"] == ["scout", "clerk"]
        assert schema["required"] == ["task", "agent", "wait"]
        (child,) = await talk.children()
        assert (child.agent, child.state, child.result) == ("scout", "done", "Found.")
        script(someone, [task("Go.", wait=True, agent="clerk")], "Done.")
        await talk.say("Go on.")
        assert "There is no agent 'clerk'" in (await results(talk))[-1].text


async def test_the_deepest_are_not_offered_it(address: str, someone: str) -> None:
    offered: list[list[str]] = []

    def asks(body: Any) -> Any:
        offered.append([one["function"]["name"] for one in body.get("tools", ())])
        return [task(f"Task {len(offered)}", wait=True)] if "delegate" in offered[-1] else "At the bottom."

    script(someone, *[asks] * 3, "Up.", "Up again.")
    async with Everthread.open(address, keys={}, tools=[delegate_tool(depth=2), _canvas]) as et:
        talk = await et.begin(user=someone, settings={"model": f"scripted:{someone}"})
        await talk.say("Go.")
        assert offered == [["canvas_draw", "delegate"], ["delegate"], []]
        (first,) = await talk.children()
        (second,) = await (await talk.on(first.branch)).children()
        assert [(one.depth, one.result) for one in (first, second)] == [(1, "Up."), (2, "At the bottom.")]


@tool(name="canvas_draw")
def _canvas() -> str:
    return "Drawn."


async def test_only_those_that_may_draw_are_offered_the_canvas(talk: Talk, speak: Speak) -> None:
    asked: list[Any] = []
    speak(*[seen(asked.append, "Done.")] * 2)
    for canvas in (True, False):
        await (await talk.delegate("Draw.", tools=[_canvas], canvas=canvas))
    assert ["canvas_draw" in str(body.get("tools")) for body in asked] == [True, False]
    assert [one.data["canvas"] for one in await events(talk, FlowStarted)] == [True, False]


async def test_a_turn_that_is_stopped_while_it_waits_leaves_the_outcome_to_be_told(
    talk: Talk, speak: Speak, worker: str, gate: Gate
) -> None:
    speak(
        seen(lambda _: gate.hold(after=1), [task("Count.", wait=True)])
    )  # the reply after this one, which is the child's
    script(worker, "There are 42.")
    reply = talk.say("Count them.", tools=[delegate_tool(model=f"scripted:{worker}")], detached=True)
    await gate.reached.wait()
    assert await talk.stop()
    with pytest.raises(Exception, match="cancelled"):
        await reply
    gate.open()
    assert (await (await talk.child(2))).result == "There are 42."
    (outcome,) = await events(talk, FlowCompleted)
    assert "There are 42." in told(outcome)


def test_a_long_result_is_told_in_part() -> None:
    data = {"branch": 7, "state": "done", "why": "", "agent": "scout", "quotes": [["0" * 26, 7, 12]]}
    outcome = FlowCompleted(name="Read.", result="x" * 9_000, data=data)
    said = told(outcome)
    assert len(said) < TOLD + 300
    assert "delegated by the agent scout on branch 7, is done." in said
    assert "[5,000 more characters" in said
    assert "x" * 9_000 in in_words(outcome, most=10_000)
    assert told(FlowCompleted(name="booking", result="Two seats.")) == ""


def test_a_command_of_an_applications_own_makes_no_child() -> None:
    said = Delegated(parent=1)
    assert delegated(said.command) == said
    for command in (FlowCompleted(), type(said.command)(name="delegate", arguments={"to": "Bob"})):
        assert delegated(command) is None


def test_bad_names_of_agents_are_refused() -> None:
    with pytest.raises(BadValue):
        delegate_tool(agents=[""])
