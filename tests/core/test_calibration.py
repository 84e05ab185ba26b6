"""Calibration: the factor holds for 99 of 100 model calls, and seldom moves."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everthread.core.calibration import HIGHEST, LOWEST, factor, step_of
from everthread.core.estimates import Measure

CANONICAL = st.integers(min_value=1, max_value=2_000_000)
STEPS = st.dictionaries(st.integers(LOWEST, HIGHEST), st.integers(1, 500), min_size=1, max_size=20)
KNOWN = STEPS.filter(lambda steps: sum(steps.values()) >= 20)


@st.composite
def model_calls(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Reported usage and canonical size of 20 to 300 model calls, within the bounds of a ratio."""
    sizes = draw(st.lists(CANONICAL, min_size=20, max_size=300))
    return [(draw(st.integers(math.ceil(size / 2), 4 * size)), size) for size in sizes]


@pytest.mark.parametrize(
    ("reported", "canonical", "step"),
    [
        pytest.param(100, 100, 20, id="the same"),
        pytest.param(101, 100, 21, id="a little more is rounded up"),
        pytest.param(105, 100, 21, id="exactly a step"),
        pytest.param(99, 100, 20, id="a little less"),
        pytest.param(1, 1_000, LOWEST, id="not below half"),
        pytest.param(50, 100, LOWEST, id="half"),
        pytest.param(400, 100, HIGHEST, id="four times"),
        pytest.param(10**9, 1, HIGHEST, id="not above four times"),
        pytest.param(5, 0, HIGHEST, id="nothing of ours"),
        pytest.param(0, 0, LOWEST, id="nothing at all"),
    ],
)
def test_a_step_is_a_twentieth_rounded_up(reported: int, canonical: int, step: int) -> None:
    assert step_of(reported, canonical) == step


@given(CANONICAL, st.integers(0, 8_000_000), st.integers(0, 8_000_000))
def test_more_usage_is_no_lower_step(canonical: int, one: int, other: int) -> None:
    assert step_of(min(one, other), canonical) <= step_of(max(one, other), canonical)


@given(STEPS)
def test_nothing_is_said_before_enough_model_calls_are_known(steps: dict[int, int]) -> None:
    total = sum(steps.values())
    assert factor(steps, least=total + 1) is None
    assert factor(steps, least=total) is not None
    assert factor({}, least=0) is None


@given(model_calls())
def test_the_estimate_is_at_least_the_usage_in_99_of_100_model_calls(calls: list[tuple[int, int]]) -> None:
    found = factor(Counter(step_of(*call) for call in calls))
    assert found is not None
    measure = Measure(factor=found)
    enough = sum(measure.tokens(canonical) >= reported for reported, canonical in calls)
    assert enough * 100 >= 99 * len(calls)


@given(KNOWN)
def test_it_is_the_smallest_step_that_does(steps: dict[int, int]) -> None:
    found = factor(steps)
    assert found is not None
    below = sum(count for step, count in steps.items() if step / 20 < found)
    assert below * 100 < 99 * sum(steps.values())
    assert found * 20 in steps


@given(KNOWN, st.integers(1, 1_000))
def test_more_model_calls_like_those_that_decided_it_do_not_move_it(steps: dict[int, int], more: int) -> None:
    found = factor(steps)
    assert found is not None
    assert factor(Counter(steps) + Counter({round(found * 20): more})) == found


@given(KNOWN, st.integers(2, 9))
def test_the_same_distribution_gives_the_same_factor(steps: dict[int, int], times: int) -> None:
    assert factor({step: count * times for step, count in steps.items()}) == factor(steps)


def test_an_outlier_in_a_hundred_does_not_move_it() -> None:
    assert factor({22: 99, 80: 1}) == 1.1
    assert factor({22: 98, 80: 2}) == 4.0


@given(KNOWN, st.integers(LOWEST, HIGHEST))
def test_a_higher_step_never_lowers_it_and_a_lower_one_never_raises_it(steps: dict[int, int], step: int) -> None:
    before, after = factor(steps), factor(Counter(steps) + Counter({step: 1}))
    assert before is not None
    assert after is not None
    if step / 20 >= before:
        assert after >= before
    else:
        assert after <= before
