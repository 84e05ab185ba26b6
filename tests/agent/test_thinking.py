"""Thinking that is bound to what it was produced with, against a server that refuses it anywhere else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from benchmarks.loopback.anthropic import AnthropicServer
from benchmarks.loopback.model import Called, Script, Thought
from everthread import Everthread, GivenSettings, Talk
from tests.agent.support import calls, heard, said

MODEL = "anthropic:claude-fable-5-1"


@pytest.fixture
async def server() -> AsyncIterator[AnthropicServer]:
    async with AnthropicServer(Script(otherwise=lambda _: [Thought("Let me see."), "Yes."])) as server:
        yield server


@pytest.fixture
async def bound(server: AnthropicServer, tmp_path: Path) -> AsyncIterator[Talk]:
    settings: GivenSettings = {"model": MODEL, "address": server.address, "effort": "low", "retries": 0}
    host = server.address.removeprefix("http://")
    async with Everthread.open(f"sqlite:///{tmp_path}/talk.db", settings=settings, keys={host: "test-key"}) as et:
        yield await et.begin(user="ana")


def thoughts(server: AnthropicServer) -> int:
    """How many thinking blocks the newest request echoes."""
    messages = server.asked[-1].json()["messages"]
    return sum(block["type"] == "thinking" for message in messages for block in message["content"])


async def test_it_goes_back_as_long_as_the_request_begins_the_same_way(bound: Talk, server: AnthropicServer) -> None:
    for number in range(3):
        await heard(bound.say(f"Question {number}?", instructions="You are a clock."))
    assert thoughts(server) == 2
    assert server.books.refused == []


async def test_with_other_instructions_it_stays_out_from_then_on(bound: Talk, server: AnthropicServer) -> None:
    for number, persona in enumerate(["a clock", "a clock", "a bell", "a bell", "a bell"]):
        await heard(bound.say(f"Question {number}?", instructions=f"You are {persona}."))
    assert server.books.refused == []
    assert thoughts(server) == 2  # what was thought as a bell


async def test_with_other_tools_it_stays_out_too(bound: Talk, server: AnthropicServer) -> None:
    def clock() -> str:
        return "noon"

    def bell() -> str:
        return "ding"

    server.script.add([Thought("A clock may help."), Called("clock")], [Thought("Noon."), "It is noon."])
    await heard(bound.say("What time is it?", tools=[clock]))
    assert await said(bound.say("Sure?", tools=[clock, bell])) == "Yes."
    assert server.books.refused == []
    assert thoughts(server) == 0


async def test_the_window_that_a_provider_tells_of_is_kept_to_from_then_on(
    bound: Talk, server: AnthropicServer
) -> None:
    for number in range(12):
        await heard(bound.say(f"Question {number}: " + "word " * 100, settings={"reply_tokens": 300}))
    server.books.limit = 1_500
    await heard(bound.say("Is this too long?", settings={"reply_tokens": 300}))
    refused = [one for one in await calls(bound) if one.error]
    assert len(refused) == 1
    assert "too long" in refused[0].error
    for number in range(3):
        await heard(bound.say(f"And now {number}?", settings={"reply_tokens": 300}))
    assert [one for one in await calls(bound) if one.error] == refused
