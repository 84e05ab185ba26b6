"""Recall: what was said about something, found in the log and given with what stood around it.

The search is the store's (`log.recall.search`); here a hit becomes something to read: its text, its neighbours, where
and when it was said, and a reference by which it can be opened in full. All of it together stays within a number of
tokens: the best hit comes first, long texts are shortened around the words that were looked for, and what does not fit
is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Literal, TypeVar

import msgspec

from everthread.core.branches import ENDLESS, Line
from everthread.core.logged import Logged, readable
from everthread.core.times import moment
from everthread.core.tokens import count
from everthread.core.values import Value
from everthread.errors import BadValue
from everthread.language.words import query_of, source_of, words_of
from everthread.store.beside.archives import Archive
from everthread.store.conversations import Owner
from everthread.store.log import HEAVY, Log
from everthread.store.recall.search import FoundEvent
from everthread.store.times import FOREVER

Scope = Literal["conversation", "user"]
Branches = Literal["line", "all"]
T = TypeVar("T")

MOST = 20  # hits
TOKENS = 2_000
LONGEST = 1_200  # characters of a hit
LONGEST_NEIGHBOUR = 240
AROUND = 8  # events that are looked through for a neighbour
LOOKED_THROUGH = 100_000  # characters of a long text, for the best stretch
CUT = "…"
ARCHIVED = "archived"  # in place of a kind: of a hit that stands for a whole conversation


class Neighbour(msgspec.Struct, Value, frozen=True, kw_only=True):
    """What stood next to a hit, shortened."""

    seq: int
    kind: str
    text: str
    branch: int


class Hit(msgspec.Struct, Value, frozen=True, kw_only=True):
    """Something that recall found. `text` may be shortened; `reference` names the event, for opening it in full.

    Of kind "archived" it is no event but a conversation that is archived and has some of the words: seq, branch and
    session are 0, and what it says can be read once it is restored.
    """

    text: str
    seq: int
    kind: str
    time: datetime
    score: float
    neighbours: tuple[Neighbour, ...]
    conversation: str
    branch: int
    session: int
    reference: str


async def recall(
    log: Log,
    owner: Owner,
    line: Line,
    query: str,
    *,
    limit: int = 5,
    tokens: int = TOKENS,
    neighbours: int = 1,
    scope: Scope = "conversation",
    branches: Branches = "line",
    kinds: tuple[str, ...] = (),
    since: int = -FOREVER,
    until: int = FOREVER,
    session: int | None = None,
) -> list[Hit]:
    """The best hits for a query. All their texts together have at most `tokens` tokens.

    `scope`: this conversation, or all of the user's. `branches`: of this conversation only the line, or all.
    """
    if not 1 <= limit <= MOST:
        raise BadValue("limit", limit, f"from 1 to {MOST}")
    if scope not in ("conversation", "user"):
        raise BadValue("scope", scope, "conversation or user")
    if branches not in ("line", "all"):
        raise BadValue("branches", branches, "line or all")
    found = await log.recall.search(
        owner,
        query,
        line=line if branches == "line" else None,
        conversation=line.conversation,
        everywhere=scope == "user",
        kinds=kinds,
        since=since,
        until=until,
        session=session,
        limit=limit * (1 + 2 * max(0, neighbours)),  # some may be neighbours of others
    )
    hits = await _Reading(log, owner, line, query, tokens).hits(found, neighbours, limit)
    if scope == "user" and len(hits) < limit and not kinds and session is None:
        hits += await _archived(log, owner, query, since=since, until=until, limit=limit - len(hits))
    return hits


async def _archived(log: Log, owner: Owner, query: str, *, since: int, until: int, limit: int) -> list[Hit]:
    """The user's archived conversations that tell of it, by the few words that are kept of each."""
    found = await log.archives.search(owner, query, limit=limit)
    return [_archived_hit(one, score) for one, score in found if since <= one.newest < until]


def _archived_hit(one: Archive, score: float) -> Hit:
    title = f"{one.title}: " if one.title else ""
    return Hit(
        text=f"{title}archived, restore to read",
        seq=0,
        kind=ARCHIVED,
        time=moment(one.newest),
        score=score,
        neighbours=(),
        conversation=one.conversation,
        branch=0,
        session=0,
        reference=f"archived conversation {one.conversation}",
    )


