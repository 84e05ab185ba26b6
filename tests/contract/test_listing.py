"""Conversations in a list: last active first, with their counts, in pages that hold still."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from everthread import Everthread, Talk, assistant, user
from everthread.core.events import Mark
from everthread.errors import BadValue
from everthread.store import conversations
from everthread.store.engine import Tell
from everthread.store.listing import ListedConversation
from everthread.store.open import open_log
from tests.contract.support import MINUTE, START, Clock, everything

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


async def names(et: Everthread, someone: str, **how: str | int) -> list[str]:
    return [one.name for one in await et.conversations(user=someone, **how)]  # type: ignore[arg-type]


async def test_the_one_in_which_something_happened_last_comes_first(et: Everthread, someone: str) -> None:
    talks = [await et.begin(user=someone, name=name) for name in "abc"]
    assert await names(et, someone) == ["c", "b", "a"]
    await talks[0].append(user("x"))
    assert await names(et, someone) == ["a", "c", "b"]
    await talks[1].append(user("x"))
    assert await names(et, someone) == ["b", "a", "c"]
    side = await talks[2].fork(at=0)
    assert await names(et, someone) == ["c", "b", "a"]
    await talks[0].mark("here")
    await side.append(user("x"))
    assert await names(et, someone) == ["c", "a", "b"]


async def test_each_has_the_counts_that_it_has_by_itself(et: Everthread, someone: str) -> None:
    for number in range(4):
        talk = await et.begin(user=someone)
        for _ in range(number):
            await talk.append(user("a"), assistant("b"), Mark(name="m"))
        if number > 1:
            await (await talk.rewind(to=2)).append(user("c"))
    for one in await et.conversations(user=someone):
        assert one.totals == await et.talk(one).totals()


async def test_an_empty_one_stands_where_it_was_begun(address: str, someone: str) -> None:
    clock = Clock()
    et = Everthread(await open_log(address, clock=clock))
    older = await et.begin(user=someone, name="older")
    clock.now += MINUTE
    await et.begin(user=someone, name="empty")
    assert await names(et, someone) == ["empty", "older"]
    clock.now += MINUTE
    await older.append(user("x"))
    assert await names(et, someone) == ["older", "empty"]
    assert [bool(one.totals.newest) for one in await et.conversations(user=someone)] == [True, False]
    await et.close()


async def test_history_that_is_older_than_now_is_listed_by_its_own_time(et: Everthread, someone: str) -> None:
    for name, days in (("old", 1), ("older", 3), ("oldest", 9)):
        talk = await et.begin(user=someone, name=name)
        await talk.append(user("x"), at=NOON - timedelta(days=10))
        await talk.append(assistant("y"), at=NOON - timedelta(days=days))
    assert await names(et, someone) == ["old", "older", "oldest"]


async def test_old_history_on_main_does_not_hide_what_is_new_on_a_branch(et: Everthread, someone: str) -> None:
    forked, other = await et.begin(user=someone), await et.begin(user=someone)
    await other.append(user("x"), at=datetime(2025, 1, 1, tzinfo=UTC))
    await (await forked.fork(at=0)).append(user("new"))
    await forked.append(user("old"), at=datetime(2024, 1, 1, tzinfo=UTC))
    assert [one.id for one in await et.conversations(user=someone)] == [forked.id, other.id]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 50])
async def test_pages_give_each_once_in_one_order(address: str, someone: str, limit: int) -> None:
    """Several to a minute, and several at the very same moment."""
    clock, chance = Clock(), random.Random(limit)
    et = Everthread(await open_log(address, clock=clock))
    talks = [await et.begin(user=someone, name=str(n), agent=f"agent {n % 2}") for n in range(12)]
    newest = {}
    for _ in range(40):
        clock.now += chance.choice([0, 0, MINUTE // 5, MINUTE // 2, 3 * MINUTE])
        talk = chance.choice(talks)
        await talk.append(user("x"))
        newest[talk.id] = clock.now
    for agent in ("", "agent 0"):
        mine = [talk.id for talk in talks if agent in ("", talk.conversation.agent)]
        expected = sorted(mine, key=lambda id: (newest.get(id, START), id), reverse=True)
        for field in ("cursor", "id"):
            listed: list[ListedConversation] = []
            before = "~"
            while page := await et.conversations(user=someone, agent=agent, limit=limit, before=before):
                assert len(page) <= limit
                listed += page
                before = getattr(page[-1], field)
            assert [one.id for one in listed] == expected
    await et.close()


async def test_what_happens_between_two_pages_moves_its_conversation_and_no_other(et: Everthread, someone: str) -> None:
    talks = {name: await et.begin(user=someone, name=name) for name in "abcdef"}
    first = await et.conversations(user=someone, limit=2)
    await talks["f"].append(user("x"))  # seen already: it does not come again
    await talks["e"].append(user("x"))
    await talks["b"].append(user("x"))  # not seen yet: it stands on top now
    rest = await et.conversations(user=someone, before=first[-1].cursor)
    assert [one.name for one in (*first, *rest)] == ["f", "e", "d", "c", "a"]
    assert await names(et, someone) == ["b", "e", "f", "d", "c", "a"]


@pytest.mark.parametrize("bad", ["x", "", "1.2.x", "9" * 40, "\0"], ids=ascii)
async def test_a_page_begins_at_a_cursor_or_an_id(et: Everthread, talk: Talk, someone: str, bad: str) -> None:
    with pytest.raises(BadValue, match="before"):
        await et.conversations(user=someone, before=bad)


async def test_metadata_is_looked_for_on_all_pages(
    et: Everthread, someone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everthread.store.listing.LOOKED", 3)
    for number in range(20):
        await et.begin(user=someone, name=str(number), metadata={"rare": number % 7 == 0})
    first = await et.conversations(user=someone, metadata={"rare": True}, limit=2)
    rest = await et.conversations(user=someone, metadata={"rare": True}, limit=2, before=first[-1].cursor)
    assert [one.name for one in (*first, *rest)] == ["14", "7", "0"]


async def test_most_appends_say_nothing_of_it(address: str, someone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first append of each minute writes down that the conversation was active; all others are one statement."""
    clock = Clock()
    et = Everthread(await open_log(address, clock=clock))
    talk = await et.begin(user=someone)
    told: list[Tell] = []
    stirred = conversations.stirred

    def noted(key: dict[str, Any], time: int, *, first: bool) -> Tell:
        told.append(stirred(key, time, first=first))
        return told[-1]

    monkeypatch.setattr(conversations, "stirred", noted)
    for _ in range(120):
        await talk.append(user("x"))
        clock.now += 1_000_000
    assert 2 <= len(told) <= 3  # PostgreSQL tries one from memory first
    await et.close()


async def test_tail_gives_messages_alone(talk: Talk) -> None:
    await talk.append(user("a"), Mark(name="m"), assistant("b"), user("c"), Mark(name="n"))
    assert [one.seq for one in await talk.tail(turns=2, messages=True)] == [1, 3, 4]
    assert [one.seq for one in await talk.tail(turns=1)] == [4, 5]
    assert len(await everything(talk)) == 5
