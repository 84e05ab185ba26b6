"""Which error a provider's answer is.

Statuses mean the same everywhere; what a too long request is called differs, and most providers say by how much. The
patterns are those of Anthropic, OpenAI, Google, Mistral and servers that speak their APIs. Nothing that is said here
repeats a key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

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
_READ = 10_000  # characters of it that are looked at

_NUMBER = r"(\d[\d,_.]{0,20})"
_LENGTHS = [  # the request's tokens, then the most that there may be; or the other way round
    (re.compile(rf"prompt is too long:\s*{_NUMBER} tokens > {_NUMBER}", re.I), False),
    (re.compile(rf"maximum context length is {_NUMBER} tokens.*?resulted in {_NUMBER}", re.S | re.I), True),
    (re.compile(rf"maximum context length is {_NUMBER} tokens.*?requested (?:about )?{_NUMBER}", re.S | re.I), True),
    (re.compile(rf"exceed the configured limit of {_NUMBER} tokens.*?resulted in {_NUMBER}", re.S | re.I), True),
    (re.compile(rf"request too large.*?limit:? {_NUMBER}, requested:? {_NUMBER}", re.S | re.I), True),
    (re.compile(rf"input token count \({_NUMBER}\) exceeds the maximum.*? allowed \({_NUMBER}\)", re.S | re.I), False),
    (re.compile(rf"prompt contains {_NUMBER} tokens.*?{_NUMBER} maximum", re.S | re.I), False),
    (re.compile(rf"request \({_NUMBER} tokens\) exceeds the available context size \({_NUMBER}", re.I), False),
]
_SUM = re.compile(rf"exceed context limit: {_NUMBER} \+ {_NUMBER} > {_NUMBER}", re.I)
_LIMIT_ALONE = re.compile(
    rf"maximum number of tokens allowed \({_NUMBER}\)|maximum context length is {_NUMBER} tokens", re.I
)
_TOO_LONG = re.compile(
    r"prompt is too long|prompt contains [\d,_.]+ tokens|maximum context length|context_length_exceeded"
    r"|request too large|too many tokens|exceeds the (available|maximum) (context|number of tokens)"
    r"|exceed the configured limit|exceed context limit|input is too long|context window",
    re.I,
)
_TOO_LARGE = re.compile(r"request too large", re.I)  # a 429 that says this will never succeed; all others may
_NO_CREDIT = re.compile(r"insufficient_quota|credit balance|billing|exceeded your current quota", re.I)
_NO_KEY = re.compile(r"api.?key (not valid|expired|invalid)|invalid.?api.?key", re.I)
_NO_MODEL = re.compile(r"not a valid model|invalid model (id|name)|model_not_found|unknown model", re.I)
_AGAIN_IN = re.compile(r"(?:retry|try again) in (\d+(?:\.\d+)?) ?(ms|s)\b", re.I)


def fault(provider: str, model: str, status: int, said: str, *, headers: Mapping[str, str] | None = None) -> ModelError:
    """The error for an answer of this status that says this."""
    short, said = shortened(said) or f"status {status}", said[:_READ]
    after = retry_after(headers or {}, said)
    if _is_too_long(status, said):
        needed, limit = _lengths(said)
        return TooLong(provider, short, needed=needed, limit=limit)
    # Google says of a rate that is exceeded what others say of a bill that is not paid; but then also until when.
    if status == 402 or (status in (400, 403, 429) and _NO_CREDIT.search(said) and not after):
        return NoCredit(provider, short)
    if status in (401, 403) or (status == 400 and _NO_KEY.search(said)):
        return WrongKey(provider, short)
    if status == 404 or (status == 400 and _NO_MODEL.search(said)):
        return UnknownModel(provider, model, short)
    if status in (408, 409, 425, 429) or status >= 500:
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
        pass
    if found := _AGAIN_IN.search(said):
        return float(found[1]) / (1000 if found[2] == "ms" else 1)
    return None


def shortened(said: str) -> str:
    """What a provider said, on one line and not for pages."""
    line = " ".join(said[:_READ].split())
    return line if len(line) <= SAID else f"{line[: SAID - 1]}…"


def hidden(said: str, key: str) -> str:
    """What was said, without the key, should it be repeated there."""
    return said.replace(key, "…") if key else said


def reason(problem: BaseException, key: str = "") -> str:
    """Why a connection failed, in words: the deepest cause knows best, and some errors say nothing but their name."""
    while (deeper := problem.__cause__) is not None:
        problem = deeper
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(problem).__name__).lower()
    return shortened(hidden(str(problem) or name, key))


def _is_too_long(status: int, said: str) -> bool:
    if status == 429:
        return bool(_TOO_LARGE.search(said))
    return status == 413 or (status in (400, 422, 500) and bool(_TOO_LONG.search(said)))


def _lengths(said: str) -> tuple[int, int]:
    """The request's tokens and the most that there may be, as far as they are told."""
    if found := _SUM.search(said):  # the input and the reply that was asked for
        return _number(found[1]) + _number(found[2]), _number(found[3])
    for pattern, limit_first in _LENGTHS:
        if found := pattern.search(said):
            first, second = _number(found[1]), _number(found[2])
            return (second, first) if limit_first else (first, second)
    alone = _LIMIT_ALONE.search(said)
    return 0, _number(alone[1] or alone[2]) if alone else 0


def _number(digits: str) -> int:
    return int(re.sub(r"\D", "", digits) or 0)


def _seconds(said: str) -> float | None:
    """A number that is one, and not without end."""
    try:
        number = float(said)
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None
