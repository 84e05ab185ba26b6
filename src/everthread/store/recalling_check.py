"""Whether the index of recall says what the log says: made again, block by block, and compared."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence

from everthread.core.logged import Logged, logged
from everthread.core.ranking import SLOTS, unpack_seqs
from everthread.store.conversations import Owner
from everthread.store.engine import Ask, Row, Script
from everthread.store.recalling_index import Hash, Known, hashing, known_of, said_in

PAGE = 16  # blocks


def check(tenant: str, conversation: str, branch: int) -> Script[list[str]]:
    """What is wrong with what recall has of a branch."""
    problems: list[str] = []
    for known in (yield from known_of(tenant, conversation)):
        if known.branch == branch:
            where: dict[str, str | int] = {"tenant": tenant, "conversation": conversation, "branch": branch}
            number = hashing(Owner(tenant, known.user))
            found, events = yield from _check(known, where, number)
            problems += found
            if events != known.events:
                problems.append(f"recall has {events} of its events and says {known.events}")
    return problems


def _check(known: Known, where: dict[str, str | int], number: Hash) -> Script[tuple[list[str], int]]:
    problems, events, low = [], 0, known.low
    while True:
        blocks = yield Ask("recall_blocks", {"low": low, "high": known.high, "limit": PAGE})
        for block, first, session, _, _, text in blocks:
            seqs = unpack_seqs(text)
            events += len(seqs)
            rows = yield Ask("events_among", {**where, "seqs": json.dumps(dict.fromkeys(map(str, seqs), 0))})
            stored = yield Ask("recall_words", {"block": block})
            expected = _postings(seqs, {event.seq: event for event in logged(rows)}, session, number)
            if _as_dict(stored) != expected or len(seqs) > SLOTS:
                problems.append(f"what recall knows of events {first} to {seqs[-1]} is not what they say")
        if len(blocks) < PAGE:
            return problems, events
        low = blocks[-1][0] + 1


def _as_dict(rows: Sequence[Row]) -> dict[int, str]:
    return {row[0]: row[1] for row in rows}


def _postings(seqs: list[int], events: dict[int, Logged], session: int, number: Hash) -> dict[int, str]:
    found: dict[int, str] = defaultdict(str)
    for slot, seq in enumerate(seqs):
        event = events.get(seq)
        said = said_in(event) if event else None
        if event and said:
            for word, posting in said.postings(slot, event, first=session):
                found[number(word)] += posting
    return dict(found)
