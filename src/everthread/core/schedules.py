"""Schedules: a message to the agent at a time, once or again and again.

When a schedule is due follows from its cron expression and its time zone, or from one moment, and from the due time
that ran last: never from the clock alone, so a clock that is set back runs nothing twice. A run is missed where it was
due `TOLERANCE` ago or longer and nobody had taken it up. Of missed runs `once` makes a single one, which stands for all
that was due until it began, and `skip` none: it goes on with the newest that is not yet missed, or the next.

Local times follow Debian's cron (`cronsim`): at the end of daylight saving time a fixed time that comes twice runs the
first time only, and at its beginning one that never comes runs right after the jump. A schedule with a `*` in its
minutes or hours goes by what has passed: every hour is every hour.

Who runs them is `jobs.schedules`, and where they are kept `store.beside.schedules`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from everthread.core.ids import is_id
from everthread.core.times import EPOCH, microseconds
from everthread.core.values import Value
from everthread.errors import BadValue

TOLERANCE = timedelta(minutes=5)  # a run that is later than that was missed
BACK_OFF = (60, 300, 1_500, 7_500)  # seconds until a run that has failed is tried again; after the last it is paused
LONGEST = 32_000  # characters of a message
LAST_YEAR = 9_000  # so that every zone has the time
MOST = 100  # schedules of a conversation that are not done

ORIGIN = "schedule:"

Missed = Literal["once", "skip"]
State = Literal["active", "paused", "done"]


class Schedule(msgspec.Struct, Value, frozen=True, kw_only=True):
    """A message that is said to the agent `at` a time, or whenever `cron` says in the time zone `zone`. `missed`: what
    is done about runs while nothing ran. `due`: when it is said next; None where it is done. `look`: when a worker
    looks at it next, which is later than `due` while it waits behind a turn or for another try. `failures` are in a
    row. `ran`: the due time that ran last. The rest is the tool call that made it, where one did."""

    id: str
    tenant: str
    user: str
    conversation: str
    text: str
    at: datetime | None = None
    cron: str = ""
    zone: str = "UTC"
    missed: Missed = "once"
    state: State = "active"
    due: datetime | None = None
    look: datetime | None = None
    failures: int = 0
    ran: datetime | None = None
    made_conversation: str = ""
    made_branch: int = 0
    made_seq: int = 0

    @property
    def origin(self) -> str:
        """The origin of the messages that it says."""
        return f"{ORIGIN}{self.id}"

    @property
    def key(self) -> str:
        """The key of the message that it says when it is due. An application's keys have no line breaks."""
        return f"schedule\n{self.id}/{microseconds(self.due) if self.due else 0}"


def schedule_of(origin: str) -> str:
    """The id of the schedule that said a message of this origin; empty where none did."""
    id = origin.removeprefix(ORIGIN)
    return id if id != origin and is_id(id) else ""


# -- what is given -------------------------------------------------------------------------------------------


def check_text(text: object) -> str:
    if not isinstance(text, str) or not text.strip() or len(text) > LONGEST:
        raise BadValue("text", text, f"something to say: text that is not blank, of at most {LONGEST:,} characters")
    return text


def check_missed(missed: object) -> Missed:
    if missed not in ("once", "skip"):
        raise BadValue("missed", missed, "once or skip")
    return "once" if missed == "once" else "skip"


def check_cron(cron: object) -> str:
    """A cron expression of five fields, with one space between them."""
    if not isinstance(cron, str):
        raise BadValue("cron", cron, "text, such as '0 8 * * 1-5'")
    fields = cron.split()
    if len(fields) != 5:
        allowed = "five fields (minute, hour, day of the month, month, day of the week), such as '0 8 * * 1-5'"
        raise BadValue("cron", cron, allowed)
    try:
        CronSim(cron, datetime(2000, 1, 1, tzinfo=UTC))
    except (CronSimError, ValueError, AssertionError) as problem:
        why = str(problem).removeprefix("Bad ") or "one of its fields"
        raise BadValue("cron", cron, f"an expression that cron understands; it does not understand: {why}") from None
    return " ".join(fields)


def zone_of(name: str) -> ZoneInfo:
    """A time zone by its name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # there is none, or it is no name at all
        raise BadValue("zone", name, "the name of a time zone, such as Europe/Berlin or UTC") from None


def check_zone(zone: object) -> str:
    if not isinstance(zone, str):
        raise BadValue("zone", zone, "the name of a time zone, such as Europe/Berlin or UTC")
    return zone_of(zone).key


def moment_of(at: object, zone: str) -> datetime:
    """The moment of a time that somebody gave; one without a time zone of its own is a local time of `zone`."""
    if not isinstance(at, datetime):
        raise BadValue("at", at, "a datetime, such as datetime(2026, 12, 24, 18, tzinfo=UTC)")
    if at.tzinfo is None and not zone:
        raise BadValue("at", at, "a datetime with a time zone, or given together with `zone`")
    if at.year > LAST_YEAR:
        raise BadValue("at", at, f"a time that there is in every time zone, before the year {LAST_YEAR + 1}")
    try:
        return (at if at.tzinfo else _after_the_jump(at.replace(tzinfo=zone_of(zone), fold=0))).astimezone(UTC)
    except (OverflowError, ValueError):
        raise BadValue("at", at, "a time that there is in every time zone") from None


def _after_the_jump(local: datetime) -> datetime:
    """A local time; where the clocks jump over it, the first there is after it."""
    while local != local.astimezone(UTC).astimezone(local.tzinfo):
        local += timedelta(minutes=1)
    return local


def scheduled(
    text: object, *, at: object = None, cron: object = "", zone: str = "", missed: object = "once", now: datetime
) -> Schedule:
    """A schedule from what somebody gave, not yet anybody's."""
    if (at is None) is (cron == ""):
        both = "both" if cron else "neither"
        raise BadValue("at, cron", both, "one of them: a time, or a cron expression such as '0 8 * * 1-5'")
    zone = check_zone(zone) if zone else ""
    when: dict[str, Any] = {"cron": check_cron(cron)} if at is None else {"at": moment_of(at, zone)}
    when |= {"zone": zone or "UTC", "missed": check_missed(missed)}
    new = Schedule(id="", tenant="", user="", conversation="", text=check_text(text), **when)
    return _from_now_on(new, now)


