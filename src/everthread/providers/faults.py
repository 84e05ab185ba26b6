"""Which error a provider's answer is.

Statuses mean the same everywhere. The words for a request that is too long differ, and most providers add the figures;
the patterns are from Anthropic, OpenAI, Google, Mistral and servers that speak their APIs. No error repeats a key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from everthread.errors import (
    ModelError,
    NoCredit,
    Overloaded,
    RequestRefused,
    TooLong,
    UnknownModel,
    WrongKey,
)

SAID = 300  # characters of what the provider said that an error repeats
_READ = 10_000  # characters of it that are searched

_NUMBER = r"(\d[\d,_.]{0,20})"
_NEEDED, _MOST = rf"(?P<needed>{_NUMBER})", rf"(?P<limit>{_NUMBER})"
_LENGTHS = [  # the request's tokens and the limit in the words of each provider; the last two give only the limit
    re.compile(pattern, re.S | re.I)
    for pattern in (
        rf"prompt is too long:\s*{_NEEDED} tokens > {_MOST}",
        rf"maximum context length is {_MOST} tokens.*?resulted in {_NEEDED}",
        rf"maximum context length is {_MOST} tokens.*?requested (?:about )?{_NEEDED}",
        rf"exceed the configured limit of {_MOST} tokens.*?resulted in {_NEEDED}",
        rf"request too large.*?limit:? {_MOST}, requested:? {_NEEDED}",
        rf"input token count \({_NEEDED}\) exceeds the maximum.*? allowed \({_MOST}\)",
        rf"prompt contains {_NEEDED} tokens.*?{_MOST} maximum",
        rf"request \({_NEEDED} tokens\) exceeds the available context size \({_MOST}",
        rf"maximum number of tokens allowed \({_MOST}\)",
        rf"maximum context length is {_MOST} tokens",
    )
]
_SUM = re.compile(rf"exceed context limit: {_NUMBER} \+ {_NUMBER} > {_NUMBER}", re.I)
_AGAIN_IN = re.compile(r"(?:retry|try again) in (\d+(?:\.\d+)?) ?(ms|s)\b", re.I)
_NO_HEADERS: Mapping[str, str] = {}
_PARTS_OF_A_SECOND = {"ms": 1000, "s": 1}


class _Signs(NamedTuple):
    """What a failure is known by: statuses that always mean it, and words that mean it under certain others."""

    statuses: tuple[int, ...]
    words: Mapping[int, re.Pattern[str]] = {}

    def fit(self, status: int, said: str) -> bool:
        return status in self.statuses or (status in self.words and bool(self.words[status].search(said)))


_LONG = re.compile(
    r"prompt is too long|prompt contains [\d,_.]+ tokens|maximum context length|context_length_exceeded"
    r"|request too large|too many tokens|exceeds the (available|maximum) (context|number of tokens)"
    r"|exceed the configured limit|exceed context limit|input is too long|context window",
    re.I,
)
_LARGE = re.compile(r"request too large", re.I)  # a 429 that says this will never succeed; all others may
_UNPAID = re.compile(r"insufficient_quota|credit balance|billing|exceeded your current quota", re.I)
_BAD_KEY = re.compile(r"api.?key (not valid|expired|invalid)|invalid.?api.?key", re.I)
_BAD_MODEL = re.compile(r"not a valid model|invalid model (id|name)|model_not_found|unknown model", re.I)

_TOO_LONG = _Signs((413,), {400: _LONG, 422: _LONG, 429: _LARGE, 500: _LONG})
_NO_CREDIT = _Signs((402,), {400: _UNPAID, 403: _UNPAID, 429: _UNPAID})
_WRONG_KEY = _Signs((401, 403), {400: _BAD_KEY})
_NO_MODEL = _Signs((404,), {400: _BAD_MODEL})
_OVERLOADED = _Signs((408, 409, 425, 429, *range(500, 1_000)))


def fault(provider: str, model: str, status: int, said: str, *, headers: Mapping[str, str] = _NO_HEADERS) -> ModelError:
    """The error for an answer with this status and these words."""
    short, said = shortened(said) or f"status {status}", said[:_READ]
    after = retry_after(headers, said)
    if _TOO_LONG.fit(status, said):
        needed, limit = _lengths(said)
        return TooLong(provider, short, needed=needed, limit=limit)
    # Google says of a rate that is exceeded what others say of a bill that is not paid, but also how long to wait.
    if _NO_CREDIT.fit(status, "" if after else said):
        return NoCredit(provider, short)
    if _WRONG_KEY.fit(status, said):
        return WrongKey(provider, short)
    if _NO_MODEL.fit(status, said):
        return UnknownModel(provider, model, short)
    if _OVERLOADED.fit(status, said):
        return Overloaded(provider, short, after=after)
    return RequestRefused(provider, short)


def retry_after(headers: Mapping[str, str], said: str = "") -> float | None:
    """The seconds that the provider asks to wait: in milliseconds, in seconds, as a date, or in words."""
    named = {name.lower(): value.strip() for name, value in headers.items()}
    if (exact := _seconds(named.get("retry-after-ms", ""))) is not None:
        return exact / 1000
    asked = named.get("retry-after", "")
    if (plain := _seconds(asked)) is not None:
        return plain
    try:
        return max(0.0, (parsedate_to_datetime(asked) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):  # no date, or one without a zone
        return _said_in_words(said)


def _said_in_words(said: str) -> float | None:
    found = _AGAIN_IN.search(said)
    return float(found[1]) / _PARTS_OF_A_SECOND[found[2].lower()] if found else None


def shortened(said: str) -> str:
    """What a provider said, on one line of limited length."""
    line = " ".join(said[:_READ].split())
    return line if len(line) <= SAID else f"{line[: SAID - 1]}…"


def hidden(said: str, key: str) -> str:
    """What was said, with the key blotted out."""
    return said.replace(key, "…") if key else said


def reason(problem: BaseException, key: str = "") -> str:
    """Why a connection failed, in the words of the deepest cause; its name, where it has none."""
    while (deeper := problem.__cause__) is not None:
        problem = deeper
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(problem).__name__).lower()
    return shortened(hidden(str(problem) or name, key))


def _lengths(said: str) -> tuple[int, int]:
    """The request's tokens and the limit, as far as the provider gives them; else 0."""
    if found := _SUM.search(said):  # the input and the reply that was asked for
        return _number(found[1]) + _number(found[2]), _number(found[3])
    for pattern in _LENGTHS:
        if found := pattern.search(said):
            told = found.groupdict()
            return _number(told.get("needed", "")), _number(told["limit"])
    return 0, 0


def _number(digits: str) -> int:
    return int(re.sub(r"\D", "", digits) or 0)


def _seconds(said: str) -> float | None:
    """The seconds that a header gives; None where it is not a finite number."""
    try:
        number = float(said)
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None
