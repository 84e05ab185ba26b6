"""Children: a task done on a branch of its own, its outcome on the parent's, on both stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from everthread import (
    Agent,
    BadSetting,
    BadTool,
    BadValue,
    Everthread,
    FlowCompleted,
    ListedChild,
    Talk,
    TooDeep,
    TooManyChildren,
    UnknownAgent,
    UnknownBranch,
    UnknownChild,
    UnknownConversation,
    flow_started,
    tool,
    user,
)
from everthread.agent.family import begun_on
from everthread.core.branches import ENDLESS, Line
from everthread.core.outcomes import told
from everthread.errors import Overloaded
from everthread.store.log import Log
from everthread.testing.scripted import broken, call, script
from everthread.wire import dumps, loads
from tests.agent.support import assert_valid, seen
from tests.contract.support import assert_sound, everything, strays
from tests.contract.test_transfer import carried
from tests.waiting import until


@pytest.fixture
async def et(address: str, someone: str) -> AsyncIterator[Everthread]:
    settings: Any = {"model": f"scripted:{someone}", "retries": 0}
    async with Everthread.open(address, settings=settings, keys={}) as et:
        yield et


async def kinds(talk: Talk, after: int = 0) -> list[str]:
    return [one.kind for one in await talk.range(after + 1, ENDLESS)]


async def outcomes(talk: Talk) -> list[FlowCompleted]:
    """Those on the talk's line, oldest first."""
    return [one.event for one in await everything(talk) if isinstance(one.event, FlowCompleted)]


class Gate:
    """A tool that a test holds up."""

    def __init__(self) -> None:
        self.reached, self.passes = 0, asyncio.Event()

    async def wait(self) -> str:
        self.reached += 1
        await self.passes.wait()
        return "passed"


# -- one ---------------------------------------------------------------------------------------------------


async def test_a_child_does_its_task_on_its_own_branch(et: Everthread, talk: Talk, someone: str) -> None:
    script(someone, "Hello.", "It has 126,000.")
    await talk.say("Hi.")
    child = await talk.delegate("How many live in Ulm?")
    outcome = await child
    assert (outcome.state, str(outcome), outcome.task) == ("done", "It has 126,000.", "How many live in Ulm?")
    assert (outcome.branch, outcome.name, outcome.depth, outcome.calls) == (2, "child-2", 1, 1)
    assert await kinds(talk) == ["user", "assistant", "model_call", "flow_started", "flow_completed"]
    own = await talk.on(child.branch)
    assert await kinds(own, after=3) == ["fork", "command", "user", "assistant", "model_call"]
    assert [one.text for one in await own.tail(turns=1, messages=True)] == ["How many live in Ulm?", "It has 126,000."]
    assert (await talk.line()).branch.number == 1
    await assert_sound(et, talk)


async def test_it_knows_what_was_said_unless_it_is_fresh(talk: Talk, someone: str) -> None:
    asked: list[Any] = []
    script(someone, "Noted.", *[seen(asked.append, "Yes.")] * 2)
    await talk.configure(instructions="Be brief.")
    await talk.say("The code is KESTREL.")
    await (await talk.delegate("What is the code?"))
    await (await talk.delegate("And what is it now?", fresh=True))
    assert ["KESTREL" in str(messages) for messages in asked] == [True, False]
    assert ["Be brief." in str(messages) for messages in asked] == [True, False]


async def test_it_has_its_own_agent_model_settings_and_tools(et: Everthread, talk: Talk, someone: str) -> None:
    asked: list[Any] = []
    script(f"{someone}-other", seen(asked.append, [call("look", id="a")]), "Found.")
    scout = Agent(name=f"scout-{someone}", instructions="You scout.", model=f"scripted:{someone}-other")
    await et.agents.save("default", scout)
    async with Everthread.open(et.log._engine, keys={}) as again:  # where no setting names another model
        own = again.talk(talk.conversation)
        looked: list[str] = []
        child = await own.delegate("Look.", agent=scout.name, tools=[_look(looked)], settings={"temperature": 0.5})
        outcome = await child
        assert (outcome.state, outcome.result, outcome.agent, looked) == ("done", "Found.", scout.name, ["looked"])
        record = next(one.event for one in await everything(await own.on(child.branch)) if one.kind == "model_call")
        assert record.agent == f"{scout.name} 1"  # type: ignore[union-attr]
        assert "You scout." in str(asked[0])
        assert asked[0]["temperature"] == 0.5
        assert [one["function"]["name"] for one in asked[0]["tools"]] == ["look"]
        assert "You scout." in str((await (await own.on(child.branch)).context()).request)
        await again.memory.close(0)


