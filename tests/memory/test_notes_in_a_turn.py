"""MEMORY.md in the middle of a turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everthread import Everthread, Talk
from everthread.testing.scripted import call, script
from tests.transcripts import whole


def hearing() -> tuple[list[str], Callable[[Any], Any]]:
    """The instructions that a scripted model is given, and what makes a reply of its script note them."""
    seen: list[str] = []

    def hears(reply: Any) -> Any:
        def said(body: Any) -> Any:
            seen.append(whole(body["messages"][0]))
            return reply

        return said

    return seen, hears


async def test_notes_that_are_forgotten_in_mid_turn_are_sent_no_more(address: str, someone: str) -> None:
    async def forget(talk: Talk) -> str:
        """Forgets."""
        await talk.forget_notes()
        return "Forgotten."

    seen, hears = hearing()
    script(someone, hears([call("forget", {})]), hears("Yes."))
    async with Everthread.open(address, settings={"model": f"scripted:{someone}"}, keys={}) as et:
        talk = await et.begin(user=someone)
        await talk.write_notes("Likes ZX-4711.")
        await talk.say("Forget it.", tools=[forget])
    assert ["ZX-4711" in one for one in seen] == [True, False]


async def test_notes_stay_as_they_were_when_the_turn_began(address: str, someone: str) -> None:
    seen, hears = hearing()
    script(someone, hears([call("write_memory", {"text": "Likes ZX-4711."})]), hears("Noted."), hears("Hello."))
    async with Everthread.open(address, settings={"model": f"scripted:{someone}"}, keys={}) as et:
        talk = await et.begin(user=someone)
        await talk.say("I like it.")
        await talk.say("Hello.")
    assert ["ZX-4711" in one for one in seen] == [False, False, True]


async def test_notes_that_are_forgotten_and_written_anew_in_mid_turn_are_sent_as_they_are_now(
    address: str, someone: str
) -> None:
    async def replace(talk: Talk) -> str:
        """Forgets, and writes something else."""
        await talk.forget_notes()
        await talk.write_notes("Likes QY-1234.")
        return "Replaced."

    seen, hears = hearing()
    script(someone, hears([call("replace", {})]), hears([call("write_memory", {"text": "Likes both."})]), hears("Yes."))
    async with Everthread.open(address, settings={"model": f"scripted:{someone}"}, keys={}) as et:
        talk = await et.begin(user=someone)
        await talk.write_notes("Likes everything.")
        await talk.write_notes("Likes ZX-4711.")
        await talk.say("Replace it.", tools=[replace])
    assert ["ZX-4711" in one for one in seen] == [True, False, False]
    assert "QY-1234" in seen[1]
