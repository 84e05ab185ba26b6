"""A user's conversations by when something last happened in them, in pages.

The row of a conversation knows that to the minute (`active`), and an index has it in order: writing it at every append
would cost every append a second statement. Within a minute the exact times decide, read from the newest events of the
conversations' branches. So a page reads as many conversations as it gives and those of the minutes at its ends, however
many there are (docs/decisions/0035).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from everthread.core.ids import is_id, time_of
from everthread.core.metadata import matches
from everthread.errors import BadValue
from everthread.store.conversations import (
    MINUTE,
    NEWEST,
    Conversation,
    Owner,
    Totals,
    branch_totals_of,
    conversation_of,
    stored_object,
    total,
)
from everthread.store.engine import Ask, Row, Script

LOOKED = 2_000  # conversations that are looked at together where metadata is asked for
_CURSOR = re.compile(r"(\d{1,18})\.(\d{1,18})\.([0-9A-Z]{26})")


class ListedConversation(Conversation, frozen=True, kw_only=True):
    """A conversation in a list: with its sums, and when its newest event came. `cursor`: where it stands in the
    list; the next page is `before` that of the last."""

    totals: Totals
    cursor: str


class Cursor(NamedTuple):
    """Where a conversation stands in the list: the minute and the time of its newest event, and its id."""

    active: int
    time: int
    id: str

    def __str__(self) -> str:
        return f"{self.active}.{self.time}.{self.id}"


TOP = Cursor(2**62, 0, "")


def page(
    owner: Owner, *, agent: str, metadata: dict[str, Any], before: str, limit: int
) -> Script[list[ListedConversation]]:
    """A page of the list: those with an agent, where one is named, and with this metadata, whatever else they have."""
    start = yield from _cursor(owner, before)
    high, step = start.active, max(limit, LOOKED) if metadata else limit
    found: list[ListedConversation] = []
    while True:
        values = {**owner._asdict(), "agent": agent, "high": high, "skip": step - 1}
        rows = yield Ask("conversations_by_activity", values)
        fitting = [row for row in rows if _has(row[9], metadata)] if metadata else rows
        found += yield from _listed(owner, fitting, start)
        if len(found) >= limit or sum(row[-1] < high for row in rows) < step:
            return found[:limit]
        high = rows[-1][-1] - 1  # minutes are read whole


def _has(written: str, wanted: dict[str, Any]) -> bool:
    """Whether a conversation has the metadata that is wanted; most have none at all."""
    return written != "{}" and matches(stored_object(written) or {}, wanted)


def _cursor(owner: Owner, before: str) -> Script[Cursor]:
    """The cursor that is spelt out, or that of the user's conversation with this id, as it stands now; of an id that
    names none, where a conversation would stand that was begun with it."""
    if before == NEWEST:
        return TOP
    if is_id(before):
        rows = yield Ask("conversation", {**owner._asdict(), "conversation": before})
        time = _time(before, (yield from _heads(owner.tenant, rows)).get(before, []))
        return Cursor(time // MINUTE, time, before)
    if named := _CURSOR.fullmatch(before):
        return Cursor(int(named[1]), int(named[2]), named[3])
    raise BadValue("before", before, "the `cursor` of a conversation that was listed, or its id")


def _listed(owner: Owner, rows: Sequence[Row], start: Cursor) -> Script[list[ListedConversation]]:
    """Those of some conversations that come after a cursor, in the order of the list."""
    heads = yield from _heads(owner.tenant, rows)
    found = [(Cursor(row[-1], _time(row[0], heads[row[0]]), row[0]), row) for row in rows]
    found.sort(key=lambda one: one[0], reverse=True)
    return [_one(owner, cursor, row, heads[cursor.id]) for cursor, row in found if cursor < start]


def _one(owner: Owner, cursor: Cursor, row: Row, heads: list[Row]) -> ListedConversation:
    about = msgspec.structs.asdict(conversation_of(owner.tenant, row[:-1]))
    return ListedConversation(**about, totals=total([branch_totals_of(head) for head in heads]), cursor=str(cursor))


def _time(id: str, heads: list[Row]) -> int:
    """When a conversation's newest event came; when it was begun, where there is none, as its id says: ids are in the
    order in which conversations were begun, whatever the clock said."""
    return max((head[6] for head in heads), default=0) or time_of(id)


def _heads(tenant: str, rows: Sequence[Row]) -> Script[dict[str, list[Row]]]:
    """Of each conversation its branches with their newest events, as `branch_heads` has them."""
    heads: dict[str, list[Row]] = {row[0]: [] for row in rows}
    if heads:
        ids = json.dumps(dict.fromkeys(heads, 0))
        for row in (yield Ask("branch_heads_among", {"tenant": tenant, "ids": ids})):
            heads[row[0]].append(row[1:])
    return heads
