"""The recap: a short summary of a session that is over."""

from __future__ import annotations

import asyncio

from everthread.core.events import SessionEnded
from everthread.core.logged import Logged
from everthread.language import extract
from everthread.language.digest import trimmed
from everthread.memory.branch import PAGE, Memory, parted
from everthread.memory.due import Due

SESSIONS = 50  # newest sessions among which the one that is over is looked for
RECAP_WORDS = 120


def is_due(memory: Memory, due: Due, *, all: bool) -> bool:
    return bool(due.recap)


async def make(memory: Memory, due: Due) -> None:
    """Publish two to four sentences on the session."""
    events = await _said(memory, due)
    told = await memory.told("recap", due, (await asyncio.to_thread(parted, events))[-1])
    text = trimmed(told.text, words=RECAP_WORDS) if told else await asyncio.to_thread(extract.recap, events)
    # Where nothing can be told, no model could.
    version = SessionEnded(session=due.recap, recap=text, extractive=bool(text) and not told)
    await memory.publish(version, told, due)


async def _said(memory: Memory, due: Due) -> list[Logged]:
    """The newest messages of the session."""
    sessions = await memory.log.sessions(memory.line, limit=SESSIONS)
    last = next((one.last for one in sessions if one.number == due.recap), 0)
    before = await memory.before(last + 1, limit=PAGE, after=due.head.cleared)
    return [one for one in before if one.session == due.recap]