class _Reading:
    """Turns what was found into hits, as long as there are tokens left."""

    def __init__(self, log: Log, owner: Owner, line: Line, query: str, tokens: int) -> None:
        self._log, self._owner, self._left = log, owner, tokens
        asked = query_of(query)
        self._words = frozenset(asked.words or asked.common)
        self._line_asked = line
        self._found: set[tuple[str, int]] = set()  # conversation and seq of whatever may be a hit
        self._told: set[tuple[str, int]] = set()
        self._lines: dict[tuple[str, int], Line] = {}

    async def hits(self, found: list[FoundEvent], neighbours: int, limit: int) -> list[Hit]:
        """A hit that stands next to a better one is told there, and takes no place of its own."""
        hits: list[Hit] = []
        self._found = {(one.conversation, one.seq) for one in found}
        for one in found:
            if len(hits) == limit:
                break
            if (one.conversation, one.seq) in self._told:
                continue
            text = self._afford(await _aside([one.event], partial(_excerpt, one.event, self._words, LONGEST)))
            if not text:
                break
            self._told.add((one.conversation, one.seq))
            around = await self._neighbours(one, neighbours)
            hits.append(_hit(one, text, tuple(self._affordable(one.conversation, around))))
        return hits

    def _afford(self, text: str) -> str:
        """The text, or as much of it as there are tokens for."""
        while text and (size := count(text)) > self._left:
            # A token has at least one character, and what is cut must be shorter in the end.
            text = text[: min(len(text) - 1, len(text) * self._left // size)]
        self._left -= count(text)
        return text

    def _affordable(self, conversation: str, around: Iterable[Neighbour]) -> Iterable[Neighbour]:
        for neighbour in around:
            size, place = count(neighbour.text), (conversation, neighbour.seq)
            if size <= self._left and place not in self._told:
                self._left -= size
                self._told.add(place)
                yield neighbour

    async def _neighbours(self, found: FoundEvent, most: int) -> list[Neighbour]:
        """The nearest on either side that say something."""
        if most < 1:
            return []
        line = await self._line(found)
        first, last = max(1, found.seq - AROUND * most), min(ENDLESS, found.seq + AROUND * most)
        events = [event for event in await self._log.range(line, first, last) if event.seq != found.seq]
        hits = {event.seq for event in events if (found.conversation, event.seq) in self._found}
        telling = await _aside(events, partial(_neighbours, events, self._words, hits))
        before = [neighbour for neighbour in telling if neighbour.seq < found.seq]
        after = [neighbour for neighbour in telling if neighbour.seq > found.seq]
        return [*before[-most:], *after[:most]]

    async def _line(self, found: FoundEvent) -> Line:
        line, key = self._line_asked, (found.conversation, found.branch)
        if found.conversation == line.conversation and line.owner(found.seq) == found.branch:
            return line
        if key not in self._lines:
            conversation = await self._log.conversations.find(self._owner, found.conversation)
            self._lines[key] = await self._log.line(conversation, found.branch)
        return self._lines[key]


def _hit(found: FoundEvent, text: str, neighbours: tuple[Neighbour, ...]) -> Hit:
    event = found.event
    return Hit(
        text=text,
        seq=event.seq,
        kind=event.kind,
        time=event.time,
        score=found.score,
        neighbours=neighbours,
        conversation=found.conversation,
        branch=event.branch,
        session=event.session,
        reference=f"event {event.seq} on branch {event.branch} of conversation {found.conversation}",
    )


async def _aside(events: Sequence[Logged], work: Callable[[], T]) -> T:
    """What `work` makes of these events; in a thread where they are large."""
    heavy = sum([len(event.body) for event in events]) > HEAVY
    return await asyncio.to_thread(work) if heavy else work()


def _neighbours(events: Sequence[Logged], words: frozenset[str], hits: set[int]) -> list[Neighbour]:
    """What these events say, where they say something; one that is a hit itself may be as long as a hit."""
    lengths = [(event, LONGEST if event.seq in hits else LONGEST_NEIGHBOUR) for event in readable(events)]
    excerpts = [(event, _excerpt(event, words, length)) for event, length in lengths]
    return [
        Neighbour(seq=event.seq, kind=event.kind, text=text, branch=event.branch) for event, text in excerpts if text
    ]


def _excerpt(event: Logged, words: frozenset[str], most: int) -> str:
    return shortened(source_of(event.event), words, most)


def shortened(text: str, words: frozenset[str], most: int) -> str:
    """A text of at most `most` characters: of a longer one, the stretch with the most of these words."""
    if len(text) <= most:
        return text
    room = most - 2 * len(CUT)
    step = max(1, room // 2)
    starts = range(0, min(len(text), LOOKED_THROUGH), step)
    best = max(starts, key=lambda start: (len(words & words_of(text[start : start + room]).keys()), -start))
    piece = text[best : best + room]
    return f"{CUT if best else ''}{piece}{CUT if best + room < len(text) else ''}"
