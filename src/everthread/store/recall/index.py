"""The index of recall: how it follows the log, and how it forgets.

An append indexes nothing, so it costs no more. Whoever searches first brings the index up to the log, and a worker may
do so before; how far it has come is kept with it, branch by branch, in the same transaction. Two who do it at once take
turns, and a redaction takes its turn as well, so that nobody puts back what it takes out.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from everthread.core.branches import ENDLESS, Line, Segment
from everthread.core.logged import Logged, logged
from everthread.errors import Corrupt
from everthread.language.dates import days_of
from everthread.language.ranking import SLOTS, pack_run, pack_seqs, postings_of, runs_of, slots_of, without_slot
from everthread.language.words import has_question, source_of, speakers_of, words_of
from everthread.store.conversations import NEWEST, Owner
from everthread.store.engine import Ask, Outcome, Row, Script, Tell
from everthread.store.scripts.along import told

BITS = 20  # of a block's number: which block of its conversation it is
BATCH = 500  # events that are indexed in one transaction

Hash = Callable[[str], int]


class Unindexed(NamedTuple):
    """A branch that has `events` more than the index knows. `begun`: it knows some."""

    conversation: str
    branch: int
    events: int
    begun: bool


class IndexedConversation(NamedTuple):
    """What the index has of a conversation: its number here, the slots taken, events and words, and whose it is."""

    number: int
    slots: int
    events: int
    words: int
    user: str

    @property
    def low(self) -> int:
        return self.number << BITS

    @property
    def high(self) -> int:
        return (self.number + 1) << BITS


def unindexed(owner: Owner, conversation: str = "") -> Script[list[Unindexed]]:
    """What is not in the index yet, of one conversation or of all of an owner's."""
    bounds = {"low_id": conversation, "high_id": conversation or NEWEST}
    rows = yield Ask("recall_due", {**owner._asdict(), **bounds})
    return [Unindexed(*row) for row in rows]


Indexed = dict[int, int]  # by branch the seq up to which it and all before it on its line are known to be in the index


def to_look_at(line: Line, indexed: Indexed) -> list[Segment]:
    """The pieces of a line that are not known to be in the index."""
    pieces, piece = [line.own], line.past
    while piece is not None and indexed.get(piece.branch, 0) < piece.last:
        pieces.append(piece.segment())
        piece = piece.past
    return pieces


def unindexed_in(line: Line, pieces: list[Segment]) -> Script[list[Unindexed]]:
    """What is not in the index yet of some pieces of a line."""
    lasts = told({piece.branch: piece.last for piece in pieces})
    rows = yield Ask("recall_behind", {"tenant": line.tenant, "conversation": line.conversation, "pieces": lasts})
    firsts = {piece.branch: piece.first for piece in pieces}
    found = [_unindexed_on(line.conversation, row, firsts[row[0]]) for row in rows]
    return [one for one in found if one.events > 0]


def _unindexed_on(conversation: str, row: Row, first: int) -> Unindexed:
    """From a branch, its newest event and the last that is indexed; it begins at event `first`."""
    branch, newest, last = row
    return Unindexed(conversation, branch, (newest or 0) - (last or first - 1), begun=last is not None)


def begin(owner: Owner, found: Unindexed) -> Script[Outcome[None]]:
    """Give a conversation its number, if it has none."""
    if (yield from known_of(owner.tenant, found.conversation)) is not None:
        return Outcome(None)
    where = {**owner._asdict(), "conversation": found.conversation}
    return Outcome(None, [Tell("insert_recall_conversation", [where])])


def advance(owner: Owner, found: Unindexed) -> Script[Outcome[bool]]:
    """Index the next events of a branch, and say whether there may be more."""
    known = yield from known_of(owner.tenant, found.conversation)
    where = {"tenant": owner.tenant, "conversation": found.conversation, "branch": found.branch}
    progress = yield Ask("recall_progress", where)
    if known is None or known.user != owner.user or not progress:  # erased meanwhile
        return Outcome(False)
    rows = yield Ask("events_up", {**where, "first": progress[0][0] + 1, "last": ENDLESS, "limit": BATCH})
    if not rows:
        return Outcome(False)
    made = IndexPart(known, hashing(owner), (yield from _open(known)))
    for event in logged(rows):
        made.take(event)
    return Outcome(len(rows) == BATCH, [*made.writes(), Tell("update_recall_branch", [{**where, "last": rows[-1][1]}])])


def _open(known: IndexedConversation) -> Script[int | None]:
    """The session in which the block that is not full begins, if there is such a block."""
    if known.slots % SLOTS == 0:
        return None
    block = known.low + known.slots // SLOTS
    rows = yield Ask("recall_blocks", {"low": block, "high": block + 1, "limit": 1})
    return rows[0][3] if rows else None


def known_of(tenant: str, conversation: str) -> Script[IndexedConversation | None]:
    rows = yield Ask("recall_conversation", {"tenant": tenant, "conversation": conversation})
    return IndexedConversation(*rows[0]) if rows else None


def hashing(owner: Owner) -> Hash:
    """What a word of this owner's is known by: no two owners share one, and no text of theirs is in the index."""
    base = hashlib.blake2b(repr(tuple(owner)).encode("utf-8", "surrogatepass"), digest_size=8)
    seen: dict[str, int] = {}

    def number(word: str) -> int:
        if word not in seen:
            whole = base.copy()
            whole.update(word.encode("utf-8", "surrogatepass"))
            seen[word] = int.from_bytes(whole.digest(), "big", signed=True)
        return seen[word]

    return number


