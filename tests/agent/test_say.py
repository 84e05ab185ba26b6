"""A message and its reply: what is told, what is kept, and in which order."""

from __future__ import annotations

import asyncio

import pytest

from everthread import Everthread, Talk, image
from everthread.core.deltas import CallDelta, Done, ReasoningDelta, ResultDelta, TextDelta
from everthread.core.events import Assistant, User
from everthread.errors import BadValue, LimitReached, ModelError, WrongKey
from everthread.testing.scripted import call, thought
from tests.agent.conftest import Speak
from tests.agent.support import assert_valid, calls, failing, heard, kinds, results, said, state


async def test_the_reply_comes_in_pieces_and_is_in_the_log_as_a_whole(talk: Talk, speak: Speak) -> None:
    speak("Flour, butter and no walnuts.")
    deltas = await heard(talk.say("What may I put into the cake?"))
    pieces = [delta.text for delta in deltas if isinstance(delta, TextDelta)]
    assert len(pieces) > 1
    assert "".join(pieces) == "Flour, butter and no walnuts."
    events = await talk.range(1, 10)
    assert [event.kind for event in events] == ["user", "assistant", "model_call"]
    assert events[1].text == "Flour, butter and no walnuts."
    assert await state(talk) == "idle"


async def test_what_a_plain_program_prints_is_the_reply(talk: Talk, speak: Speak) -> None:
    speak([thought("They are allergic."), "No walnuts."])
    assert await said(talk.say("And?")) == "No walnuts."


async def test_the_whole_reply_can_be_awaited(talk: Talk, speak: Speak) -> None:
    speak("Four.")
    answer = await talk.say("Two and two?")
    assert str(answer) == answer.text == "Four."
    assert answer.done.state == "idle"


async def test_the_message_is_in_the_log_before_the_model_is_called(talk: Talk, speak: Speak) -> None:
    speak(WrongKey("scripted", "no such key"))
    await failing(talk.say("Is anybody there?"), WrongKey)
    events = await talk.range(1, 10)
    assert events[0].text == "Is anybody there?"


async def test_pictures_and_origin_travel_with_the_message(talk: Talk, speak: Speak) -> None:
    speak("A cat.")
    png = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de")
    await heard(talk.say("What is this?", image(png), origin="schedule"))
    event = (await talk.range(1, 1))[0].event
    assert isinstance(event, User)
    assert event.origin == "schedule"
    assert event.parts[1].blob  # type: ignore[union-attr]


async def test_said_again_with_the_same_key_the_message_is_appended_once(talk: Talk, speak: Speak) -> None:
    speak("Yes.", "Yes, again.")
    await heard(talk.say("Order 17.", key="order-17"))
    await heard(talk.say("Order 17.", key="order-17"))
    assert (await kinds(talk)).count("user") == 1


async def test_reasoning_is_told_and_kept(talk: Talk, speak: Speak) -> None:
    speak([thought("Let me see."), "It is noon."])
    deltas = await heard(talk.say("What time is it?"))
    assert "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta)) == "Let me see."
    event = (await talk.range(2, 2))[0].event
    assert isinstance(event, Assistant)
    assert [type(part).__name__ for part in event.parts] == ["Reasoning", "Text"]


async def test_an_empty_reply_ends_the_turn_too(talk: Talk, speak: Speak) -> None:
    speak([])
    await heard(talk.say("Say nothing."))
    assert await state(talk) == "idle"
    await assert_valid(talk)


# -- tools -------------------------------------------------------------------------------------------------


async def test_tools_run_and_the_model_goes_on_with_their_results(talk: Talk, speak: Speak) -> None:
    async def weather(city: str) -> str:
        return f"Rain in {city}."

    speak(["Let me look.", call("weather", {"city": "Bonn"})], "Take an umbrella.")
    deltas = await heard(talk.say("Umbrella?", tools=[weather]))
    assert [delta.name for delta in deltas if isinstance(delta, CallDelta)] == ["weather"]
    assert [delta.text for delta in deltas if isinstance(delta, ResultDelta)] == ["Rain in Bonn."]
    found = await kinds(talk)
    assert found == ["user", "assistant", "tool_call", "model_call", "tool_result", "assistant", "model_call"]
    done = deltas[-1]
    assert isinstance(done, Done)
    assert (done.state, done.seq, done.calls, done.price) == ("idle", 7, 2, 0.0)
    assert done.usage.input > 0
    assert done.usage.output > 0


async def test_texts_around_a_tool_call_are_told_apart_in_the_whole(talk: Talk, speak: Speak) -> None:
    def clock() -> str:
        return "noon"

    speak(["Let me look.", call("clock")], "It is noon.")
    assert (await talk.say("What time is it?", tools=[clock])).text == "Let me look.\n\nIt is noon."


async def test_several_tools_run_at_once_and_stand_in_the_log_in_the_order_of_their_calls(
    talk: Talk, speak: Speak
) -> None:
    """The first waits for the second: one after the other they would never end."""
    second_ran = asyncio.Event()

    async def first() -> str:
        await second_ran.wait()
        return "first"

    async def second() -> str:
        second_ran.set()
        return "second"

    speak([call("first"), call("second")], "Done.")
    await heard(talk.say("Both.", tools=[first, second]))
    assert [result.text for result in await results(talk)] == ["first", "second"]


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ("{not json", "not a JSON object"),
        ('{"city": 3}', "do not fit"),
        ('{"city": "Nowhere"}', "ValueError: no such city"),
    ],
    ids=["invalid JSON", "wrong type", "exception"],
)
async def test_what_goes_wrong_in_a_tool_is_told_to_the_model(
    talk: Talk, speak: Speak, arguments: str, wrong: str
) -> None:
    def weather(city: str) -> str:
        raise ValueError("no such city")

    speak([call("weather", arguments)], "I see.")
    await heard(talk.say("Umbrella?", tools=[weather]))
    result = (await results(talk))[0]
    assert result.event.error  # type: ignore[union-attr]
    assert wrong in result.text
    assert await state(talk) == "idle"
    await assert_valid(talk)


