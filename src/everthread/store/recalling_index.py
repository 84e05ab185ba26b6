"""The index of recall: how it follows the log, and how it forgets.

Nothing is indexed by an append, which therefore costs what it did. Whoever searches first brings the index up to the
log, and a worker may do so before; where it has come to is kept with it, branch by branch, in the same transaction. Two
who do it at once take turns. So does a redaction: what it takes out is not put in again by somebody who read it before.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from everthread.core.branches import ENDLESS
from everthread.core.dates import days_of
from everthread.core.logged import Logged, logged
from everthread.core.ranking import SLOTS, pack_seqs, postings_of, unpack_seqs, without
from everthread.core.words import asks, source_of, speakers_of, words_of
from everthread.errors import Corrupt
from everthread.store.conversations import NEWEST, Owner
from everthread.store.engine import Ask, Outcome, Script, Tell

BITS = 20  # of a block's number are for which of its branch it is
BATCH = 500  # events that are indexed in one transaction

Hash = Callable[[str], int]


class Due(NamedTuple):
    """A branch that has `events` more than the index knows."""

    conversation: str
    branch: int
    events: int


class Known(NamedTuple):
    """What the index has of a branch: its number here, up to which seq, how many events and words, and whose."""

    number: int
    branch: int
    last: int
    events: int
    words: int
    user: str

    @property
    def low(self) -> int:
        return self.number << BITS

    @property
    def high(self) -> int:
        return (self.number + 1) << BITS


def due(owner: Owner, conversation: str = "") -> Script[list[Due]]:
    """What is not in the index yet, of one conversation or of all of an owner's."""
    bounds = {"low_id": conversation, "high_id": conversation or NEWEST}
    rows = yield Ask("recall_due", {**owner._asdict(), **bounds})
    return [Due(*row) for row in rows]


def begin(owner: Owner, found: Due) -> Script[Outcome[None]]:
    """Give a branch its number, if it has none."""
    if any(known.branch == found.branch for known in (yield from known_of(owner.tenant, found.conversation))):
        return Outcome(None)
    where = {**owner._asdict(), "conversation": found.conversation, "branch": found.branch}
    return Outcome(None, [Tell("insert_recall_branch", [where])])


def advance(owner: Owner, found: Due) -> Script[Outcome[bool]]:
    """Index the next events of a branch, and say whether there may be more."""
    known = {row.branch: row for row in (yield from known_of(owner.tenant, found.conversation))}.get(found.branch)
    if known is None or known.user != owner.user:  # erased meanwhile
        return Outcome(False)
    where = {"tenant": owner.tenant, "conversation": found.conversation, "branch": found.branch}
    rows = yield Ask("events_up", {**where, "first": known.last + 1, "last": ENDLESS, "limit": BATCH})
    if not rows:
        return Outcome(False)
    made = Made(known, hashing(owner))
    for event in logged(rows):
        made.take(event)
    sessions = yield from _sessions(made)
    return Outcome(len(rows) == BATCH, made.writes(sessions, last=rows[-1][1]))


def known_of(tenant: str, conversation: str) -> Script[list[Known]]:
    rows = yield Ask("recall_branches", {"tenant": tenant, "conversation": conversation})
    return [Known(*row) for row in rows]


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


class Said(NamedTuple):
    """What the index has of an event: its words and how often it has each, how many they are, and whether it asks."""

    words: dict[str, int]
    length: int
    asks: bool

    def postings(self, slot: int, event: Logged, *, first: int) -> Iterator[tuple[str, str]]:
        """By word, for a slot of a block that begins in session `first`."""
        session = event.session - first
        forms = postings_of(slot, event.kind, length=self.length, session=session, asks=self.asks)
        return ((word, forms[min(times, len(forms)) - 1]) for word, times in self.words.items())


def said_in(event: Logged) -> Said | None:
    """None where there are no words, or it cannot be read: damage is told by whoever reads the event, and must not stop
    all else."""
    try:
        text = source_of(event.event)
    except Corrupt:
        return None
    words = words_of(text)
    if not words:
        return None
    more = dict.fromkeys((*speakers_of(text), *days_of(event.at)), 1)
    return Said({**words, **more}, sum(words.values()), asks(text))


