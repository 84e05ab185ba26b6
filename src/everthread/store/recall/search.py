"""Searching what was said, along a line or everywhere in a user's conversations.

Each word's postings are read newest first, until there are enough. Of a word that is in thousands of events only the
newest count; but where rarer words have found something, the common ones are looked up as well, and so is the
speaker, if the query names one. Every question is bound to the owner, the conversation and the time, so that nothing
that may not be found takes the place of something that may. What scores best is then read from the log, which has the
last word on kind, time and session.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from typing import Any, NamedTuple

from everthread.core.branches import ENDLESS, Line
from everthread.core.events import Redacted
from everthread.core.logged import Logged, logged
from everthread.language.ranking import (
    EVERY,
    NO,
    SLOTS,
    PostingRow,
    Ranking,
    branch_at,
    code_of,
    count_postings,
    runs_of,
    seq_at,
    slot_after,
)
from everthread.language.words import Query, query_of
from everthread.store.conversations import Owner
from everthread.store.engine import Ask, Script
from everthread.store.recall.index import BITS, hashing, known_of
from everthread.store.scripts.quote import Spot
from everthread.store.times import FOREVER

ENOUGH = 1_000  # postings of a word that are ranked
PAGES = (4, 16, 64, 256)  # blocks of a word that are read at once: few of a common one are enough
WORDS = 64  # of a query that are looked for
LOOKED_AT = 60  # of the best so far, where common words and speakers are looked up
READ, LARGEST = 20, 640  # events that are read at once
ALL = (0, 2**62)  # blocks


class FoundEvent(NamedTuple):
    """Something that recall found. Its place is the event's."""

    conversation: str
    score: float
    event: Logged

    @property
    def branch(self) -> int:
        return self.event.branch

    @property
    def seq(self) -> int:
        return self.event.seq

    @property
    def kind(self) -> str:
        return self.event.kind

    @property
    def session(self) -> int:
        return self.event.session


class Wanted(NamedTuple):
    """What may be found: in a conversation or in all (""), along a line or on all branches, of these kinds (or any),
    from `since` until just before `until`, of one session or of any."""

    conversation: str = ""
    line: Line | None = None
    kinds: tuple[str, ...] = ()
    since: int = -FOREVER
    until: int = FOREVER
    session: int | None = None

    def holds(self, event: Logged) -> bool:
        return (
            (not self.kinds or event.kind in self.kinds)
            and self.since <= event.micros < self.until
            and (self.session is None or event.session == self.session)
            and not isinstance(event.event, Redacted)
        )


def recall(owner: Owner, text: str, wanted: Wanted, *, limit: int) -> Script[list[FoundEvent]]:
    """The best of what is in the index, best first; without a user nothing."""
    query = query_of(text)
    if not owner.user or limit < 1:
        return []
    scope = yield from _scope(owner, wanted)
    if not scope.events:
        return []
    search = _Search(owner, scope, wanted)
    yield from search.words(query)
    return (yield from _read(owner, wanted, scope, search.best(), limit))


