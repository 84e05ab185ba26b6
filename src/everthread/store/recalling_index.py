"""The index of recall: how it follows the log, and how it forgets.

Nothing is indexed by an append, which therefore costs what it did. Whoever searches first brings the index up to the
log, and a worker may do so before; where it has come to is kept with it, branch by branch, in the same transaction. Two
who do it at once take turns. So does a redaction: what it takes out is not put in again by somebody who read it before.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from everthread.core.branches import ENDLESS
from everthread.core.logged import Logged, logged
from everthread.core.ranking import SLOTS, pack_seqs, postings_of, unpack_seqs, without
from everthread.core.words import source_of, words_of
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


class _Slot(NamedTuple):
    seq: int
    kind: str
    time: int
    session: int
    length: int
    words: dict[str, int]


class Made:
    """What a stretch of a branch adds to the index."""

    def __init__(self, known: Known, number: Hash) -> None:
        self._known, self._number = known, number
        self._blocks: dict[int, list[_Slot]] = defaultdict(list)
        self.events, self.words = known.events, known.words

    def take(self, event: Logged) -> None:
        words = words_in(event)
        if not words:
            return
        length = sum(words.values())
        block = self._known.low + self.events // SLOTS
        self._blocks[block].append(_Slot(event.seq, event.kind, event.at, event.session, length, words))
        self.events += 1
        self.words += length

    @property
    def begun(self) -> list[int]:
        """Blocks that were there before and go on."""
        return [block for block in self._blocks if block == self._known.low + self._known.events // SLOTS]

    def writes(self, sessions: dict[int, int], *, last: int) -> list[Tell]:
        """`sessions`: the first session of blocks that are there already."""
        blocks, words = [], []
        for block, slots in self._blocks.items():
            first = sessions.get(block, slots[0].session)
            blocks.append(_block_row(block, slots, first))
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
        for slot, (_, kind, _, later, length, words) in enumerate(self._blocks[block], start):
            forms = postings_of(slot, kind, length=length, session=later - session)
            for word, times in words.items():
                found[self._number(word)].append(forms[min(times, len(forms)) - 1])
        return {word: "".join(texts) for word, texts in found.items()}


def words_in(event: Logged) -> dict[str, int]:
    """None where it cannot be read: damage is told by whoever reads the event, and must not stop all else."""
    try:
        return words_of(source_of(event.event))
    except Corrupt:
        return {}


def _block_row(block: int, slots: list[_Slot], session: int) -> dict[str, Any]:
    times = [slot.time for slot in slots]
    return {
        "block": block,
        "first": slots[0].seq,
        "session": session,
        "oldest": min(times),
        "newest": max(times),
        "seqs": pack_seqs(slot.seq for slot in slots),
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