class Made:
    """What a stretch of a branch adds to the index."""

    def __init__(self, known: Known, number: Hash) -> None:
        self._known, self._number = known, number
        self._blocks: dict[int, list[tuple[Logged, Said]]] = defaultdict(list)
        self.events, self.words = known.events, known.words

    def take(self, event: Logged) -> None:
        said = said_in(event)
        if said is None:
            return
        self._blocks[self._known.low + self.events // SLOTS].append((event, said))
        self.events += 1
        self.words += said.length

    @property
    def begun(self) -> list[int]:
        """Blocks that were there before and go on."""
        return [block for block in self._blocks if block == self._known.low + self._known.events // SLOTS]

    def writes(self, sessions: dict[int, int], *, last: int) -> list[Tell]:
        """`sessions`: the first session of blocks that are there already."""
        blocks, words = [], []
        for block, slots in self._blocks.items():
            events = [event for event, _ in slots]
            first = sessions.get(block, events[0].session)
            blocks.append(_block_row(block, events, first))
            words += [
                {"word": word, "block": block, "postings": text} for word, text in self.postings(block, first).items()
            ]
        moved = {"number": self._known.number, "last": last, "events": self.events, "words": self.words}
        tells = [Tell("insert_recall_block", blocks), Tell("insert_recall_word", words)] if blocks else []
        return [*tells, Tell("update_recall_branch", [moved])]

    def postings(self, block: int, session: int) -> dict[int, str]:
        """By word, those of a block that begins in this session."""
        found: dict[int, list[str]] = defaultdict(list)
        start = self._known.events % SLOTS if block in self.begun else 0
        for slot, (event, said) in enumerate(self._blocks[block], start):
            for word, posting in said.postings(slot, event, first=session):
                found[self._number(word)].append(posting)
        return {word: "".join(texts) for word, texts in found.items()}


def _block_row(block: int, events: list[Logged], session: int) -> dict[str, Any]:
    times = [event.at for event in events]
    return {
        "block": block,
        "first": events[0].seq,
        "session": session,
        "oldest": min(times),
        "newest": max(times),
        "seqs": pack_seqs(event.seq for event in events),
    }


def _sessions(made: Made) -> Script[dict[int, int]]:
    found: dict[int, int] = {}
    for block in made.begun:
        rows = yield Ask("recall_blocks", {"low": block, "high": block + 1, "limit": 1})
        found |= {row[0]: row[2] for row in rows}
    return found


# -- forgetting ------------------------------------------------------------------------------------------------


def forget(tenant: str, conversation: str, branch: int, seq: int) -> Script[list[Tell]]:
    """The statements that take an event's words out. Its slot stays, empty, so that no other event moves."""
    for known in (yield from known_of(tenant, conversation)):
        if known.branch != branch:
            continue
        for block, seqs in (yield Ask("recall_block", {"low": known.low, "high": known.high, "seq": seq})):
            if seq in (places := unpack_seqs(seqs)):
                return _without(block, places.index(seq), (yield Ask("recall_words", {"block": block})))
    return []


def _without(block: int, slot: int, rows: Any) -> list[Tell]:
    changed, gone = [], []
    for word, postings in rows:
        left = without(postings, slot)
        if not left:
            gone.append({"word": word, "block": block})
        elif left != postings:
            changed.append({"word": word, "block": block, "postings": left})
    tells = [Tell("update_recall_word", changed), Tell("forget_recall_word", gone)]
    return [tell for tell in tells if tell.rows]


def erase(tenant: str, conversation: str) -> Script[list[Tell]]:
    """The statements that remove all of a conversation from the index."""
    known = yield from known_of(tenant, conversation)
    bounds = [{"low": row.low, "high": row.high} for row in known]
    if not bounds:
        return []
    key = {"tenant": tenant, "conversation": conversation}
    return [
        Tell("erase_recall_words", bounds),
        Tell("erase_recall_blocks", bounds),
        Tell("erase_recall_branches", [key]),
    ]
