"""Usage: the figures of model calls, kept beside their events, and their totals.

A `model_call` event is written together with a row of its figures, so that totals read no bodies. A branch stores
only what was said on it, so a model call is counted once however many branches share it. What a provider reports is
taken as it is, within bounds that every database can add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from everthread.core.branches import ENDLESS
from everthread.core.events import ModelCall
from everthread.core.times import moment
from everthread.core.turns import Head
from everthread.core.values import Value
from everthread.errors import BadValue
from everthread.store.conversations import Owner, check_name
from everthread.store.engine import Ask, Row, Script, Tell
from everthread.store.times import bounded

By = Literal["turn", "session", "branch", "conversation", "day", "model", "user"]
DAY = 86_400_000_000  # microseconds
MOST = 2**40  # of anything in one model call
LONGEST = 400  # characters of a name


class UsageTotal(msgspec.Struct, Value, frozen=True, kw_only=True):
    """Totals of the model calls of a turn, session, branch, conversation, day, model or user; what they are not by is
    empty.

    Tokens are the providers' figures. `price` is in US dollars, without the `unpriced` model calls, of which none is
    known; `ms` is the time they took together, and `first` and `last` are when the earliest and the latest was logged.
    Turns and sessions are told apart by the branch that stores them too. Days are UTC's, written 2026-01-31.
    """

    conversation: str = ""
    branch: int = 0
    turn: int = 0
    session: int = 0
    day: str = ""
    model: str = ""
    user: str = ""
    calls: int
    failed: int
    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int
    price: float
    unpriced: int
    ms: int
    first: datetime
    last: datetime


SUMS = ("failed", "input", "output", "cache_read", "cache_write", "reasoning", "ms")
MORE = ("calls", "price", "unpriced")


class CallFigures(NamedTuple):
    """What is kept of a model call beside its event."""

    seq: int
    turn: int
    session: int
    time: int
    model: str
    agent: str
    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int
    price: float | None
    ms: int
    failed: int


def figures(event: ModelCall, head: Head) -> CallFigures:
    """The figures of a model call, given the head of its branch after it."""
    return CallFigures(
        head.seq,
        head.turn,
        head.session,
        head.time,
        _name(event.model),
        _name(event.agent),
        _bounded(event.input),
        _bounded(event.output),
        _bounded(event.cache_read),
        _bounded(event.cache_write),
        _bounded(event.reasoning),
        None if event.price is None else float(min(MOST, max(0.0, event.price))),
        _bounded(event.ms),
        int(bool(event.error)),
    )


def _bounded(number: int) -> int:
    return min(MOST, max(0, number))


def _name(text: str) -> str:
    """As every database can keep it: without NUL and lone surrogates."""
    return text[:LONGEST].encode("utf-8", "replace").decode().replace("\0", "")


def stored(key: Mapping[str, Any], first: int, last: int) -> Script[list[CallFigures]]:
    """The figures that are kept of a branch's model calls from seq `first` to seq `last`."""
    rows = yield Ask("model_calls", {**key, "first": first, "last": last})
    return [CallFigures(*row) for row in rows]


class Span(NamedTuple):
    """Which model calls to add up: from `since` until just before `until`, `by` what, at most `limit` totals."""

    by: By
    since: int
    until: int
    limit: int


def span(by: By, since: int, until: int, limit: int) -> Span:
    if by not in get_args(By):
        raise BadValue("by", by, ", ".join(get_args(By)))
    return Span(by, bounded(since), bounded(until), min(max(0, limit), ENDLESS))


def of_owner(owner: Owner, conversation: str, span: Span) -> Script[list[UsageTotal]]:
    """Of a user, or of one of the user's conversations; without a user there is none."""
    check_name("conversation", conversation, empty=True)
    if not owner.user:
        return []
    name = "usage_of_conversation" if conversation else "usage_of_user"
    values = {**owner._asdict(), **span._asdict(), "conversation": conversation}
    rows = yield Ask(name, values)
    return [_usage(row, span.by) for row in rows]


def tokens(owner: Owner, since: int) -> Script[int]:
    """Input and output of a user's model calls since then, with those of the day that were forgotten."""
    [[found]] = yield Ask("tokens_of_user", {**owner._asdict(), "since": bounded(since), "day": bounded(since) // DAY})
    return int(found)


def forgotten(keys: Sequence[Mapping[str, Any]], now: int, *, whole: bool = False) -> list[Tell]:
    """The statements that keep count of model calls which are about to be forgotten, as far as they are of the day that
    runs: one each, or all of a conversation (`whole`). Of older days nothing stays."""
    day = now // DAY
    names = ("count_forgotten_calls", "count_forgotten_archived_calls") if whole else ("count_forgotten_call",)
    older = {"tenant": keys[0]["tenant"], "day": day}
    counted = [{**key, "day": day} for key in keys]
    return [Tell("forget_older_tokens", [older]), *(Tell(name, counted) for name in names)]


class RecentCall(NamedTuple):
    """A model call as far as limits and pauses go by it."""

    conversation: str
    branch: int
    seq: int
    time: int
    price: float | None
    failed: int


def calls_of(owner: Owner, agent: str, since: int) -> Script[list[RecentCall]]:
    """The model calls that an agent made for a user since then, oldest first."""
    rows = yield Ask("calls_of_agent", {**owner._asdict(), "agent": agent, "since": since})
    return [RecentCall(*row) for row in rows]


def added(totals: Sequence[UsageTotal], *, branch: int) -> UsageTotal | None:
    """Totals of several branches of a conversation, as one of a branch; None where there are none."""
    if not totals:
        return None
    sums: dict[str, Any] = {name: sum(getattr(one, name) for one in totals) for name in (*SUMS, *MORE)}
    sums |= {"first": min(one.first for one in totals), "last": max(one.last for one in totals)}
    return UsageTotal(conversation=totals[0].conversation, branch=branch, **sums)


def of_tenant(tenant: str, span: Span) -> Script[list[UsageTotal]]:
    rows = yield Ask("usage_of_tenant", {"tenant": check_name("tenant", tenant), **span._asdict()})
    return [_usage(row, span.by) for row in rows]


def _usage(row: Row, by: By) -> UsageTotal:
    values = dict(zip(UsageTotal.__struct_fields__, row, strict=True))
    sums = {name: int(values[name]) for name in SUMS}  # decimals, where a database adds up in those
    day = f"{moment(values['day'] * DAY):%Y-%m-%d}" if by == "day" else ""
    times = {name: moment(values[name]) for name in ("first", "last")}
    return UsageTotal(**{**values, **sums, **times, "day": day, "price": float(values["price"])})
