"""The stored form of an event: one JSON object with its `kind`.

Any text survives, NUL and lone surrogates included: what UTF-8 cannot say is written in its surrogate-passing form,
which only this module reads.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from everthread.core.events.kinds import KINDS, Event, Marker, Message, Other, dump
from everthread.core.happenings import HAPPENINGS, Happening
from everthread.errors import BadValue

_known: msgspec.json.Decoder[Message | Marker] = msgspec.json.Decoder(Message | Marker)
_several: msgspec.json.Decoder[list[Message | Marker]] = msgspec.json.Decoder(list[Message | Marker])
_encoder = msgspec.json.Encoder()


def encode(event: Event) -> bytes:
    if isinstance(event, Other | Happening):
        contents = event.data if isinstance(event, Other) else event.contents
        return dump({"kind": event.kind, **contents}).encode("utf-8", "surrogatepass")
    try:
        return _encoder.encode(event)
    except UnicodeEncodeError:
        return dump(msgspec.to_builtins(event)).encode("utf-8", "surrogatepass")


def decode(body: bytes) -> Event:
    """The event that was encoded; ValueError where it cannot be one."""
    try:
        return _known.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return _decode_rare(body)
    except (BadValue, RecursionError) as problem:
        raise ValueError(str(problem)) from None


def decode_all(bodies: Sequence[bytes]) -> list[Event]:
    """The same of many, at half the price."""
    try:
        events: list[Event] = [*_several.decode(b"[" + b",".join(bodies) + b"]")]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        events = []
    return events if len(events) == len(bodies) else [decode(body) for body in bodies]


def _decode_rare(body: bytes) -> Event:
    """Happenings, application kinds and text beyond UTF-8: right rather than fast."""
    raw = json.loads(body.decode("utf-8", "surrogatepass"))
    if not isinstance(raw, dict) or not isinstance(raw.get("kind"), str):
        raise ValueError("no object with a kind")
    if raw["kind"] in KINDS:
        event: Message | Marker = msgspec.convert(raw, Message | Marker)
        return event
    kind = raw.pop("kind")
    return HAPPENINGS[kind].read(raw) if kind in HAPPENINGS else Other(kind=kind, data=raw)
