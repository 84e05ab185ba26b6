"""What goes wrong between us and the model: what is tried again, what is kept, and what the user is told."""

from __future__ import annotations

import asyncio
import gc

import pytest

from everthread import Everthread, GivenSettings, Talk
from everthread.core.deltas import Done, Notice, TextDelta
from everthread.core.events import Assistant
from everthread.errors import BeyondModel, BrokenOff, NoCredit, Overloaded, TooLong, Unreachable, WrongKey
from everthread.store.beside.leases import of_turns
from everthread.testing.scripted import broken, call, script
from tests.agent.conftest import Speak
from tests.agent.support import assert_valid, calls, failing, heard, kinds, said, state
from tests.waiting import PATIENCE


def busy(after: float | None = 0.0) -> Overloaded:
    return Overloaded("scripted", "too many requests", after=after)


# -- tried again ---------------------------------------------------------------------------------------------


async def test_a_call_that_failed_before_it_began_is_made_again(talk: Talk, speak: Speak) -> None:
    speak(busy(), Unreachable("scripted", "no route"), "Here I am.")
    deltas = await heard(talk.say("Hello?"))
    assert [type(delta) for delta in deltas[:2]] == [Notice, Notice]
    assert "".join(map(str, deltas)) == "Here I am."
    assert [(one.tries, one.error) for one in await calls(talk)] == [(3, "")]


async def test_it_is_given_up_after_as_many_tries_as_the_settings_say(talk: Talk, speak: Speak) -> None:
    speak(busy(), busy(), busy(), "never said")
    with pytest.raises(Overloaded, match="try again later"):
        await talk.say("Hello?")
    (record,) = await calls(talk)
    assert record.tries == 3
    assert "too many requests" in record.error
    assert await kinds(talk) == ["user", "model_call", "agent_killed"]
    assert await state(talk) == "interrupted"


async def test_who_asks_for_a_longer_pause_than_anybody_waits_is_not_waited_for(talk: Talk, speak: Speak) -> None:
    speak(busy(after=3_600.0), "never said")
    with pytest.raises(Overloaded):
        await talk.say("Hello?")


@pytest.mark.parametrize(
    "problem",
    [WrongKey("scripted", "no such key"), NoCredit("scripted", "empty")],
    ids=["wrong key", "no credit"],
)
async def test_what_will_not_get_better_is_not_tried_again(talk: Talk, speak: Speak, problem: Exception) -> None:
    speak(problem, "never said")
    deltas = await failing(talk.say("Hello?"), type(problem), str(problem))
    assert "".join(map(str, deltas)) == ""
    assert not any(isinstance(delta, Notice) for delta in deltas)


async def test_a_turn_that_failed_goes_on_without_being_said_again(talk: Talk, speak: Speak) -> None:
    speak(WrongKey("scripted", "no such key"), "Now it works.")
    await failing(talk.say("Hello?"), WrongKey)
    assert await said(talk.resume()) == "Now it works."
    assert (await kinds(talk)).count("user") == 1
    assert await state(talk) == "idle"


# -- the fallback --------------------------------------------------------------------------------------------


async def test_another_model_takes_over_when_the_first_is_down(talk: Talk, speak: Speak, someone: str) -> None:
    speak(busy(), busy(), busy())
    script(f"{someone}-two", "I am the other one.", "Still here.")
    settings: GivenSettings = {"fallback": f"scripted:{someone}-two"}
    deltas = await heard(talk.say("Hello?", settings=settings))
    assert "".join(map(str, deltas)) == "I am the other one."
    assert "takes over" in [delta.text for delta in deltas if isinstance(delta, Notice)][-1]
    models = [one.model for one in await calls(talk)]
    assert models == [f"scripted:{someone}", f"scripted:{someone}-two"]


async def test_the_fallback_is_for_a_model_that_is_down_not_for_a_wrong_key(
    talk: Talk, speak: Speak, someone: str
) -> None:
    speak(WrongKey("scripted", "no such key"))
    with pytest.raises(WrongKey):
        await talk.say("Hello?", settings={"fallback": f"scripted:{someone}-two"})


# -- too long ------------------------------------------------------------------------------------------------


async def test_a_request_that_the_provider_finds_too_long_is_built_again_smaller_and_once(
    talk: Talk, speak: Speak
) -> None:
    speak(*[f"Reply {number}. " + "word " * 300 for number in range(10)])
    for number in range(10):
        await heard(talk.say(f"Message {number}."))
    too_long = TooLong("scripted", "too long", needed=4_000, limit=3_000)
    speak(too_long, "It fits now.")
    assert await said(talk.say("And now?", settings={"reply_tokens": 500})) == "It fits now."
    refused, taken = (await calls(talk))[-2:]
    assert "too long" in refused.error
    assert taken.estimate <= refused.estimate * 2_500 / 4_000
    assert taken.cutoff > refused.cutoff


