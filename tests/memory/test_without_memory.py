"""A call that is to be without memory is told of to no summariser, then or later, and is sent nothing of memory."""

from __future__ import annotations

import json
from typing import Any

import pytest

from everthread import Everthread, GivenSettings, Talk
from everthread.core.deltas import Notice
from everthread.core.events import is_unremembered
from everthread.errors import Overloaded
from everthread.testing.scripted import call, script
from everthread.tools import tool
from everthread.transfer import export_lines
from tests.contract.support import MINUTE, Clock
from tests.memory.conftest import Speak
from tests.memory.support import Listening, fenced_in, recaps, summaries
from tests.memory.test_brief import briefs, say
from tests.transcripts import whole

OFF: GivenSettings = {"memory": False}
SECRET = "My PIN is ZX-4711."


@pytest.fixture
def heard(remember: Speak) -> Listening:
    """What the model of memory is shown."""
    heard = Listening()
    remember(*[heard.then("They spoke of the garden.")] * 40)
    return heard


async def whisper(talk: Talk, someone: str) -> None:
    script(someone, "I will not tell ZX-4711.")
    await talk.say(SECRET, settings=OFF)


@pytest.mark.parametrize("strategy", ["budget", "importance"])
async def test_what_was_said_without_memory_is_shown_to_no_summariser(
    talk: Talk, someone: str, heard: Listening, strategy: Any
) -> None:
    await talk.configure(strategy=strategy, summarise_after=2)
    await say(talk, "The garden needs rain.")
    await whisper(talk, someone)
    await say(talk, "The roses are red.")
    await talk.remember()
    assert "roses" in "".join(heard.shown)
    assert "ZX-4711" not in "".join(heard.shown)
    made = [*(one.text + one.facts + one.known for one in await briefs(talk))]
    made += [one.text + one.known for one in await summaries(talk)]
    assert made
    assert "ZX-4711" not in "".join(made)


async def test_nor_told_in_a_recap_or_in_the_conversations_own_words(
    slow: Everthread, someone: str, clock: Clock, heard: Listening
) -> None:
    talk = await slow.begin(user=someone, settings={"strategy": "session"})
    await whisper(talk, someone)
    await say(talk, "The garden needs rain.")
    clock.now += 31 * MINUTE
    await say(talk, "Hello again.")
    context = await talk.context()
    assert "rain" in whole(context.request)
    assert "ZX-4711" not in whole(context.request)
    await talk.remember()
    assert (await recaps(talk))[0].recap == "They spoke of the garden."
    assert "ZX-4711" not in "".join(heard.shown)


async def test_nor_is_a_conversation_named_after_it(slow: Everthread, talk: Talk, someone: str) -> None:
    await whisper(talk, someone)
    await say(talk, "The garden needs rain.")
    await talk.remember()
    again = await slow.conversation(user=someone, id=talk.id)
    assert again.conversation.name == "The garden needs rain"


async def test_where_nothing_else_was_said_no_model_is_asked_and_memory_is_up_to_date(
    talk: Talk, someone: str, heard: Listening
) -> None:
    await say(talk, "The garden needs rain.")
    await talk.remember()
    asked = len(heard.shown)
    await whisper(talk, someone)
    await talk.remember()
    assert len(heard.shown) == asked
    assert (await talk.memory()).behind == 0
    assert [(one.text, one.extractive) for one in await briefs(talk)] == [("They spoke of the garden.", False)] * 2


async def test_it_is_in_the_window_as_everything_else(talk: Talk, someone: str) -> None:
    await whisper(talk, someone)
    assert SECRET in whole((await talk.context()).request)
    assert [event.text for event in await talk.before(messages=True)] == [SECRET, "I will not tell ZX-4711."]


@pytest.mark.parametrize("strategy", ["budget", "messages", "session", "importance"])
async def test_a_call_without_memory_is_sent_nothing_that_is_remembered(
    slow: Everthread, someone: str, clock: Clock, heard: Listening, strategy: Any
) -> None:
    own = {"strategy": strategy, "messages": 4, "active_messages": 4, "summarise_after": 10}
    talk = await slow.begin(user=someone, name="named", settings=own)
    for number in range(30):
        await say(talk, f"Bed {number} has {'very ' * 60}red roses.")
    clock.now += 31 * MINUTE
    await say(talk, "Hello again.")
    await talk.remember()
    assert fenced_in((await talk.context(budget=2_000)).request)
    context = await talk.context(budget=2_000, settings=OFF)
    assert context.past
    assert fenced_in(context.request) == []
    assert "neither sent nor summarised" not in whole(context.request)


async def test_a_fork_keeps_to_it_and_so_does_an_export(talk: Talk, someone: str, heard: Listening) -> None:
    await whisper(talk, someone)
    await say(talk, "The garden needs rain.")
    side = await talk.fork()
    await side.remember()
    assert len(await briefs(side)) == 1
    assert "rain" in "".join(heard.shown)
    assert "ZX-4711" not in "".join(heard.shown)
    lines = [json.loads(line) async for line in export_lines(talk._log, talk.conversation)]
    whispered = [line for line in lines if "ZX-4711" in json.dumps(line)]
    assert [line["event"]["meta"] for line in whispered] == [{"memory": "off"}] * 2


async def test_a_turn_without_memory_stays_so_when_it_is_gone_on_with(
    talk: Talk, someone: str, heard: Listening
) -> None:
    await say(talk, "The garden needs rain.")
    script(someone, Overloaded("scripted", "busy", after=3_600))
    with pytest.raises(Overloaded):
        await talk.say(SECRET, settings=OFF)
    script(someone, "I will not tell ZX-4711.")
    await talk.resume()
    await say(talk, "The roses are red.")
    await talk.remember()
    assert "ZX-4711" in "".join(one.text for one in await talk.after())
    assert "roses" in "".join(heard.shown)
    assert "ZX-4711" not in "".join(heard.shown)


async def test_nor_is_what_a_tool_gave_that_somebody_let_run_later(talk: Talk, someone: str, heard: Listening) -> None:
    @tool(approval=True)
    async def look() -> str:
        return "ZX-4711 it says."

    script(someone, [call("look")], "It is ZX-4711.")
    await talk.say(SECRET, settings=OFF, tools=[look])
    await talk.approve((await talk.waiting())[0].seq, tools=[look])
    await say(talk, "The roses are red.")
    await talk.remember()
    assert "ZX-4711" in "".join(one.text for one in await talk.after())
    assert "ZX-4711" not in "".join(heard.shown)


async def test_a_key_holds_with_memory_and_without(talk: Talk, someone: str) -> None:
    script(someone, Overloaded("scripted", "busy", after=3_600), "Now.")
    with pytest.raises(Overloaded):
        await talk.say("Hello.", settings=OFF, key="a")
    await talk.say("Hello.", key="a")
    assert [one.kind for one in await talk.after() if one.kind in ("user", "assistant")] == ["user", "assistant"]
    assert all(is_unremembered(one.event) for one in await talk.after() if one.kind in ("user", "assistant"))


async def test_said_again_it_offers_to_go_on_instead(talk: Talk, someone: str) -> None:
    script(someone, Overloaded("scripted", "busy", after=3_600), "Now.")
    with pytest.raises(Overloaded):
        await talk.say("Hello.", settings=OFF)
    deltas = [delta async for delta in talk.say("Hello.", settings=OFF)]
    assert any(isinstance(delta, Notice) and "talk.resume" in delta.text for delta in deltas)
