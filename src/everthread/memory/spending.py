"""What memory has spent lately on model calls, and how they ended, derived from their records.

Limits by the hour and the pause after a failure follow from it, so both hold in any number of processes, and outlive
each of them.
"""

from __future__ import annotations

from itertools import takewhile

import msgspec

from everthread.config import Settings
from everthread.core.events import MEMORY, ModelCall
from everthread.store.beside.usage import RecentCall, calls_of
from everthread.store.conversations import Conversation
from everthread.store.engine import Script
from everthread.store.log import Log

HOUR = 3_600_000_000  # microseconds
LOOKED_BACK = 4 * HOUR  # long enough for as many failures as make the longest pause
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 1_800.0  # seconds before a failed model call is tried again


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """`calls` and `dollars` are the user's of the last hour, the earliest of them `since` then; `failures` are those in
    a row in one conversation, `newest` the newest of these."""

    calls: int = 0
    dollars: float = 0.0
    since: int = 0
    failures: int = 0
    newest: RecentCall | None = None

    def wait(self, settings: Settings, now: int) -> float:
        """Seconds until a model may be called; 0 where it may now."""
        pause = 0.0
        if self.newest:
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (self.failures - 1)) - (now - self.newest.time) / 1e6
        spent = settings.memory_dollars and self.dollars >= settings.memory_dollars
        if self.calls >= settings.memory_calls or spent:
            pause = max(pause, (self.since + HOUR - now) / 1e6 if self.since else HOUR / 1e6)
        return max(0.0, pause)


def spending(conversation: Conversation, now: int) -> Script[Spending]:
    made = yield from calls_of(conversation.owner, MEMORY, now - LOOKED_BACK)
    lately = [one for one in made if one.time >= now - HOUR]
    own = [one for one in reversed(made) if one.conversation == conversation.id]
    failed = list(takewhile(lambda one: one.failed, own))
    return Spending(
        calls=len(lately),
        dollars=sum(one.price or 0.0 for one in lately),
        since=lately[0].time if lately else 0,
        failures=len(failed),
        newest=next(iter(failed), None),
    )


async def error_of(log: Log, conversation: Conversation, spent: Spending) -> str:
    """Why the newest model call failed."""
    if spent.newest is None:
        return ""
    line = await log.line(conversation, spent.newest.branch)
    found = await log.range(line, spent.newest.seq, spent.newest.seq)
    call = found[0].event if found else None
    return call.error if isinstance(call, ModelCall) else ""