class _Scope:
    """The blocks to search, how much is in them, and which of their slots are on a line, where there is one."""

    def __init__(self, first: int, before: int, events: int, words: int, line: Line | None = None) -> None:
        self.first, self.before, self.events, self.words = first, before, events, words
        # By branch the last seq that is on the line.
        self._cuts = dict(_cuts(line)) if line else None
        self.counting: dict[int, bytes] | None = {} if line else None

    def learn(self, block: int, runs: str, seqs: str = "") -> bool:
        """Take in which slots of a block are on the line; False where it takes the seqs of its slots to know."""
        if self._cuts is None or self.counting is None or block in self.counting:
            return True
        slots = _slots_on(self._cuts, runs, seqs)
        if slots is None:
            return False
        self.counting[block] = slots
        return True

    def reaches(self, block: int) -> bool:
        return self.counting is None or any(self.counting.get(block, NO))

    def holds(self, place: int) -> bool:
        return self.counting is None or bool(self.counting.get(place // SLOTS, NO)[place % SLOTS])


def _cuts(line: Line) -> Iterator[tuple[int, int]]:
    yield line.branch.number, ENDLESS
    piece = line.past
    while piece is not None:
        yield piece.branch, piece.last
        piece = piece.past


def _slots_on(cuts: dict[int, int], runs: str, seqs: str) -> bytes | None:
    """Which slots of a block are on a line; None where it takes their seqs to know."""
    slots = bytearray(SLOTS)
    for run in runs_of(runs):
        cut = cuts.get(run.branch, 0)
        if run.first <= cut < run.last and not seqs:
            return None
        if run.first <= cut:
            end = run.end if run.last <= cut else slot_after(run, seqs, cut)
            slots[run.slot : end] = EVERY[run.slot : end]
    return bytes(slots)


def _scope(owner: Owner, wanted: Wanted) -> Script[_Scope]:
    if not wanted.conversation:
        rows = yield Ask("recall_total", owner._asdict())
        return _Scope(*ALL, int(rows[0][0]), int(rows[0][1]))
    known = yield from known_of(owner.tenant, wanted.conversation)
    if known is None or known.user != owner.user:
        return _Scope(*ALL, 0, 0)
    # Without a branch beside it, all of the conversation is on the line.
    return _Scope(known.low, known.high, known.events, known.words, wanted.line)


class _Search:
    def __init__(self, owner: Owner, scope: _Scope, wanted: Wanted) -> None:
        self._number = hashing(owner)
        self._scope, self._wanted = scope, wanted
        self._kinds = frozenset(map(code_of, wanted.kinds))
        self._values = {
            **owner._asdict(),
            "conversation": wanted.conversation,
            "since": wanted.since,
            "until": wanted.until,
        }
        self.ranking = Ranking(events=scope.events, words=scope.words, counting=scope.counting, shift=BITS)

    def best(self) -> list[tuple[int, float]]:
        return self.ranking.best(kinds=self._kinds, session=self._wanted.session)

    def words(self, query: Query) -> Script[None]:
        found = yield from self._all((*query.words, *query.days)[:WORDS], query)
        if not found:  # only words that say little are left to go by
            yield from self._all(query.common[:WORDS], query)
        yield from self._speakers(query.speakers[:WORDS])

    def _all(self, words: Iterable[str], query: Query) -> Script[bool]:
        cut_short: list[tuple[str, float, set[int]]] = []
        for word in words:
            rows, whole = yield from self._rows(word)
            among = float(sum(len(row.postings) // 4 for row in rows))
            if not whole:
                among = yield from self._among(word, among / len(rows))
                cut_short.append((word, among, {row.block for row in rows}))
            # A word as common as that does not find what stands next to it: that would be nearly anything.
            self.ranking.add(rows, among=among, exact=word in query.exact, alone=not whole)
        if cut_short:
            yield from self._look_up(cut_short)
        return bool(self.ranking.scores)

    def _rows(self, word: str) -> Script[tuple[list[PostingRow], bool]]:
        """The newest postings of a word, and whether they are all."""
        rows: list[PostingRow] = []
        before, enough = self._scope.before, ENOUGH
        for limit in chain(PAGES, repeat(PAGES[-1])):
            values = {**self._values, "word": self._number(word), "low": self._scope.first}
            page = [PostingRow(*row) for row in (yield Ask("recall_rows", {**values, "high": before, "limit": limit}))]
            yield from self._learn(page)
            for row in page:
                if enough <= 0:
                    return rows, False
                if self._scope.reaches(row.block):
                    rows.append(row)
                    enough -= count_postings(row, kinds=self._kinds, session=self._wanted.session)
            if len(page) < limit:
                break
            before = page[-1].block
        return rows, True

    def _learn(self, rows: list[PostingRow]) -> Script[None]:
        """Find out which slots of these rows' blocks are on the line."""
        if unknown := [row.block for row in rows if not self._scope.learn(row.block, row.runs)]:
            values = {"blocks": _keys(unknown), "tenant": self._values["tenant"], "user": self._values["user"]}
            for block, _, seqs, runs in (yield Ask("recall_places", values)):
                self._scope.learn(block, runs, seqs)

    def _among(self, word: str, a_block: float) -> Script[float]:
        """In about how many events a word is: `a_block` in each block that has it."""
        values = {"word": self._number(word), "low": self._scope.first, "high": self._scope.before}
        rows = yield Ask("recall_count", values)
        return min(self._scope.events, int(rows[0][0]) * a_block)

    def _look_up(self, words: list[tuple[str, float, set[int]]]) -> Script[None]:
        """Look for common words where the others have found the most so far."""
        best = frozenset(self.ranking.leading(LOOKED_AT))
        for word, among, seen in words:
            rows = yield from self._among_places(self._number(word), best, seen)
            self.ranking.add_at(best, rows, among=among)

    def _speakers(self, speakers: Iterable[str]) -> Script[None]:
        """Look for the speakers whom the query names among those who said what has been found."""
        numbers = _keys(self._number(speaker) for speaker in speakers)
        known = [number for number, block in (yield Ask("recall_known", {"numbers": numbers})) if block is not None]
        for number in known:
            rows = yield from self._among_places(number, self.ranking.leading(LOOKED_AT), set())
            self.ranking.add_spoken(rows)

    def _among_places(self, number: int, places: Iterable[int], seen: set[int]) -> Script[list[PostingRow]]:
        """A word's postings in the blocks of these places, but for those seen."""
        blocks = {place // SLOTS for place in places} - seen
        if not blocks:
            return []
        asked = {**self._values, "word": number, "blocks": _keys(sorted(blocks))}
        return [PostingRow(*row) for row in (yield Ask("recall_rows_among", asked))]


def _read(
    owner: Owner, wanted: Wanted, scope: _Scope, ranked: list[tuple[int, float]], limit: int
) -> Script[list[FoundEvent]]:
    """The events of the best places that the log agrees are wanted."""
    found: list[FoundEvent] = []
    for piece in _pieces(ranked, max(READ, 2 * limit)):
        spots = yield from _spots(owner, scope, piece)
        events = yield from _events(owner.tenant, [spot for spot, _ in spots])
        scored = [(spot, events[spot], score) for spot, score in spots if spot in events]
        found += [FoundEvent(spot.conversation, score, event) for spot, event, score in scored if wanted.holds(event)]
        if len(found) >= limit:
            break
    return found[:limit]


def _spots(owner: Owner, scope: _Scope, piece: list[tuple[int, float]]) -> Script[list[tuple[Spot, float]]]:
    """Where the events of some places stand, with their scores."""
    blocks = sorted({place // SLOTS for place, _ in piece})
    rows = yield Ask("recall_places", {"blocks": _keys(blocks), "tenant": owner.tenant, "user": owner.user})
    where = {block: (conversation, seqs, runs) for block, conversation, seqs, runs in rows}
    return [(spot, score) for place, score in piece if (spot := _spot(place, scope, where))]


def _spot(place: int, scope: _Scope, where: dict[int, tuple[str, str, str]]) -> Spot | None:
    """Where an event stands, if there is one: a neighbour may lie before the first or behind the last."""
    block, slot = divmod(place, SLOTS)
    if block not in where or not scope.holds(place):
        return None
    conversation, seqs, runs = where[block]
    seq = seq_at(seqs, slot)
    return Spot(conversation, branch_at(runs, slot), seq) if seq else None


def _events(tenant: str, spots: list[Spot]) -> Script[dict[Spot, Logged]]:
    by_conversation: dict[str, list[int]] = {}
    for conversation, branch, seq in spots:
        by_conversation.setdefault(conversation, []).append(branch << 31 | seq)
    found: dict[Spot, Logged] = {}
    for conversation, places in by_conversation.items():
        asked = {"tenant": tenant, "conversation": conversation, "places": _keys(places)}
        rows = yield Ask("recall_events", asked)
        found |= {Spot(conversation, event.branch, event.seq): event for event in logged(rows)}
    return found


def _keys(numbers: Iterable[int]) -> str:
    return json.dumps(dict.fromkeys(map(str, numbers), 0))


def _pieces(ranked: list[Any], size: int) -> Iterator[list[Any]]:
    """Ever larger ones: mostly the first is enough."""
    at = 0
    while at < len(ranked):
        yield ranked[at : at + size]
        at, size = at + size, min(2 * size, LARGEST)
