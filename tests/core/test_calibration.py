"""Calibration: the factor holds for 99 of 100 model calls, and seldom moves."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everthread.core.calibration import HIGHEST, LEAST, LOWEST, factor, twentieths_of
from everthread.core.estimates import Measure

CANONICAL = st.integers(min_value=LEAST, max_value=2_000_000)
COUNTS = st.dictionaries(st.integers(LOWEST, HIGHEST), st.integers(1, 500), min_size=1, max_size=20)
FEW = st.lists(st.integers(LOWEST, HIGHEST), min_size=20, max_size=99).map(lambda found: dict(Counter(found)))
MANY = st.builds(lambda counts, one: dict(Counter(counts) + Counter({one: 100})), COUNTS, st.integers(LOWEST, HIGHEST))
KNOWN = FEW | MANY


@st.composite
def model_calls(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Reported usage and canonical size of 100 to 300 model calls, within the bounds of a ratio."""
    sizes = draw(st.lists(CANONICAL, min_size=100, max_size=300))
    return [(draw(st.integers(math.ceil(size / 2), 4 * size)), size) for size in sizes]


@pytest.mark.parametrize(
    ("reported", "canonical", "twentieths"),
    [
        pytest.param(1_000, 1_000, 20, id="the same"),
        pytest.param(1_001, 1_000, 21, id="a little more is rounded up"),
        pytest.param(1_050, 1_000, 21, id="exactly a twentieth more"),
        pytest.param(999, 1_000, 20, id="a little less"),
        pytest.param(500, 1_000, LOWEST, id="half"),
        pytest.param(4_000, 1_000, HIGHEST, id="four times"),
        pytest.param(400, 1_000, None, id="below half: no tokenizer"),
        pytest.param(4_001, 1_000, None, id="above four times: no tokenizer"),
        pytest.param(999, 999, None, id="too small to teach"),
        pytest.param(0, 0, None, id="nothing at all"),
    ],
)
def test_the_ratio_is_rounded_up_to_twentieths(reported: int, canonical: int, twentieths: int | None) -> None:
    assert twentieths_of(reported, canonical) == twentieths


@given(CANONICAL, st.integers(0, 8_000_000), st.integers(0, 8_000_000))
def test_more_usage_is_no_fewer_twentieths(canonical: int, one: int, other: int) -> None:
    lower, higher = twentieths_of(min(one, other), canonical), twentieths_of(max(one, other), canonical)
    assert lower is None or higher is None or lower <= higher


@given(COUNTS)
def test_nothing_is_said_before_enough_model_calls_are_known(counts: dict[int, int]) -> None:
    total = sum(counts.values())
    assert factor(counts, least=total + 1) is None
    assert total < 2 or factor(counts, least=total) is not None
    assert factor({}, least=0) is None


@given(model_calls())
def test_the_estimate_is_at_least_the_usage_in_99_of_100_model_calls(calls: list[tuple[int, int]]) -> None:
    found = factor(Counter(twentieths for call in calls if (twentieths := twentieths_of(*call)) is not None))
    assert found is not None
    measure = Measure(factor=found)
    enough = sum(measure.tokens(canonical) >= reported for reported, canonical in calls)
    assert enough * 100 >= 99 * len(calls)


@given(MANY)
def test_it_is_the_smallest_that_does(counts: dict[int, int]) -> None:
    found = factor(counts)
    assert found is not None
    below = sum(count for twentieths, count in counts.items() if twentieths / 20 < found)
    assert below * 100 < 99 * sum(counts.values())
    assert found * 20 in counts


@given(MANY, st.integers(1, 1_000))
def test_more_model_calls_like_those_that_decided_it_do_not_move_it(counts: dict[int, int], more: int) -> None:
    found = factor(counts)
    assert found is not None
    assert factor(Counter(counts) + Counter({round(found * 20): more})) == found


@given(MANY, st.integers(2, 9))
def test_the_same_distribution_gives_the_same_factor(counts: dict[int, int], times: int) -> None:
    assert factor({twentieths: count * times for twentieths, count in counts.items()}) == factor(counts)


@given(st.integers(LOWEST, HIGHEST - 2), st.integers(19, 98), st.integers(1, 40))
def test_among_few_a_single_report_raises_it_by_a_twentieth_at_most(twentieths: int, count: int, above: int) -> None:
    """A server that counted wrong once must not shrink everybody's window."""
    odd = min(HIGHEST, twentieths + above)
    assert factor({twentieths: count, odd: 1}) == min(odd, twentieths + 1) / 20


def test_an_outlier_in_a_hundred_does_not_move_it() -> None:
    assert factor({22: 99, 80: 1}) == 1.1
    assert factor({22: 98, 80: 2}) == 4.0


@given(KNOWN, st.integers(LOWEST, HIGHEST))
def test_a_higher_ratio_never_lowers_it_and_a_lower_one_never_raises_it(
    counts: dict[int, int], twentieths: int
) -> None:
    before, after = factor(counts), factor(Counter(counts) + Counter({twentieths: 1}))
    assert before is not None
    assert after is not None
    if twentieths / 20 >= before:
        assert after >= before
    else:
        assert after <= before
