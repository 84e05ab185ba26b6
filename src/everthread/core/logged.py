"""An event in its place: which branch and seq, when, in which turn and session, how many tokens.

The event itself is decoded when it is first looked at: a window is often read for its sizes alone, and a page
is often sent on as it is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from everthread.core.events import Event, decode, is_unremembered, text_of
from everthread.errors import BadValue, Corrupt

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Columns(NamedTuple):
    branch: int
    seq: int
    id: str
    kind: str
    at: int  # microseconds since 1970, UTC
    turn: int
    session: int
    tokens: int
    settled: int
    body: bytes


class _Decoded:
    """The event of a `Logged`, decoded once. As functools.cached_property, without its lock, which costs more
    than decoding does."""

    def __get__(self, logged: Logged, _owner: type[Logged]) -> Event:
        try:
            event = logged.__dict__["event"] = decode(logged.body)
        except ValueError as problem:
            raise Corrupt(f"Event {logged.seq} on branch {logged.branch}", str(problem)) from None
        return event


class Logged(_Columns):
    """Equal to another with the same columns. `kind` stays when the event's content was redacted."""

    event = _Decoded()

    @property
    def time(self) -> datetime:
        return moment(self.at)

    @property
    def text(self) -> str:
        return text_of(self.event)

    def __repr__(self) -> str:
        return f"Logged(seq={self.seq}, branch={self.branch}, turn={self.turn}, {self.event!r})"


def logged(rows: Iterable[Iterable[Any]]) -> list[Logged]:
    """Events from their columns. Without the checks of `_make`, which cost as much as the rest of reading."""
    return list(map(_make, rows))


_make = partial(tuple.__new__, Logged)


def readable(events: Iterable[Logged]) -> list[Logged]:
    """The events that are not damaged. Damage is reported to whoever opens such an event, and holds up nothing else."""
    found = []
    for one in events:
        with suppress(Corrupt):
            _ = one.event
            found.append(one)
    return found


def memorable(events: Iterable[Logged]) -> list[Logged]:
    """The events that memory may use: readable, and not marked as unremembered."""
    return [one for one in readable(events) if not is_unremembered(one.event)]


def plain(events: Iterable[Event | Logged]) -> Iterator[Event]:
    """The events themselves, whether or not they come with their places."""
    for event in events:
        if isinstance(event, Logged):
            yield event.event
        elif isinstance(event, Event):
            yield event
        else:
            raise BadValue("event", event, "an event, or one as the log gives it")


def moment(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)