def changed(
    one: Schedule,
    now: datetime,
    *,
    text: object = None,
    at: object = None,
    cron: object = None,
    zone: str | None = None,
    missed: object = None,
) -> Schedule:
    """A schedule with what somebody gave in place of what it was. One that was done goes on with a new time."""
    if at is not None and cron is not None:
        raise BadValue("at, cron", "both", "one of them")
    new: dict[str, Any] = {}
    if text is not None:
        new["text"] = check_text(text)
    if missed is not None:
        new["missed"] = check_missed(missed)
    if zone is not None:
        new["zone"] = check_zone(zone)
    if at is not None:
        new |= {"at": moment_of(at, new.get("zone", one.zone)), "cron": ""}
    if cron is not None:
        new |= {"at": None, "cron": check_cron(cron)}
    found = msgspec.structs.replace(one, **new)
    moves = (found.at, found.cron) != (one.at, one.cron) or (found.cron and found.zone != one.zone)
    return _from_now_on(found, now) if moves else found


def _from_now_on(one: Schedule, now: datetime) -> Schedule:
    due = first_due(one, now)
    state: State = "active" if one.state == "done" else one.state
    return msgspec.structs.replace(one, due=due, look=due, failures=0, state=state)


# -- when ----------------------------------------------------------------------------------------------------


def following(cron: str, zone: str, after: datetime) -> datetime | None:
    """The first time after a moment; None where there is none in fifty years."""
    times = CronSim(cron, after.astimezone(zone_of(zone)))
    try:
        while (found := next(times).astimezone(UTC)) <= after:  # as when a local time comes for the second time
            pass
    except (StopIteration, OverflowError, ValueError):
        return None
    return found


def first_due(one: Schedule, now: datetime) -> datetime:
    """When a schedule that was just made or changed is due. Never at or before the due time that ran last."""
    if one.at is not None:
        if one.at <= now:
            raise BadValue("at", f"{one.at}", f"later than now, which is {now:%Y-%m-%d %H:%M} UTC")
        return one.at
    found = following(one.cron, one.zone, max(now, one.ran) if one.ran else now)
    if found is None:
        raise BadValue("cron", one.cron, "a time that comes within fifty years")
    return found


def is_due(one: Schedule, now: datetime) -> bool:
    return one.state == "active" and one.due is not None and one.look is not None and one.look <= now


def is_missed(one: Schedule, now: datetime) -> bool:
    """Whether nobody took it up when it was due: whoever does and has to wait moves `look`."""
    return one.due is not None and one.look == one.due and now - one.due >= TOLERANCE


def _next_due(one: Schedule, after: datetime) -> datetime | None:
    """The due time that comes after the one there is, and after a moment; None where there is none."""
    return None if one.at or one.due is None else following(one.cron, one.zone, max(one.due, after))


# -- how it goes on ------------------------------------------------------------------------------------------


def after_run(one: Schedule, began: datetime) -> Schedule:
    """The schedule once a run has ended. One that began late stands for all that was due until then."""
    is_late = one.due is not None and began - one.due >= TOLERANCE
    moved = _moved_on(one, _next_due(one, began if is_late else EPOCH))
    return msgspec.structs.replace(moved, ran=one.due, failures=0)


def skipped(one: Schedule, now: datetime) -> Schedule:
    """The schedule without what was missed. Of what was due within the tolerance only the newest is left to be said:
    the ones before it have been passed over like the rest."""
    due = _next_due(one, now - TOLERANCE)
    while due is not None and (later := following(one.cron, one.zone, due)) is not None and later <= now:
        due = later
    return _moved_on(one, due)


def _moved_on(one: Schedule, due: datetime | None) -> Schedule:
    return msgspec.structs.replace(one, due=due, look=due, state=one.state if due else "done")


def after_failure(one: Schedule, now: datetime) -> Schedule:
    """The schedule once a run has failed: tried again later, and paused where that has been of no use."""
    failures = one.failures + 1
    if failures > len(BACK_OFF):
        return msgspec.structs.replace(one, failures=failures, state="paused")
    look = now + timedelta(seconds=BACK_OFF[failures - 1])
    return msgspec.structs.replace(one, failures=failures, look=look)


def after_refusal(one: Schedule, now: datetime, again: datetime) -> Schedule:
    """The schedule once a run was refused, because it is more than its user may have: on to its next time; a single
    message is tried `again` then. That is no failure of its own."""
    return msgspec.structs.replace(one, look=again) if one.at else _moved_on(one, _next_due(one, now))


def resumed(one: Schedule, now: datetime) -> Schedule:
    """A schedule that was paused. What a cron expression called for meanwhile is passed over; a single message whose
    time has come meanwhile is said at once."""
    if one.state != "paused":
        return one
    due = first_due(one, now) if one.cron else one.due
    look = max(due, now) if due else None
    return msgspec.structs.replace(one, state="active", failures=0, due=due, look=look)


def paused(one: Schedule) -> Schedule:
    """A schedule that says nothing until it is resumed; one that is done is done."""
    return msgspec.structs.replace(one, state="paused") if one.state == "active" else one
