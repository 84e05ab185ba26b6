"""A conversation with the model that runs in the process: no key, no network, nothing to configure."""

from __future__ import annotations

from pathlib import Path

import pytest

from everthread import Everthread, GivenSettings, assistant, user
from everthread.core.deltas import CallDelta, Done, ResultDelta, TextDelta
from everthread.providers.choose import notice
from tests.agent.support import assert_valid, calls, heard


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, and no server on this machine."""
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EVERTHREAD_SERVERS", "")


async def test_a_conversation_is_held_streamed_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/talk.db"
    limits: GivenSettings = {"reply_tokens": 40, "temperature": 0.0}
    async with Everthread.open(address, settings=limits) as et:
        assert "tiny" in notice((await et.default_model()).model)
        talk = await et.conversation(user="ana")
        deltas = await heard(talk.say("Hello! Please say hello to me."))
        pieces = [delta.text for delta in deltas if isinstance(delta, TextDelta)]
        assert len(pieces) > 1  # it streams
        done = deltas[-1]
        assert isinstance(done, Done)
        assert (done.state, done.price) == ("idle", 0.0)
        assert done.usage.output > 1
    async with Everthread.open(address, settings=limits) as et:
        talk = await et.conversation(user="ana")
        answer = await talk.say("Thank you. What is two and two?")
        assert answer.text.strip()
        messages = [event.kind for event in await talk.after(messages=True)]
        assert messages == ["user", "assistant", "user", "assistant"]
        first, second = await calls(talk)
        assert second.input > first.input
        assert second.estimate >= second.input
        await assert_valid(talk)


async def test_it_calls_a_tool_that_the_words_point_at_and_answers_from_its_result(tmp_path: Path) -> None:
    asked: list[str] = []

    def get_weather(city: str) -> str:
        """Tells the weather in a city."""
        asked.append(city)
        return "It rains, 12 degrees."

    async with Everthread.open(f"sqlite:///{tmp_path}/talk.db", settings={"temperature": 0.0}) as et:
        talk = await et.conversation(user="ana")
        deltas = await heard(talk.say("What is the weather in Paris?", tools=[get_weather]))
        assert [delta.name for delta in deltas if isinstance(delta, CallDelta)] == ["get_weather"]
        assert [delta.text for delta in deltas if isinstance(delta, ResultDelta)] == ["It rains, 12 degrees."]
        assert asked == ["Paris"]
        assert "".join(map(str, deltas)).strip()


async def test_a_long_conversation_stays_within_what_it_can_read(tmp_path: Path) -> None:
    """What is past stays in the log; a request never grows beyond what a tiny model reads in a few seconds."""
    async with Everthread.open(f"sqlite:///{tmp_path}/talk.db", settings={"reply_tokens": 8}) as et:
        talk = await et.conversation(user="ana")
        for number in range(40):
            await talk.append(user(f"Remember the number {number}. " + "It is a fine number. " * 20), assistant("Yes."))
        context = await talk.context(model="local:smollm2")
        assert 1_000 < context.estimate <= 2_000
        assert context.past > 0
        await talk.say("Which was the last number?", settings={"budget": 600})
        (call,) = await calls(talk)
        assert call.input <= call.estimate <= 600
