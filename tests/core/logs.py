"""Events in their places, without a store."""

from __future__ import annotations

from collections.abc import Iterable

from everthread.core.events import Event, User, encode
from everthread.core.logged import Logged
from everthread.core.tokens import sizes


def numbered(events: Iterable[Event], first: int = 1) -> list[Logged]:
    """As a log would give them: one branch, a minute each, a turn for each user message."""
    logged: list[Logged] = []
    turn = 0
    for seq, event in enumerate(events, first):
        turn += isinstance(event, User)
        place = (1, seq, f"{seq:026d}", event.kind, seq * 60_000_000, turn, 1)
        logged.append(Logged(*place, *sizes(event), encode(event)))
    return logged
