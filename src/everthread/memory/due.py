"""What memory still has to do on a branch, derived from the log alone.

A reminder may be lost, and a worker may die: what is due can always be told again.
"""

from __future__ import annotations

import msgspec

from everthread.core.branches import Line
from everthread.core.events import BriefUpdated, SessionEnded, Summary
from everthread.core.logged import Logged, readable
from everthread.core.turns import Head
from everthread.store.engine import Script
from everthread.store.scripts.along import key_of
from everthread.store.scripts.append import Basis, forgotten
from everthread.store.scripts.read import head, newest_markers, onward

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

    @property
    def as_brief(self) -> BriefUpdated:
        """This version as a brief; an empty one where it is no brief."""
        return self.event if isinstance(self.event, BriefUpdated) else BriefUpdated(text="", covers=0)

    @property
    def extractive(self) -> bool:
        return bool(self.event and self.event.extractive)

    @property
    def base(self) -> int:
        """The seq of the version that a model goes on from: this one, or the one before it where this is an extract."""
        if self.event is None:
            return 0
        return self.event.base if self.event.extractive else self.seq


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """What to go on from, and up to which message: a turn that is under way is left alone. `behind` messages no brief
    covers yet, `unsummarised` ones no summary of a range."""

    head: Head
    upto: int
    turns: tuple[int, int]  # that had begun up to where the brief covers, and up to `upto`
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
        """The seq up to which the brief covers that the next one goes on from."""
        return max(self.head.cleared, self.brief.covers)

    def version_under(self, strategy: str) -> tuple[Version, int]:
        """What is remembered under a strategy, and how many messages it is behind; some remember sessions only."""
        if strategy == "importance":
            return self.summary, self.unsummarised
        return (Version(), 0) if strategy == "session" else (self.brief, self.behind)

    def basis(self, kind: str) -> Basis:
        """What the version that is made now is made from."""
        if kind == "session_ended":
            return Basis(kind, self.newest_recap, self.forgotten)
        return Basis(kind, (self.summary if kind == "summary" else self.brief).newest, self.forgotten)


def due(line: Line, *, capable: bool) -> Script[Due]:
    """What is due. `capable`: a model can summarise, so that extractive versions are replaced."""
    redacted = yield from forgotten(key_of(line))  # before anything else is read
    newest_head = yield from head(line)
    upto = newest_head.spoken
    if newest_head.state in ("open", "waiting") and newest_head.turn_first:
        upto = (yield from head(line, at=newest_head.turn_first - 1)).spoken
    newest = yield from _newest(line, "brief_updated", newest_head)
    brief = yield from _base(line, newest, newest_head, capable)
    newest_summary = yield from _newest(line, "summary", newest_head)
    summary = yield from _base(line, newest_summary, newest_head, capable)
    ended = yield from newest_markers(line, "session_ended", limit=1)
    cleared = newest_head.cleared
    over = yield from _messages(line, cleared, newest_head.session_first - 1)
    oldest = (yield from head(line, at=cleared)).session if cleared else 1
    return Due(
        head=newest_head,
        upto=upto,
        turns=((yield from head(line, at=max(cleared, brief.covers))).turn, (yield from head(line, at=upto)).turn),
        forgotten=redacted,
        brief=brief,
        behind=(yield from _messages(line, max(cleared, brief.covers), upto)),
        known=(yield from _known(line, max(newest, newest_summary, key=lambda version: version.seq), newest_head)),
        summary=summary,
        unsummarised=(yield from _messages(line, max(cleared, summary.covers), upto)),
        recap=_recap_due(newest_head.session, readable(ended), capable, oldest) if over else 0,
        newest_recap=ended[0].seq if ended else 0,
    )


def _newest(line: Line, kind: str, head: Head) -> Script[Version]:
    """The newest version that tells something since the last clear."""
    newest, last = 0, head.seq
    while page := (yield from newest_markers(line, kind, last=last, limit=PAGE)):
        newest = newest or page[0].seq
        for logged in readable(page):
            if (found := _version(logged, head, newest)).event:
                return found
        last = page[-1].seq - 1
        if last <= head.cleared:
            break
    return Version(newest)


def _base(line: Line, newest: Version, head: Head, capable: bool) -> Script[Version]:
    """The version to go on from: the newest; for a model, the newest that is no extract."""
    if not capable or not newest.extractive:
        return newest
    return (yield from _at(line, newest.base, head, newest.newest))


def _known(line: Line, newest: Version, head: Head) -> Script[Version]:
    event = newest.event
    if event is None or event.known:
        return newest
    return (yield from _at(line, event.known_at, head, newest.newest))


def _at(line: Line, seq: int, head: Head, newest: int) -> Script[Version]:
    found = readable((yield from onward(line, first=seq, last=seq))) if seq else []
    return _version(found[0], head, newest) if found else Version(newest)


def _version(logged: Logged, head: Head, newest: int) -> Version:
    event = logged.event
    tells = isinstance(event, BriefUpdated | Summary) and event.covers > head.cleared
    return Version(newest, logged.seq, event) if tells else Version(newest)  # type: ignore[arg-type]


def _messages(line: Line, first: int, last: int) -> Script[int]:
    """How many messages came after seq `first`, up to seq `last`."""
    if last <= first:
        return 0
    before = (yield from head(line, at=first)).messages_sum if first else 0
    return (yield from head(line, at=last)).messages_sum - before


def _recap_due(session: int, ended: list[Logged], capable: bool, oldest: int) -> int:
    """The first session that is over and has no recap, of those since the last clear that are not long over."""
    newest = ended[0].event if ended else None
    last = newest.session if isinstance(newest, SessionEnded) else 0
    if last >= session - 1:  # all have theirs; a model's takes the place of the newest extract
        return session - 1 if capable and isinstance(newest, SessionEnded) and newest.extractive else 0
    return max(last + 1, oldest, session - RECAPS)
