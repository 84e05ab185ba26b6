"""Forgotten means gone from memory, too.

A brief, a recap or a summary that was made after an event may tell of it. So with the event they are redacted as well,
on every branch that shares it; what is due then follows from the log, and they are made anew without it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from everthread.core.branches import ENDLESS, Line
from everthread.core.events import Redacted, User, text_of
from everthread.core.logged import Logged, readable
from everthread.core.naming import name_of
from everthread.store.conversations import Conversation, Owner
from everthread.store.log import Log

KINDS = ("brief_updated", "summary", "session_ended")
PAGE = 500


async def forget_memory(log: Log, conversation: Conversation, seq: int) -> int:
    """Redact what was remembered after event `seq` was there. How many versions there were."""
    gone: set[tuple[int, int]] = set()
    for found in await log.branches(conversation):
        line = await log.line(conversation, found.branch.number)
        told = {(one.branch, one.seq) for kind in KINDS async for one in _told_since(log, line, kind, seq)}
        await log.redact(line, *sorted(seq for _, seq in told - gone))
        gone |= told
    return len(gone)


async def forget_name(log: Log, conversation: Conversation, said: list[Logged]) -> Conversation:
    """Without its name, where that was taken from what was redacted. It gets another."""
    owner = Owner(conversation.tenant, conversation.user)
    now = await log.find(owner, conversation.id)
    texts = [text_of(one.event) for one in readable(said) if isinstance(one.event, User)]
    taken = any(now.name == name_of(text) for text in texts)
    return await log.change(now, name="") if taken and now.name else now


async def _told_since(log: Log, line: Line, kind: str, seq: int) -> AsyncIterator[Logged]:
    last = ENDLESS
    while page := [one for one in await log.markers(line, kind, last=last, limit=PAGE) if one.seq > seq]:
        for one in page:
            if one not in readable([one]) or not isinstance(one.event, Redacted):  # what is damaged must go as well
                yield one
        last = page[-1].seq - 1
