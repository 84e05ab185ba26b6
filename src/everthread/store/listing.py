"""A user's conversations by when something last happened in them, in pages.

The row of a conversation knows that to the minute (`active`), and an index has it in order: writing it at every append
would cost every append a second statement. Within a minute the exact times decide, read from the newest events of the
conversations' branches. So a page reads as many conversations as it gives and those of the minutes at its ends, however
many there are (docs/decisions/0035).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from everthread.core.ids import is_id
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
    find,
    settings_of,
    total,
)
from everthread.store.engine import Ask, Row, Script

LOOKED = 500  # conversations that are looked at together where metadata is asked for
_CURSOR = re.compile(r"(\d{1,18})\.(\d{1,18})\.([0-9A-Z]{26})")


class Listed(Conversation, frozen=True, kw_only=True):
    """A conversation in a list: with its sums, and when its newest event came. `cursor`: its place in the list; the
    next page is `before` that of the last."""

    totals: Totals
    cursor: str


class Place(NamedTuple):
    """Where a conversation stands in the list: the minute and the time of its newest event, and its id."""

    active: int
    time: int
    id: str

    def __str__(self) -> str:
        return f"{self.active}.{self.time}.{self.id}"


TOP = Place(2**62, 0, "")


def page(owner: Owner, *, agent: str, metadata: dict[str, Any], before: str, limit: int) -> Script[list[Listed]]:
    """A page of the list: those with an agent, where one is named, and with this metadata, whatever else they have."""
    start = yield from _place(owner, before)
    high, step = start.active, max(limit, LOOKED) if metadata else limit
    found: list[Listed] = []
    while True:
        values = {**owner._asdict(), "agent": agent, "high": high, "skip": step - 1}
        rows = yield Ask("conversations_by_activity", values)
        fitting = [row for row in rows if matches(settings_of(row[9]) or {}, metadata)] if metadata else rows
        found += yield from _listed(owner, fitting, start)
        if len(found) >= limit or sum(row[-1] < high for row in rows) < step:
            return found[:limit]
        high = rows[-1][-1] - 1  # minutes are read whole


def _place(owner: Owner, before: str) -> Script[Place]:
    """The place that a cursor names, or the place of the conversation that an id names, where that stands now."""
    if before == NEWEST:
        return TOP
    if is_id(before):
        one = yield from find(owner, before)
        sums = yield from _totals(owner.tenant, [one.id])
        time = sums[one.id].newest or one.began
        return Place(time // MINUTE, time, one.id)
    if named := _CURSOR.fullmatch(before):
        return Place(int(named[1]), int(named[2]), named[3])
    raise BadValue("before", before, "the `cursor` of a conversation that was listed, or its id")


def _listed(owner: Owner, rows: Sequence[Row], start: Place) -> Script[list[Listed]]:
    """Some conversations that come after a place, in the order of the list."""
    sums = yield from _totals(owner.tenant, [row[0] for row in rows])
    placed = sorted(_placed(rows, sums), key=lambda one: one[0], reverse=True)
    return [
        Listed(
            **msgspec.structs.asdict(conversation_of(owner.tenant, row[:-1])), totals=sums[place.id], cursor=str(place)
        )
        for place, row in placed
        if place < start
    ]


def _placed(rows: Sequence[Row], sums: dict[str, Totals]) -> Iterator[tuple[Place, Row]]:
    for row in rows:
        yield Place(row[-1], sums[row[0]].newest or row[7], row[0]), row


def _totals(tenant: str, ids: list[str]) -> Script[dict[str, Totals]]:
    """The sums of each conversation, every event counted once."""
    rows = (
        (yield Ask("branch_heads_among", {"tenant": tenant, "ids": json.dumps(dict.fromkeys(ids, 0))})) if ids else []
    )
    branches: dict[str, list[Row]] = {id: [] for id in ids}
    for row in rows:
        branches[row[0]].append(row[1:])
    return {id: total([branch_totals_of(row) for row in own]) for id, own in branches.items()}
