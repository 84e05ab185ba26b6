"""The brief: made beside the conversation, turn by turn, with nothing skipped and nothing counted twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from everthread import Everthread, Talk, assistant, tool_call, tool_result, user
from everthread.core.events import BriefUpdated, ModelCall
from everthread.errors import Overloaded
from everthread.jobs.memory import memory_worker
from everthread.jobs.worker import Worker
from tests.memory.conftest import Speak


async def briefs(talk: Talk) -> list[BriefUpdated]:
    line = await talk.line()
    found = await talk._log.markers(line, "brief_updated", limit=100)
    return [one.event for one in reversed(found) if isinstance(one.event, BriefUpdated)]


async def say(talk: Talk, text: str, reply: str = "Noted.") -> int:
    return (await talk.append(user(text), assistant(reply)))[-1].seq


def busy() -> Overloaded:
    return Overloaded("scripted", "busy")


async def test_a_turn_is_covered_by_a_version_that_says_what_it_covers(
    talk: Talk, worker: Worker, remember: Speak
) -> None:
    remember("The user's son is allergic to walnuts.")
    last = await say(talk, "My son is allergic to walnuts.")
    assert await worker.once(talk.conversation)
    (brief,) = await briefs(talk)
    assert brief.text == "The user's son is allergic to walnuts."
    assert (brief.covers, brief.turns, brief.extractive) == (last, 1, False)
    assert "allergic to walnuts" in brief.facts


async def test_the_next_version_goes_on_from_the_last_and_sees_only_new_turns(
    talk: Talk, worker: Worker, remember: Speak
) -> None:
    shown: list[str] = []

    def hears(reply: str) -> Callable[[dict[str, Any]], str]:
        def replied(body: dict[str, Any]) -> str:
            shown.append(str(body["messages"][-1]["content"]))
            return reply

        return replied

    remember(hears("First."), hears("First and second."))
    await say(talk, "One thing.")
    await worker.once(talk.conversation)
    await say(talk, "Another thing.")
    await worker.once(talk.conversation)
    assert [one.turns for one in await briefs(talk)] == [1, 2]
    assert "One thing." not in shown[1]
    assert "Another thing." in shown[1]
    assert "First." in shown[1]


async def test_nothing_is_done_where_nothing_is_new(talk: Talk, worker: Worker, remember: Speak) -> None:
    remember("Once.")
    await say(talk, "Hello.")
    assert await worker.once(talk.conversation)
    count = len(await talk.range(1, 100))
    await worker.once(talk.conversation)
    assert len(await talk.range(1, 100)) == count


async def test_five_failures_then_one_success_covers_all(
    talk: Talk, worker: Worker, remember: Speak, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everthread.memory.spending.FIRST_PAUSE", 0.0)
    remember(*[busy() for _ in range(5)], "All of it.")
    last = 0
    for number in range(6):
        last = await say(talk, f"Thing {number}.")
        await worker.once(talk.conversation)
    versions = await briefs(talk)
    assert (versions[-1].text, versions[-1].covers, versions[-1].turns) == ("All of it.", last, 6)
    assert all(one.extractive for one in versions[:-1])
    failed = [one.event for one in await talk.range(1, 200) if isinstance(one.event, ModelCall) and one.event.error]
    assert len(failed) == 5


async def test_while_the_model_is_down_the_extractive_form_serves_and_is_replaced(
    talk: Talk, worker: Worker, remember: Speak, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everthread.memory.spending.FIRST_PAUSE", 0.0)
    remember(busy(), "The budget is 500 euros.")
    await say(talk, "The budget is 500 euros.")
    await worker.once(talk.conversation)
    (first,) = await briefs(talk)
    assert first.extractive
    assert "500 euros" in first.text
    await worker.once(talk.conversation)
    assert [one.extractive for one in await briefs(talk)] == [True, False]


async def test_a_failed_job_is_not_tried_again_at_once(talk: Talk, worker: Worker, remember: Speak) -> None:
    """The pause is derived from the log, so it outlives the process."""
    remember(busy(), "never said")
    await say(talk, "Hello.")
    await worker.once(talk.conversation)
    await worker.once(talk.conversation)
    found = [one.event for one in await talk.range(1, 200) if isinstance(one.event, ModelCall)]
    assert len(found) == 1


async def test_two_workers_never_cover_a_turn_twice(et: Everthread, talk: Talk, remember: Speak) -> None:
    remember(*[f"Version {number}." for number in range(50)])
    workers = [memory_worker(et._runtime) for _ in range(4)]
    for number in range(5):
        await say(talk, f"Thing {number}.")
        await asyncio.gather(*(one.once(talk.conversation) for one in workers))
    versions = await briefs(talk)
    assert [one.turns for one in versions] == [1, 2, 3, 4, 5]
    assert len({one.covers for one in versions}) == 5


async def test_a_gap_too_large_for_one_model_call_is_taken_in_several(
    talk: Talk, worker: Worker, remember: Speak
) -> None:
    remember(*[f"Part {number}." for number in range(20)])
    last = 0
    for number in range(20):
        last = await say(talk, f"Story {number}: " + "and then something else happened, which was long. " * 400)
    await worker.once(talk.conversation)
    versions = await briefs(talk)
    assert len(versions) > 1
    assert versions[-1].covers == last
    assert versions[-1].turns == 20
    assert [one.covers for one in versions] == sorted({one.covers for one in versions})


async def test_a_turn_that_is_still_open_is_not_covered(talk: Talk, worker: Worker, remember: Speak) -> None:
    remember("Only the first.")
    last = await say(talk, "Done.")
    await talk.append(user("Not yet."), tool_call("look"), tool_result("found", name="look"))
    await worker.once(talk.conversation)
    assert (await briefs(talk))[-1].covers == last


async def test_a_clear_starts_afresh(talk: Talk, worker: Worker, remember: Speak) -> None:
    remember("Old.", lambda body: "new" if "Old." not in str(body) else "leaked")
    await say(talk, "Before.")
    await worker.once(talk.conversation)
    await talk.clear()
    await say(talk, "After.")
    await worker.once(talk.conversation)
    newest = (await briefs(talk))[-1]
    assert (newest.text, newest.turns) == ("new", 1)


async def test_a_fork_starts_with_the_brief_of_its_fork_point(talk: Talk, worker: Worker, remember: Speak) -> None:
    remember("One.", "One and two.", "One and three.")
    first = await say(talk, "First.")
    await worker.once(talk.conversation)
    await say(talk, "Second.")
    await worker.once(talk.conversation)
    side = await talk.fork(at=first + 2)  # the brief and its record stand after the turn
    await say(side, "Third.")
    await worker.once(side.conversation, (await side.line()).branch.number)
    newest = (await briefs(side))[-1]
    assert (newest.text, newest.turns) == ("One and three.", 2)


async def test_without_a_model_memory_is_extractive(address: str, someone: str) -> None:
    async with Everthread.open(address, settings={"model": "local:smollm2", "memory": True}) as et:
        talk = await et.begin(user=someone)
        await say(talk, "My name is Ana and I prefer aisle seats. The flight is LH 1234 on 3 May.")
        worker = memory_worker(et._runtime)
        await worker.once(talk.conversation)
        (brief,) = await briefs(talk)
        assert brief.extractive
        assert "aisle seats" in brief.facts
        assert "LH 1234" in brief.text + brief.facts


async def test_the_status_says_how_far_behind_it_is_and_why(talk: Talk, worker: Worker, remember: Speak) -> None:
    remember(busy())
    await say(talk, "Hello.")
    before = await talk.memory()
    assert (before.covers, before.behind, before.failures) == (0, 2, 0)
    await worker.once(talk.conversation)
    after = await talk.memory()
    assert (after.behind, after.failures, after.extractive) == (0, 1, True)
    assert "busy" in after.error
