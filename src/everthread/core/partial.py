"""A partial reply: the pieces of a running reply, as far as they have come.

It has an id of its own and follows event `at` of its branch; it is over once its runner has appended something. Each
piece stands at an offset, so that what comes from two sides (the row that keeps it, and the bus) fits together: what is
there already is left out, and a gap is noticed.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from everthread.core.deltas import Delta, Notice, ReasoningDelta, TextDelta
from everthread.errors import BadValue

_BETWEEN_HALVES = re.compile("(?<=[\ud800-\udbff])(?=[\udc00-\udfff])")

_PLACE = re.compile(r"([0-9]{1,10})(?:\.([0-9]{1,12})\.([0-9a-f]{1,40}/[0-9]{1,10}))?")

LiveDelta = TextDelta | ReasoningDelta | Notice  # what a listener is told that is not in the log


class Placed(NamedTuple):
    """A piece where it stands: `end` is the offset after it, and `id` says of which reply."""

    id: str
    end: int
    piece: LiveDelta


class Place(NamedTuple):
    """Where a listener is: after event `seq`, and in the reply that runs after offset `end`, if it is still the one
    with this id."""

    seq: int = 0
    reply: str = ""
    end: int = 0

    def __str__(self) -> str:
        return f"{self.seq}.{self.end}.{self.reply}" if self.reply else str(self.seq)


def place_of(given: object) -> Place:
    """The place that somebody names: the seq of the last event that is known, or what `str` makes of a place."""
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return Place(given)
    if isinstance(given, str) and (found := _PLACE.fullmatch(given)):
        return Place(int(found[1]), found[3] or "", int(found[2] or 0))
    raise BadValue("after", given, "the seq of the last event that you know, 0, or the place of what you heard last")


class Partial:
    def __init__(self, id: str, at: int, model: str = "") -> None:
        self.id, self.at, self.model = id, at, model
        self.pieces: list[Placed] = []

    @property
    def length(self) -> int:
        return self.pieces[-1].end if self.pieces else 0

    @property
    def text(self) -> str:
        """What the model has said so far."""
        return "".join(placed.piece.text for placed in self.pieces if isinstance(placed.piece, TextDelta))

    def add(self, piece: LiveDelta) -> None:
        self.pieces.append(Placed(self.id, self.length + size(piece), piece))

    def put(self, offset: int, piece: LiveDelta) -> bool:
        """Add a piece that begins at an offset, as far as it is new. Whether there was no gap before it."""
        if offset > self.length:
            return False
        known = self.length - offset
        if known < size(piece):
            self.add(_rest(piece, known))
        return True

    def take(self, frame: Frame) -> bool:
        """Add the pieces of a frame, as far as they are new. Whether there was no gap before them."""
        offset = frame.offset
        for piece in frame.pieces:
            if not self.put(offset, piece):
                return False
            offset += size(piece)
        return True

    def since(self, offset: int) -> list[Placed]:
        """What comes after an offset."""
        first = bisect_right(self.pieces, offset, key=lambda placed: placed.end)
        later = self.pieces[first:]
        if later and (known := offset - (later[0].end - size(later[0].piece))) > 0:
            later[0] = later[0]._replace(piece=_rest(later[0].piece, known))
        return later

    def joined(self, offset: int = 0) -> Iterator[tuple[int, LiveDelta]]:
        """The pieces after an offset, each with its own offset; texts that follow each other are joined."""
        for kind, placed in groupby(self.since(offset), lambda placed: type(placed.piece)):
            run = list(placed)
            if kind in (TextDelta, ReasoningDelta):
                whole: LiveDelta = kind(text="".join(one.piece.text for one in run))
                yield run[-1].end - size(whole), whole
            else:
                yield from ((one.end - 1, one.piece) for one in run)


def size(piece: LiveDelta) -> int:
    """A text has as many places as characters, everything else has one."""
    return len(piece.text) if isinstance(piece, TextDelta | ReasoningDelta) else 1


def _rest(piece: LiveDelta, known: int) -> LiveDelta:
    return type(piece)(text=piece.text[known:]) if isinstance(piece, TextDelta | ReasoningDelta) else piece


# -- as text, for the row that keeps it and for the bus: any characters, in ASCII ---------------------------------


def write_partial(partial: Partial) -> str:
    return json.dumps([partial.id, partial.at, partial.model, _spelled(piece for _, piece in partial.joined())])


def read_partial(text: str) -> Partial | None:
    """The partial reply that a text holds; None where it holds none."""
    try:
        id, at, model, pieces = json.loads(text)
        found = Partial(id, at, model)
        for piece in _pieces(pieces):
            found.add(piece)
    except (ValueError, TypeError, msgspec.ValidationError):
        return None
    return found


class Frame(NamedTuple):
    """Pieces on their way to another process: those of the reply `id`, which follows event `at`, from an offset on."""

    id: str
    at: int
    offset: int
    pieces: Sequence[LiveDelta]

    def written(self) -> str:
        return json.dumps([self.id, self.at, self.offset, _spelled(self.pieces)])


def frame(text: str) -> Frame | None:
    try:
        id, at, offset, pieces = json.loads(text)
        return Frame(id, at, offset, _pieces(pieces))
    except (ValueError, TypeError, msgspec.ValidationError):
        return None


def _spelled(pieces: Iterable[LiveDelta]) -> list[Any]:
    """As JSON has them. A character whose halves came one by one stays in two pieces: read together they would be one,
    and everything after it would stand at another offset."""
    return [msgspec.to_builtins(part) for piece in pieces for part in _halves(piece)]


def _halves(piece: LiveDelta) -> list[LiveDelta]:
    if not isinstance(piece, TextDelta | ReasoningDelta) or piece.text.isascii():
        return [piece]
    return [type(piece)(text=text) for text in _BETWEEN_HALVES.split(piece.text)]


def _pieces(values: Any) -> list[LiveDelta]:
    found: list[Delta] = msgspec.convert(values, list[Delta])
    return [piece for piece in found if isinstance(piece, LiveDelta)]


def frames(partial: Partial, offset: int, *, longest: int) -> Iterator[Frame]:
    """What comes after an offset, in frames whose texts have at most `longest` characters."""
    for begins, piece in partial.joined(offset):
        if not isinstance(piece, TextDelta | ReasoningDelta):
            yield Frame(partial.id, partial.at, begins, [piece])
            continue
        for start in range(0, len(piece.text), longest):
            part = type(piece)(text=piece.text[start : start + longest])
            yield Frame(partial.id, partial.at, begins + start, [part])
