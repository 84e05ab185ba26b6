"""Whether everything that was forgotten is gone, and what is kept beside events is what they say: images and files,
receipts, quotes, and what memory made of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from everthread.core.branches import ENDLESS, Branch
from everthread.core.events import TOMBSTONE, BriefUpdated, Command, Event, Redacted, SessionEnded, Summary, media_of
from everthread.core.quotes import Quote
from everthread.core.turns import Head
from everthread.store.engine import Ask, Row, Script
from everthread.store.scripts.forget import HalfForgotten, sharing
from everthread.store.scripts.quote import Spot, quotes_of

HALF = "half-forgotten"


class Moment(NamedTuple):
    """When an event was written."""

    branch: int
    seq: int
    time: int

    def before(self, other: Moment) -> bool:
        """On one branch the seqs tell, whatever the clocks said; seqs of two branches cannot be compared."""
        return self.seq < other.seq if self.branch == other.branch else self.time < other.time


class Noted:
    """What of a conversation's events matters here, noted while they are read."""

    def __init__(self) -> None:
        self.last: dict[int, int] = {}  # by branch
        self.tombstones: dict[int, set[int]] = defaultdict(set)
        self.unreadable: dict[int, set[int]] = defaultdict(set)
        self.shown: set[tuple[int, int, str]] = set()
        self.quotes: dict[int, set[tuple[int, Quote]]] = defaultdict(set)
        self.memory: dict[int, list[Moment]] = defaultdict(list)
        self.redactions: list[tuple[Moment, int, int]] = []  # when, of which event: its branch and seq

    def take(self, branch: int, head: Head, event: Event | None) -> None:
        """An event with its head; None where it cannot be read."""
        self.last[branch] = seq = head.seq
        if event is None:
            self.unreadable[branch].add(seq)
            return
        self._take_kind(Moment(branch, seq, head.time), event)
        self.quotes[branch] |= {(seq, quote) for quote in quotes_of(event)}
        self.shown |= {(branch, seq, media.blob) for media in media_of(event) if media.blob}

    def _take_kind(self, when: Moment, event: Event) -> None:
        match event:
            case Redacted():
                self.tombstones[when.branch].add(when.seq)
            case BriefUpdated() | Summary() | SessionEnded():
                self.memory[when.branch].append(when)
            case Command(name="redact", arguments={"seq": int(of), "branch": int(number)}):
                self.redactions.append((when, number, of))


def check(key: dict[str, Any], grown: list[Branch], seen: Noted, receipts: Sequence[Row]) -> Script[list[str]]:
    """What is wrong, each in words. Of what came since the events were read, nothing is said."""
    problems = [*_memory(key["conversation"], grown, seen), *_receipts(receipts, seen)]
    problems += yield from _shown(key, seen)
    for branch in grown:
        problems += yield from _quotes(key, branch.number, seen)
    return problems


def _memory(conversation: str, grown: list[Branch], seen: Noted) -> Iterator[str]:
    """What memory made after an event and before its redaction has to be redacted with it."""
    for when, number, of in seen.redactions:
        if of not in seen.tombstones[number]:  # anybody may append a command that says so
            continue
        shared = dict(sharing(grown, Spot(conversation, number, of)))
        for made in _made_between(of, when, shared, seen) if when.branch in shared else ():
            what = f"event {made.seq} of branch {made.branch}"
            yield f"event {of} is {HALF}: {what} was made after it and is still there"


def _made_between(of: int, when: Moment, branches: Iterable[int], seen: Noted) -> list[Moment]:
    """What memory made on these branches after event `of` and before a moment."""
    made = [one for branch in branches for one in seen.memory[branch]]
    return [one for one in made if of < one.seq and one.before(when)]


def _shown(key: dict[str, Any], seen: Noted) -> Script[list[str]]:
    rows = yield Ask("blob_uses", key)
    noted = {(branch, seq, hash) for hash, branch, seq in rows if seq <= seen.last.get(branch, 0)}
    problems = [
        f"event {seq} shows the image or file {hash[:12]}…, which is not noted"
        for _, seq, hash in sorted(seen.shown - noted)
    ]
    problems += _not_shown(noted - seen.shown, seen)
    unused = yield Ask("unused_blobs", key)
    return problems + [f"no event shows the image or file {hash[:12]}…" for (hash,) in unused]


def _not_shown(noted: set[tuple[int, int, str]], seen: Noted) -> Iterator[str]:
    for branch, seq, hash in sorted(noted):
        if seq in seen.tombstones[branch]:
            yield f"event {seq} is {HALF}: the image or file {hash[:12]}… is still there"
        elif seq not in seen.unreadable[branch]:
            yield f"event {seq} does not show the image or file {hash[:12]}…, which is noted of it"


def _receipts(receipts: Sequence[Row], seen: Noted) -> Iterator[str]:
    for name, branch, first, last, hash in receipts:
        if last > seen.last.get(branch, 0):
            yield f"event {last}, which was appended with the key {name!r}, is missing"
        elif hash and (gone := [seq for seq in sorted(seen.tombstones[branch]) if first <= seq <= last]):
            yield f"event {gone[0]} is {HALF}: a hash of it is still there"


def _quotes(key: dict[str, Any], branch: int, seen: Noted) -> Script[list[str]]:
    asked = {**key, "branch": branch, "first": 1, "last": seen.last.get(branch, 0), "tombstone": TOMBSTONE}
    rows = yield Ask("quotes_of_events", asked)
    problems = [*_still_quoted(rows, seen.tombstones[branch])]
    noted = {(seq, Quote(*of)) for seq, *of, _ in rows if of[0]}
    empty = seen.tombstones[branch] | seen.unreadable[branch]
    wrong = sorted([(seq, quote) for seq, quote in seen.quotes[branch] ^ noted if seq not in empty], key=itemgetter(0))
    told = [f"what event {seq} quotes (event {of.seq} of {of.conversation}) is wrongly noted" for seq, of in wrong]
    return problems + told


def _still_quoted(rows: Sequence[Row], tombstones: set[int]) -> Iterator[str]:
    for seq, conversation, _, of, gone in rows:
        if seq in tombstones:
            yield f"event {seq} is {HALF}: what it quoted is still noted"
        elif gone:
            yield f"event {of} of conversation {conversation} is {HALF}: event {seq} here still quotes it"


def strays() -> Script[list[str]]:
    """Of the whole store: rows that belong to nothing, versions that are missing, and what is half-forgotten."""
    problems = [
        f"{what} of {_where(conversation, number)} belong to nothing that is there"
        for what, _, conversation, number in (yield Ask("strays", {}))
    ]
    for _, name, newest, count in (yield Ask("document_gaps", {})):
        problems.append(f"the document {name!r} has {count} of its {newest} versions")
    for id, conversation, _, seq in (yield Ask("schedules_of_forgotten_calls", {"tombstone": TOMBSTONE})):
        problems.append(f"event {seq} of conversation {conversation} is {HALF}: it made the schedule {id}")
    waiting = [HalfForgotten(*row) for row in (yield Ask("forgetting", {"limit": ENDLESS}))]
    for _, conversation, _, _, folder in (yield Ask("owed", {"limit": ENDLESS})):
        what = f"conversation {conversation}" if conversation else "a document"
        problems.append(f"{what} is {HALF}: the mirror {folder} has to follow (`everthread mirror keep --once`)")
    return problems + [f"{one} is {HALF}: whoever opens the store next finishes it" for one in waiting]


def _where(conversation: str, number: int) -> str:
    """Which branch, conversation or block."""
    if not conversation:
        return f"block {number}"
    return f"conversation {conversation}" + (f", branch {number}," if number else "")
