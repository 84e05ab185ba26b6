"""What memory has of the turns that are not sent: the brief or summary that goes with a cutoff, and the recap.

Which version is sent depends on the cutoff, not on the moment: it stays the same until the cutoff steps, or the user
writes another in its place, which holds at once. Nothing is read here that was said, or summarised, before the last
clear.
"""

from __future__ import annotations

from typing import NamedTuple

from everthread.core.branches import Line
from everthread.core.events import BriefUpdated, SessionEnded, Summary
from everthread.core.logged import Logged
from everthread.core.turns import Head
from everthread.store.engine import Script
from everthread.store.reading import gather, head, newest_markers

PAGE, PAGES = 16, 16
RECAPS = 4  # sessions' ends looked at: more than one may have been written for the same


class Remembered(NamedTuple):
    """`behind`: what it covers ends before the window begins. `since`: seq of the newest marker it is made of."""

    brief: BriefUpdated | Summary | None = None
    behind: bool = False
    recap: SessionEnded | None = None
    since: int = 0


def brief(line: Line, newest: Head, kind: str, cutoff: int) -> Script[Remembered]:
    """The earliest version that covers every message before the cutoff; else the last that was made before it. None
    from before the user's own words for it."""
    said = (yield from head(line, at=cutoff - 1)).spoken
    if said <= newest.cleared:
        return Remembered()
    corrected, told = yield from _newest(line, newest, kind)
    first = max(said + 1, corrected)
    wants_told = told >= first  # an extract serves until there is one that is none
    for _ in range(PAGES):
        page = yield from _onward(line, kind, first, newest.seq)
        if not page:
            break
        for row in page:
            event = row.event
            if not isinstance(event, BriefUpdated | Summary) or event.covers < said:
                continue
            if not (event.extractive and wants_told):
                return Remembered(event, since=row.seq)
        first = page[-1].seq + 1
    earlier = yield from newest_markers(line, kind, first=newest.cleared + 1, last=max(said, corrected), limit=1)
    for row in earlier:
        event = row.event
        # One that was under way when somebody cleared tells of what was cleared.
        if isinstance(event, BriefUpdated | Summary) and event.covers > newest.cleared:
            return Remembered(event, behind=True, since=row.seq)
    return Remembered()


def _newest(line: Line, newest: Head, kind: str) -> Script[tuple[int, int]]:
    """The seqs of the newest version that the user wrote, and of the newest that is no extract; 0 where none is."""
    last, limit = newest.seq, 1
    for _ in range(PAGES):
        rows = yield from newest_markers(line, kind, first=newest.cleared + 1, last=last, limit=limit)
        for row in rows:
            event = row.event
            if isinstance(event, BriefUpdated | Summary):  # not redacted
                told = event.base if event.extractive else row.seq
                if isinstance(event, Summary):
                    return 0, told
                return row.seq if event.by else event.corrected, told
        if not rows:
            break
        last, limit = rows[-1].seq - 1, PAGE
    return 0, 0


def recap(line: Line, newest: Head) -> Script[Remembered]:
    """That of the session before the current one, if all of it was after the last clear."""
    first, wanted = newest.cleared + 1, newest.session - 1
    rows = yield from newest_markers(line, "session_ended", first=first, last=newest.seq, limit=RECAPS)
    cleared = (yield from head(line, at=newest.cleared)).session if newest.cleared and rows else 0
    for row in rows:
        event = row.event
        if isinstance(event, SessionEnded) and event.session == wanted > cleared:
            return Remembered(recap=event, since=row.seq)
    return Remembered()


def _onward(line: Line, kind: str, first: int, last: int) -> Script[list[Logged]]:
    rows = yield from gather(line, "markers_up", first=first, last=last, limit=PAGE, oldest_first=True, kind=kind)
    return [Logged(*row) for row in rows]
