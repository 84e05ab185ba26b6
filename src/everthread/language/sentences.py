"""Text of any language, cut into sentences.

A code block, an item of a list, a row of a table, a heading and a quoted line stay whole; prose is cut at its full
stops, in Western, Chinese, Japanese, Indic and Arabic punctuation. Decimal numbers, addresses, initials and common
abbreviations do not end a sentence. Nothing is lost but white space, and the time is linear, whatever the text is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from everthread.core.pieces import pieces

Kind = Literal["prose", "item", "quote", "code"]

LONGEST = 131_072, 196_608  # characters of a line beyond which it is no sentence: it is cut after a word, or anywhere
WRAPPED = 60  # characters from which a line is taken for one that its editor wrapped

_FENCE = re.compile(r"\s{0,3}(?:```|~~~)")
_ITEM = re.compile(r"\s*(?:[-*+•‣·–—]|\(?\d{1,3}[.)]|\(?[A-Za-z][.)])\s+\S")
_ROW = re.compile(r"\s*(?:\||#{1,6}\s)")
_QUOTE = re.compile(r"\s*>")
_CLOSING = r"[\"'”’»)\]*_]*"
_END = re.compile(rf"(?<![.!?…])[.!?…]+{_CLOSING}(?=\s)|[。！？｡．।॥؟۔]+[」』）】》”’\"')]*")
_LAST_WORD = re.compile(r"[^\s(\[\"“'‘]*$")
_MONTH = re.compile(r"\s+(?:jan|feb|märz|mär|apr|mai|jun|jul|aug|sep|okt|nov|dez)", re.IGNORECASE)
_ABBREVIATIONS = re.compile(
    r"(?:mr|mrs|ms|dr|prof|st|sr|jr|rev|gen|col|capt|lt|e\.?g|i\.?e|cf|vs|viz|al|figs?|vol|eds?|pp|approx|est|dept|inc|"
    r"ltd|co|corp|u\.s|u\.k|a\.m|p\.m|ph\.d|z\.b|d\.h|bzw|ca|usw|evtl|ggf|inkl|zzgl|u\.a|o\.ä|str|hr|fr|tel|mme|mlle|"
    r"p\.ex|c\.-à-d|sra|srta|uds?|etc|[^\W\d_])"
)
_NUMBERED = frozenset(("no", "nr", "art", "fig", "sec", "p", "pp", "vol", "ch"))  # only where a number follows


class Sentence(NamedTuple):
    text: str
    kind: Kind = "prose"


def sentences(text: str) -> list[Sentence]:
    """The sentences of a text in their order, each without the white space around it."""
    return [
        Sentence(piece, kind)
        for block, kind in _blocks(text)
        for stretch in pieces(block, *LONGEST)
        for piece in (_split(stretch) if kind == "prose" else (stretch.strip(),))
        if piece
    ]


# -- blocks: what stays whole, and prose -------------------------------------------------------------------


def _blocks(text: str) -> Iterator[tuple[str, Kind]]:
    lines = text.split("\n")
    begin = 0
    for first, last in _fences(lines).items():
        yield from _joined(lines[begin:first])
        yield "\n".join(lines[first : last + 1]), "code"
        begin = last + 1
    yield from _joined(lines[begin:])


def _joined(lines: list[str]) -> Iterator[tuple[str, Kind]]:
    """Lines of anything but code; lines that belong together are joined."""
    block: list[str] = []
    kind: Kind = "prose"
    for line in lines:
        found = _kind(line)
        if block and _goes_on(block[-1], line, kind, found):
            block.append(line.strip())
        else:
            yield " ".join(block), kind
            block, kind = [line], found
    yield " ".join(block), kind


def _fences(lines: list[str]) -> dict[int, int]:
    """Where code blocks begin and end. A fence that is never closed begins none: prose may follow it."""
    marks = [number for number, line in enumerate(lines) if _FENCE.match(line)]
    return dict(zip(marks[::2], marks[1::2], strict=False))


def _kind(line: str) -> Kind:
    if _QUOTE.match(line):
        return "quote"
    return "item" if _ITEM.match(line) or _ROW.match(line) else "prose"


def _goes_on(last: str, line: str, kind: Kind, found: Kind) -> bool:
    """Whether a line belongs to the one before: it is wrapped prose, or indented under an item."""
    if found != "prose" or kind == "quote" or not last.strip() or not line.strip():
        return False
    if kind == "item":
        return line[0].isspace() and not _ROW.match(last)
    return line.lstrip()[0].islower() or _is_wrapped(last)


def _is_wrapped(line: str) -> bool:
    return len(line) >= WRAPPED and line.rstrip()[-1] not in ".!?:。！？"


# -- prose -------------------------------------------------------------------------------------------------


def _split(prose: str) -> Iterator[str]:
    begin = 0
    for end in _END.finditer(prose):
        if end[0][0] == "." and not _ends(prose, begin, end):
            continue
        yield prose[begin : end.end()].strip()
        begin = end.end()
    yield prose[begin:].strip()


def _ends(prose: str, begin: int, end: re.Match[str]) -> bool:
    """Whether this full stop ends a sentence. Looks at a few characters around it only."""
    rest = prose[end.end() : end.end() + 12]
    following = rest.lstrip()[:1]
    if end[0].startswith("..") or following.islower():
        return not following.islower()
    found = _LAST_WORD.search(prose, max(begin, end.start() - 12), end.start())
    word = found[0].lower() if found else ""
    first = end.start() - begin <= 3
    return not _is_abbreviation(word, following) and not _is_ordinal(word, rest, first=first)


def _is_abbreviation(word: str, following: str) -> bool:
    if word in _NUMBERED and following.isdigit():
        return True
    return word != "i" and bool(_ABBREVIATIONS.fullmatch(word))


def _is_ordinal(word: str, rest: str, *, first: bool) -> bool:
    """Whether the number is a day before its month, or numbers an item and nothing else stands before it."""
    return word.isdigit() and len(word) < 3 and (first or bool(_MONTH.match(rest)))
