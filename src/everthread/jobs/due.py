"""What memory has still to do on a branch, derived from the log alone.

A reminder may be lost, and a worker may die: what is due can always be told again. Failures leave their records in the
log, so the pause before the next try is derived as well.
"""

from __future__ import annotations

import msgspec

from everthread.core.branches import Line
from everthread.core.events import BriefUpdated, ModelCall, SessionEnded, Summary
from everthread.core.logged import Logged
from everthread.core.turns import Head
from everthread.jobs.asking import AGENT
from everthread.store.log import Log

VERSIONS = 50  # newest versions among which the last one of a model's is looked for
RECORDS = 12  # newest records among which failures are counted
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 3_600.0  # seconds before a failed job is tried again


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """`upto`: the seq of the last message that can be covered. `brief` and `summary` are the versions to go on from;
    those `expected` are the newest there are, and must still be so when another is published."""

    head: Head
    upto: int
    brief: Logged | None
    expected_brief: int
    known: Logged | None  # the newest version that has all that is known of the facts
    since_known: int  # versions that were made after that one
    summary: Logged | None
    expected_summary: int
    recap: int  # the session that has none yet; 0 where all have
    expected_recap: int
    failures: int
    failed_at: int
    error: str

    @property
    def covered(self) -> int:
        """Up to where the brief to go on from covers."""
        return max(self.head.cleared, _covers(self.brief))

    @property
    def wants_brief(self) -> bool:
        return self.upto > self.covered

    def pause(self, now: int) -> float:
        """Seconds until it may be tried again after a failure; 0 where it may now."""
        if not self.failures:
            return 0.0
        wait = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (self.failures - 1))
        return max(0.0, wait - (now - self.failed_at) / 1e6)


async def due(log: Log, line: Line, *, capable: bool) -> Due:
    """What is due. `capable`: a model can summarise, so that extractive versions are replaced."""
    head = await log.head(line)
    upto = head.turn_first - 1 if head.state in ("open", "waiting") and head.turn_first else head.spoken
    briefs = await log.markers(line, "brief_updated", limit=VERSIONS)
    summaries = await log.markers(line, "summary", limit=VERSIONS)
    ended = await log.markers(line, "session_ended", limit=1)
    failures, failed_at, error = await _failures(log, line)
    since = [one for one in briefs if _covers(one) > head.cleared]
    known = next((one for one in since if isinstance(one.event, BriefUpdated) and one.event.known), None)
    return Due(
        head=head,
        upto=upto,
        brief=_base(briefs, head, capable),
        expected_brief=briefs[0].seq if briefs else 0,
        known=known,
        since_known=briefs.index(known) if known else len(briefs),
        summary=_base(summaries, head, capable),
        expected_summary=summaries[0].seq if summaries else 0,
        recap=_recap_due(head, ended, capable),
        expected_recap=ended[0].seq if ended else 0,
        failures=failures,
        failed_at=failed_at,
        error=error,
    )


def _covers(logged: Logged | None) -> int:
    event = logged.event if logged else None
    return event.covers if isinstance(event, BriefUpdated | Summary) else 0


def _base(versions: list[Logged], head: Head, capable: bool) -> Logged | None:
    """The version to go on from: the newest, or the newest that a model made, where one can."""
    for logged in versions:
        event = logged.event
        if not isinstance(event, BriefUpdated | Summary) or event.covers <= head.cleared:
            continue
        if not (capable and event.extractive):
            return logged
    return None


def _recap_due(head: Head, ended: list[Logged], capable: bool) -> int:
    """The session before this one, unless it has its recap."""
    wanted = head.session - 1
    if wanted < 1:
        return 0
    newest = ended[0].event if ended else None
    if isinstance(newest, SessionEnded) and newest.session >= wanted:
        return wanted if capable and newest.extractive and newest.session == wanted else 0
    return wanted


async def _failures(log: Log, line: Line) -> tuple[int, int, str]:
    """How often in a row memory's model calls failed, when last, and why."""
    count, at, error = 0, 0, ""
    for logged in await log.markers(line, "model_call", limit=4 * RECORDS):
        call = logged.event
        if not isinstance(call, ModelCall) or call.agent != AGENT:
            continue
        if not call.error or count == RECORDS:
            break
        if not count:
            at, error = logged.at, call.error
        count += 1
    return count, at, error
