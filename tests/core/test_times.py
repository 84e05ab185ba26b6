"""Times, one by one and many at once."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from everthread.core.times import EXACT, microseconds, moment, moments

MOMENTS = st.datetimes(timezones=st.none()).map(lambda one: microseconds(one.replace(tzinfo=moment(0).tzinfo)))


@given(st.lists(MOMENTS | st.integers(-EXACT, EXACT), max_size=4))
@example([EXACT - 1, 1 - EXACT])
@example([EXACT + 1])
@example([0, -1, -1_000_001])
def test_many_moments_are_those_that_each_is(given: list[int]) -> None:
    assert moments(given) == [moment(one) for one in given]
