"""MEMORY.md: kept for a user and an agent, with its history."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from everthread import Everthread, Talk
from everthread.errors import BadValue, Changed
from everthread.jobs.worker import Worker
from everthread.store.conversations import Owner
from everthread.testing.scripted import call, script
from tests.agent.support import heard


@pytest.fixture(autouse=True)
def _without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is on here, but for its worker."""
    monkeypatch.setattr(Worker, "remind", lambda *_: None)


@pytest.fixture
async def keeping(address: str, someone: str) -> AsyncIterator[Everthread]:
    async with Everthread.open(address, settings={"model": f"scripted:{someone}", "memory": True}) as et:
        yield et


@pytest.fixture
async def mine(keeping: Everthread, someone: str) -> Talk:
    return await keeping.begin(user=someone, agent="helper")


async def test_what_stands_there_is_in_every_context(keeping: Everthread, mine: Talk, someone: str) -> None:
    assert await mine.notes() == ""
    assert await mine.write_notes("- Vegetarian.") == 1
    another = await keeping.begin(user=someone, agent="helper")
    assert "- Vegetarian." in str((await another.context()).request["messages"][0])
    other_agent = await keeping.begin(user=someone, agent="another")
    other_user = await keeping.begin(user=f"{someone}-2", agent="helper")
    for talk in (other_agent, other_user):
        assert "Vegetarian" not in str((await talk.context()).request)


async def test_the_agent_rewrites_it_through_a_tool(mine: Talk, someone: str) -> None:
    script(someone, [call("write_memory", {"text": "- Allergic to walnuts."})], "Noted.")
    await heard(mine.say("Never forget: I am allergic to walnuts."))
    assert await mine.notes() == "- Allergic to walnuts."


async def test_its_versions_are_kept(mine: Talk, someone: str) -> None:
    for text in ("one", "two", "two", "three"):
        await mine.write_notes(text)
    found = await mine._log.documents.versions(Owner("default", someone), "memory/helper")
    assert [one.body for one in found] == ["three", "two", "one"]


async def test_two_who_write_at_once_do_not_overwrite_each_other(mine: Talk) -> None:
    await mine.write_notes("mine")
    with pytest.raises(Changed):
        await mine.write_notes("theirs", expect="")
    await mine.write_notes("both", expect="mine")
    assert await mine.notes() == "both"


async def test_it_cannot_grow_without_end(mine: Talk) -> None:
    with pytest.raises(BadValue, match="at most 8,000 characters"):
        await mine.write_notes("x" * 8_001)


async def test_it_is_gone_with_its_user(keeping: Everthread, mine: Talk, someone: str) -> None:
    await mine.write_notes("secret")
    await keeping.erase_user(user=someone)
    again = await keeping.begin(user=someone, agent="helper")
    assert await again.notes() == ""
