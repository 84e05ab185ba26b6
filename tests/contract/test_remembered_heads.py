"""What a process remembers of its last append never leads the next one astray."""

from __future__ import annotations

import asyncio

import pytest

from everthread import Everthread, Talk, user
from everthread.core.logged import Logged
from everthread.errors import UnknownConversation
from everthread.store.log import now
from everthread.store.open import open_log


async def said(talk: Talk) -> list[str]:
    return [event.text for event in await talk.after(limit=100) if event.text]


async def test_an_append_beside_the_current_branch_does_not_draw_the_next_one_there(talk: Talk) -> None:
    await talk.append(user("one"))
    side = await talk.fork(at=1)
    await side.append(user("aside"))
    await talk.append(user("two"))
    await side.append(user("aside again"))
    assert await said(talk) == ["one", "two"]
    assert await said(side) == ["one", "aside", "aside again"]


async def test_an_append_after_somebody_elses_goes_behind_it(address: str, talk: Talk, someone: str) -> None:
    await talk.append(user("one"))
    async with Everthread.open(address) as elsewhere:
        other = await elsewhere.conversation(user=someone, id=talk.id)
        await other.append(user("two"))
        await talk.append(user("three"))
        await other.append(user("four"))
    assert await said(talk) == ["one", "two", "three", "four"]


async def test_an_append_follows_where_somebody_else_has_pointed_the_conversation(
    address: str, talk: Talk, someone: str
) -> None:
    await talk.append(user("one"))
    await talk.append(user("two"))
    async with Everthread.open(address) as elsewhere:
        other = await elsewhere.conversation(user=someone, id=talk.id)
        await other.rewind(to=1, name="back")
        written: list[Logged] = await talk.append(user("three"))
        await other.switch("main")
        await talk.append(user("four"))
    assert written[0].branch == 2
    assert await said(await talk.on("back")) == ["one", "three"]
    assert await said(await talk.on("main")) == ["one", "two", "four"]


async def test_nothing_is_appended_from_memory_to_what_somebody_else_has_erased(
    address: str, et: Everthread, talk: Talk, someone: str
) -> None:
    await talk.append(user("one"))
    async with Everthread.open(address) as elsewhere:
        await (await elsewhere.conversation(user=someone, id=talk.id)).erase()
    with pytest.raises(UnknownConversation):
        await talk.append(user("two"))
    assert (await et.totals(user=someone)).events == 0


@pytest.mark.parametrize("moves", [False, True], ids=["a clock that stands still", "a clock that moves"])
async def test_writers_with_the_same_head_never_take_anothers_event_for_their_own(
    address: str, talk: Talk, someone: str, moves: bool
) -> None:
    """Each has an opening of its own, as in a process of its own; all collide all the time."""
    clock = now if moves else lambda: 1_000_000

    async def write(number: int) -> None:
        et = Everthread(await open_log(address, clock=clock))
        mine = await et.conversation(user=someone, id=talk.id)
        for turn in range(20):
            [event] = await mine.append(user(f"{number}: {turn}"))
            assert event.text == f"{number}: {turn}"
        await et.close()

    await asyncio.gather(*(write(number) for number in range(6)))
    texts = [event.text for event in await talk.after(limit=1_000)]
    assert sorted(texts) == sorted(f"{number}: {turn}" for number in range(6) for turn in range(20))
