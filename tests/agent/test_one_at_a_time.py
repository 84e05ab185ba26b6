"""One turn at a time on a branch: in a process, among processes, and after a crash."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from everthread import Everthread, Talk
from everthread.core.branches import ENDLESS
from everthread.core.deltas import TextDelta
from everthread.errors import TurnBusy
from everthread.testing.scripted import script
from tests.agent.conftest import Gate, Speak
from tests.agent.support import assert_valid, finds_its_branch, heard, said, state
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]

# A process that says something to a model that never stops talking, and is killed in the middle of it.
CHILD = """
import asyncio, sys
from everthread import Everthread
from everthread.core.deltas import TextDelta
from everthread.testing.scripted import script

async def main(address, user, conversation):
    script("endless", "word " * 100_000, pace=0.01)
    async with Everthread.open(address, settings={"model": "scripted:endless"}) as et:
        talk = await et.conversation(user=user, id=conversation)
        async for delta in talk.say("Talk for ever."):
            if isinstance(delta, TextDelta):
                print("talking", flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_second_message_waits_its_place(talk: Talk, speak: Speak, gate: Gate) -> None:
    speak("one two three four", "Then me.", "And me.")
    gate.hold()
    first = asyncio.create_task(heard(talk.say("First.")))
    await gate.reached.wait()
    async with finds_its_branch(talk):
        second = asyncio.create_task(heard(talk.say("Second.")))
    async with finds_its_branch(talk):
        third = asyncio.create_task(heard(talk.say("Third.")))
    gate.open()
    await asyncio.gather(first, second, third)
    messages = [event.text for event in await talk.after(messages=True)]
    assert messages == ["First.", "one two three four", "Second.", "Then me.", "Third.", "And me."]


async def test_or_it_is_refused_as_asked(talk: Talk, speak: Speak) -> None:
    speak("word " * 100_000, pace=0.05)
    reply = talk.say("First.")
    async for delta in reply:
        if isinstance(delta, TextDelta):
            break
    with pytest.raises(TurnBusy, match="under way"):
        await talk.say("Second.", when_busy="refuse")
    assert [event.text for event in await talk.after(messages=True)] == ["First."]
    await reply.cancel()


async def test_branches_do_not_wait_for_each_other(talk: Talk, speak: Speak, gate: Gate) -> None:
    speak("Hello.")
    await heard(talk.say("Hello."))
    side = await talk.fork()
    speak("one two three", "Quick.")
    gate.hold()
    slow = asyncio.create_task(heard(talk.say("Slowly.")))
    await gate.reached.wait()
    assert await said(side.say("Quickly.", when_busy="refuse")) == "Quick."
    gate.open()
    await slow


async def test_another_process_is_waited_for_or_refused_and_a_killed_one_leaves_an_interrupted_turn(
    address: str, someone: str
) -> None:
    script(someone, "I go on.")
    async with Everthread.open(address, settings={"model": f"scripted:{someone}"}) as et:
        talk = await et.begin(user=someone)
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CHILD, address, someone, talk.id, cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        try:
            assert child.stdout is not None
            async with asyncio.timeout(PATIENCE):
                assert await child.stdout.readline() == b"talking\n"
            with pytest.raises(TurnBusy, match="in another process"):
                await talk.say("Me too?", when_busy="refuse")
            assert await state(talk) == "open"
        finally:
            child.send_signal(signal.SIGKILL)
            await child.wait()
        assert await said(talk.say("And now?")) == "I go on."
        # On a slow machine some of its reply was kept before it was killed.
        whole = [event for event in await talk.range(1, ENDLESS) if not getattr(event.event, "interrupted", False)]
        assert [event.kind for event in whole] == ["user", "agent_killed", "user", "assistant", "model_call"]
        assert [turn.state for turn in await talk.turns()] == ["interrupted", "idle"]
        await assert_valid(talk)
