"""Whether everything that was forgotten is gone, and what is kept beside events is what they say: images and files,
receipts, quotes, and what memory made of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
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
        """On one branch seqs tell this, whatever the clocks said; those of two mean nothing to each other."""
        return self.seq < other.seq if self.branch == other.branch else self.time < other.time


class Seen:
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
        self.last[branch] = seq = head.seq
        match event:
            case None:
                self.unreadable[branch].add(seq)
                return
            case Redacted():
                self.tombstones[branch].add(seq)
            case BriefUpdated() | Summary() | SessionEnded():
                self.memory[branch].append(Moment(branch, seq, head.time))
            case Command(name="redact", arguments={"seq": int(of), "branch": int(number)}):
                self.redactions.append((Moment(branch, seq, head.time), number, of))
            case _:
                pass
        self.quotes[branch] |= {(seq, quote) for quote in quotes_of(event)}
        self.shown |= {(branch, seq, media.blob) for media in media_of(event) if media.blob}


def check(key: dict[str, Any], grown: list[Branch], seen: Seen, receipts: Sequence[Row]) -> Script[list[str]]:
    """What is wrong, each in words. Of what came since the events were read, nothing is said."""
    problems = [*_memory(key["conversation"], grown, seen), *_receipts(receipts, seen)]
    problems += yield from _shown(key, seen)
    for branch in grown:
        problems += yield from _quotes(key, branch.number, seen)
    return problems


def _memory(conversation: str, grown: list[Branch], seen: Seen) -> Iterator[str]:
    """What memory made after an event, and before that was redacted, is redacted with it."""
    for when, number, of in seen.redactions:
        if of not in seen.tombstones[number]:  # anybody may append a command that says so
            continue
        shared = dict(sharing(grown, Spot(conversation, number, of)))
        for made in [one for branch in shared if when.branch in shared for one in seen.memory[branch]]:
            if of < made.seq and made.before(when):
                what = f"event {made.seq} of branch {made.branch}"
                yield f"event {of} is {HALF}: {what} was made after it and is still there"


def _shown(key: dict[str, Any], seen: Seen) -> Script[list[str]]:
    rows = yield Ask("blob_uses", key)
    noted = {(branch, seq, hash) for hash, branch, seq in rows if seq <= seen.last.get(branch, 0)}
    problems = [
        f"event {seq} shows the image or file {hash[:12]}…, which is not noted"
        for _, seq, hash in sorted(seen.shown - noted)
    ]
    for branch, seq, hash in sorted(noted - seen.shown):
        if seq in seen.tombstones[branch]:
            problems.append(f"event {seq} is {HALF}: the image or file {hash[:12]}… is still there")
        elif seq not in seen.unreadable[branch]:
            problems.append(f"event {seq} does not show the image or file {hash[:12]}…, which is noted of it")
    unused = yield Ask("unused_blobs", key)
    return problems + [f"no event shows the image or file {hash[:12]}…" for (hash,) in unused]


def _receipts(receipts: Sequence[Row], seen: Seen) -> Iterator[str]:
    for name, branch, first, last, hash in receipts:
        if last > seen.last.get(branch, 0):
            yield f"event {last}, which was appended with the key {name!r}, is missing"
        elif hash and (gone := [seq for seq in sorted(seen.tombstones[branch]) if first <= seq <= last]):
            yield f"event {gone[0]} is {HALF}: a hash of it is still there"


def _quotes(key: dict[str, Any], branch: int, seen: Seen) -> Script[list[str]]:
    asked = {**key, "branch": branch, "first": 1, "last": seen.last.get(branch, 0), "tombstone": TOMBSTONE}
    noted, problems = set[tuple[int, Quote]](), []
    for seq, *of, gone in (yield Ask("quotes_of_results", asked)):
        if seq in seen.tombstones[branch]:
            problems.append(f"event {seq} is {HALF}: what it quoted is still noted")
        elif gone:
            problems.append(f"event {of[2]} of conversation {of[0]} is {HALF}: event {seq} here still quotes it")
        if of[0]:
            noted.add((seq, Quote(*of)))
    for seq, quote in sorted(seen.quotes[branch] ^ noted, key=lambda one: one[0]):
        if seq not in seen.tombstones[branch] | seen.unreadable[branch]:
            problems.append(f"what event {seq} quotes (event {quote.seq} of {quote.conversation}) is wrongly noted")
    return problems


def strays() -> Script[list[str]]:
    """Of the whole store: rows that belong to nothing, versions that are missing, and what is half-forgotten."""
    problems = [
        f"{what} of {_where(conversation, number)} belong to nothing that is there"
        for what, _, conversation, number in (yield Ask("strays", {}))
    ]
    for _, name, newest, count in (yield Ask("document_gaps", {})):
        problems.append(f"the document {name!r} has {count} of its {newest} versions")
    waiting = [HalfForgotten(*row) for row in (yield Ask("forgetting", {"limit": ENDLESS}))]
    return problems + [f"{one} is {HALF}: whoever opens the store next finishes it" for one in waiting]


def _where(conversation: str, number: int) -> str:
    """Which branch, conversation or block."""
    if not conversation:
        return f"block {number}"
    return f"conversation {conversation}" + (f", branch {number}," if number else "")
