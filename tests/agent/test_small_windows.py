"""Models whose window is hardly larger than the reply that may come: servers on one's own machine, as they start."""

from __future__ import annotations

from everthread import Talk
from everthread.errors import TooLong
from tests.agent.conftest import Speak
from tests.agent.support import heard, said


async def test_a_short_message_is_answered_after_a_small_window_was_told(talk: Talk, speak: Speak) -> None:
    told = TooLong("scripted", "exceeds the available context size (4096 tokens)", needed=5_000, limit=4_096)
    speak("word " * 4_000, told, "Shorter.", "And again.")
    await heard(talk.say("Write a lot."))
    assert await said(talk.say("And now?", settings={"reply_tokens": 4_096})) == "Shorter."
    await talk.clear()
    assert await said(talk.say("Still there?", settings={"reply_tokens": 4_096})) == "And again."
