"""What an event says and shows, and what is left of it once it is redacted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from everthread.core.events.kinds import (
    AgentKilled,
    Assistant,
    Command,
    Event,
    Redacted,
    System,
    ToolCall,
    ToolResult,
    User,
)
from everthread.core.parts import File, Image, Part, Text, blob_hash
from everthread.errors import BadValue

_MEDIA = (Image, File)
_SAYING = (System, User, Assistant, ToolResult)


def text_of(event: Event) -> str:
    """What a reader would read of a message; markers have none."""
    if isinstance(event, _SAYING):
        if len(event.parts) == 1 and isinstance(event.parts[0], Text):  # nearly always
            return event.parts[0].text
        return "\n".join([part.text for part in event.parts if isinstance(part, Text)])
    return f"{event.name}({event.arguments})" if isinstance(event, ToolCall) else ""


def texts_of(events: Iterable[Event]) -> list[str]:
    """The same of many, without a call for those that are one text."""
    return [
        parts[0].text
        if isinstance(event, _SAYING) and len(parts := event.parts) == 1 and isinstance(parts[0], Text)
        else text_of(event)
        for event in events
    ]


def bare(event: Event) -> Event:
    """A message without the application's metadata."""
    return msgspec.structs.replace(event, metadata={}) if getattr(event, "metadata", None) else event


def media_of(event: Event) -> list[Image | File]:
    """The images and files that an event shows."""
    return [part for part in getattr(event, "parts", ()) if isinstance(part, _MEDIA)]


def detach(event: Event) -> Event:
    """The event without the bytes of its images and files, which are known by their hash from then on."""
    if not any(part.data is not None for part in media_of(event)):
        return event
    light = tuple(_without_data(part) for part in event.parts)  # type: ignore[union-attr]
    return msgspec.structs.replace(event, parts=light)


def _without_data(part: Part) -> Part:
    if not isinstance(part, _MEDIA) or part.data is None:
        return part
    hash = blob_hash(part.data)
    if part.blob not in ("", hash):
        raise BadValue("blob", part.blob, f"empty or the hash of the bytes beside it, {hash}")
    return msgspec.structs.replace(part, blob=hash, data=None)


def attach(event: Event, blobs: Mapping[str, bytes]) -> Event:
    """The event with the bytes of its images and files, as far as they are known by their hash."""
    if not media_of(event):
        return event
    parts: tuple[Part, ...] = event.parts  # type: ignore[union-attr]
    return msgspec.structs.replace(event, parts=tuple(_with_data(part, blobs) for part in parts))


def _with_data(part: Part, blobs: Mapping[str, bytes]) -> Part:
    if not isinstance(part, _MEDIA) or part.data is not None:
        return part
    return msgspec.structs.replace(part, data=blobs.get(part.blob))


def redacted(event: Event) -> Redacted:
    """The tombstone of an event."""
    if isinstance(event, Redacted):
        return event
    interrupted = isinstance(event, Assistant) and event.interrupted
    waits_for = event.waits_for if isinstance(event, ToolCall) else ""
    return Redacted(was=event.kind, interrupted=interrupted, waits_for=waits_for)


def stand_in(tombstone: Redacted) -> Event:
    """An empty event that plays the part in its turn that the redacted one played."""
    match tombstone.was:
        case "assistant":
            return Assistant(interrupted=tombstone.interrupted)
        case "tool_call":
            return ToolCall(id="", name="", waits_for=tombstone.waits_for)
        case was:
            return _EMPTY.get(was) or Command(name=was)  # a marker: it had no part in it


_EMPTY: dict[str, Event] = {
    "system": System(),
    "user": User(),
    "tool_result": ToolResult(id=""),
    "agent_killed": AgentKilled(),
}
