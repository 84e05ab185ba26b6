"""The index of recall: it misses nothing, keeps nothing that is forgotten, and is told when it is wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from everthread import Everthread, Talk, assistant, user
from everthread.core.branches import Line
from everthread.core.events import Event
from everthread.errors import UnknownConversation
from everthread.store.conversations import Owner
from everthread.store.recall.index import hashing
from tests.contract.recalling import WALNUTS, chatter, found, index_of, owner, seqs
from tests.contract.support import assert_sound, everything, files_of
from tests.migrations.databases import rows, run

# -- nothing is missed --------------------------------------------------------------------------------------------


async def test_what_was_said_a_moment_ago_is_found(et: Everthread, talk: Talk) -> None:
    for number in range(5):
        await talk.append(user(f"Fact {number} is about badgers."))
        assert len(await found(et, talk, "badger", limit=20)) == number + 1
    await assert_sound(et, talk)


async def test_what_another_process_said_or_indexed_is_found(address: str, talk: Talk, et: Everthread) -> None:
    await talk.append(user(WALNUTS))
    async with Everthread.open(address) as other:
        assert len(await found(other, talk, "walnuts")) == 1
        await talk.append(user("Walnuts again."))
        assert len(await found(other, talk, "walnuts")) == 2
        assert len(await found(et, talk, "walnuts")) == 2


async def test_many_blocks_are_searched(et: Everthread, talk: Talk) -> None:
    await talk.append(user(WALNUTS))
    await chatter(talk, 1_300)
    await talk.append(user("Walnuts, once more."))
    assert set(await seqs(et, talk, "walnuts", limit=2)) == {1, 1_302}
    await assert_sound(et, talk)


async def test_those_who_index_at_the_same_moment_do_it_once(et: Everthread, talk: Talk, address: str) -> None:
    await chatter(talk, 700)
    async with Everthread.open(address) as other:
        await asyncio.gather(*(found(each, talk, "something") for each in (et, other) * 4))
    await assert_sound(et, talk)


async def test_an_event_that_cannot_be_read_stops_nothing(et: Everthread, talk: Talk, address: str) -> None:
    await talk.append(user("broken"), user(WALNUTS))
    damaged = "CAST('{' AS BLOB)" if address.startswith("sqlite") else "'{'::bytea"
    await run(address, f"UPDATE events SET body = {damaged} WHERE conversation = '{talk.id}' AND seq = 1")
    assert await seqs(et, talk, "walnuts") == [2]


async def test_indexing_says_how_much_was_behind(et: Everthread, talk: Talk) -> None:
    await chatter(talk, 3)
    assert await et.log.recall.index(owner(talk)) == 3
    assert await et.log.recall.index(owner(talk)) == 0
    assert await et.log.recall.index(Owner("default", "")) == 0


async def test_an_append_waits_for_no_index(et: Everthread, talk: Talk, address: str) -> None:
    events: list[Event] = [user(WALNUTS), assistant("Noted.")]
    await talk.append(*events)
    assert await index_of(address, talk) == []


# -- forgetting ---------------------------------------------------------------------------------------------------


async def test_what_is_redacted_is_gone_from_the_index(et: Everthread, talk: Talk, address: str) -> None:
    await talk.append(user("a badger"), user("the walnut code is 7391-KESTREL"), user("a badger, too"))
    await et.log.recall.index(owner(talk))
    before = await index_of(address, talk)
    await talk.redact(2)
    assert await seqs(et, talk, "7391-KESTREL walnut code", limit=9) == []
    assert sorted(await seqs(et, talk, "badger")) == [1, 3]
    after = await index_of(address, talk)
    assert 0 < len(after) < len(before)
    await assert_sound(et, talk)


async def test_what_was_redacted_before_is_never_indexed(et: Everthread, talk: Talk) -> None:
    await talk.append(user("a badger"), user("a secret badger"))
    await talk.redact(2)
    assert await seqs(et, talk, "secret badger") == [1]
    await assert_sound(et, talk)


async def test_a_redaction_reaches_the_index_from_any_branch_and_any_block(et: Everthread, talk: Talk) -> None:
    await chatter(talk, 600)
    await talk.append(user("a secret badger"))
    child = await talk.fork()
    await et.log.recall.index(owner(talk))
    await child.redact(601)
    await child.redact(3)
    assert await seqs(et, talk, "secret badger") == []
    await assert_sound(et, talk)


async def test_indexing_and_redacting_at_the_same_moment_leave_nothing_behind(et: Everthread, talk: Talk) -> None:
    for _ in range(5):
        events = await talk.append(*(user(f"kestrel number {n}") for n in range(30)))
        await asyncio.gather(found(et, talk, "kestrel"), *(talk.redact(event.seq) for event in events))
        assert await seqs(et, talk, "kestrel") == []
    await assert_sound(et, talk)


async def test_an_erased_conversation_or_user_is_gone_from_the_index(
    et: Everthread, someone: str, address: str
) -> None:
    first, second = await et.begin(user=someone), await et.begin(user=someone)
    for talk in (first, second):
        await talk.append(user(WALNUTS))
        await (await talk.fork()).append(user("walnuts aside"))
    await et.log.recall.index(owner(first))
    await first.erase()
    assert await index_of(address, first) == []
    assert {hit.conversation for hit in await et.log.recall.search(owner(first), "walnuts", everywhere=True)} == {
        second.id
    }
    await et.erase_user(user=someone)
    assert await et.log.recall.search(owner(first), "walnuts", everywhere=True) == []
    for table in ("recall_words", "recall_blocks"):
        orphans = f"SELECT 1 FROM {table} WHERE block >> 20 NOT IN (SELECT number FROM recall_conversations)"
        assert await rows(address, orphans) == []


async def test_what_is_forgotten_is_nowhere_in_the_files(tmp_path: Any) -> None:
    """Neither the text nor what a word of it is known by."""
    address = f"sqlite:///{tmp_path}/talk.db"
    async with Everthread.open(address) as et:
        talk = await et.begin(user="ana")
        await talk.append(user("hello there"), user("quetzalcoatl"))
        await et.log.recall.index(owner(talk))
        word = hashing(owner(talk))("quetzalcoatl").to_bytes(8, "big", signed=True)
        assert any(word in content for content in files_of(address).values())
        await talk.redact(2)
        assert not any(word in content or b"quetzal" in content for content in files_of(address).values())
        await assert_sound(et, talk)


async def test_an_erased_conversation_is_not_searched(et: Everthread, talk: Talk) -> None:
    await talk.append(user(WALNUTS))
    line: Line = await talk.line()
    await found(et, talk, "walnuts")
    await talk.erase()
    assert await et.log.recall.search(owner(talk), "walnuts", line=line) == []
    with pytest.raises(UnknownConversation):
        await everything(talk)


# -- checking -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM recall_words WHERE block >> 20 IN {numbers}",
        "UPDATE recall_words SET postings = '0000' WHERE block >> 20 IN {numbers}",
        "DELETE FROM recall_blocks WHERE block >> 20 IN {numbers}",
    ],
)
async def test_a_check_tells_of_an_index_that_is_wrong(et: Everthread, talk: Talk, address: str, damage: str) -> None:
    await talk.append(user(WALNUTS), user("badgers"))
    await et.log.recall.index(owner(talk))
    await assert_sound(et, talk)
    numbers = f"(SELECT number FROM recall_conversations WHERE conversation = '{talk.id}')"
    await run(address, damage.format(numbers=numbers))
    _, problems = await et.log.check("default", talk.id)
    assert problems
    assert all("recall" in problem for problem in problems)
