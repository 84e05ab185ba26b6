"""What is forgotten of a child is forgotten wherever it was repeated: its task, and what it said at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from everthread import AgentKilled, BadValue, Everthread, Redacted, Talk, delegate_tool
from everthread.agent.call import Calling
from everthread.agent.child import Child
from everthread.agent.turn import TurnRunner
from everthread.core.ended import STOPPED, UNTOLD
from everthread.core.logged import Logged
from everthread.errors import RequestRefused, TurnCancelled
from everthread.testing.scripted import call, script
from tests.contract.support import assert_sound, everything
from tests.contract.test_children import Gate
from tests.waiting import until

TASK, RESULT = "Find the KESTREL code.", "The code is 7391-HERON."


@pytest.fixture
async def et(address: str, someone: str) -> AsyncIterator[Everthread]:
    settings: Any = {"model": f"scripted:{someone}", "retries": 0}
    async with Everthread.open(address, settings=settings, keys={}) as et:
        yield et


@pytest.fixture
async def child(talk: Talk, someone: str) -> Child:
    script(someone, "Hello.", RESULT)
    await talk.say("Hi.")
    child = await talk.delegate(TASK)
    await child
    return child


async def first(talk: Talk, kind: str, text: str = "") -> Logged:
    return next(one for one in await everything(talk) if one.kind == kind and text in one.text)


async def all_of(talk: Talk) -> str:
    """All that is said on any branch, and what is listed."""
    branches = [await everything(await talk.on(one.branch.number)) for one in await talk.branches()]
    return str([branches, await talk.children(), [hit.text for hit in await talk.recall("code KESTREL HERON 7391")]])


async def test_redacting_the_reply_reaches_the_outcome(et: Everthread, talk: Talk, child: Child) -> None:
    own = await talk.on(child.branch)
    await own.redact((await first(own, "assistant", RESULT)).seq)
    assert (await first(talk, "flow_completed")).event == Redacted(was="flow_completed")
    found = await all_of(talk)
    assert "HERON" not in found
    assert "KESTREL" in found
    assert ((await child).state, (await child).result) == ("done", "")
    await assert_sound(et, talk)


@pytest.mark.parametrize("what", ["task", "reason", "beginning"])
async def test_why_one_has_failed_is_forgotten_where_it_may_repeat_what_was_said(
    et: Everthread, talk: Talk, someone: str, what: str
) -> None:
    """A provider's error may repeat what it was sent."""
    script(someone, "Hello.", RequestRefused("scripted", f"cannot answer: {TASK}"))
    await talk.say("Hi.")
    child = await talk.delegate(TASK)
    assert "KESTREL" in (await child).why
    own = await talk.on(child.branch)
    if what == "beginning":
        await talk.redact((await first(talk, "flow_started")).seq)
    else:
        kind, text = ("user", TASK) if what == "task" else ("agent_killed", "")
        await own.redact((await first(own, kind, text)).seq)
    assert (await first(talk, "flow_completed")).event == Redacted(was="flow_completed")
    assert (await first(own, "agent_killed")).event == Redacted(was="agent_killed")
    assert (await child).why == ""
    if what != "reason":
        assert "KESTREL" not in await all_of(talk)
    await assert_sound(et, talk)


async def test_a_turns_error_is_forgotten_with_what_it_may_repeat(et: Everthread, talk: Talk, someone: str) -> None:
    script(someone, "Hello.", RequestRefused("scripted", "cannot answer: KESTREL"))
    await talk.say("Hi.")
    with pytest.raises(RequestRefused):
        await talk.say("What is KESTREL?")
    message = await first(talk, "user", "KESTREL")
    await talk.redact(message.seq)
    assert "KESTREL" not in str(await everything(talk))
    await assert_sound(et, talk)


async def test_so_it_is_where_the_error_comes_after_the_redaction(
    et: Everthread, talk: Talk, someone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_: Calling) -> None:
        await talk.redact((await first(talk, "user", "KESTREL")).seq)
        raise RequestRefused("scripted", "cannot answer: KESTREL")

    monkeypatch.setattr(Calling, "reply", refused)
    with pytest.raises(RequestRefused):
        await talk.say("What is KESTREL?")
    assert "KESTREL" not in str(await everything(talk))
    assert (await first(talk, "agent_killed")).event == AgentKilled(reason=UNTOLD)
    await assert_sound(et, talk)


