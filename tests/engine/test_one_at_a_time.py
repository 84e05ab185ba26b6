"""One turn at a time on a branch: in a process, among processes, and after a crash."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from everthread import Everthread, Talk
from everthread.core.deltas import TextDelta
from everthread.errors import TurnBusy
from everthread.testing.scripted import script
from tests.engine.conftest import Speak
from tests.engine.support import assert_valid, heard, kinds, said, state

ROOT = Path(__file__).parents[2]

# A process that says something to a model that never stops talking, and is killed in the middle of it.
CHILD = """
import asyncio, sys
from everthread import Everthread
from everthread.core.deltas import TextDelta
from everthread.testing.scripted import script

async def main(address, user, conversation):
    script("endless", "word " * 10_000, pace=0.01)
    async with Everthread.open(address, settings={"model": "scripted:endless"}) as et:
        talk = await et.conversation(user=user, id=conversation)
        async for delta in talk.say("Talk for ever."):
            if isinstance(delta, TextDelta):
                print("talking", flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_second_message_waits_its_place(talk: Talk, speak: Speak) -> None:
    speak("one two three four", "Then me.", "And me.", pace=0.3)
    first = asyncio.create_task(heard(talk.say("First.")))
    await asyncio.sleep(0.2)  # each must have found its branch before the next comes
    second = asyncio.create_task(heard(talk.say("Second.")))
    await asyncio.sleep(0.2)
    third = asyncio.create_task(heard(talk.say("Third.")))
    await asyncio.gather(first, second, third)
    messages = [event.text for event in await talk.after(messages=True)]
    assert messages == ["First.", "one two three four", "Second.", "Then me.", "Third.", "And me."]


async def test_or_it_is_refused_as_asked(talk: Talk, speak: Speak) -> None:
    speak("one two three four five six", pace=0.05)
    saying = talk.say("First.")
    async for delta in saying:
        if isinstance(delta, TextDelta):
            break
    with pytest.raises(TurnBusy, match="under way"):
        await talk.say("Second.", when_busy="refuse")
    assert [event.text for event in await talk.after(messages=True)] == ["First."]
    await saying.cancel()


async def test_branches_do_not_wait_for_each_other(talk: Talk, speak: Speak) -> None:
    speak("Hello.")
    await heard(talk.say("Hello."))
    side = await talk.fork()
    speak("one two three four five six seven", "Quick.", pace=0.2)
    slow = asyncio.create_task(heard(talk.say("Slowly.")))
    await asyncio.sleep(0.5)
    assert await said(side.say("Quickly.", when_busy="refuse")) == "Quick."
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
            async with asyncio.timeout(60):
                assert await child.stdout.readline() == b"talking\n"
            with pytest.raises(TurnBusy, match="in another process"):
                await talk.say("Me too?", when_busy="refuse")
            assert await state(talk) == "open"
        finally:
            child.send_signal(signal.SIGKILL)
            await child.wait()
        async with asyncio.timeout(20):  # its lease would last longer; that it is dead is seen at once
            assert await said(talk.say("And now?")) == "I go on."
        assert await kinds(talk) == ["user", "agent_killed", "user", "assistant", "model_call"]
        assert [turn.state for turn in await talk.turns()] == ["interrupted", "idle"]
        await assert_valid(talk)
