"""What memory has of the turns that are not sent: the brief or summary that goes with a cutoff, and a recap.

Which version is sent depends on the cutoff, not on the moment: it stays the same until the cutoff steps, or the user
writes another in its place, which holds at once. Nothing is read here that was said, or summarised, before the last
clear.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from everthread.core.branches import MARKER_KINDS, Line, oldest
from everthread.core.events import MEMORY, BriefUpdated, ModelCall, SessionEnded, Summary
from everthread.core.logged import Logged, logged, readable
from everthread.core.turns import Head
from everthread.store.engine import Ask, Row, Script
from everthread.store.scripts.along import markers, span
from everthread.store.scripts.lookups import tip_of
from everthread.store.scripts.read import head, newest_markers

PAGE, PAGES = 16, 16


class Recollection(NamedTuple):
    """`behind`: what it covers ends before the window begins. `since`: seq of the newest marker it is made of."""

    brief: BriefUpdated | Summary | None = None
    behind: bool = False
    recap: SessionEnded | None = None
    since: int = 0


def as_begun(line: Line, newest: Head, kind: str, latest: int) -> Script[tuple[Head, int]]:
    """Up to which event a kind of memory is read, and the newest there: in a turn that runs, what its first model call
    could be told. All its requests begin alike, and what is made meanwhile is told from the next turn on."""
    if newest.state not in ("open", "waiting") or latest <= newest.turn_first:
        return newest, latest
    made = yield from _onward(line, "model_call", newest.turn_first, newest.seq, limit=PAGE)
    calls = [one.event for one in readable(made) if isinstance(one.event, ModelCall) and one.event.agent != MEMORY]
    if not calls or calls[0].at > latest:
        return newest, latest
    last = calls[0].at - 1
    rows = yield from newest_markers(line, kind, last=last, limit=1)
    return replace(newest, seq=last), rows[0].seq if rows else 0


def brief(
    line: Line, newest: Head, kind: str, cutoff: int, *, latest: int, ahead: list[Row] | None = None
) -> Script[Recollection]:
    """The earliest version that covers every message before the cutoff, if possible one that is no extract; else the
    last that was made before the cutoff, or the first after it. Never one from before the user's correction.

    `latest`: the seq of the newest version. `ahead`: the answer to `versions_at`, if it is there already."""
    if cutoff <= newest.cleared + 1:
        return Recollection()
    said, versions = yield from _two(line, newest, kind, cutoff, latest, ahead)
    if said <= newest.cleared:
        return Recollection()
    if (found := _mostly(said, versions)) is not None:
        return found
    latest_of_all = yield from _newest(line, newest, kind)
    found, first_behind = yield from _after(line, newest, kind, said, latest_of_all)
    if found:
        return found
    if latest_of_all.row and _covers(latest_of_all.row) >= said:  # beyond all that was looked through
        return _remembered(latest_of_all.row)
    return (yield from _before(line, newest, kind, max(said, latest_of_all.corrected))) or first_behind


def _before(line: Line, newest: Head, kind: str, last: int) -> Script[Recollection | None]:
    """The last version that was made up to event `last`."""
    earlier = yield from newest_markers(line, kind, first=newest.cleared + 1, last=last, limit=PAGE)
    # One that was under way when somebody cleared tells of what was cleared.
    made = [row for row in _told(earlier) if _covers(row) > newest.cleared]
    return _remembered(made[0], behind=True) if made else None


def _after(
    line: Line, newest: Head, kind: str, said: int, latest: _Latest
) -> Script[tuple[Recollection | None, Recollection]]:
    """The first version after message `said` that covers it, if possible one that is no extract; and the first that
    does not cover it."""
    first, versions = max(said + 1, latest.corrected), _Versions(said, newest.cleared)
    for number in range(PAGES):
        page = yield from _onward(line, kind, first, newest.seq, limit=PAGE if number else 1)  # mostly the first is it
        if not page:
            break
        for row in _told(page):
            if versions.take(row, or_extract=latest.told < first):
                return _remembered(row), versions.behind
        first = page[-1].seq + 1
    return versions.extract, versions.behind


class _Versions:
    """The versions that were looked through for one that covers message `said`: the first that is an extract, and the
    first that is behind."""

    def __init__(self, said: int, cleared: int) -> None:
        self._said, self._cleared = said, cleared
        self.extract: Recollection | None = None
        self.behind = Recollection()

    def take(self, row: Logged, *, or_extract: bool) -> bool:
        """Whether it is the one. `or_extract`: there is none but extracts."""
        if _covers(row) < self._said:
            if not self.behind.brief and _covers(row) > self._cleared:
                self.behind = _remembered(row, behind=True)
            return False
        if or_extract or not _is_extract(row):
            return True
        self.extract = self.extract or _remembered(row)  # serves until there is one that is none
        return False


def _two(
    line: Line, newest: Head, kind: str, cutoff: int, latest: int, ahead: list[Row] | None
) -> Script[tuple[int, list[Logged]]]:
    """The seq of the last message before the cutoff, the newest version, and the first after that message: with a
    single question where one piece has it all. Both may be the same."""
    tip = tip_of(line, newest.seq)
    if cutoff > tip.segment.first and latest >= tip.segment.first:
        bounds = {"first": newest.cleared + 1, "last": newest.seq, "before_seq": cutoff - 1}
        asked = {**span(line, tip.segment), **bounds, "kind": kind}
        rows = (yield Ask("versions_at", asked)) if ahead is None else ahead
        if rows and rows[0][-1] >= tip.segment.first - 1:
            return rows[0][-1], logged(row[:-1] for row in rows)
    said = (yield from head(line, at=cutoff - 1)).spoken
    piece = oldest(tip.past, lambda piece: piece.marks[MARKER_KINDS.index(kind)] > said)
    segment = piece.segment(first=said + 1) if piece else tip.segment._replace(first=max(said + 1, tip.segment.first))
    asked = {**span(line, segment), "kind": kind, "newest_branch": line.owner(latest), "newest_seq": latest}
    return said, logged((yield Ask("versions_along", asked)))


def _mostly(said: int, versions: list[Logged]) -> Recollection | None:
    """The version that is sent, where the newest and the first after the cutoff tell enough."""
    told = _told(versions)
    if len(told) < 2 or len(told) < len(versions):  # or some are redacted, or damaged
        return None
    first, latest = told[1], _latest(told[0])
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


def _remembered(row: Logged, *, behind: bool = False) -> Recollection:
    assert isinstance(row.event, BriefUpdated | Summary)
    return Recollection(row.event, behind=behind, since=row.seq)


def recap(line: Line, newest: Head, begin: Logged, covered: int) -> Script[Recollection]:
    """The first that a model made of the session before the one in which the window begins, if all of that session came
    after event `covered`. An extract is left out: it says nothing that `context.gaps` does not say without it."""
    wanted = begin.session - 1
    if wanted < 1 or (covered and (yield from head(line, at=covered)).session >= wanted):
        return Recollection()
    began = (yield from head(line, at=begin.seq)).session_first
    return _recap_of(wanted, (yield from _onward(line, "session_ended", began, newest.seq, limit=PAGE)))


def _recap_of(session: int, rows: list[Logged]) -> Recollection:
    for row in readable(rows):
        event = row.event
        if isinstance(event, SessionEnded) and event.session == session and not event.extractive:
            return Recollection(recap=event, since=row.seq)
    return Recollection()


def _onward(line: Line, kind: str, first: int, last: int, *, limit: int) -> Script[list[Logged]]:
    return logged((yield from markers(line, kind, first=first, last=last, limit=limit, oldest_first=True)))
