"""What is written down of every model call: enough to build its request again, to add up costs, and to learn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.loopback.anthropic import AnthropicServer
from benchmarks.loopback.model import Script
from everthread import Everthread, GivenSettings, Talk, assistant, user
from everthread.agent.personas import Agent
from everthread.core.events import ModelCall
from everthread.errors import BadValue
from everthread.testing.scripted import call, script
from tests.agent.conftest import Speak
from tests.agent.support import calls, heard, said


class Ears:
    """Hears the requests to which a scripted model replies."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []

    def __call__(self, reply: Any) -> Callable[[dict[str, Any]], Any]:
        def replied(body: dict[str, Any]) -> Any:
            self.heard.append(msgspec.json.decode(msgspec.json.encode(body)))
            return reply

        return replied


async def last_call(talk: Talk) -> int:
    """The seq of the newest record."""
    return next(event.seq for event in reversed(await talk.range(1, 10_000)) if isinstance(event.event, ModelCall))


async def test_every_model_call_leaves_a_record(talk: Talk, speak: Speak, model: str) -> None:
    speak("Hello.")
    context = await talk.context()
    await heard(talk.say("Hello?"))
    (record,) = await calls(talk)
    assert record.model == model
    assert record.at == 2
    assert record.cutoff == 1
    assert record.factor == context.factor
    assert set(record.inputs) == {"settings", "instructions", "tools"}
    assert len(record.request) == 64
    assert record.input > 0
    assert record.output > 0
    assert record.price == 0.0
    assert record.finish == "stop"
    assert record.ms >= record.first_ms >= 0


async def test_a_past_request_is_built_again_byte_for_byte(talk: Talk, speak: Speak) -> None:
    def clock() -> str:
        return "noon"

    ears = Ears()
    speak(ears([call("clock")]), ears("It is noon."), ears("Welcome."))
    await heard(talk.say("What time is it?", tools=[clock]))
    await heard(talk.say("Thank you."))
    records = [event.seq for event in await talk.range(1, 100) if isinstance(event.event, ModelCall)]
    rebuilt = await talk.rebuild(records[-1])
    assert rebuilt.differences == ()
    assert rebuilt.context.request == ears.heard[-1]


async def test_or_it_says_what_is_no_longer_the_same(talk: Talk, speak: Speak) -> None:
    def clock() -> str:
        return "noon"

    speak("No idea.", "Still none.")
    await heard(talk.say("What time is it?", tools=[clock], instructions="You are a clock."))
    rebuilt = await talk.rebuild(await last_call(talk))
    since = "changed since, or given for that call alone: then give it again"
    assert rebuilt.differences == (f"instructions: {since}", f"tools: {since}")
    await heard(talk.say("And now?", settings={"temperature": 0.5}))
    assert (await talk.rebuild(await last_call(talk))).differences == (f"settings: {since}",)


async def test_only_a_model_call_can_be_built_again(talk: Talk, speak: Speak) -> None:
    speak("Hello.")
    await heard(talk.say("Hello?"))
    with pytest.raises(BadValue, match="the seq of a model_call event"):
        await talk.rebuild(1)


async def test_usage_adds_up_by_turn_conversation_model_and_day(
    address: str, someone: str, speak: Speak, model: str
) -> None:
    speak([call("nothing")], "One.", "Two.")
    async with Everthread.open(address, settings={"model": model}) as et:
        talk = await et.begin(user=someone)
        await heard(talk.say("First."))
        await heard(talk.say("Second."))
        records = await calls(talk)
        turns = await talk.usage(by="turn")
        assert [row.calls for row in turns] == [1, 2]  # newest first
        (whole,) = await talk.usage()
        assert whole.calls == 3
        assert whole.input == sum(one.input for one in records)
        assert whole.output == sum(one.output for one in records)
        (day,) = await et.usage(user=someone, by="day")
        (by_model,) = await et.usage(user=someone, by="model")
        assert (day.calls, by_model.model) == (3, model)
        assert await et.usage(user=f"not-{someone}", by="day") == []


