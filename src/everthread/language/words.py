"""What recall looks for: the words of a text, and what becomes of a query.

The same rules for what is said and for what is asked, and the same in every database, because no database is asked to
understand language. A word is folded (case, width, accents) and freed of its ending; an identifier (a path, an address,
an order number) is kept whole as well as in its pieces. Scripts that put no space between words are taken by single
characters and by pairs. Whatever is no word (punctuation, control characters, lone surrogates) is passed over.

What precedes the first colon is also indexed apart from the rest: in a transcript it names the speaker.

The rules are part of what is stored: whoever changes them empties the index by a migration, and it fills again.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from everthread.core.canvas.searching import texts_in
from everthread.core.events import Event, Mark, Other, SessionEnded, looks_up, text_of
from everthread.core.happenings import CanvasChanged, FlowCompleted, FlowStarted, Happening
from everthread.core.outcomes import child_of
from everthread.language.dates import days_asked
from everthread.language.stems import stem

LONGEST = 100_000  # characters of one text that are looked at
LONGEST_WORD = 64  # longer ones are told apart by their beginnings

# Thai, Lao, Burmese, Khmer, Kana, Bopomofo, Han, Hangul.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3100-\u318f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_PICTURES = "\u2600-\u27bf\U0001f300-\U0001faff"
# Vowel signs are parts of words in the scripts of India and its neighbours, though \w does not take them for such.
_LETTER = "(?:[^\\W_]|[\u0900-\u0963\u0966-\u0eff\u1000-\u1049\u1050-\u109f\u1780-\u17d3])"
_WORD = re.compile(f"{_LETTER}+(?:'{_LETTER}+)*|[{_PICTURES}]")
_ASCII_WORD = re.compile("[a-z0-9]+(?:'[a-z0-9]+)*")
_RUN = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_WHOLE = re.compile(r"\w[\w@#$%&+=~?*:/\\.-]*\w")
_INNER = re.compile(r"[@#$%&+=~?*:/\\._-]")
_HUMPED = re.compile(r"\b[A-Za-z]*[a-z][A-Z][A-Za-z]*\b")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ACCENTS = re.compile("[\u0300-\u036f\u064b-\u0652]+")
_LETTER_AND_DIGIT = re.compile(r"(?=.*\d)(?=.*[^\W\d_])")
_MANY_DIGITS = re.compile(r"\d{5,}")
_SPEAKER = re.compile(r'[^\w"{}]*(\w[^\n"{}]{0,40}?)(?::\s|：)')  # not a key of JSON
_ASKS = re.compile(r"\?(?!\w)|[？؟]")
_ENDINGS = {"s", "m", "re", "ve", "ll", "d", "t"}  # after an apostrophe, in English

_SAYS_LITTLE = """
    a about after again all also am an and any are aren as at be because been before being both but by ca can cannot
    could did do does doing don down during each few for from further get go got had has have having he her here hers
    herself him himself his how i if in into is it its itself just let like may me might mine more most much must my
    myself no nor not now of off on once only or other ought our ours ourselves out over own please same shall she
    should so some such tell than that the their theirs them themselves then there these they this those through to too
    under until up us very was we were what when where which while who whom whose why will with wo would yes you your
    yours yourself yourselves
    """
_STOP_WORDS = frozenset(stem(word) for word in _SAYS_LITTLE.split())


class Query(NamedTuple):
    """The words to look for. `exact` are those that name one thing: events that have them come first. `common` are
    those that say little, for when there is nothing else to go by. `days` stand for dates."""

    words: tuple[str, ...]
    exact: frozenset[str]
    common: tuple[str, ...]
    days: tuple[str, ...] = ()

    @property
    def speakers(self) -> tuple[str, ...]:
        """The form that each word has in the index where it names a speaker."""
        return tuple(_speaking(word) for word in self.words)


def source_of(event: Event) -> str:
    """What recall finds an event by: the text of a message, a recap, the name of a mark, what is read on the canvas,
    and whatever text stands in a marker of an application. Briefs and summaries are not looked for, since what they
    tell of is found itself."""
    match event:
        case SessionEnded():
            return event.recap
        case Mark():
            return event.name
        case FlowStarted() | FlowCompleted() if child_of(event):
            return "\n".join([event.name, *([event.result] if isinstance(event, FlowCompleted) else [])])
        case CanvasChanged(data={"changes": changes}):
            return "\n".join(texts_in(changes))
        case Other(data=said) | Happening(contents=said):
            return "\n".join(_texts(said))
        case _:
            return "" if looks_up(event) else text_of(event)  # else what was looked for would find itself


def words_of(text: str) -> Counter[str]:
    """How often each word stands in a text."""
    text = text[:LONGEST]
    folded = _fold(text)
    words = _spelled(folded)
    found = [stem(word[:LONGEST_WORD]) for word in words if word.isascii() and word.isalnum()]
    found += [piece for word in words if not (word.isascii() and word.isalnum()) for piece in _pieces(word)]
    found += _wholes(folded)
    found += _humps(text)
    return Counter(found)


def speakers_of(text: str) -> tuple[str, ...]:
    """The words before a text's first colon, if one comes soon: what recall knows a speaker by."""
    found = _SPEAKER.match(text)
    return _speakers_of(found[1]) if found else ()


