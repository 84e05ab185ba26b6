"""How important a message is, from 0 to 100: what decides which older turns the strategy `importance` sends.

A score has two parts. What depends on the message alone is its worth, stored with it when it is appended and
replaceable by the application's own function. What depends on its place in the conversation is recency,
added when turns are chosen. A turn is as important as its most important message.
"""

from __future__ import annotations

from collections.abc import Callable

from everthread.core.events import Assistant, Event, System, ToolCall, ToolResult, User, text_of

MOST = 100
SYSTEM, USER, ASSISTANT, TOOL = 90, 40, 30, 25
LONG, LONG_COSTS = 5_000, 10  # characters; what comes in such lengths is seldom worth its room
RECENT = 30

_BASES: dict[type[Event], int] = {
    System: SYSTEM,
    User: USER,
    Assistant: ASSISTANT,
    ToolCall: ASSISTANT + TOOL,
    ToolResult: ASSISTANT + TOOL,
}

Worth = Callable[[Event], int]


def worth(event: Event) -> int:
    """What a message is worth apart from its place. Markers are never sent, so they are worth nothing."""
    base = _BASES.get(type(event), 0)
    return base - LONG_COSTS if base and len(text_of(event)) > LONG else base


def recency(place: float) -> float:
    """What a message gains by being recent; `place` runs from 0 (the first message) to 1 (the newest)."""
    return RECENT * min(max(place, 0.0), 1.0) ** 2


def score(worth: int, place: float) -> float:
    return min(float(MOST), max(0.0, worth + recency(place)))
