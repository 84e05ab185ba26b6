"""Whether the index of recall says what the log says: made again, block by block, and compared."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from everthread.core.logged import Logged, logged
from everthread.language.ranking import SLOTS, runs_of, slots_of, unpack_seqs
from everthread.store.conversations import Owner
from everthread.store.engine import Ask, Row, Script
from everthread.store.recall.index import Hash, Known, hashing, known_of, said_in

PAGE = 16  # blocks
EVENTS = 1_000
TRIES = 5


def check(tenant: str, conversation: str) -> Script[list[str]]:
    """What is wrong with what recall has of a conversation."""
    where: dict[str, Any] = {"tenant": tenant, "conversation": conversation}
    before = yield from known_of(tenant, conversation)
    problems = yield from _check(where)
    tries = 1
    while problems and before != (now := (yield from known_of(tenant, conversation))) and tries < TRIES:
        before, tries = now, tries + 1  # somebody has indexed meanwhile
        problems = yield from _check(where)
    return problems


def _check(where: dict[str, Any]) -> Script[list[str]]:
    lasts = _as_dict((yield Ask("recall_lasts", where)))
    known = yield from known_of(where["tenant"], where["conversation"])
    if known is None:
        return ["recall says how far it has come with it, but knows nothing of it"] if lasts else []
    rows = yield Ask("whose", where)
    problems = [] if rows and rows[0][0] == known.user else ["recall has it among what is somebody else's"]
    checking, low = _Checking(where, known.low, hashing(Owner(where["tenant"], known.user))), known.low
    while blocks := (yield Ask("recall_blocks", {"low": low, "high": known.high, "limit": PAGE})):
        for block in blocks:
            problems += yield from checking.block(block)
        low = blocks[-1][0] + 1
    problems += checking.sums(known)
    for branch in sorted(lasts.keys() | checking.has.keys()):
        problems += yield from _behind({**where, "branch": branch}, lasts.get(branch, 0), checking.has[branch])
    return problems


class _Checking:
    """What the blocks of a conversation have, added up."""

    def __init__(self, where: dict[str, Any], low: int, number: Hash) -> None:
        self._where, self._low, self._number = where, low, number
        self.has: dict[int, set[int]] = defaultdict(set)  # by branch the seqs
        self.events = self.words = self.slots = self.emptied = 0

    def block(self, row: Row) -> Script[list[str]]:
        """What is wrong with a block."""
        block, first, last, session, oldest, newest, packed, runs = row
        expected: dict[int, str] = defaultdict(str)
        times: list[int] = []
        for run in runs_of(runs):
            slots = slots_of(run, packed)
            self.has[run.branch].update(slots.values())
            named = json.dumps(dict.fromkeys(map(str, slots.values()), 0))
            rows = yield Ask("events_among", {**self._where, "branch": run.branch, "seqs": named})
            events = {one.seq: one for one in logged(rows)}
            times += [event.at for event in events.values()]
            for word, postings in self._postings(slots, events, session).items():
                expected[word] += postings
        stored = yield Ask("recall_words", {"block": block})
        seqs = unpack_seqs(packed)
        self.events += len(seqs)
        self.slots = (block - self._low) * SLOTS + len(seqs)
        right = (min(seqs, default=0), max(seqs, default=0)) == (first, last) and len(seqs) <= SLOTS
        right = right and (not times or (oldest <= min(times) and max(times) <= newest))
        if _as_dict(stored) == expected and right:
            return []
        return [f"what recall knows of events {first} to {last} is not what they say"]

    def _postings(self, slots: dict[int, int], events: dict[int, Logged], session: int) -> dict[int, str]:
        found: dict[int, str] = defaultdict(str)
        for slot, seq in slots.items():
            event = events.get(seq)
            said = said_in(event) if event else None
            if event is None or said is None:
                self.emptied += 1
                continue
            self.words += said.length
            for word, posting in said.postings(slot, event, first=session):
                found[self._number(word)] += posting
        return dict(found)

    def sums(self, known: Known) -> list[str]:
        """What is wrong with the sums. How many words an event had that was redacted since, nobody knows any more."""
        problems = []
        if self.events != known.events:
            problems.append(f"recall has {self.events} of its events and says {known.events}")
        if self.words > known.words or (self.words != known.words and not self.emptied):
            problems.append(f"recall has {self.words} of its words and says {known.words}")
        if self.slots != known.slots:
            problems.append(f"recall has {self.slots} places for its events and says {known.slots}")
        return problems


def _behind(where: dict[str, Any], last: int, has: set[int]) -> Script[list[str]]:
    """Whether all is there that is said to be, up to event `last`, and nothing that is said not to be."""
    beyond = sorted(seq for seq in has if seq > last)
    problems = [f"recall has event {beyond[0]} of branch {where['branch']} and says it has not"] if beyond else []
    first = 1
    while rows := (yield Ask("events_up", {**where, "first": first, "last": last, "limit": EVENTS})):
        lost = [one.seq for one in logged(rows) if one.seq not in has and said_in(one)]
        if lost:
            problems.append(
                f"recall is behind on branch {where['branch']}: it lacks event {lost[0]}, and says it has it"
            )
            break
        first = rows[-1][1] + 1
    newest = yield Ask("head_at", {**where, "seq": last})
    return problems if newest or not last else [*problems, f"recall says it has event {last}, which is missing"]


def _as_dict(rows: Sequence[Row]) -> dict[int, Any]:
    return {row[0]: row[1] for row in rows}