class IndexedEvent(NamedTuple):
    """What the index has of an event: its words and how often it has each, how many they are, and whether it asks."""

    words: dict[str, int]
    length: int
    asks: bool

    def postings(self, slot: int, event: Logged, *, first: int) -> Iterator[tuple[str, str]]:
        """By word, for a slot of a block that begins in session `first`."""
        session = event.session - first
        forms = postings_of(slot, event.kind, length=self.length, session=session, asks=self.asks)
        return ((word, forms[min(times, len(forms)) - 1]) for word, times in self.words.items())


def said_in(event: Logged) -> IndexedEvent | None:
    """None where an event has no words, or cannot be read: whoever reads it reports the damage, which must not stop the
    indexing of others."""
    try:
        text = source_of(event.event)
    except Corrupt:
        return None
    words = words_of(text)
    if not words:
        return None
    more = dict.fromkeys((*speakers_of(text), *days_of(event.micros)), 1)
    return IndexedEvent({**words, **more}, sum(words.values()), has_question(text))


class _Block:
    """What is added to a block from a slot on."""

    def __init__(self, slot: int, session: int) -> None:
        self.slot, self.session = slot, session
        self.events: list[Logged] = []
        self.words: dict[int, list[str]] = defaultdict(list)

    def take(self, event: Logged, said: IndexedEvent, number: Hash) -> None:
        for word, posting in said.postings(self.slot + len(self.events), event, first=self.session):
            self.words[number(word)].append(posting)
        self.events.append(event)

    def row(self, block: int) -> dict[str, Any]:
        times, seqs = [event.micros for event in self.events], [event.seq for event in self.events]
        return {
            "block": block,
            "first": min(seqs),
            "last": max(seqs),
            "session": self.session,
            "oldest": min(times),
            "newest": max(times),
            "seqs": pack_seqs(seqs),
            "runs": pack_run(self.slot, self.events[0].branch, seqs),
        }


class IndexPart:
    """What a stretch of a branch adds to the index. `session`: in which the block that is not full begins."""

    def __init__(self, known: IndexedConversation, number: Hash, session: int | None) -> None:
        self._known, self._number, self._session = known, number, session
        self._blocks: dict[int, _Block] = {}
        self.slots, self.events, self.words = known.slots, known.events, known.words

    def take(self, event: Logged) -> None:
        said = said_in(event)
        if said is None:
            return
        self._block_for(event).take(event, said, self._number)
        self.slots += 1
        self.events += 1
        self.words += said.length

    def _block_for(self, event: Logged) -> _Block:
        """The block that is not full, or the next."""
        if self.slots % SLOTS and (self._session is None or event.session < self._session):
            # A rewind has gone back to an earlier session: postings count from the block's first.
            self.slots += SLOTS - self.slots % SLOTS
        if self.slots % SLOTS == 0:
            self._session = event.session
        assert self._session is not None
        block = self._known.low + self.slots // SLOTS
        if block not in self._blocks:
            self._blocks[block] = _Block(self.slots % SLOTS, self._session)
        return self._blocks[block]

    def writes(self) -> list[Tell]:
        if not self._blocks:
            return []
        words = [
            {"word": word, "block": number, "postings": "".join(postings)}
            for number, block in self._blocks.items()
            for word, postings in block.words.items()
        ]
        moved = {"number": self._known.number, "slots": self.slots, "events": self.events, "words": self.words}
        return [
            Tell("insert_recall_block", [block.row(number) for number, block in self._blocks.items()]),
            Tell("insert_recall_word", words),
            Tell("update_recall_conversation", [moved]),
        ]


# -- forgetting ------------------------------------------------------------------------------------------------


def forget(tenant: str, conversation: str, events: Iterable[tuple[int, int]]) -> Script[list[Tell]]:
    """The statements that take events' words out, by branch and seq. Their slots stay, empty, so that no other event
    moves."""
    known = yield from known_of(tenant, conversation)
    if known is None:
        return []
    emptied: dict[int, list[int]] = defaultdict(list)
    for branch, seq in events:
        for block, seqs, runs in (yield Ask("recall_block", {"low": known.low, "high": known.high, "seq": seq})):
            if slots := _slots_with(branch, seq, runs, seqs):
                emptied[block] += slots
    tells = []
    for block, found in emptied.items():
        tells += _without(block, found, (yield Ask("recall_words", {"block": block})))
    return tells


def _slots_with(branch: int, seq: int, runs: str, seqs: str) -> list[int]:
    """Which slots of a block have this event."""
    own = [run for run in runs_of(runs) if run.branch == branch]
    return [slot for run in own for slot, one in slots_of(run, seqs).items() if one == seq]


def _without(block: int, slots: list[int], rows: Any) -> list[Tell]:
    changed, gone = [], []
    for word, postings in rows:
        left = postings
        for slot in slots:
            left = without_slot(left, slot)
        if not left:
            gone.append({"word": word, "block": block})
        elif left != postings:
            changed.append({"word": word, "block": block, "postings": left})
    tells = [Tell("update_recall_word", changed), Tell("forget_recall_word", gone)]
    return [tell for tell in tells if tell.rows]


def erase(tenant: str, conversation: str) -> Script[list[Tell]]:
    """The statements that remove all of a conversation from the index."""
    known = yield from known_of(tenant, conversation)
    if known is None:
        return []
    key, bounds = {"tenant": tenant, "conversation": conversation}, {"low": known.low, "high": known.high}
    return [
        Tell("erase_recall_words", [bounds]),
        Tell("erase_recall_blocks", [bounds]),
        Tell("erase_recall_branches", [key]),
        Tell("erase_recall_conversations", [key]),
    ]
