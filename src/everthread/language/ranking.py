"""Postings, and the order of what is found by them.

For each word and each block of events, the index knows which events have the word. A posting is four characters: the
event's slot in the block and its kind, how often it has the word, whether it asks something and how long it is, and how
many sessions after the block's first it stands. Characters rather than bytes, because every database can join texts.

Hits are ordered by BM25, in its form for several fields: a word counts in full in the event itself, by a fifth
in each of the two before and after it, and once more, by a fifth, for the session in which it stands. What follows a
question is mostly its answer, and has three fifths of the question's words. And a query about a person mostly wants
what they said themselves: it counts half as much again. (`everthread bench recall` measures this.)
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from heapq import nlargest
from operator import itemgetter
from typing import NamedTuple

SLOTS = 512  # events of a block
EVERY, NO = b"\1" * SLOTS, bytes(SLOTS)  # slots that count
SATURATION, LENGTH = 0.9, 0.4  # BM25's k1 and b
NEAR = 0.2  # what a word in one of two neighbours on either side counts
ASKED = 0.6  # and what one in a question counts for what follows
OF_SESSION = 0.2
SPOKEN = 1.5  # the factor for what was said by somebody whom the query names

RANKED_KINDS = (
    "user",
    "assistant",
    "tool_call",
    "tool_result",
    "system",
    "session_ended",
    "mark",
    "",
)  # the last: any other

_ZERO = 48  # the character 0; the 64 from there on are all printable
_LENGTHS = (8, 16, 32, 64, 128, 256, 512, 1024)
_ASKS = 8  # the bit between how often and how long
_TIMES = 4
_LAST_SESSION = 63
_SESSION_BITS = 32
_SESSIONS = 2**_SESSION_BITS - 1

# By a posting's figures: how often the event has the word, and what that counts for its neighbours and what follows.
_OWN = [(figures >> 4) + 1 for figures in range(64)]
_NEAR = [own * NEAR for own in _OWN]
_NEXT = [own * (ASKED if figures & _ASKS else NEAR) for figures, own in enumerate(_OWN)]


class PostingRow(NamedTuple):
    """What a word's postings in one block say: its number, the postings, and the block's first session and its runs."""

    block: int
    postings: str
    session: int
    runs: str = ""


def postings_of(slot: int, kind: str, *, length: int, session: int, asks: bool = False) -> list[str]:
    """The postings of an event of `length` words for a word that it has once, twice and so on; the last: or more.

    `session`: how many after the block's first."""
    place, later = slot << 3 | code_of(kind), min(max(session, 0), _LAST_SESSION)
    about = min(bisect_left(_LENGTHS, length), len(_LENGTHS) - 1) | (_ASKS if asks else 0)
    start, end = chr(_ZERO + (place >> 6)) + chr(_ZERO + (place & 63)), chr(_ZERO + later)
    return [f"{start}{chr(_ZERO + (times << 4 | about))}{end}" for times in range(_TIMES)]


def code_of(kind: str) -> int:
    return RANKED_KINDS.index(kind) if kind in RANKED_KINDS else len(RANKED_KINDS) - 1


def without_slot(postings: str, slot: int) -> str:
    """The postings of all slots but one."""
    pieces = [postings[at : at + 4] for at in range(0, len(postings), 4)]
    return "".join([piece for piece in pieces if _slot(piece) != slot])


def _slot(posting: str) -> int:
    return ((ord(posting[0]) - _ZERO) << 6 | ord(posting[1]) - _ZERO) >> 3


def count_postings(row: PostingRow, *, kinds: frozenset[int], session: int | None) -> int:
    """How many postings are of these kinds (any, where none is named) and of this session, if one is named."""
    if not kinds and session is None:
        return len(row.postings) // 4
    codes = row.postings.encode()
    if session is None:
        return sum((code - _ZERO) & 7 in kinds for code in codes[1::4])
    later = min(max(session - row.session, -1), _LAST_SESSION) + _ZERO
    if not kinds:
        return codes[3::4].count(later)
    pairs = zip(codes[1::4], codes[3::4], strict=True)
    return sum([(code - _ZERO) & 7 in kinds for code, one in pairs if one == later])


