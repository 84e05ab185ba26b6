"""What is redacted is gone from what is remembered, and memory is made anew without it."""

from __future__ import annotations

from typing import Any

from everthread import Everthread, Talk
from everthread.core.branches import ENDLESS
from everthread.jobs.worker import Worker
from tests.memory.conftest import Speak
from tests.memory.test_brief import briefs, say


def reports(body: dict[str, Any]) -> str:
    """A summariser that repeats what it is shown."""
    shown = str(body["messages"][-1]["content"])
    return "The PIN is ZX-4711." if "ZX-4711" in shown else "Nothing secret was said."


async def test_briefs_and_facts_made_since_are_gone_and_made_anew(talk: Talk, worker: Worker, remember: Speak) -> None:
    remember(*[reports] * 9)
    await say(talk, "Hello there.")
    await worker.once(talk.conversation)
    secret = await say(talk, "Remember that my PIN is ZX-4711.") - 1
    await worker.once(talk.conversation)
    await say(talk, "And now something else.")
    await worker.once(talk.conversation)
    assert "ZX-4711" in (await briefs(talk))[-1].facts + (await briefs(talk))[-1].text
    await talk.redact(secret)
    everything = [repr(event.event) for event in await talk.range(1, ENDLESS)]
    assert not [event for event in everything if "ZX-4711" in event]
    await worker.once(talk.conversation)
    newest = (await briefs(talk))[-1]
    assert "ZX-4711" not in newest.text + newest.facts
    assert newest.turns == 3


async def test_what_was_remembered_before_stays(talk: Talk, worker: Worker, remember: Speak) -> None:
    remember("First.", "Second.", "Third.")
    await say(talk, "One.")
    await worker.once(talk.conversation)
    last = await say(talk, "Two.")
    await worker.once(talk.conversation)
    await talk.redact(last)
    assert [one.text for one in await briefs(talk)] == ["First."]


async def test_a_fork_forgets_what_it_shares(talk: Talk, worker: Worker, remember: Speak) -> None:
    remember(*[reports] * 9)
    secret = await say(talk, "My PIN is ZX-4711.") - 1
    side = await talk.fork()
    await say(side, "On another branch.")
    await worker.once(side.conversation, (await side.line()).branch.number)
    await talk.redact(secret)
    assert not [event for event in await side.range(1, ENDLESS) if "ZX-4711" in repr(event.event)]


async def test_a_name_that_tells_of_it_is_taken_anew(
    et: Everthread, talk: Talk, worker: Worker, remember: Speak
) -> None:
    remember(*[reports] * 9)
    secret = await say(talk, "My PIN is ZX-4711.") - 1
    await say(talk, "Let us plan a trip.")
    await worker.once(talk.conversation)
    named = await et.conversation(user=talk.conversation.user, id=talk.id)
    assert named.conversation.name == "My PIN is ZX-4711"
    await talk.redact(secret)
    assert talk.conversation.name == ""
    await worker.once(talk.conversation)
    named = await et.conversation(user=talk.conversation.user, id=talk.id)
    assert named.conversation.name == "Let us plan a trip"


async def test_a_long_memory_is_forgotten_whole(talk: Talk, worker: Worker, remember: Speak) -> None:
    """However many versions there are."""
    remember(*["The PIN is ZX-4711."] * 9)
    secret = await say(talk, "My PIN is ZX-4711.") - 1
    for number in range(7):
        await say(talk, f"Thing {number}.")
        await worker.once(talk.conversation)
    await talk.redact(secret)
    assert not [event for event in await talk.range(1, ENDLESS) if "ZX-4711" in repr(event.event)]