def _look(looked: list[str]) -> Any:
    async def look() -> str:
        looked.append("looked")
        return "There."

    return look


async def test_what_is_wrong_is_said_before_anything_is_written(talk: Talk) -> None:
    for problem, given in [
        (BadValue, {"task": "  "}),
        (BadValue, {"task": "Go.", "depth": -1}),
        (BadSetting, {"task": "Go.", "calls": 0}),
        (BadSetting, {"task": "Go.", "model": "nobody:x"}),
        (UnknownAgent, {"task": "Go.", "agent": "nobody"}),
    ]:
        with pytest.raises(problem):
            await talk.delegate(**given)  # type: ignore[arg-type]
    assert await kinds(talk) == []
    assert len(await talk.branches()) == 1


async def test_one_that_cannot_be_begun_leaves_no_branch(talk: Talk) -> None:
    for problem, given in [
        (BadTool, {"tools": [5]}),
        (BadTool, {"tools": iter([tool(print, seconds=-1)])}),
        (BadValue, {"tools": [{"name": "look", "schema": 5}]}),
    ]:
        with pytest.raises(problem):
            await talk.delegate("Go.", **given)  # type: ignore[arg-type]
    assert await kinds(talk) == []
    assert len(await talk.branches()) == 1


async def test_a_child_that_is_none_is_refused(talk: Talk) -> None:
    await talk.append(user("Hi."))
    await talk.fork(name="side")
    with pytest.raises(UnknownChild):
        await talk.child("side")
    with pytest.raises(UnknownBranch):
        await talk.child(7)


async def test_events_of_an_application_are_no_children(talk: Talk) -> None:
    await talk.append(user("Hi."))
    await talk.fork(name="side")
    await talk.append(
        flow_started("booking"), flow_started("branching", branch=2, depth=1), flow_started("x", branch=9)
    )
    assert await talk.children() == []
    assert await talk.spent() is None


# -- how it ends -------------------------------------------------------------------------------------------


async def test_an_outcome_says_how_it_ended(talk: Talk, someone: str) -> None:
    script(f"{someone}-done", "All of it.")
    script(f"{someone}-failed", Overloaded("scripted", "busy"))
    script(f"{someone}-broken", ["Some of it, and then", broken(after_words=2)])
    script(f"{someone}-limit", *[[call("look", id=f"{n}")] for n in range(9)])
    found = {}
    for how in ("done", "failed", "broken", "limit"):
        child = await talk.delegate(how, model=f"scripted:{someone}-{how}", tools=[_look([])], calls=2, dollars=5.0)
        found[how] = await child
    assert {how: one.state for how, one in found.items()} == {
        "done": "done",
        "failed": "failed",
        "broken": "failed",
        "limit": "limit",
    }
    assert (found["limit"].calls, found["done"].why) == (2, "")
    assert found["broken"].result == "Some of"
    assert "busy" in found["failed"].why
    assert "2 model calls" in found["limit"].why
    written = await outcomes(talk)
    assert [one.data["state"] for one in written] == ["done", "failed", "failed", "limit"]
    assert told(written[0]) == "The task “done”, delegated on branch 2, is done.\nIt has said:\nAll of it."
    assert "has failed." in told(written[1])
    assert "It has said nothing." in told(written[1])
    assert "Until then it had said:\nSome of" in told(written[2])
    assert "2 model calls" in told(written[3])


async def test_it_is_ended_when_its_time_is_up(talk: Talk, someone: str) -> None:
    gate = Gate()
    script(someone, [call("wait", id="a")])
    outcome = await (await talk.delegate("Wait.", tools=[gate.wait], seconds=1))
    assert (outcome.state, gate.reached) == ("limit", 1)
    assert "1 seconds" in outcome.why


