"""The live turn at its edges: characters cut in two, commands thick and fast, lost answers, a store that goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from everthread import Talk, user
from everthread.agent.turn import TurnRunner
from everthread.core.deltas import Done
from everthread.core.events import Command
from everthread.errors import Full, UnknownConversation
from everthread.live import stop_of
from everthread.store.beside.leases import of_turns
from tests.agent.conftest import Gate, Speak
from tests.agent.support import failing, state, until_kept
from tests.agent.test_live import WORDS, Ear, is_over, other
from tests.waiting import until

__all__ = ["other"]  # a fixture
LONG = "word " * 100_000


async def test_a_character_that_comes_in_two_halves_holds_no_listener_up(
    talk: Talk, other: Talk, speak: Speak, gate: Gate
) -> None:
    speak(["A \ud83d", f"\ude00 {WORDS}"], pace=0.01)
    gate.hold(after=20)
    ear = Ear(other)
    reply = talk.say("Go on.", detached=True)
    await gate.reached.wait()
    await ear.until(lambda ear: "word10" in ear.text)
    assert ear.text.startswith("A \ud83d\ude00 word0")
    gate.open()
    await reply
    await ear.leave()


async def test_whoever_listens_is_told_of_the_same_end_as_the_caller(talk: Talk, other: Talk, speak: Speak) -> None:
    speak(WORDS)
    ear = Ear(other)
    said = await talk.say("Go on.")
    await ear.until(is_over)
    assert [item for item in ear.items if isinstance(item, Done)] == [said.done]
    assert said.done.finish == "stop"
    await ear.leave()


async def test_a_stop_is_not_overlooked_however_many_commands_follow_it(talk: Talk, other: Talk, speak: Speak) -> None:
    speak(LONG, pace=0.02)
    reply = talk.say("Go on.", detached=True)
    await until_kept(talk, "word")
    line = await talk.line()
    running = await talk._log.leases.partial(line.tenant, of_turns(line.conversation, line.branch.number))
    assert running is not None
    await other.append(stop_of(running.holder), *(Command(name=f"noted {number}") for number in range(40)))
    await until(lambda: reply._task is not None and reply._task.done())
    assert await state(talk) == "interrupted"


@pytest.mark.parametrize("engine", ["postgres"])
async def test_a_talk_that_nobody_holds_any_more_leaves_nothing_with_the_bus(talk: Talk, speak: Speak) -> None:
    bus: Any = talk._log.bus
    before = len(bus._hearers)
    for _ in range(3):
        alone = Talk(talk._log, talk.conversation)
        ear = Ear(alone)
        await talk.append(user("Hello."))
        await ear.until(lambda ear: ear.events)
        assert len(bus._hearers) == before + 1
        await ear.leave()
        await until(lambda: len(bus._hearers) == before)


Deed = Callable[[Talk], Awaitable[Any]]
DEEDS: dict[str, Deed] = {
    "redact": lambda talk: talk.redact(1),
    "fork": lambda talk: talk.fork(at=1),
    "rewind": lambda talk: talk.rewind(to=1),
    "switch": lambda talk: talk.switch("main"),
    "erase": lambda talk: talk.erase(),
    "append with a key": lambda talk: talk.append(user("And?"), key="and"),
}


@pytest.mark.parametrize("engine", ["postgres"])
@pytest.mark.parametrize("deed", DEEDS)
async def test_what_was_done_is_heard_though_its_answer_was_lost(
    talk: Talk, monkeypatch: pytest.MonkeyPatch, deed: str
) -> None:
    await talk.append(user("Hello."), user("There."))
    heads: Any = talk._log._engine._heads  # type: ignore[attr-defined]
    remember, rung, lost = heads.remember, list[Any](), list[bool]()

    def lossy(*given: Any) -> None:
        """Called when the commit is done."""
        remember(*given)
        if not lost:
            lost.append(True)
            raise ConnectionResetError

    monkeypatch.setattr(heads, "remember", lossy)
    with talk._log.bells.hear(talk.conversation.about, rung.append):
        await DEEDS[deed](talk)
    assert lost
    assert rung


async def test_erased_in_the_middle_a_turn_ends_before_its_error(talk: Talk, speak: Speak) -> None:
    speak(LONG, pace=0.02)
    reply = talk.say("Go on.", detached=True)
    await until_kept(talk, "word")
    await talk.erase()
    deltas = await failing(reply, UnknownConversation)
    assert isinstance(deltas[-1], Done)
    assert deltas[-1].state == "interrupted"


async def test_a_turn_that_cannot_write_its_end_tells_it_though_it_is_cancelled_meanwhile(
    talk: Talk, speak: Speak, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the conversation is erased before the first word: the turn finds out, and so does what attends to it."""
    speak(LONG, pace=0.02)
    end = TurnRunner._end

    async def end_while_cancelled(turn: TurnRunner, reason: str) -> Any:
        assert reply._task is not None
        reply._task.cancel()
        await asyncio.sleep(0)
        return await end(turn, reason)

    monkeypatch.setattr(TurnRunner, "_end", end_while_cancelled)
    reply = talk.say("Go on.", detached=True)
    await reply.accepted()
    await talk.erase()
    deltas = await failing(reply, UnknownConversation)
    assert isinstance(deltas[-1], Done)
    assert deltas[-1].state == "interrupted"


async def test_a_turn_whose_store_fails_ends_before_its_error(
    talk: Talk, speak: Speak, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    speak("one two three")
    gate.hold()
    reply = talk.say("Go on.", detached=True)
    await gate.reached.wait()

    async def full(*_: Any, **__: Any) -> Any:
        raise Full("The disk")

    monkeypatch.setattr(talk._log, "go_on", full)
    gate.open()
    deltas = await failing(reply, Full)
    assert isinstance(deltas[-1], Done)
    assert (deltas[-1].state, deltas[-1].seq) == ("interrupted", 1)
    await asyncio.sleep(0)