@lru_cache(maxsize=1_000)
def _speakers_of(name: str) -> tuple[str, ...]:
    return tuple(_speaking(word) for word in words_of(name))


def _speaking(word: str) -> str:
    return f"{word}:"  # no word of a text ends so


def has_question(text: str) -> bool:
    """Whether there is a question in a text."""
    return bool(_ASKS.search(text[:LONGEST]))


def query_of(text: str) -> Query:
    counted = words_of(text)
    exact = frozenset(word for word in counted if _names_one_thing(word))
    plain = tuple(word for word in counted if word not in _STOP_WORDS)
    # A pair says more than its two characters, which are for those who ask for a single one.
    in_pairs = set("".join(word for word in plain if _is_pair(word)))
    words = tuple(word for word in plain if word not in in_pairs)
    common = tuple(word for word in counted if word in _STOP_WORDS)
    return Query(words, exact, common, days_asked(_fold(text[:LONGEST])))


def _fold(text: str) -> str:
    """The text without differences of case, width and accent."""
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKD", text.replace("’", "'")).casefold()
    return unicodedata.normalize("NFKC", _ACCENTS.sub("", folded))


def _spelled(folded: str) -> list[str]:
    return (_ASCII_WORD if folded.isascii() else _WORD).findall(folded)


def _humps(text: str) -> list[str]:
    """The words within "camelCase"."""
    return [stem(piece.lower()) for word in _HUMPED.findall(text) for piece in _HUMP.split(word)]


def _pieces(word: str) -> list[str]:
    found: list[str] = []
    for piece in _without_ending(word):
        for run in _RUN.findall(piece):
            found += _characters(run) if _IS_UNSPACED.match(run) else [stem(run[:LONGEST_WORD])]
    return found


def _without_ending(word: str) -> list[str]:
    """What stands between apostrophes: "rock'n'roll" is three, "isn't" is "is"."""
    first, *rest = word.split("'")
    if rest and rest[-1] == "t":
        first = first.removesuffix("n")
    return [first, *(piece for piece in rest if piece not in _ENDINGS)]


def _characters(run: str) -> list[str]:
    """Single characters and pairs."""
    return [*run, *map("".join, pairwise(run))]


def _is_pair(word: str) -> bool:
    return len(word) == 2 and bool(_IS_UNSPACED.match(word))


def _wholes(folded: str) -> list[str]:
    return [whole[:LONGEST_WORD] for whole in _WHOLE.findall(folded) if _INNER.search(whole)]


def _names_one_thing(word: str) -> bool:
    return bool(_LETTER_AND_DIGIT.match(word) or _MANY_DIGITS.search(word) or "/" in word or "@" in word)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for piece in inner for text in _texts(piece)]
