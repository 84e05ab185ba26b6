"""Forgotten means gone from memory, too.

A brief, a recap or a summary that was made after an event may tell of it. So with the event they are redacted as well,
on every branch that shares it; what is due then follows from the log, and they are made anew without it.
"""

from __future__ import annotations

from everthread.core.events import BriefUpdated, SessionEnded, Summary
from everthread.store.conversations import Conversation
from everthread.store.log import Log

KINDS = ("brief_updated", "summary", "session_ended")
PAGE = 500


async def forget_memory(log: Log, conversation: Conversation, seq: int) -> int:
    """Redact what was remembered after event `seq` was there. How many versions there were."""
    gone: set[tuple[int, int]] = set()
    for found in await log.branches(conversation):
        line = await log.line(conversation, found.branch.number)
        for kind in KINDS:
            for logged in await log.markers(line, kind, limit=PAGE):
                told = isinstance(logged.event, BriefUpdated | Summary | SessionEnded)
                if told and logged.seq > seq and (logged.branch, logged.seq) not in gone:
                    await log.redact(line, logged.seq)
                    gone.add((logged.branch, logged.seq))
    return len(gone)