async def test_a_tool_that_does_not_exist_is_told_to_the_model(talk: Talk, speak: Speak) -> None:
    speak([call("nothing")], "Never mind.")
    await heard(talk.say("Do it."))
    assert "there is no such tool" in (await results(talk))[0].text


async def test_a_tool_that_takes_too_long_is_given_up(talk: Talk, speak: Speak) -> None:
    async def slow() -> str:
        await asyncio.sleep(60)
        return "never"

    speak([call("slow")], "Then not.")
    await heard(talk.say("Do it.", tools=[slow], settings={"tool_seconds": 0.05}))
    assert "did not end within 0.05 s" in (await results(talk))[0].text


async def test_a_result_of_20_megabytes_becomes_one_that_can_be_sent(talk: Talk, speak: Speak) -> None:
    def dump() -> str:
        return "x" * 20_000_000

    speak([call("dump")], "That was long.")
    deltas = await heard(talk.say("Dump it.", tools=[dump]))
    assert isinstance(deltas[-1], Done)
    assert len((await results(talk))[0].text) < 1_100_000
    context = await talk.context(model="openai:gpt-5", budget=5_000)
    assert not context.over_budget


async def test_a_tool_is_given_the_conversation_it_belongs_to(talk: Talk, speak: Speak) -> None:
    async def rename(name: str, talk: Talk) -> str:
        await talk.rename(name)
        return "done"

    speak([call("rename", {"name": "The cake"})], "Renamed.")
    await heard(talk.say("Call this the cake.", tools=[rename]))
    assert talk.conversation.name == "The cake"


async def test_the_window_is_applied_afresh_at_every_model_call(talk: Talk, speak: Speak) -> None:
    """Each result alone fits the budget, together they do not: none of the requests is above it."""

    def read(number: int) -> str:
        return f"{number} " * 900

    speak(*[[call("read", {"number": number})] for number in range(8)], "All read.")
    await heard(talk.say("Read them.", tools=[read], settings={"budget": 4_000, "reply_tokens": 100}))
    found = await calls(talk)
    assert len(found) == 9
    assert all(one.estimate <= 4_000 for one in found)
    assert max(one.input for one in found) <= 4_000


# -- limits ------------------------------------------------------------------------------------------------


async def test_a_turn_ends_at_its_limit_of_model_calls(talk: Talk, speak: Speak) -> None:
    def more() -> str:
        return "more"

    speak(*[[call("more")] for _ in range(9)])
    with pytest.raises(LimitReached, match="limit of 3 model calls"):
        await talk.say("Go on.", tools=[more], settings={"turn_calls": 3})
    assert len(await calls(talk)) == 3
    assert await state(talk) == "interrupted"
    await assert_valid(talk)


async def test_a_turn_ends_at_its_limit_of_time(talk: Talk, speak: Speak) -> None:
    speak("word " * 100_000, pace=0.02)
    with pytest.raises(LimitReached, match="limit of 2 seconds"):
        await talk.say("Go on.", settings={"turn_seconds": 2})
    assert await state(talk) == "interrupted"
    kept = [event.text for event in await talk.range(1, 10) if event.kind == "assistant"]
    assert kept
    assert ("word " * 100_000).startswith(kept[0])


async def test_a_turn_ends_at_its_limit_of_cost(
    address: str, someone: str, speak: Speak, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scripted model is free, so its price is put into the runtime by hand."""
    speak([call("more")], [call("more")], "never said")

    def more() -> str:
        return "more"

    async with Everthread.open(address, settings={"model": model}) as et:
        talk = await et.begin(user=someone)
        monkeypatch.setattr(et._runtime, "price", lambda _about, _usage, **_more: 0.6)
        with pytest.raises(LimitReached, match="limit of 1 US dollars"):
            await talk.say("Go on.", tools=[more], settings={"turn_dollars": 1.0})
        assert [one.price for one in await calls(talk)] == [0.6, 0.6]


# -- bad input ---------------------------------------------------------------------------------------------


async def test_what_cannot_be_said_is_refused_before_anything_happens(talk: Talk) -> None:
    with pytest.raises(BadValue, match="a piece of a message is 3"):
        talk.say(3)  # type: ignore[call-overload]
    with pytest.raises(BadValue, match="when_busy is 'shout'"):
        talk.say("Hello", when_busy="shout")  # type: ignore[call-overload]
    with pytest.raises(BadValue, match="settings is 'loud'"):
        talk.say("Hello", settings="loud")  # type: ignore[call-overload]
    assert await kinds(talk) == []


async def test_an_error_is_raised_where_the_whole_is_awaited(talk: Talk, speak: Speak) -> None:
    speak(WrongKey("scripted", "no such key"))
    with pytest.raises(WrongKey, match="does not accept the key") as raised:
        await talk.say("Hello")
    assert isinstance(raised.value, ModelError)