class Ranking:
    """Scores of events, which are known here by their place: block * SLOTS + slot."""

    def __init__(self, *, events: int, words: int, counting: Mapping[int, bytes] | None = None, shift: int = 0) -> None:
        """How many events and words there are to be found; by block, for each slot whether it counts, or None: all do.
        A session is one of the blocks that are the same without their last `shift` bits."""
        self._events = max(1, events)
        self._counting, self._shift = counting, shift
        average = max(1.0, words / self._events)
        norms = [1 - LENGTH + LENGTH * length / average for length in _LENGTHS]
        self._normed = [own / norms[figures & 7] for figures, own in enumerate(_OWN)]
        self.scores: dict[int, float] = {}
        self._sessions: dict[int, float] = {}
        self._known: dict[int, int] = {}  # of places that have a word themselves: their session, and their kind
        self._exact: dict[int, int] = {}
        self._spoken: set[int] = set()

    def add(self, rows: Iterable[PostingRow], *, among: float, exact: bool, alone: bool = False) -> None:
        """Count a word that is in `among` events, by its postings; `alone`: not for their neighbours."""
        weight = self._weight(among)
        counts: dict[int, float] = {}
        in_session: dict[int, float] = {}
        for row in rows:
            places = self._count(row, counts, in_session)
            if not alone:
                self._spread(places, counts)
            if exact:
                self._exact |= {place: self._exact.get(place, 0) + 1 for place, _ in places}
        _gain(self.scores, counts, weight)
        _gain(self._sessions, in_session, weight)

    def _weight(self, among: float) -> float:
        """The rarer a word, the more it says; even one that is everywhere says a little."""
        return math.log(1 + max(0.0, self._events - among + 0.5) / (among + 0.5)) or 1e-9

    # The next two are written for speed: a common word has thousands of postings. Among equals the first counted stays
    # first: the newest, and of neighbours what follows, as answers do.

    def _count(self, row: PostingRow, counts: dict[int, float], in_session: dict[int, float]) -> list[tuple[int, int]]:
        """Add up how often a word is in each place and session; the places that have it, with a posting's figures."""
        first = row.block * SLOTS
        counts_here = EVERY if self._counting is None else self._counting.get(row.block, NO)
        begins = row.block >> self._shift << _SESSION_BITS | row.session
        normed, own, known, get = self._normed, _OWN, self._known, counts.get
        codes, places = row.postings.encode(), []
        for high, low, figures, later in zip(codes[-4::-4], codes[-3::-4], codes[-2::-4], codes[-1::-4], strict=True):
            slot = (high - _ZERO << 3) + (low - _ZERO >> 3)
            if not counts_here[slot]:
                continue
            place = first + slot
            figures -= _ZERO
            session = begins + later - _ZERO
            known[place] = session << 3 | low - _ZERO & 7
            in_session[session] = in_session.get(session, 0.0) + own[figures]
            counts[place] = get(place, 0.0) + normed[figures]
            places.append((place, figures))
        return places

    def _spread(self, places: list[tuple[int, int]], counts: dict[int, float]) -> None:
        """Add what a word counts around the places that have it."""
        near, after, get = _NEAR, _NEXT, counts.get
        for place, figures in places:
            counts[place + 1] = get(place + 1, 0.0) + after[figures]
            counts[place - 1] = get(place - 1, 0.0) + near[figures]
            counts[place + 2] = get(place + 2, 0.0) + near[figures]
            counts[place - 2] = get(place - 2, 0.0) + near[figures]

    def add_at(self, places: frozenset[int], rows: Iterable[PostingRow], *, among: float) -> None:
        """Count a word only in these places, and only where they have it themselves."""
        counts = {place: self._normed[figures] for row in rows for place, figures in _decoded(row) if place in places}
        _gain(self.scores, counts, self._weight(among))

    def add_spoken(self, rows: Iterable[PostingRow]) -> None:
        """The events of these postings were said by somebody whom the query names."""
        self._spoken.update(place for row in rows for place, _ in _decoded(row))

    def leading(self, most: int) -> list[int]:
        """The places that score best so far, roughly: sessions do not count yet."""
        return nlargest(most, self.scores, key=self.scores.__getitem__)

    def best(self, *, kinds: frozenset[int] = frozenset(), session: int | None = None) -> list[tuple[int, float]]:
        """Places by score, best first: those that have what was named exactly before all others.

        What is known to be of another kind or session is left out. Of a mere neighbour, neither is known here."""
        total = self._totals()
        if kinds or session is not None:
            total = [one for one in total if self._may_be(one[0], kinds, session)]
        total.sort(key=itemgetter(1), reverse=True)
        if self._exact:
            total.sort(key=lambda one: self._exact.get(one[0], 0), reverse=True)
        return total

    def _totals(self) -> list[tuple[int, float]]:
        """The scores, with what sessions add; a mere neighbour counts to the session of the event beside it."""
        near, spoken = self._near_sessions(), self._spoken
        total = [(place, score + near.get(place, 0.0)) for place, score in self.scores.items()]
        if spoken:
            total = [(place, score * SPOKEN if place in spoken else score) for place, score in total]
        return total

    def _near_sessions(self) -> dict[int, float]:
        """What the sessions add to the score of the places that have a word, and to the scores of their neighbours."""
        of_session = {session: OF_SESSION * score for session, score in self._sessions.items()}
        gains = {place: of_session[session >> 3] for place, session in self._known.items()}
        near: dict[int, float] = {}
        for away in (-2, 2, -1, 1, 0):  # the later ones win
            near |= {place + away: gain for place, gain in gains.items()}
        return near

    def _may_be(self, place: int, kinds: frozenset[int], session: int | None) -> bool:
        if place not in self._known:
            return True
        known = self._known[place]
        return (not kinds or known & 7 in kinds) and (session is None or known >> 3 & _SESSIONS <= session)