async def test_it_is_stopped_and_says_so(talk: Talk, someone: str) -> None:
    gate = Gate()
    script(someone, ["I wait.", call("wait", id="a")])
    child = await talk.delegate("Wait.", tools=[gate.wait])
    await until(lambda: gate.reached > 0)
    assert (await child.look()).state == "running"
    assert await child.stop()
    assert not await child.stop()
    outcome = await child.outcome()
    assert (outcome.state, outcome.result) == ("stopped", "I wait.")
    assert len(await outcomes(talk)) == 1


async def test_stopping_the_parent_leaves_children_unless_asked(talk: Talk, someone: str) -> None:
    gate = Gate()
    script(someone, *[[call("wait", id="a")]] * 2)
    one, two = [await talk.delegate("Wait.", tools=[gate.wait]) for _ in range(2)]
    await until(lambda: gate.reached == 2)
    assert not await talk.stop()
    assert [child.state for child in await talk.children()] == ["running", "running"]
    assert await talk.stop(children=True)
    assert [child.state for child in await talk.children()] == ["stopped", "stopped"]
    assert [(await child).state for child in (one, two)] == ["stopped", "stopped"]


async def test_it_is_listened_to(talk: Talk, someone: str) -> None:
    script(someone, "Well, yes.")
    child = await talk.delegate("Is it?")
    heard = []
    async for item in child.listen():
        heard.append(item)
        if getattr(item, "kind", "") == "assistant":
            break
    assert [one.kind for one in heard if hasattr(one, "seq") and hasattr(one, "branch")] == [
        *("fork", "command", "user", "assistant"),
    ]


async def test_one_that_waits_for_approval_goes_on_when_it_is_given(talk: Talk, someone: str) -> None:
    paid: list[int] = []

    @tool(approval=True)
    async def pay(amount: int) -> str:
        paid.append(amount)
        return "Paid."

    script(someone, [call("pay", {"amount": 20}, id="a")], "It is paid.")
    child = await talk.delegate("Pay.", tools=[pay])
    assert ((await child).state, await outcomes(talk), paid) == ("waiting", [], [])
    await (await talk.on(child.branch)).approve(tools=[pay])
    outcome = await child
    assert (outcome.state, outcome.result, outcome.calls, paid) == ("done", "It is paid.", 2, [20])
    assert len(await outcomes(talk)) == 1


async def test_one_that_waits_for_approval_is_stopped(et: Everthread, talk: Talk, someone: str) -> None:
    paid: list[int] = []

    @tool(approval=True)
    async def pay(amount: int) -> str:
        paid.append(amount)
        return "Paid."

    reply: Any = ["I pay.", call("pay", {"amount": 20}, id="a"), call("pay", {"amount": 30}, id="b")]
    script(someone, reply, reply)
    child = await talk.delegate("Pay.", tools=[pay])
    assert (await child).state == "waiting"
    assert await child.stop()
    assert not await child.stop()
    outcome = await child
    assert (outcome.state, outcome.result, outcome.why, paid) == ("stopped", "I pay.", "stopped", [])
    own = await talk.on(child.branch)
    assert await own.waiting() == []
    results = [one.text for one in await everything(own) if one.kind == "tool_result"]
    assert [("was stopped before anybody approved" in one) for one in results] == [True, True]
    other = await talk.delegate("Pay again.", tools=[pay])
    assert (await other).state == "waiting"
    assert await talk.stop(children=True)
    assert [one.state for one in await talk.children()] == ["stopped", "stopped"]
    assert len(await outcomes(talk)) == 2
    await assert_sound(et, talk)
    await assert_valid(own)


async def test_closing_the_store_ends_it_and_says_so(et: Everthread, talk: Talk, address: str, someone: str) -> None:
    gate = Gate()
    script(someone, [call("wait", id="a")])
    async with Everthread.open(address, settings={"model": f"scripted:{someone}"}, keys={}) as other:
        child = await other.talk(talk.conversation).delegate("Wait.", tools=[gate.wait])
        await until(lambda: gate.reached > 0)
        assert [one.state for one in await talk.children()] == ["running"]
    assert [one.state for one in await talk.children()] == ["stopped"]
    assert (await (await talk.child(child.branch))).why == "cancelled"
    assert len(await outcomes(talk)) == 1


async def test_what_is_said_to_it_later_is_no_outcome(talk: Talk, someone: str) -> None:
    script(someone, "Done.", "More.")
    child = await talk.delegate("Do.")
    await child
    await (await talk.on(child.branch)).say("And more?")
    assert [one.result for one in await outcomes(talk)] == ["Done."]
    assert (await child).result == "Done."