async def test_why_a_turn_was_stopped_stays(talk: Talk, someone: str) -> None:
    gate = Gate()
    script(someone, [call("wait", id="a")])
    reply = talk.say("KESTREL.", tools=[gate.wait], detached=True)
    await until(lambda: gate.reached > 0)
    await talk.stop()
    with pytest.raises(TurnCancelled):
        await reply
    await talk.redact((await first(talk, "user", "KESTREL")).seq)
    assert (await first(talk, "agent_killed")).event == AgentKilled(reason=STOPPED)


async def test_redacting_the_outcome_leaves_the_reply(et: Everthread, talk: Talk, child: Child) -> None:
    """It is a copy, and a copy is forgotten with what it repeats; not the other way."""
    await talk.redact((await first(talk, "flow_completed")).seq)
    assert (await child).result == ""
    own = await talk.on(child.branch)
    assert (await first(own, "assistant", RESULT)).text == RESULT
    await assert_sound(et, talk)


@pytest.mark.parametrize("where", ["task", "beginning"])
async def test_redacting_a_task_reaches_all_places(et: Everthread, talk: Talk, child: Child, where: str) -> None:
    own = await talk.on(child.branch)
    if where == "task":
        await own.redact((await first(own, "user", TASK)).seq)
    else:
        await talk.redact((await first(talk, "flow_started")).seq)
    assert "KESTREL" not in await all_of(talk)
    for event in [await first(talk, "flow_started"), await first(talk, "flow_completed")]:
        assert isinstance(event.event, Redacted)
    assert await talk.children() == []
    assert (await child).state == "done"
    await assert_sound(et, talk)


async def test_what_is_redacted_while_it_runs_is_in_no_outcome(et: Everthread, talk: Talk, someone: str) -> None:
    gate = Gate()
    script(someone, ["HERON it is.", call("wait", id="a")])
    child = await talk.delegate(TASK, tools=[gate.wait], calls=1)
    await until(lambda: gate.reached > 0)
    own = await talk.on(child.branch)
    await talk.redact((await first(talk, "flow_started")).seq)
    await own.redact((await first(own, "assistant")).seq)
    gate.passes.set()
    outcome = await child
    assert (outcome.state, outcome.result, outcome.task) == ("limit", "", "")
    found = await all_of(talk)
    assert "KESTREL" not in found
    assert "HERON" not in found
    assert sum(one.kind == "flow_completed" for one in await everything(talk)) == 1
    await assert_sound(et, talk)


async def test_a_beginning_that_is_redacted_before_the_task_is_said_takes_that_along(
    et: Everthread, talk: Talk, someone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    say = TurnRunner.say

    async def redacting(self: TurnRunner, *given: Any, **named: Any) -> None:
        await talk.redact((await first(talk, "flow_started")).seq)
        await say(self, *given, **named)

    script(someone, "Done.")
    monkeypatch.setattr(TurnRunner, "say", redacting)
    child = await talk.delegate(TASK)
    await child
    assert "KESTREL" not in await all_of(talk)
    await assert_sound(et, talk)


async def test_the_command_that_makes_a_child_one_cannot_be_redacted(talk: Talk, child: Child) -> None:
    own = await talk.on(child.branch)
    with pytest.raises(BadValue, match="begins a child"):
        await own.redact((await first(own, "command")).seq)


async def test_redacting_the_tool_call_reaches_the_task(et: Everthread, talk: Talk, someone: str) -> None:
    script(someone, [call("delegate", {"task": TASK, "wait": True}, id="a")], RESULT, "It is done.")
    await talk.say("Go.", tools=[delegate_tool()])
    await talk.redact((await first(talk, "tool_call")).seq)
    assert "KESTREL" not in await all_of(talk)
    await assert_sound(et, talk)


async def test_redacting_the_reply_reaches_the_result_of_the_tool(et: Everthread, talk: Talk, someone: str) -> None:
    script(someone, [call("delegate", {"task": TASK, "wait": True}, id="a")], RESULT, "It is done.")
    await talk.say("Go.", tools=[delegate_tool()])
    assert "HERON" in (await first(talk, "tool_result")).text
    own = await talk.on(2)
    await own.redact((await first(own, "assistant", RESULT)).seq)
    assert "HERON" not in await all_of(talk)
    assert isinstance((await first(talk, "tool_result")).event, Redacted)
    await assert_sound(et, talk)


async def test_a_clear_keeps_them_listed(talk: Talk, child: Child) -> None:
    await talk.clear()
    assert [one.result for one in await talk.children()] == [RESULT]
