"""Turns that the service runs, heard through the client."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from everthread.client import Everthread, Talk, listening
from everthread.client import connection as connections
from everthread.core.deltas import Delta, Done, TextDelta
from everthread.errors import (
    BadOutput,
    BadValue,
    GoingAway,
    LimitReached,
    ModelError,
    TurnBusy,
    TurnCancelled,
    TurnInterrupted,
)
from everthread.testing.scripted import call, script
from everthread.tools import tool
from tests.agent.conftest import Gate
from tests.client.serving import Served
from tests.waiting import until

LONG = "one two three four five six seven eight nine ten"


def text_of(deltas: list[Delta]) -> str:
    return "".join(map(str, deltas))


async def test_a_reply_is_heard_piece_by_piece_and_its_message_is_accepted_first(
    conversation: Talk, someone: str
) -> None:
    script(someone, LONG)
    reply = conversation.say("Count.")
    assert (await reply.accepted()).text == "Count."
    told = [delta async for delta in reply]
    assert text_of(told) == LONG
    assert sum(isinstance(delta, TextDelta) for delta in told) == 10
    assert isinstance(told[-1], Done)
    assert str(await conversation.say("Again.")).startswith("You said")


async def test_leaving_early_ends_the_turn_and_keeps_what_had_come(
    conversation: Talk,
    someone: str,
    gate: Gate,
) -> None:
    script(someone, LONG)
    gate.hold(after=3)
    async with conversation.say("Count.") as reply:
        async for delta in reply:
            if "three" in str(delta):
                break
    turns = await conversation.turns()
    assert turns[-1].state == "interrupted"
    kept = await conversation.before(messages=True)
    assert kept[-1].text.startswith("one two three")


async def test_a_detached_turn_goes_on_without_its_caller(
    served: Served,
    someone: str,
    gate: Gate,
) -> None:
    script(someone, LONG)
    gate.hold(after=2)
    key = await served.key(someone)
    async with Everthread.open(served.address, key=key) as et:
        talk = await et.begin(user=someone)
        await talk.say("Count.", detached=True).accepted()
        await gate.reached.wait()
    gate.open()
    await served.et.idle()
    async with Everthread.open(served.address, key=key) as et:
        assert (await (await et.conversation(user=someone)).before(messages=True))[-1].text == LONG


@pytest.mark.parametrize("words", [0, 1, 5, 9])
async def test_a_connection_that_breaks_in_mid_turn_loses_no_delta_and_doubles_none(
    served: Served,
    conversation: Talk,
    someone: str,
    gate: Gate,
    words: int,
) -> None:
    script(someone, LONG)
    gate.hold(after=words)
    told: list[Delta] = []

    async def hear() -> None:
        async for delta in conversation.say("Count."):
            told.append(delta)  # noqa: PERF401 -- as they come

    hearing = asyncio.create_task(hear())
    await gate.reached.wait()
    await until(lambda: len(told) >= words)
    served.drop()
    gate.open()
    await hearing
    assert text_of(told) == LONG
    assert sum(isinstance(delta, Done) for delta in told) == 1


async def test_a_connection_that_breaks_between_tool_calls_repeats_none_of_them(
    served: Served,
    conversation: Talk,
    someone: str,
    gate: Gate,
) -> None:
    script(someone, call("recall_context", {"query": "nuts"}), "Nothing about nuts.")
    gate.hold()
    deltas: list[Delta] = []

    async def hear() -> None:
        async for delta in conversation.say("What do you know?"):
            deltas.append(delta)
            if delta.kind == "tool_result":
                served.drop()

    hearing = asyncio.create_task(hear())
    await gate.reached.wait()
    gate.open()
    await hearing
    assert [delta.kind for delta in deltas if delta.kind not in ("text", "notice")] == [
        "tool_call",
        "tool_result",
        "done",
    ]
    assert text_of(deltas) == "Nothing about nuts."


async def test_a_turn_that_somebody_else_stops_is_cancelled_here_too(
    served: Served,
    conversation: Talk,
    someone: str,
    gate: Gate,
) -> None:
    script(someone, LONG)
    gate.hold(after=2)
    reply = conversation.say("Count.")
    waiting = asyncio.ensure_future(reply._whole())
    await gate.reached.wait()
    assert await (await conversation.another(conversation.id)).stop()
    with pytest.raises(TurnCancelled):
        await waiting


async def test_a_turn_that_waits_for_its_place_is_dropped_when_its_caller_leaves(
    conversation: Talk,
    someone: str,
    gate: Gate,
) -> None:
    script(someone, LONG, "Never said.")
    gate.hold(after=2)
    first = conversation.say("Count.", detached=True)
    await gate.reached.wait()
    with pytest.raises(TurnBusy):
        await conversation.say("Me too.", when_busy="refuse")
    second = conversation.say("Me too.")
    assert (await anext(second)).kind == "notice"
    await second.aclose()
    gate.open()
    assert str(await first) == LONG
    assert [one.text for one in await conversation.before(messages=True)] == ["Count.", LONG]


async def test_a_waiting_call_is_refused_with_deltas_as_they_come(served: Served, someone: str) -> None:
    def pay(amount: int) -> str:
        return f"paid {amount}"

    script(someone, call("pay", {"amount": 5}), "Then not.")
    own = await served.et.begin(user=someone)
    assert (await own.say("Pay.", tools=[tool(pay, approval=True)])).done.state == "waiting"
    async with Everthread.open(served.address, key=await served.key(someone)) as et:
        talk = await et.conversation(user=someone, id=own.id)
        [waits] = await talk.waiting()
        told = [delta async for delta in talk.refuse(waits.seq, "Too much.")]
    assert text_of(told) == "Then not."
    assert [delta.kind for delta in told if delta.kind != "text"] == ["tool_result", "done"]


async def test_a_failed_turn_raises_the_librarys_error_with_its_attributes_and_can_be_resumed(
    conversation: Talk, someone: str
) -> None:
    script(someone, ModelError("It failed.", after=7.0), "Now.")
    with pytest.raises(ModelError, match=r"It failed\. The message is kept") as caught:
        await conversation.say("Hello?")
    assert caught.value.after == 7.0
    assert caught.value.kept == 1
    assert str(await conversation.resume()) == "Now."


class Cake(msgspec.Struct):
    name: str
    eggs: int


async def test_a_value_that_was_asked_for_is_one_of_the_callers_own_type(conversation: Talk, someone: str) -> None:
    script(someone, '{"name": "Sponge", "eggs": 4}', '{"value": 7}', '{"eggs": "many"}')
    assert (await conversation.say("A cake?", output=Cake)).value == Cake("Sponge", 4)
    assert (await conversation.say("How many?", output=int)).value == 7
    with pytest.raises(BadOutput):
        await conversation.say("A cake?", output=Cake)


@pytest.mark.parametrize("given", [{"tools": [print]}, {"extra_headers": {"a": "b"}}, {"strategy": lambda *_: None}])
async def test_what_lives_in_the_services_process_is_refused_here(conversation: Talk, given: dict[str, Any]) -> None:
    with pytest.raises(BadValue, match="service's"):
        conversation.say("Hello.", **given)
    with pytest.raises(BadValue, match="service's"):
        await conversation.context(tools=[print])


async def test_a_service_that_is_about_to_end_is_asked_again_and_then_says_so(
    served: Served, conversation: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def at_once(response: object) -> float:
        asked.append(response)
        return 0.0

    monkeypatch.setattr(connections, "_wait", at_once)
    served.service.leave()
    with pytest.raises(GoingAway):
        await conversation.say("Hello?")
    assert len(asked) == connections.TRIES - 1


async def _until_sent_elsewhere(served: Served, conversation: Talk, gate: Gate, *, after: int = 3) -> asyncio.Task[Any]:
    """A turn whose listener was told to come back to another process, which does not answer yet."""
    gate.hold(after=after)
    waiting = asyncio.ensure_future(conversation.say("Count.")._whole())
    await gate.reached.wait()
    served.service.leave()
    return waiting


async def test_a_turn_that_the_services_end_interrupts_says_so_and_can_be_resumed(
    served: Served, conversation: Talk, someone: str, gate: Gate
) -> None:
    script(someone, LONG, "Now.")
    waiting = await _until_sent_elsewhere(served, conversation, gate)
    await served.service.drained(0)
    served.service.leaving.clear()  # as another process would answer
    with pytest.raises(
        TurnInterrupted, match=r"process that ran it.* ended.*reply is kept.*talk\.resume\(\)"
    ) as caught:
        await waiting
    assert (caught.value.again, caught.value.kept) == (True, 1)
    assert (await conversation.before(messages=True))[-1].text.startswith("one two three")
    gate.open()
    assert str(await conversation.resume()) == "Now."


async def test_a_resumed_turn_that_is_interrupted_names_the_message_that_it_replies_to(
    served: Served, conversation: Talk, someone: str, gate: Gate
) -> None:
    script(someone, ModelError("It failed."), LONG)
    with pytest.raises(ModelError):
        await conversation.say("Count.")
    gate.hold(after=3)
    waiting = asyncio.ensure_future(conversation.resume()._whole())
    await gate.reached.wait()
    served.service.leave()
    await served.service.drained(0)
    served.service.leaving.clear()
    with pytest.raises(TurnInterrupted) as caught:
        await waiting
    assert caught.value.kept == 1


async def test_a_turn_that_goes_on_in_a_process_that_is_about_to_end_is_heard_to_its_end_elsewhere(
    served: Served, conversation: Talk, someone: str, gate: Gate
) -> None:
    script(someone, LONG)
    waiting = await _until_sent_elsewhere(served, conversation, gate)
    gate.open()
    await served.et.idle()
    served.service.leaving.clear()
    assert str(await waiting) == LONG


async def test_a_turn_that_somebody_stops_while_its_listener_is_sent_elsewhere_is_cancelled(
    served: Served, conversation: Talk, someone: str, gate: Gate
) -> None:
    script(someone, LONG)
    waiting = await _until_sent_elsewhere(served, conversation, gate)
    served.service.leaving.clear()
    assert await (await conversation.another(conversation.id)).stop()
    with pytest.raises(TurnCancelled):
        await waiting


async def test_a_turn_that_comes_to_its_limit_while_its_listener_is_sent_elsewhere_says_so(
    served: Served, conversation: Talk, someone: str, gate: Gate
) -> None:
    script(someone, call("recall_context", {"query": "nuts"}), LONG)
    await conversation.configure(turn_calls=1)
    waiting = await _until_sent_elsewhere(served, conversation, gate, after=0)
    gate.open()
    served.service.leaving.clear()
    with pytest.raises(LimitReached, match="turn_calls"):
        await waiting


async def test_where_no_process_answers_any_more_the_message_is_kept_all_the_same(
    served: Served, conversation: Talk, someone: str, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(someone, LONG)
    monkeypatch.setattr(listening, "PATIENCE", 0.0)
    monkeypatch.setattr(connections, "_wait", lambda _: None)
    waiting = await _until_sent_elsewhere(served, conversation, gate)
    with pytest.raises(GoingAway, match=r"The message is kept: `talk\.resume\(\)`") as caught:
        await waiting
    assert caught.value.kept == 1
    served.service.leaving.clear()
    gate.open()
    await served.et.idle()