# -- several -----------------------------------------------------------------------------------------------


async def test_several_run_side_by_side(et: Everthread, talk: Talk, someone: str) -> None:
    gate = Gate()
    for n in range(4):
        script(f"{someone}-{n}", [call("wait", id="a")], f"Result {n}.")
    children = [await talk.delegate(f"Task {n}.", model=f"scripted:{someone}-{n}", tools=[gate.wait]) for n in range(4)]
    await until(lambda: gate.reached == 4)
    gate.passes.set()
    assert [(await child).result for child in children] == [f"Result {n}." for n in range(4)]
    listed = await talk.children()
    assert [one.task for one in listed] == [f"Task {n}." for n in (3, 2, 1, 0)]
    assert {one.state for one in listed} == {"done"}
    assert sorted(one.data["branch"] for one in await outcomes(talk)) == [child.branch for child in children]
    assert loads(ListedChild, dumps(listed[0])) == listed[0]
    await assert_sound(et, talk)


async def test_one_is_known_as_a_child_from_its_first_moment(
    talk: Talk, someone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the outcome of another, which is told to forks, would be told to it before its task is."""
    known: list[bool] = []
    fork = Log.fork

    async def forked(log: Log, *given: Any, **named: Any) -> Line:
        line = await fork(log, *given, **named)
        known.append(await begun_on(log, line) is not None)
        return line

    monkeypatch.setattr(Log, "fork", forked)
    script(someone, "Done.")
    await (await talk.delegate("Do.", calls=3))
    assert known == [True]


async def test_no_more_run_at_once_than_may(talk: Talk, someone: str) -> None:
    gate = Gate()
    script(someone, *[[call("wait", id="a")]] * 2, "One.", "Two.", "Three.")
    begun = await asyncio.gather(
        *(talk.delegate(f"{n}", tools=[gate.wait], at_once=2) for n in range(5)), return_exceptions=True
    )
    assert [type(one) for one in begun[2:]] == [TooManyChildren] * 3
    gate.passes.set()
    await asyncio.gather(*(child for child in begun[:2]))  # type: ignore[arg-type]
    assert (await (await talk.delegate("Again.", at_once=1))).result == "Three."


async def test_they_are_nested_to_a_set_depth(talk: Talk, someone: str) -> None:
    script(someone, *["Done."] * 9)
    child = await talk.delegate("1", depth=2)
    await child  # or its end would be that of the second
    first = await talk.on(child.branch)
    second = await first.delegate("2", depth=9)
    with pytest.raises(TooDeep):
        await (await talk.on(second.branch)).delegate("3")
    assert (await second).depth == 2
    assert [one.task for one in await first.children()] == ["2"]
    assert [one.task for one in await talk.children()] == ["1"]
    with pytest.raises(TooDeep):
        await talk.delegate("0", depth=0)


async def nested(talk: Talk, someone: str, below: int, **given: Any) -> tuple[Any, Gate]:
    """A child with some of its own, all of which wait at a gate."""
    gate = Gate()
    script(f"{someone}-below", *[[call("wait", id="a")]] * below, *["Done below."] * below)
    script(f"{someone}-child", [call("wait", id="a")], *["Done."] * 9)
    child = await talk.delegate("Above.", tools=[gate.wait], model=f"scripted:{someone}-child", **given)
    own = await talk.on(child.branch)
    for number in range(below):
        await own.delegate(f"Below {number}.", tools=[gate.wait], model=f"scripted:{someone}-below")
    await until(lambda: gate.reached == 1 + below)
    return child, gate


async def test_its_own_children_end_with_it_and_are_told_once(et: Everthread, talk: Talk, someone: str) -> None:
    child, _ = await nested(talk, someone, 2)
    assert await child.stop()
    own = await talk.on(child.branch)
    assert [one.data["state"] for one in await outcomes(own)] == ["stopped", "stopped"]
    assert [one.data["state"] for one in await outcomes(talk)] == ["stopped"]
    assert [one.state for one in await own.children()] == ["stopped", "stopped"]
    await until(lambda: not talk._runtime.busy)
    await assert_sound(et, talk)


@pytest.mark.parametrize("how", ["done", "limit"])
async def test_so_they_do_when_it_is_done_or_at_its_limit(et: Everthread, talk: Talk, someone: str, how: str) -> None:
    gate = Gate()
    script(f"{someone}-below", [call("wait", id="a")])
    last: Any = "That was it." if how == "done" else [call("look", id="b")]
    script(f"{someone}-child", [call("begin", id="a")], last)

    async def begin(talk: Talk) -> str:
        """Begins another."""
        await talk.delegate("Below.", tools=[gate.wait], model=f"scripted:{someone}-below")
        await until(lambda: gate.reached > 0)
        return "Begun."

    # With the one below there are three model calls, after which it may make no other.
    child = await talk.delegate("Above.", tools=[begin, _look([])], model=f"scripted:{someone}-child", calls=3)
    outcome = await child
    assert outcome.state == how
    own = await talk.on(child.branch)
    assert [one.data["state"] for one in await outcomes(own)] == ["stopped"]
    await until(lambda: not talk._runtime.busy)
    await assert_sound(et, talk)


async def test_one_that_waits_for_approval_below_ends_with_its_parent(talk: Talk, someone: str) -> None:
    @tool(approval=True)
    async def pay() -> str:
        return "Paid."

    gate = Gate()
    script(f"{someone}-below", [call("pay", id="a")])
    script(f"{someone}-child", [call("wait", id="a")], "Done.")
    child = await talk.delegate("Above.", tools=[gate.wait], model=f"scripted:{someone}-child")
    own = await talk.on(child.branch)
    below = await own.delegate("Below.", tools=[pay], model=f"scripted:{someone}-below")
    assert (await below).state == "waiting"
    gate.passes.set()
    assert (await child).state == "done"
    assert [one.data["state"] for one in await outcomes(own)] == ["stopped"]


async def test_a_childs_limits_hold_for_all_that_it_begins(talk: Talk, someone: str) -> None:
    script(f"{someone}-below", *[[call("look", id=f"{n}")] for n in range(50)])
    script(f"{someone}-child", [call("begin", id="a"), call("begin", id="b")], "And on.")

    async def begin(talk: Talk) -> str:
        """Begins another, which never ends by itself."""
        child = await talk.delegate("Below.", tools=[_look([])], model=f"scripted:{someone}-below", calls=40)
        return (await child).state

    child = await talk.delegate("Above.", tools=[begin], model=f"scripted:{someone}-child", calls=7)
    outcome = await child
    assert (outcome.state, outcome.calls) == ("limit", 1)
    own = await talk.on(child.branch)
    all = await own.spent()
    assert all is not None
    assert all.calls == 7
    assert [one.data["state"] for one in await outcomes(own)] == ["limit", "limit"]


async def test_so_does_its_price(talk: Talk, someone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everthread.agent.runtime.price_of", lambda *_, **__: 0.01)
    script(f"{someone}-below", *[[call("look", id=f"{n}")] for n in range(50)])
    script(f"{someone}-child", [call("begin", id="a")], "And on.")

    async def begin(talk: Talk) -> str:
        """Begins another, which never ends by itself."""
        child = await talk.delegate("Below.", tools=[_look([])], model=f"scripted:{someone}-below", dollars=5.0)
        return (await child).state

    child = await talk.delegate("Above.", tools=[begin], model=f"scripted:{someone}-child", dollars=0.045)
    assert (await child).state == "limit"
    all = await (await talk.on(child.branch)).spent()
    assert all is not None
    assert all.calls == 5


async def test_what_they_spent_is_added_to_the_parents(talk: Talk, someone: str) -> None:
    script(someone, *["Done."] * 9)
    await talk.say("Hi.")
    child = await talk.on((await talk.delegate("1")).branch)
    await (await talk.child(child.conversation.current + 1))
    await (await child.delegate("2"))
    by_branch = {one.branch: one for one in await talk.usage(by="branch")}
    own, all = by_branch[1], await talk.spent()
    assert all is not None
    assert (own.calls, all.calls, all.branch) == (1, 3, 1)
    assert all.input == sum(one.input for one in by_branch.values())
    assert all.price == sum(one.price for one in by_branch.values())
    nested = await child.spent()
    assert nested is not None
    assert nested.calls == 2
    assert (await talk.usage())[0].calls == 3


# -- places ------------------------------------------------------------------------------------------------


async def test_the_outcome_stands_where_the_child_was_begun_and_on_what_went_on_from_there(
    talk: Talk, someone: str
) -> None:
    gate = Gate()
    script(someone, "Hello.", [call("wait", id="a")], "Done.")
    await talk.say("Hi.")
    main = await talk.on("main")
    child = await talk.delegate("Wait.", tools=[gate.wait])
    side = await talk.fork()
    talk = await talk.rewind(to=2)
    gate.passes.set()
    await child
    assert [len(await outcomes(one)) for one in (main, side, talk)] == [1, 1, 0]
    assert [[one.state for one in await on.children()] for on in (main, side, talk)] == [["done"], ["done"], []]


async def test_a_fork_is_told_once_and_so_is_one_that_goes_back_to_before_the_outcome(
    et: Everthread, talk: Talk, someone: str
) -> None:
    asked: list[Any] = []
    gate = Gate()
    script(f"{someone}-scout", *[[call("wait", id="a")]] * 2, *["Ulm has 126,000."] * 2)
    script(someone, "Hello.", *[seen(asked.append, "I see.")] * 9)
    await talk.say("Hi.")
    child = await talk.delegate("Count.", tools=[gate.wait], model=f"scripted:{someone}-scout")
    begun = (await talk.range(1, ENDLESS))[-1].seq
    side = await talk.fork()
    other = await talk.delegate("Count as well.", tools=[gate.wait], model=f"scripted:{someone}-scout")
    within = await side.fork()
    await until(lambda: gate.reached == 2)
    gate.passes.set()
    await child
    await other
    for one in (side, within):
        for _ in range(2):
            await one.say("And?")
        assert [outcome.name for outcome in await outcomes(one)] == ["Count."]
    assert ["126,000" in str(request) for request in asked] == [True] * 4
    assert await outcomes(await talk.on(other.branch)) == []  # another child has a task of its own
    late = await talk.fork(at=begun)
    await late.say("And?")
    assert [outcome.name for outcome in await outcomes(late)] == ["Count."]
    assert "126,000" in str(asked[-1])
    own = await talk.on(child.branch)
    await own.redact((await own.tail(turns=1, messages=True))[-1].seq)
    assert [len(await outcomes(one)) for one in (side, within, late)] == [0, 0, 0]
    await assert_sound(et, talk)


async def test_recall_finds_the_outcome(talk: Talk, someone: str) -> None:
    script(someone, "The zeppelin leaves at nine.")
    await (await talk.delegate("When does it leave?"))
    (hit,) = await talk.recall("zeppelin")
    assert (hit.kind, hit.text) == ("flow_completed", "When does it leave?\nThe zeppelin leaves at nine.")


async def test_they_come_along_when_a_conversation_moves(
    et: Everthread, talk: Talk, someone: str, tmp_path: Path
) -> None:
    script(someone, "Done.")
    child = await talk.delegate("Do.")
    await child
    async with Everthread.open(f"sqlite:///{tmp_path}/other.db") as other:
        moved = await carried(talk, tmp_path / "all.jsonl", other, someone)
        assert await moved.children() == await talk.children()
        assert await (await moved.child(child.branch)) == await child
        assert await everything(moved) == await everything(talk)
        await moved.redact(1)
        assert "Do." not in str(await everything(await moved.on(child.branch)))
        await assert_sound(other, moved)


async def test_another_user_sees_none(et: Everthread, talk: Talk, someone: str) -> None:
    script(someone, "Done.")
    child = await talk.delegate("Do.")
    await child
    theirs = await et.begin(user=f"{someone}-other")
    assert await theirs.children() == []
    with pytest.raises(UnknownBranch):
        await theirs.child(child.branch)
    forged = et.talk(msgspec.structs.replace(talk.conversation, user=f"{someone}-other"))
    for verb in (forged.children(), forged.child(child.branch), forged.delegate("Do.")):
        with pytest.raises(UnknownConversation):
            await verb


async def test_an_erased_conversation_takes_its_children_along(et: Everthread, talk: Talk, someone: str) -> None:
    gate = Gate()
    script(someone, [call("wait", id="a")])
    child = await talk.delegate("Wait.", tools=[gate.wait])
    await until(lambda: gate.reached > 0)
    await talk.erase()
    with pytest.raises(UnknownConversation):
        await child
    await until(lambda: not talk._runtime.busy)
    assert await strays(et) == []
