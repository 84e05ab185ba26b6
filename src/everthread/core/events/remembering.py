"""What memory is told of: not of messages that are marked so, and not of what its own tools repeat."""

from __future__ import annotations

import msgspec

from everthread.core.events.kinds import LOOKUPS, Assistant, Event, ToolCall, ToolResult, User

_MEMORY_OFF = {"memory": "off"}


def unremembered(event: Event) -> Event:
    """A message of which memory is told nothing, now or later; markers have nothing to tell."""
    if not isinstance(event, User | Assistant | ToolCall | ToolResult):
        return event
    return msgspec.structs.replace(event, meta=event.meta | _MEMORY_OFF)


def rememberable(event: Event) -> Event:
    """The message, of which memory may be told again."""
    if not isinstance(event, User | Assistant | ToolCall | ToolResult) or not is_unremembered(event):
        return event
    return msgspec.structs.replace(event, meta={name: value for name, value in event.meta.items() if name != "memory"})


def is_unremembered(event: Event) -> bool:
    return getattr(event, "meta", {}).get("memory") == "off"


def looks_up(event: Event) -> bool:
    """Whether it belongs to one of memory's own tools, which only repeat what stands elsewhere."""
    return isinstance(event, ToolCall | ToolResult) and event.name in LOOKUPS
