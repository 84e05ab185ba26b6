"""What waits for approval is found however far back it is, at the same cost."""

from __future__ import annotations

import pytest

from everthread import Everthread, Talk, assistant, user
from everthread.core.events import Command, Event, ToolCall
from everthread.testing.scripted import call
from everthread.tools import tool
from tests.agent.conftest import Speak
from tests.agent.support import heard
from tests.depth.rewound import counted

FAR = 12_000  # events: more than were looked through before


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay somebody."""
    return f"Paid {amount}."


def asks(id: str) -> ToolCall:
    return ToolCall(id=id, name="pay", arguments='{"amount": 1}', waits_for="approval")


def talking(events: int) -> list[Event]:
    return [event for number in range(events // 2) for event in (user(f"{number}"), assistant("Yes."))]


async def waiting(talk: Talk) -> list[int]:
    return [one.seq for one in await talk.waiting()]


async def test_a_call_that_waits_is_found_at_any_distance_at_the_same_cost(
    et: Everthread, address: str, someone: str
) -> None:
    costs = []
    for events in (100, FAR):
        talk = await et.begin(user=someone)
        await talk.append(user("Pay."), asks("a"))
        await talk.append(*talking(events))
        assert await waiting(talk) == [2]
        async with counted(address) as (other, counting):
            here = await other.conversation(user=someone, id=talk.id)
            await here.line()
            costs.append(await counting.of(here.waiting()))
    assert costs[0] == costs[1]
    assert costs[1][1] < 20, "rows"


async def test_what_was_settled_is_not_walked_through_again(
    et: Everthread, address: str, someone: str, talk: Talk, speak: Speak
) -> None:
    """A verdict says what it leaves waiting, so nobody looks further back."""
    await talk.append(user("Pay."), asks("first"))
    costs = []
    for rounds in (3, 20):
        for _ in range(rounds):
            speak([call("pay", {"amount": 20})], "Paid.")
            await heard(talk.say("Pay the bill.", tools=[pay]))
            newest = (await talk.waiting())[-1].seq
            await heard(talk.approve(newest, tools=[pay]))
            assert await waiting(talk) == [2]
        async with counted(address) as (other, counting):
            here = await other.conversation(user=someone, id=talk.id)
            await here.line()
            costs.append(await counting.of(here.waiting()))
    assert costs[0] == costs[1]
    await heard(talk.approve(2, tools=[pay]))
    assert await waiting(talk) == []


async def test_on_a_branch_that_left_before_the_verdict_it_still_waits(talk: Talk, speak: Speak) -> None:
    speak([call("pay", {"amount": 20})], "Paid.")
    await heard(talk.say("Pay the bill.", tools=[pay]))
    [seq] = await waiting(talk)
    side = await talk.fork()
    await heard(talk.approve(tools=[pay]))
    assert await waiting(talk) == []
    assert await waiting(side) == [seq]


async def test_verdicts_from_before_that_say_nothing_of_others_still_count(talk: Talk) -> None:
    await talk.append(user("Pay."), asks("a"), asks("b"), asks("c"))
    await talk.append(Command(name="approve", arguments={"call": "b", "seq": 3}))
    assert await waiting(talk) == [2, 4]


@pytest.mark.parametrize("said", ["x", "99 0 -1", "1 5", 7, None, True])
async def test_a_verdict_that_says_nonsense_of_others_makes_nothing_wait(talk: Talk, said: str | int | None) -> None:
    await talk.append(user("Pay."), asks("a"), asks("b"))
    nonsense: dict[str, str | int | bool | None] = {"call": "a", "seq": 2, "waiting": said, "upto": "y"}
    await talk.append(Command(name="refuse", arguments=nonsense), assistant("So."))
    assert await waiting(talk) == [3]


@pytest.mark.parametrize("seq", ["order-17", "2", 2**62, -2, True, None])
async def test_a_command_of_an_application_that_is_called_approve_is_no_verdict(
    talk: Talk, speak: Speak, seq: str | int | None
) -> None:
    await talk.append(user("Pay."), asks("a"))
    await talk.append(Command(name="approve", arguments={"seq": seq, "waiting": "", "upto": 2**62}))
    assert await waiting(talk) == [2]
    speak("Paid.")
    await heard(talk.approve(tools=[pay]))
    assert await waiting(talk) == []


async def test_a_verdict_settles_nothing_that_comes_after_it(talk: Talk) -> None:
    await talk.append(user("Pay."), asks("a"))
    await talk.append(Command(name="refuse", arguments={"seq": 2, "waiting": "", "upto": 2_000_000_000}))
    await talk.append(user("Pay again."), asks("b"))
    assert await waiting(talk) == [5]
