"""What memory has still to do on a branch, derived from the log alone.

A reminder may be lost, and a worker may die: what is due can always be told again.
"""

from __future__ import annotations

import msgspec

from everthread.core.branches import Line
from everthread.core.events import BriefUpdated, SessionEnded, Summary
from everthread.core.logged import Logged, readable
from everthread.core.turns import Head
from everthread.store.log import Log
from everthread.store.scripts.append import Basis

RECAPS = 10  # sessions that are recapped at most, where that was left undone
PAGE = 20  # newest versions that are read at a time: some may be redacted


class Version(msgspec.Struct, frozen=True):
    """A brief or a range's summary in the log. `newest`: the seq of the newest there is, told or redacted."""

    newest: int = 0
    seq: int = 0
    event: BriefUpdated | Summary | None = None

    @property
    def covers(self) -> int:
        return self.event.covers if self.event else 0


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """What to go on from, and up to which message: a turn that is under way is left alone. `behind` messages no brief
    covers yet, `unsummarised` ones no summary of a range."""

    head: Head
    upto: int
    forgotten: int
    brief: Version
    behind: int
    known: Version  # the version that has all that is known of the facts
    summary: Version
    unsummarised: int
    recap: int  # the session that has none yet; 0 where all have
    newest_recap: int

    @property
    def covered(self) -> int:
        """Up to where the brief to go on from covers."""
        return max(self.head.cleared, self.brief.covers)

    def standing(self, strategy: str) -> tuple[Version, int]:
        """What is remembered under a strategy, and how many messages it is behind; some remember sessions only."""
        if strategy == "importance":
            return self.summary, self.unsummarised
        return (Version(), 0) if strategy == "session" else (self.brief, self.behind)

    def basis(self, kind: str) -> Basis:
        """What whatever is made now is made from."""
        if kind == "session_ended":
            return Basis(kind, self.newest_recap, self.forgotten)
        return Basis(kind, (self.summary if kind == "summary" else self.brief).newest, self.forgotten)


async def due(log: Log, line: Line, *, capable: bool) -> Due:
    """What is due. `capable`: a model can summarise, so that extractive versions are replaced."""
    forgotten = await log.forgotten(line)  # before anything else is read
    head = await log.head(line)
    upto = head.spoken
    if head.state in ("open", "waiting") and head.turn_first:
        upto = (await log.head(line, at=head.turn_first - 1)).spoken if head.turn_first > 1 else 0
    newest = await _newest(log, line, "brief_updated", head)
    brief = await _base(log, line, newest, head) if capable else newest
    newest_summary = await _newest(log, line, "summary", head)
    summary = await _base(log, line, newest_summary, head) if capable else newest_summary
    ended = await log.markers(line, "session_ended", limit=1)
    over = await _messages(log, line, head.cleared, head.session_first - 1)
    oldest = (await log.head(line, at=head.cleared)).session if head.cleared else 1
    return Due(
        head=head,
        upto=upto,
        forgotten=forgotten,
        brief=brief,
        behind=await _messages(log, line, max(head.cleared, brief.covers), upto),
        known=await _known(log, line, max(newest, newest_summary, key=lambda version: version.seq), head),
        summary=summary,
        unsummarised=await _messages(log, line, max(head.cleared, summary.covers), upto),
        recap=_recap_due(head.session, readable(ended), capable, oldest) if over else 0,
        newest_recap=ended[0].seq if ended else 0,
    )


async def _newest(log: Log, line: Line, kind: str, head: Head) -> Version:
    """The newest version that tells something since the last clear."""
    newest, last = 0, head.seq
    while page := await log.markers(line, kind, last=last, limit=PAGE):
        newest = newest or page[0].seq
        for logged in readable(page):
            if (found := _version(logged, head, newest)).event:
                return found
        last = page[-1].seq - 1
        if last <= head.cleared:
            break
    return Version(newest)


async def _base(log: Log, line: Line, newest: Version, head: Head) -> Version:
    """The version that a model goes on from: the newest that is no extract."""
    if newest.event is None or not newest.event.extractive:
        return newest
    return await _at(log, line, newest.event.base, head, newest.newest)


async def _known(log: Log, line: Line, newest: Version, head: Head) -> Version:
    event = newest.event
    if event is None or event.known:
        return newest
    return await _at(log, line, event.known_at, head, newest.newest)


async def _at(log: Log, line: Line, seq: int, head: Head, newest: int) -> Version:
    found = readable(await log.range(line, seq, seq)) if seq else []
    return _version(found[0], head, newest) if found else Version(newest)


def _version(logged: Logged, head: Head, newest: int) -> Version:
    event = logged.event
    tells = isinstance(event, BriefUpdated | Summary) and event.covers > head.cleared
    return Version(newest, logged.seq, event) if tells else Version(newest)  # type: ignore[arg-type]


async def _messages(log: Log, line: Line, first: int, last: int) -> int:
    """How many messages came after seq `first`, up to seq `last`."""
    if last <= first:
        return 0
    before = (await log.head(line, at=first)).messages_sum if first else 0
    return (await log.head(line, at=last)).messages_sum - before


def _recap_due(session: int, ended: list[Logged], capable: bool, oldest: int) -> int:
    """The first session that is over and has no recap, of those since the last clear that are not long over."""
    newest = ended[0].event if ended else None
    last = newest.session if isinstance(newest, SessionEnded) else 0
    if last >= session - 1:  # all have theirs; a model's takes the place of the newest extract
        return session - 1 if capable and isinstance(newest, SessionEnded) and newest.extractive else 0
    return max(last + 1, oldest, session - RECAPS)
