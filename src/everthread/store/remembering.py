"""What memory has of the turns that are not sent: the brief or summary that goes with a cutoff, and the recap.

Which version is sent depends on the cutoff, not on the moment: it stays the same until the cutoff steps, or the user
writes another in its place, which holds at once. Nothing is read here that was said, or summarised, before the last
clear.
"""

from __future__ import annotations

from typing import NamedTuple

from everthread.core.branches import Line
from everthread.core.events import BriefUpdated, SessionEnded, Summary
from everthread.core.logged import Logged, logged, readable
from everthread.core.turns import Head
from everthread.store.engine import Ask, Script
from everthread.store.reading import gather, head, newest_markers, span

PAGE, PAGES = 16, 16
RECAPS = 4  # sessions' ends looked at: more than one may have been written for the same


class Remembered(NamedTuple):
    """`behind`: what it covers ends before the window begins. `since`: seq of the newest marker it is made of."""

    brief: BriefUpdated | Summary | None = None
    behind: bool = False
    recap: SessionEnded | None = None
    since: int = 0


def brief(line: Line, newest: Head, kind: str, cutoff: int) -> Script[Remembered]:
    """The earliest version that covers every message before the cutoff, one that is no extract where there is one; else
    the last that was made before it, or the first after. None from before the user's own words for it."""
    if (found := (yield from _mostly(line, newest, kind, cutoff))) is not None:
        return found
    said = (yield from head(line, at=cutoff - 1)).spoken
    if said <= newest.cleared:
        return Remembered()
    latest = yield from _newest(line, newest, kind)
    first, extract, behind = max(said + 1, latest.corrected), Remembered(), Remembered()
    for number in range(PAGES):
        page = yield from _onward(line, kind, first, newest.seq, limit=PAGE if number else 1)  # mostly the first it is
        if not page:
            break
        for row in _told(page):
            if _covers(row) < said:
                behind = behind if behind.brief or _covers(row) <= newest.cleared else _remembered(row, behind=True)
            elif not _is_extract(row) or latest.told < first:
                return _remembered(row)
            elif not extract.brief:
                extract = _remembered(row)  # serves until there is one that is none
        first = page[-1].seq + 1
    if extract.brief:
        return extract
    if latest.row and _covers(latest.row) >= said:  # beyond all that was looked through
        return _remembered(latest.row)
    last = max(said, latest.corrected)
    earlier = yield from newest_markers(line, kind, first=newest.cleared + 1, last=last, limit=PAGE)
    # One that was under way when somebody cleared tells of what was cleared.
    made = [row for row in _told(earlier) if _covers(row) > newest.cleared]
    return _remembered(made[0], behind=True) if made else behind


def _mostly(line: Line, newest: Head, kind: str, cutoff: int) -> Script[Remembered | None]:
    """The same with a single question, where that tells enough."""
    pieces = list(line.between(max(1, newest.cleared), newest.seq))
    if cutoff <= newest.cleared + 1:
        return Remembered()
    if len(pieces) != 1 or cutoff <= pieces[0].first:
        return None
    bounds = {"first": newest.cleared + 1, "last": newest.seq, "before_seq": cutoff - 1}
    rows = yield Ask("versions_at", {**span(line, pieces[0]), **bounds, "kind": kind})
    versions = _told(logged(row[:-1] for row in rows))
    if len(versions) < 2 or len(versions) < len(rows):  # or some are redacted, or damaged
        return None
    said, first, latest = rows[0][-1], versions[1], _latest(versions[0])
    if said <= newest.cleared:
        return Remembered()
    stands = first.seq > max(said, latest.corrected - 1) and _covers(first) >= said
    return _remembered(first) if stands and not (_is_extract(first) and latest.told > said) else None


class _Latest(NamedTuple):
    """The newest version, and the seqs of the newest that the user wrote and of the newest that is no extract."""

    row: Logged | None = None
    corrected: int = 0
    told: int = 0


def _newest(line: Line, newest: Head, kind: str) -> Script[_Latest]:
    last, limit = newest.seq, 1
    for _ in range(PAGES):
        rows = yield from newest_markers(line, kind, first=newest.cleared + 1, last=last, limit=limit)
        for row in _told(rows):
            return _latest(row)
        if not rows:
            break
        last, limit = rows[-1].seq - 1, PAGE
    return _Latest()


def _latest(row: Logged) -> _Latest:
    event = row.event
    assert isinstance(event, BriefUpdated | Summary)
    told = event.base if event.extractive else row.seq
    if isinstance(event, Summary):
        return _Latest(row, 0, told)
    return _Latest(row, row.seq if event.by else event.corrected, told)


def _told(rows: list[Logged]) -> list[Logged]:
    """The versions among them that are neither redacted nor damaged."""
    return [row for row in readable(rows) if isinstance(row.event, BriefUpdated | Summary)]


def _covers(row: Logged) -> int:
    return int(getattr(row.event, "covers", 0))


def _is_extract(row: Logged) -> bool:
    return bool(getattr(row.event, "extractive", False))


def _remembered(row: Logged, *, behind: bool = False) -> Remembered:
    assert isinstance(row.event, BriefUpdated | Summary)
    return Remembered(row.event, behind=behind, since=row.seq)


def recap(line: Line, newest: Head) -> Script[Remembered]:
    """That of the session before the current one, if all of it was after the last clear."""
    first, wanted = newest.cleared + 1, newest.session - 1
    rows = yield from newest_markers(line, "session_ended", first=first, last=newest.seq, limit=RECAPS)
    cleared = (yield from head(line, at=newest.cleared)).session if newest.cleared and rows else 0
    for row in readable(rows):
        event = row.event
        if isinstance(event, SessionEnded) and event.session == wanted > cleared:
            return Remembered(recap=event, since=row.seq)
    return Remembered()


def _onward(line: Line, kind: str, first: int, last: int, *, limit: int) -> Script[list[Logged]]:
    rows = yield from gather(line, "markers_up", first=first, last=last, limit=limit, oldest_first=True, kind=kind)
    return [Logged(*row) for row in rows]
