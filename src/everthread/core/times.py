"""Times: a `datetime` for whoever uses the library, microseconds since 1970 in the store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(microseconds: int) -> datetime:
    return EPOCH + timedelta(0, 0, microseconds)  # by name it takes half as long again


def microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)
