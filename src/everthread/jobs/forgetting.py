"""Forgotten means gone from memory, too.

A brief, a recap or a summary that was made after an event may tell of it. So with the event they are redacted as well,
on every branch that shares it; what is due then follows from the log, and they are made anew without it. So are the
results of memory's own tools that quote it, in all of the user's conversations; and a name that was taken from it goes.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

from everthread.core.branches import ENDLESS, Line
from everthread.core.events import Redacted, ToolResult, User, looks_up, text_of
from everthread.core.logged import Logged, readable
from everthread.core.naming import name_of
from everthread.store.conversations import NEWEST, Conversation, Owner
from everthread.store.log import Log

KINDS = ("brief_updated", "summary", "session_ended")
PAGE = 500


async def forget(log: Log, conversation: Conversation, line: Line, seq: int) -> Conversation:
    """Redact an event, and all that memory made of it. The conversation as it is then.

    The name first, so that no mirror has it when it reads of the redaction; then the event, so that nothing new is made
    of it; then what was made since. NotYetGone: all of it is done, but for bytes on the disk.
    """
    conversation = await _without_name(log, conversation, await log.range(line, seq, seq))
    await log.redact(line, seq, scrub=False)
    for found in await log.branches(conversation):
        other = await log.line(conversation, found.branch.number)
        if other.owner(seq) == line.owner(seq):
            # Once more until there is none: somebody may have published while we were at it.
            while told := [one.seq async for one in _told_since(log, other, seq)]:
                await log.redact(other, *told, scrub=False)
    await _forget_quotes(log, conversation, line, seq)
    await log.scrub()
    return conversation


async def _without_name(log: Log, conversation: Conversation, said: list[Logged]) -> Conversation:
    """Without its name, where that was taken from what was said. It gets another."""
    now = await log.find(Owner(conversation.tenant, conversation.user), conversation.id)
    texts = [text_of(one.event) for one in readable(said) if isinstance(one.event, User)]
    taken = any(now.name == name_of(text) for text in texts)
    return await log.change(now, name="") if taken and now.name else now


async def _told_since(log: Log, line: Line, seq: int) -> AsyncIterator[Logged]:
    """What was remembered on a line since event `seq`, and is not redacted yet; what is damaged must go as well."""
    for kind in KINDS:
        last = ENDLESS
        while page := [one for one in await log.markers(line, kind, last=last, limit=PAGE) if one.seq > seq]:
            for one in page:
                if not readable([one]) or not isinstance(one.event, Redacted):
                    yield one
            last = page[-1].seq - 1


# -- what was looked up ------------------------------------------------------------------------------------------


async def _forget_quotes(log: Log, conversation: Conversation, line: Line, seq: int) -> None:
    """Redact what memory's tools gave of an event. Reads all that the user's conversations said since: this is rare."""
    whole = rf"\bevent {seq} on branch {line.owner(seq)} of conversation {conversation.id}\b"
    own = re.compile(rf"{whole}|\bevent {seq}\b(?! on branch)")
    async for other in _conversations(log, conversation):
        pattern = own if other.id == conversation.id else re.compile(whole)
        for found in await log.branches(other):
            branch = await log.line(other, found.branch.number)
            quoting = [one.seq async for one in _quotes(log, branch, found.branch.at, pattern)]
            await log.redact(branch, *quoting, scrub=False)


async def _conversations(log: Log, conversation: Conversation) -> AsyncIterator[Conversation]:
    """All of the user's."""
    owner, before = Owner(conversation.tenant, conversation.user), NEWEST
    while page := await log.conversations(owner, before=before, limit=PAGE):
        for one in page:
            yield one
        before = page[-1].id


async def _quotes(log: Log, line: Line, after: int, pattern: re.Pattern[str]) -> AsyncIterator[Logged]:
    """The results of memory's own tools, among a branch's own events, that quote what the pattern finds."""
    while page := await log.after(line, after, limit=PAGE, messages=True):
        for one in readable(one for one in page if one.kind == "tool_result"):
            if isinstance(one.event, ToolResult) and looks_up(one.event) and pattern.search(one.text):
                yield one
        after = page[-1].seq
