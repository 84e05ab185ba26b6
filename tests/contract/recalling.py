"""What the tests of recall share: ways to ask, and something to find."""

from __future__ import annotations

from typing import Any

from everthread import Everthread, Talk, user
from everthread.store.conversations import Owner
from everthread.store.recall.search import FoundEvent
from tests.migrations.databases import rows

WALNUTS = "My son is allergic to walnuts."


def owner(talk: Talk) -> Owner:
    return Owner(talk.conversation.tenant, talk.conversation.user)


async def found(et: Everthread, talk: Talk, query: str, **more: Any) -> list[FoundEvent]:
    """What recall finds along the talk's line."""
    return await et.log.recall.search(owner(talk), query, line=await talk.line(), **more)


async def seqs(et: Everthread, talk: Talk, query: str, **more: Any) -> list[int]:
    return [hit.seq for hit in await found(et, talk, query, **more)]


async def first_text(et: Everthread, talk: Talk, query: str, **more: Any) -> str:
    return (await found(et, talk, query, **more))[0].event.text


async def chatter(talk: Talk, count: int, text: str = "Something else, number {}.") -> None:
    await talk.append(*(user(text.format(n)) for n in range(count)))


async def index_of(address: str, talk: Talk) -> list[tuple[Any, ...]]:
    """Everything that the index has of a conversation."""
    return await rows(
        address,
        "SELECT w.word, w.block, w.postings "
        "FROM recall_words w JOIN recall_conversations r ON r.number = w.block >> 20 "
        f"WHERE r.conversation = '{talk.id}' ORDER BY w.word, w.block",
    )
