"""Which due times of a schedule must run, worked out from the list of all of them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from everthread.core.schedules import TOLERANCE, Schedule, following


def expected_runs(one: Schedule, made: datetime, looks: Iterable[datetime]) -> list[datetime]:
    """Those that run where a schedule was made at one time and a worker looks at others, in their order."""
    times = list(looks)
    due, ran = _all_due(one, made, max(times, default=made)), list[datetime]()
    for time in times:
        found = [each for each in due if each <= time]
        late = [each for each in found if time - each >= TOLERANCE]
        if one.missed == "skip":
            ran += [each for each in found if each not in late][-1:] if late else found
        else:
            ran += found[:1] if late else found
        due = due[len(found) :]
    return ran


def _all_due(one: Schedule, after: datetime, end: datetime) -> list[datetime]:
    found = list[datetime]()
    while (after := following(one.cron, one.zone, after) or end + timedelta(days=1)) <= end:
        found.append(after)
    return found
