"""An event in its place: which branch and seq, when, in which turn and session, how many tokens.

The event itself is decoded when it is first looked at: a window is often read for its sizes alone, and a page
is often sent on as it is stored.

In its JSON form, `time`, `text` and `event` stand in place of the two columns that are the store's own. What is stored
of an event is its form, so a page is written as JSON without taking its events apart (`as_json`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from itertools import starmap
from typing import Any

import msgspec

from everthread.core.events import (
    Event,
    Marker,
    Message,
    Other,
    decode,
    decode_all,
    encode,
    is_unremembered,
    text_of,
    texts_of,
)
from everthread.core.happenings import Happening
from everthread.core.times import microseconds, moment, moments
from everthread.core.values import Value, inner_form, inside
from everthread.errors import BadValue, Corrupt

# Of an event in its place, as others see it; what the store has of it differs.
FORM: dict[str, Any] = {
    "seq": int,
    "branch": int,
    "id": str,
    "kind": str,
    "time": datetime,
    "turn": int,
    "session": int,
    "tokens": int,
    "settled": int,
    "text": str,
    "event": Event,
}


class _Decoded:
    """The event of a `Logged`, decoded once. As functools.cached_property, without its lock, which costs more
    than decoding does."""

    def __get__(self, logged: Logged, _owner: type[Logged]) -> Event:
        try:
            event = logged.__dict__["event"] = decode(logged.body)
        except ValueError as problem:
            raise Corrupt(f"Event {logged.seq} on branch {logged.branch}", str(problem)) from None
        return event


class Logged(msgspec.Struct, Value, frozen=True, dict=True):
    """Equal to another with the same columns. `kind` stays when the event's content was redacted. `micros` is the
    store's own way to say `time`, and `body` the stored form of `event`."""

    branch: int
    seq: int
    id: str
    kind: str
    micros: int
    turn: int
    session: int
    tokens: int
    settled: int
    body: bytes

    event = _Decoded()

    @property
    def time(self) -> datetime:
        return moment(self.micros)

    @property
    def text(self) -> str:
        return text_of(self.event)

    def _form(self) -> dict[str, Any]:
        return {name: inner_form(getattr(self, name)) for name in FORM}

    @classmethod
    def _of_form(cls, form: dict[str, Any]) -> Logged:
        found = {name: inside(wanted, form[name]) for name, wanted in FORM.items() if name != "text"}
        event, micros = found.pop("event"), microseconds(found.pop("time"))
        return cls(micros=micros, body=encode(event), **found)

    @classmethod
    def _schema(cls) -> dict[str, Any]:
        from everthread.core.value_schemas import described

        return described(cls, FORM)

    @classmethod
    def _fits(cls, form: dict[str, Any]) -> bool:
        return "event" in form

    def __repr__(self) -> str:
        return f"Logged(seq={self.seq}, branch={self.branch}, turn={self.turn}, {self.event!r})"


class _Written(msgspec.Struct, gc=False):
    """The form of an event in its place, with the event as it is stored."""

    seq: int
    branch: int
    id: str
    kind: str
    time: datetime
    turn: int
    session: int
    tokens: int
    settled: int
    text: str
    event: msgspec.Raw


def as_json(rows: Iterable[Iterable[Any]]) -> bytes:
    """The forms of events as one JSON list, quickly, from the columns of each. ValueError: there are lone surrogates or
    damaged events, which take longer (`everthread.wire.dumps`); or there are none at all."""
    branch, seq, id, kind, micros, turn, session, tokens, settled, bodies = zip(*rows, strict=True)
    b"".join(bodies).decode()
    texts, times = texts_of(decode_all(bodies)), moments(micros)
    # Column by column, because a call for each event would take longer than all else.
    columns = (seq, branch, id, kind, times, turn, session, tokens, settled, texts, map(msgspec.Raw, bodies))
    return _encoder.encode(list(map(_Written, *columns)))


_encoder = msgspec.json.Encoder()


def logged(rows: Iterable[Iterable[Any]]) -> list[Logged]:
    """Events from their columns."""
    return list(starmap(Logged, rows))


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


def unwrapped(events: Iterable[Event | Logged]) -> Iterator[Event]:
    """The events themselves, whether they come from the log or not."""
    for event in events:
        if isinstance(event, Logged):
            yield event.event
        elif isinstance(event, Message | Marker | Happening | Other):
            yield event
        else:
            raise BadValue("event", event, "an event, or one as the log gives it")