async def test_twice_too_long_is_an_error_that_says_what_to_do(talk: Talk, speak: Speak) -> None:
    speak(TooLong("scripted", "too long"), TooLong("scripted", "too long"))
    with pytest.raises(TooLong, match="lower the budget"):
        await talk.say("Hello?")
    await assert_valid(talk)


async def test_what_is_beyond_the_model_is_never_sent(talk: Talk, speak: Speak) -> None:
    speak("never said")
    with pytest.raises(BeyondModel, match="shorten the newest message"):
        await talk.say("word " * 3_000, settings={"model_window": 2_000, "reply_tokens": 100})
    assert await kinds(talk) == ["user", "agent_killed"]
    assert (await talk.range(1, 1))[0].text.startswith("word word")


# -- broken off, cancelled -----------------------------------------------------------------------------------


async def test_what_came_of_a_reply_that_broke_off_is_kept(talk: Talk, speak: Speak) -> None:
    speak(["One two three four.", broken(after_words=2)], "One two three four five.")
    with pytest.raises(BrokenOff, match="what came of it is kept"):
        await talk.say("Count.")
    events = await talk.range(1, 10)
    assert [event.kind for event in events] == ["user", "assistant", "model_call", "agent_killed"]
    kept = events[1].event
    assert isinstance(kept, Assistant)
    assert kept.interrupted
    assert events[1].text == "One two"
    await assert_valid(talk)
    assert await said(talk.say("Again.")) == "One two three four five."


async def test_a_cancelled_turn_keeps_what_came(talk: Talk, speak: Speak) -> None:
    speak("one two three four five six seven eight nine ten", pace=0.05)
    reply = talk.say("Count.")
    async for delta in reply:
        if isinstance(delta, TextDelta) and "three" in delta.text:
            break
    await reply.cancel()
    events = await talk.range(1, 10)
    assert [event.kind for event in events] == ["user", "assistant", "model_call", "agent_killed"]
    assert events[1].text.startswith("one two three")
    assert "ten" not in events[1].text
    assert await state(talk) == "interrupted"
    await assert_valid(talk)


async def test_who_stops_listening_ends_the_turn(talk: Talk, speak: Speak) -> None:
    speak("one two three four five six seven eight nine ten", pace=0.05)

    async def listen() -> None:
        async for delta in talk.say("Count."):
            if isinstance(delta, TextDelta):
                return

    await listen()
    gc.collect()
    async with asyncio.timeout(PATIENCE):
        async for event in talk.listen():
            if event.kind == "agent_killed":
                break
    assert await state(talk) == "interrupted"


async def test_a_cancelled_task_ends_the_turn_and_keeps_what_came(talk: Talk, speak: Speak) -> None:
    speak("one two three four five six seven eight nine ten", pace=0.05)
    began = asyncio.Event()

    async def listen() -> None:
        async for delta in talk.say("Count."):
            if isinstance(delta, TextDelta):
                began.set()

    task = asyncio.create_task(listen())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await state(talk) == "interrupted"


async def test_a_turn_cancelled_while_a_tool_runs_leaves_a_valid_request(talk: Talk, speak: Speak) -> None:
    running = asyncio.Event()

    async def slow() -> str:
        running.set()
        await asyncio.sleep(60)
        return "never"

    def quick() -> str:
        return "quick"

    speak([call("quick"), call("slow")], "never said")
    reply = talk.say("Both.", tools=[quick, slow])
    task = asyncio.create_task(heard(reply))
    await running.wait()
    await reply.cancel()
    assert (await task)[-1].state == "interrupted"  # type: ignore[union-attr]
    await assert_valid(talk)
    speak("Fine.")
    assert await said(talk.say("Leave it.")) == "Fine."


# -- what nobody names ---------------------------------------------------------------------------------------


async def test_without_a_model_the_default_one_replies(
    address: str, someone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no key and no server on this machine it is the one in the process."""
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EVERTHREAD_SERVERS", "")
    async with Everthread.open(address, settings={}) as et:
        talk = await et.begin(user=someone)
        deltas = await heard(talk.say("Say yes.", settings={"reply_tokens": 8}))
        assert deltas[-1].model == "local:smollm2"  # type: ignore[union-attr]
        assert "".join(map(str, deltas)).strip()


async def test_the_branch_is_free_once_the_end_of_a_failed_turn_is_told(talk: Talk, speak: Speak) -> None:
    speak(Unreachable("scripted", "no route"))
    line = await talk.line()
    name, held = of_turns(line.conversation, line.branch.number), list[object]()

    async def until_done() -> None:
        async for delta in talk.say("Hello?", settings={"retries": 0}):
            if isinstance(delta, Done):
                held.append(await talk._log.leases.term(line.tenant, name))

    with pytest.raises(Unreachable):
        await until_done()
    assert held == [None]
