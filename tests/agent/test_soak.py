"""A conversation that does not end."""

from __future__ import annotations

import pytest

from everthread import Talk
from everthread.testing.scripted import call
from tests.agent.conftest import Speak
from tests.agent.support import assert_valid, calls, said

TURNS = 3_000
BUDGET = 6_000


@pytest.mark.prove
async def test_thousands_of_turns_stay_whole_valid_and_within_the_budget(talk: Talk, speak: Speak) -> None:
    def look(number: int) -> str:
        return f"{number} " * (number % 700)

    for number in range(TURNS):
        speak([call("look", {"number": number})], f"Looked at {number}.")
        asked = talk.say(f"Look at {number}.", tools=[look], settings={"budget": BUDGET, "reply_tokens": 200})
        assert await said(asked) == f"Looked at {number}."
        if number % 100 == 0:
            await assert_valid(talk, budget=BUDGET)
    found = await calls(talk)
    assert len(found) == 2 * TURNS
    assert all(one.estimate <= BUDGET for one in found)
    assert (await talk.turns(limit=1))[-1].number == TURNS
