"""Whether the index of recall says what the log says: made again, block by block, and compared."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from everthread.core.logged import Logged, logged
from everthread.language.ranking import SLOTS, runs_of, slots_of, unpack_seqs
from everthread.store.conversations import Owner
from everthread.store.engine import Ask, Row, Script
from everthread.store.recall.index import Hash, IndexedConversation, hashing, known_of, said_in

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
    checking = _Checking(where, known, hashing(Owner(where["tenant"], known.user)))
    problems += yield from checking.blocks()
    problems += checking.sums()
    for branch in sorted(lasts.keys() | checking.has.keys()):
        problems += yield from _behind({**where, "branch": branch}, lasts.get(branch, 0), checking.has[branch])
    return problems


class _Checking:
    """What the blocks of a conversation have, added up."""

    def __init__(self, where: dict[str, Any], known: IndexedConversation, number: Hash) -> None:
        self._where, self._known, self._number = where, known, number
        self.has: dict[int, set[int]] = defaultdict(set)  # by branch the seqs
        self.events = self.words = self.slots = self.emptied = 0

    def blocks(self) -> Script[list[str]]:
        """What is wrong with the blocks, one by one."""
        problems: list[str] = []
        low = self._known.low
        while rows := (yield Ask("recall_blocks", {"low": low, "high": self._known.high, "limit": PAGE})):
            for row in rows:
                problems += yield from self._block(row)
            low = rows[-1][0] + 1
        return problems

    def _block(self, row: Row) -> Script[list[str]]:
        block, first, last, session, _, _, packed, runs = row
        expected: dict[int, str] = defaultdict(str)
        times: list[int] = []
        for run in runs_of(runs):
            slots = slots_of(run, packed)
            self.has[run.branch].update(slots.values())
            events = yield from self._events(run.branch, slots.values())
            times += [event.micros for event in events.values()]
            for word, postings in self._postings(slots, events, session).items():
                expected[word] += postings
        stored = yield Ask("recall_words", {"block": block})
        seqs = unpack_seqs(packed)
        self.events += len(seqs)
        self.slots = (block - self._known.low) * SLOTS + len(seqs)
        if _as_dict(stored) == expected and _is_bounded(row, seqs, times):
            return []
        return [f"what recall knows of events {first} to {last} is not what they say"]

    def _events(self, branch: int, seqs: Iterable[int]) -> Script[dict[int, Logged]]:
        """The events of a branch by these seqs, as far as they are there."""
        named = json.dumps(dict.fromkeys(map(str, seqs), 0))
        rows = yield Ask("events_among", {**self._where, "branch": branch, "seqs": named})
        return {one.seq: one for one in logged(rows)}

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

    def sums(self) -> list[str]:
        """What is wrong with the sums. How many words a redacted event had is not known any more."""
        known, problems = self._known, []
        if self.events != known.events:
            problems.append(f"recall has {self.events} of its events and says {known.events}")
        if self.words > known.words or (self.words != known.words and not self.emptied):
            problems.append(f"recall has {self.words} of its words and says {known.words}")
        if self.slots != known.slots:
            problems.append(f"recall has {self.slots} places for its events and says {known.slots}")
        return problems


def _behind(where: dict[str, Any], last: int, has: set[int]) -> Script[list[str]]:
    """Whether all is there that is said to be, up to event `last`, and nothing that is said not to be."""
    problems = []
    if beyond := sorted(seq for seq in has if seq > last):
        problems.append(f"recall has event {beyond[0]} of branch {where['branch']} and says it has not")
    if lacks := (yield from _first_lost(where, last, has)):
        problems.append(f"recall is behind on branch {where['branch']}: it lacks event {lacks}, and says it has it")
    if last and not (yield Ask("head_at", {**where, "seq": last})):
        problems.append(f"recall says it has event {last}, which is missing")
    return problems


def _first_lost(where: dict[str, Any], last: int, has: set[int]) -> Script[int]:
    """The first event up to `last` that has words and is not in the index; 0 where there is none."""
    first = 1
    while rows := (yield Ask("events_up", {**where, "first": first, "last": last, "limit": EVENTS})):
        for event in logged(rows):
            if event.seq not in has and said_in(event):
                return event.seq
        first = rows[-1][1] + 1
    return 0


def _is_bounded(row: Row, seqs: Collection[int], times: Collection[int]) -> bool:
    """Whether a block's seqs and times are within the bounds that it names."""
    _, first, last, _, oldest, newest, *_ = row
    earliest, latest = _bounds(times, (oldest, newest))
    return len(seqs) <= SLOTS and _bounds(seqs, (0, 0)) == (first, last) and oldest <= earliest and latest <= newest


def _bounds(numbers: Collection[int], none: tuple[int, int]) -> tuple[int, int]:
    """The lowest and the highest; `none` where there are none."""
    return (min(numbers), max(numbers)) if numbers else none


def _as_dict(rows: Sequence[Row]) -> dict[int, Any]:
    return {row[0]: row[1] for row in rows}
