"""Whether the index of recall says what the log says: made again, block by block, and compared."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence

from everthread.core.logged import Logged, logged
from everthread.core.ranking import SLOTS, runs_of, slots_of, unpack_seqs
from everthread.store.conversations import Owner
from everthread.store.engine import Ask, Row, Script
from everthread.store.recalling_index import Hash, hashing, known_of, said_in

PAGE = 16  # blocks


def check(tenant: str, conversation: str) -> Script[list[str]]:
    """What is wrong with what recall has of a conversation."""
    known = yield from known_of(tenant, conversation)
    if known is None:
        return []
    problems, events, low = [], 0, known.low
    number = hashing(Owner(tenant, known.user))
    while blocks := (yield Ask("recall_blocks", {"low": low, "high": known.high, "limit": PAGE})):
        for block in blocks:
            found, inside = yield from _check({"tenant": tenant, "conversation": conversation}, block, number)
            problems += found
            events += inside
        low = blocks[-1][0] + 1
    if events != known.events:
        problems.append(f"recall has {events} of its events and says {known.events}")
    return problems


def _check(where: dict[str, str], row: Row, number: Hash) -> Script[tuple[list[str], int]]:
    """What is wrong with a block, and how many events it says it has."""
    block, first, last, session, _, _, seqs, runs = row
    expected: dict[int, str] = defaultdict(str)
    for run in runs_of(runs):
        slots = slots_of(run, seqs)
        asked = {**where, "branch": run.branch, "seqs": json.dumps(dict.fromkeys(map(str, slots.values()), 0))}
        rows = yield Ask("events_among", asked)
        for word, postings in _postings(slots, {one.seq: one for one in logged(rows)}, session, number).items():
            expected[word] += postings
    stored = yield Ask("recall_words", {"block": block})
    count = len(unpack_seqs(seqs))
    if _as_dict(stored) != expected or count > SLOTS:
        return [f"what recall knows of events {first} to {last} is not what they say"], count
    return [], count


def _as_dict(rows: Sequence[Row]) -> dict[int, str]:
    return {row[0]: row[1] for row in rows}


def _postings(slots: dict[int, int], events: dict[int, Logged], session: int, number: Hash) -> dict[int, str]:
    found: dict[int, str] = defaultdict(str)
    for slot, seq in slots.items():
        event = events.get(seq)
        said = said_in(event) if event else None
        if event and said:
            for word, posting in said.postings(slot, event, first=session):
                found[number(word)] += posting
    return dict(found)
