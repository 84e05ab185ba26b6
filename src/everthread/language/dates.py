"""When something was said, as words that recall finds it by: its year, its month, and its day in that month.

So "in June", "on 8 May, 2023" and "2023-05-08" find what was said then, though people who speak in June seldom say so.
They are indexed like other words, and no text can contain them. Days are those of UTC. A month is known by its number,
and by its name in some languages, beside a number or after "in" and the like: June and August are people too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from everthread.core.times import moment

_DAY = 86_400_000_000  # microseconds

# English, in short too; German, French, Spanish, Italian and Portuguese; all without accents.
_NAMES = """
    january jan januar janvier enero gennaio janeiro, february feb februar fevrier febrero febbraio fevereiro,
    march mar marz mars marzo marco, april apr avril abril aprile, may mai mayo maggio maio,
    june jun juni juin junio giugno junho, july jul juli juillet julio luglio julho, august aug aout agosto,
    september sep sept septembre septiembre settembre setembro, october oct oktober octobre octubre ottobre outubro,
    november nov novembre noviembre novembro, december dec dezember decembre diciembre dicembre dezembro
"""
_MONTHS = {name: month for month, names in enumerate(_NAMES.split(","), 1) for name in names.split()}
_IN = {"in", "en", "em", "im", "last", "next", "this", "since", "until", "before", "after", "during", "every"}
_IN |= {"early", "late", "mid", "beginning", "middle", "end"}
# Between a day and its month, or a month and its year.
_BETWEEN = {"st", "nd", "rd", "th", "er", "of", "the", "de", "del", "do"}

_PIECE = re.compile(r"[^\W\d_]+|\d+")
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_NUMBERED = re.compile(r"(?<!\d)\d{4}-(\d\d)(?:-(\d\d))?(?!\d)|(?<!\d)(\d\d?)月(?:(\d\d?)日)?")


def days_of(at: int) -> tuple[str, ...]:
    """The words for a time, which is in microseconds since 1970."""
    return _days_of(at // _DAY)


@lru_cache(maxsize=1_000)
def _days_of(day: int) -> tuple[str, ...]:
    try:
        said = moment(day * _DAY)
    except OverflowError:  # no calendar has it
        return ()
    return _year(said.year), _month(said.month), _day(said.month, said.day)


def days_asked(text: str) -> tuple[str, ...]:
    """The words for the dates in a query, which is in small letters and without accents."""
    found = [_year(int(year)) for year in _YEAR.findall(text)]
    for month, day in (*_named(text), *_numbered(text)):
        found += [_month(month), _day(month, day)] if day else [_month(month)]
    return tuple(dict.fromkeys(found))


def _named(text: str) -> Iterator[tuple[int, int]]:
    """Months by their names, each with its day or 0."""
    pieces = [piece for piece in _PIECE.findall(text) if piece not in _BETWEEN]
    for before, name, after in zip(["", *pieces], pieces, [*pieces[1:], ""], strict=False):
        numbers = list(filter(str.isdecimal, (before, after)))
        if name in _MONTHS and (numbers or before in _IN):
            yield _MONTHS[name], next((int(number) for number in numbers if len(number) < 3), 0)


def _numbered(text: str) -> Iterator[tuple[int, int]]:
    for month, day, month_too, day_too in _NUMBERED.findall(text):
        yield int(month or month_too), int(day or day_too or 0)


def _year(year: int) -> str:
    return f"@{year}"


def _month(month: int) -> str:
    return f"@{month:02}"


def _day(month: int, day: int) -> str:
    return f"@{month:02}-{day:02}"
