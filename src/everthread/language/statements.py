"""What a user says that holds beyond the moment: preferences, and instructions that stand.

One sentence at a time, by its wording alone, in English, German, French, Spanish, Chinese and Japanese. A statement has
a subject: what is said later of the same subject takes the place of what was said before ("my address is …"). Where it
is not certain that two statements have the same subject, both stand: a preference lost is worse than one told twice.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from everthread.language.statement_words import ATTRIBUTES, CJK, EMPTY, ONE_AT_A_TIME, SPACED, Kind, Rule

LONGEST, LEAD = 160, 40  # characters of a statement that are kept, and of what leads up to it
READ = 8_000  # characters of a sentence that are looked at; what is longer is no sentence that anybody said

_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
# A full stop that ended no sentence may have ended one all the same ("it took 412 ms. I prefer …"), save after a title.
_STOP = r"(?<!\b[A-Z])(?<!\b[A-Z][a-z])(?<!\b[A-Z][a-z]{2})[.!?]\s+(?=[^\W\d_a-z])"
_CLAUSE = re.compile(rf"{_STOP}|[,;:–—(]\s+|\s(?:and|but|because|und|aber|et|mais|y|pero)\s")
_QUESTION = re.compile(
    r"(?:so |and |but |ok,? )?(?:(?:what|where|when|who|which|how|why)(?:'s| is| are| was| were| do| did| does)\b"
    r"|(?:did|do|does|is|are|was|were|have|has) (?:i|you|my|the|there|that|it)\b)",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"\b(?:can|could|would|will) you (?:please )?(?:always|never|remember|only|call me|not|stop|from now on)\b"
    r"|\bfrom now on\b|\bkönn\w+ (?:du|sie) (?:bitte )?(?:immer|nie)|\bpeux-tu toujours|\bpuedes siempre|以后|今後",
    re.IGNORECASE,
)
_AND_MORE = re.compile(
    r"\s(?:and|but|so|please|und|aber|bitte|et|mais|y|pero|also)\s|[,;]\s*(?:i|my|don't)\b", re.IGNORECASE
)


class Statement(NamedTuple):
    kind: Kind
    text: str
    subject: str
    firmness: int


def statement(sentence: str) -> Statement | None:
    """The preference or standing instruction that a user's sentence states, if it does."""
    sentence = sentence[:READ]
    plain = sentence.replace("’", "'")
    rules = _rules_for(plain)
    if not rules or _asks(plain):
        return None
    for rule in rules:
        if found := rule.pattern.search(plain):
            subject = _subject(plain)
            if not subject:
                return None
            return Statement(rule.kind, _clipped(sentence, found.start()), subject, rule.firmness)
    return None


def _rules_for(sentence: str) -> list[Rule]:
    """The rules of the languages that this may be."""
    rules: list[Rule] = []
    words = _WORD.findall(sentence.lower())
    for triggers, language in SPACED:
        if not triggers.isdisjoint(words):
            rules += language
    return rules if sentence.isascii() else [*rules, *CJK]


def _asks(sentence: str) -> bool:
    """A question states nothing, unless it is a request in disguise."""
    if not sentence.rstrip("\"')” »").endswith(("?", "？")):
        return bool(_QUESTION.match(sentence))
    return not _REQUEST.search(sentence)


def _clipped(sentence: str, at: int) -> str:
    """At most LONGEST characters, from the clause in which the statement begins."""
    begin = _begin_of(sentence, at) if at > LEAD else 0
    text = sentence[begin : begin + LONGEST]
    if begin + LONGEST < len(sentence):
        text = f"{text.rpartition(' ')[0] or text} …"
    return f"… {text}" if begin else text


def _begin_of(sentence: str, at: int) -> int:
    """The place where the clause of a statement begins that comes late in its sentence."""
    if clause := _CLAUSE.search(sentence, at - LEAD, at + 1):
        return clause.end()
    return at if len(sentence) > LONGEST else 0


def _subject(sentence: str) -> str:
    """What it is about: the attribute that it gives a value, or else all its words that mean something."""
    for name, pattern in ONE_AT_A_TIME:
        if _stating(pattern, sentence):
            return name
    for pattern in ATTRIBUTES:
        if found := _stating(pattern, sentence):
            return f"my {found[1].lower()}"
    return _telling(sentence)


def _stating(pattern: re.Pattern[str], sentence: str) -> re.Match[str] | None:
    """The match, where it is all that a sentence states: a later word on one thing must not replace two."""
    found = pattern.search(sentence)
    if found is None or _telling(sentence[: found.start()]) or _AND_MORE.search(sentence, found.end()):
        return None
    return found


def _telling(text: str) -> str:
    return " ".join(sorted({word for word in _WORD.findall(text.lower()) if word not in EMPTY}))
