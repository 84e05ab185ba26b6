"""What happens later: late approvals, a message repeated by its key, a turn that goes on with its own model."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.loopback.openai import OpenAIServer
from everthread import Everthread, Talk, file, tool, user
from everthread.core.deltas import Notice
from everthread.core.events import ModelCall
from everthread.errors import BadSetting, UnknownAgent, WrongKey
from everthread.providers.choose import TINY
from everthread.testing.scripted import call, script
from tests.agent.conftest import Speak
from tests.agent.support import assert_valid, calls, failing, heard, said, state


@tool(approval=True)
def pay(amount: int) -> str:
    return f"Paid {amount}."


async def test_a_late_result_is_not_taken_for_one_that_the_newest_turn_waits_for(talk: Talk, speak: Speak) -> None:
    """One call was parked; the newest turn waits for two others, and goes on when both are answered."""
    speak(
        [call("pay", {"amount": 1}, id="a")],
        "Fine.",
        [call("pay", {"amount": 2}, id="b"), call("pay", {"amount": 3}, id="c")],
    )
    await heard(talk.say("Pay one.", tools=[pay]))
    await heard(talk.say("Something else.", tools=[pay]))
    await heard(talk.say("Pay two and three.", tools=[pay]))
    speak("All paid.")
    for id in ("a", "b"):
        deltas = await heard(talk.approve(id, tools=[pay]))
        assert deltas[-1].state == "waiting"  # type: ignore[union-attr]
        await assert_valid(talk)
    assert await said(talk.approve("c", tools=[pay])) == "All paid."
    assert await state(talk) == "idle"
    assert len(await talk.turns()) == 3
    await assert_valid(talk)


async def test_a_message_repeated_by_its_key_gives_the_reply_that_it_had(talk: Talk, speak: Speak) -> None:
    speak("Table 17 is yours.", "never said")
    first = await talk.say("Book a table.", key="webhook-9")
    again = await talk.say("Book a table.", key="webhook-9")
    assert (first.text, again.text) == ("Table 17 is yours.", "Table 17 is yours.")
    assert len(await calls(talk)) == 1


async def test_a_turn_goes_on_with_the_model_that_it_was_with(talk: Talk, someone: str, speak: Speak) -> None:
    speak("never said")
    other = script(f"{someone}-other", [call("pay", {"amount": 1})], "Paid by the other.", WrongKey("x", "y"), "Back.")
    await heard(talk.say("Pay.", model=other, tools=[pay]))
    assert await said(talk.approve(tools=[pay])) == "Paid by the other."
    await failing(talk.say("Fail.", model=other), WrongKey)
    assert await said(talk.resume()) == "Back."
    assert {one.model for one in await calls(talk)} == {other}


async def test_a_model_that_cannot_be_used_any_more_is_blamed_on_the_model_call_that_names_it(
    talk: Talk, speak: Speak
) -> None:
    speak([call("pay", {"amount": 1})], "Paid.")
    await heard(talk.say("Pay.", tools=[pay]))
    [record] = await talk.append(ModelCall(model="mistral:large", at=1))
    source = f"model is 'mistral:large' in model call {record.seq}, but must be"
    with pytest.raises(BadSetting, match=source):
        await talk.approve(tools=[pay])
    with pytest.raises(BadSetting, match=source):
        await talk.rebuild(record.seq)
    [waits] = await talk.waiting()
    assert await said(talk.approve(waits.seq, tools=[pay], model=f"scripted:{talk.conversation.user}")) == "Paid."


async def test_with_a_folder_of_agents_one_that_nobody_knows_is_a_mistake(
    address: str, someone: str, tmp_path: Path
) -> None:
    def secret() -> str:
        return "secret"

    (tmp_path / f"{someone}.toml").write_text('instructions = "You sell cakes."')
    async with Everthread.open(address, settings={"model": "openai:gpt-5"}, tools=[secret], agents=tmp_path) as et:
        known = await (await et.begin(user=someone, agent=someone)).context()
        assert "tools" not in known.request
        talk = await et.begin(user=someone, agent=f"{someone}-typo")
        with pytest.raises(UnknownAgent, match=f"there are: .*{someone}"):
            await talk.context()
        with pytest.raises(UnknownAgent):
            await talk.say("Hello")


async def test_that_the_model_is_tiny_is_told_once(address: str, someone: str) -> None:
    async with Everthread.open(address, settings={"model": "local:smollm2", "reply_tokens": 4}) as et:
        talk = await et.begin(user=someone)
        told = [[d.text for d in await heard(talk.say("Hi.")) if isinstance(d, Notice)] for _ in range(2)]
    assert told == [[TINY], []]


async def test_a_file_of_text_reaches_a_model_that_sees_nothing_else(address: str, someone: str) -> None:
    async with Everthread.open(address, settings={"model": "local:smollm2"}) as et:
        talk = await et.begin(user=someone)
        cats = file(b"Minka and Tom", name="cats.txt", media_type="text/plain")
        await talk.append(user("Who are the cats?", cats))
        assert "Minka and Tom" in str((await talk.context()).request)


async def test_an_error_of_a_server_of_ones_own_says_which_and_where_its_key_stands(talk: Talk) -> None:
    async with OpenAIServer(key="another") as server:
        address = server.address
        with pytest.raises(WrongKey) as raised:
            await talk.say("Hello", model="openai:gpt-5", settings={"address": address})
    assert address in str(raised.value)
    assert "[keys]" in str(raised.value)