async def test_the_factor_of_a_model_is_learnt_from_what_its_provider_reports(fresh_address: str, someone: str) -> None:
    """And known to every process that opens the store from then on. In a store where nobody has learnt anything yet."""
    async with AnthropicServer(Script()) as server:
        keys = {server.address.removeprefix("http://"): "test-key"}
        settings: GivenSettings = {"model": "anthropic:claude-sonnet-4-6", "address": server.address}
        async with Everthread.open(fresh_address, settings=settings, keys=keys) as et:
            talk = await et.begin(user=someone)
            before = (await talk.context()).factor
            await talk.append(user("The quick brown fox jumps over the lazy dog. " * 120), assistant("Indeed."))
            for number in range(20):
                await talk.say(f"And fox number {number}?")
        async with Everthread.open(fresh_address, settings=settings, keys=keys) as et:
            again = await et.conversation(user=someone, id=talk.id)
            context = await again.context()
            elsewhere = await again.context(settings={"address": ""})
            records = await calls(again)
    assert context.factor < before == elsewhere.factor  # what one address says is not true of another
    assert all(one.input <= one.estimate / one.factor * context.factor for one in records)


async def test_small_requests_teach_nothing(address: str, someone: str) -> None:
    """What a provider adds to each of them would look like a tokenizer."""
    async with AnthropicServer(Script()) as server:
        keys = {server.address.removeprefix("http://"): "test-key"}
        settings: GivenSettings = {"model": "anthropic:claude-sonnet-4-6", "address": server.address}
        async with Everthread.open(address, settings=settings, keys=keys) as et:
            before = (await (await et.begin(user=someone)).context()).factor
            for _ in range(22):
                await (await et.begin(user=someone)).say("hi")
            assert (await (await et.begin(user=someone)).context()).factor == before


async def test_after_a_redaction_a_request_cannot_be_had_again_and_that_is_said(talk: Talk, speak: Speak) -> None:
    speak("Noted.", "Yes.")
    await heard(talk.say("My PIN is ZX-4711."))
    await heard(talk.say("Do you know it?"))
    await talk.redact(1)
    rebuilt = await talk.rebuild(await last_call(talk))
    assert rebuilt.differences == ("messages: some were redacted since, or before",)


# -- agents ------------------------------------------------------------------------------------------------


async def test_an_agent_brings_its_persona_settings_tools_and_version(address: str, someone: str, speak: Speak) -> None:
    def weather() -> str:
        return "rain"

    def bomb() -> str:
        return "boom"

    ears = Ears()
    script(f"{someone}-a", ears("Arr."), ears("Aye."))
    async with Everthread.open(address, settings={}, tools=[weather, bomb]) as et:
        pirate = Agent(
            name=someone,
            instructions="You are a pirate.",
            model=f"scripted:{someone}-a",
            tools=("weather",),
            settings={"temperature": 0.25},
            skills={"sailing.md": "Mind the wind."},
        )
        await et.agents.save("default", pirate)
        talk = await et.begin(user=someone, agent=someone)
        assert await said(talk.say("Ahoy?")) == "Arr."
        body = ears.heard[0]
        assert body["temperature"] == 0.25
        assert [tool["function"]["name"] for tool in body["tools"]] == ["weather"]
        system = str(body["messages"][0])
        assert "You are a pirate." in system
        assert "Mind the wind." in system
        await et.agents.save("default", msgspec.structs.replace(pirate, instructions="You are a parrot."))
        await heard(talk.say("And now?"))
        assert "parrot" in str(ears.heard[1])
        assert [one.agent for one in await calls(talk)] == [f"{someone} 1", f"{someone} 2"]
        assert (await talk.rebuild(3)).differences == ()  # with the version of then


async def test_a_folder_of_agents_is_read_when_the_store_is_opened(address: str, someone: str, tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    folder.mkdir()
    script(f"{someone}-b", "Bonjour.")
    (folder / f"{someone}.toml").write_text(f'model = "scripted:{someone}-b"\ninstructions = "Speak French."\n')
    async with Everthread.open(address, settings={}, agents=folder) as et:
        talk = await et.begin(user=someone, agent=someone)
        assert await said(talk.say("Hello?")) == "Bonjour."
