"""Times: a `datetime` for whoever uses the library, microseconds since 1970 in the store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from msgspec import convert as _convert

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EXACT = 2**52  # microseconds before or after 1970: from 1827 to 2112


def moment(microseconds: int) -> datetime:
    return EPOCH + timedelta(0, 0, microseconds)  # by name it takes half as long again


def moments(microseconds: Sequence[int]) -> list[datetime]:
    """The same of many, three times as fast within the years in which a float of seconds is exact."""
    if microseconds and min(microseconds) > -EXACT and max(microseconds) < EXACT:
        return _convert([one / 1_000_000 for one in microseconds], list[datetime], strict=False)
    return [moment(one) for one in microseconds]


def microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)