def _decoded(row: PostingRow) -> list[tuple[int, int]]:
    """The places of a row's postings, and what they say of how often, how long and whether it asks."""
    first, codes = row.block * SLOTS, row.postings.encode()
    each = zip(codes[::4], codes[1::4], codes[2::4], strict=True)
    return [(first + (high - _ZERO << 3) + (low - _ZERO >> 3), figures - _ZERO) for high, low, figures in each]


def _gain(scores: dict[int, float], counts: dict[int, float], weight: float) -> None:
    most, get = weight * (SATURATION + 1), scores.get
    for key, times in counts.items():
        scores[key] = get(key, 0.0) + most * times / (times + SATURATION)


_SEQ = 6  # characters


def pack_seqs(seqs: Iterable[int]) -> str:
    """The seqs of a block's events, slot by slot."""
    return "".join([chr(_ZERO + (seq >> shift & 63)) for seq in seqs for shift in range(30, -6, -6)])


def unpack_seqs(text: str) -> list[int]:
    return [seq_at(text, slot) for slot in range(len(text) // _SEQ)]


def seq_at(text: str, slot: int) -> int:
    """The seq of one slot; 0 where there is none."""
    seq = 0
    for character in text[slot * _SEQ : (slot + 1) * _SEQ]:
        seq = seq << 6 | ord(character) - _ZERO
    return seq


class Run(NamedTuple):
    """Slots of a block, up to `end`, that hold events of one branch in their order; `first` and `last` are seqs."""

    slot: int
    end: int
    branch: int
    first: int
    last: int


def pack_run(slot: int, branch: int, seqs: Sequence[int]) -> str:
    """The record that events of a branch, with these seqs, begin at a slot."""
    return pack_seqs([slot, branch, seqs[0], seqs[-1]])


@lru_cache(maxsize=4_096)  # most blocks are full and never change
def runs_of(runs: str) -> tuple[Run, ...]:
    """A block's runs; the last ends where the block does."""
    numbers = unpack_seqs(runs)
    ends = [*numbers[4::4], SLOTS]
    return tuple([Run(numbers[4 * n], end, *numbers[4 * n + 1 : 4 * n + 4]) for n, end in enumerate(ends)])


def branch_at(runs: str, slot: int) -> int:
    """The branch of the event in a slot."""
    return next(run.branch for run in reversed(runs_of(runs)) if run.slot <= slot)


def slots_of(run: Run, seqs: str) -> dict[int, int]:
    """The seqs of a run by slot, from those of its block."""
    return {slot: seq_at(seqs, slot) for slot in range(run.slot, min(run.end, len(seqs) // _SEQ))}


def slot_after(run: Run, seqs: str, last: int) -> int:
    """The first slot of a run with a seq beyond `last`."""
    every = _seqs_of(seqs)
    return bisect_right(every, last, run.slot, min(run.end, len(every)))


@lru_cache(maxsize=256)
def _seqs_of(seqs: str) -> tuple[int, ...]:
    return tuple(unpack_seqs(seqs))
