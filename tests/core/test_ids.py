"""Ids sort by time and strictly increase, whatever the clock does."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from everthread.core.ids import is_id, make_id, time_of

NOW = 1_767_225_600_000_000  # 2026-01-01
CHANCE = st.integers(min_value=0, max_value=2**80 - 1)
TIME = st.integers(min_value=0, max_value=2**48 * 1000 - 1)


@given(TIME, CHANCE)
def test_an_id_is_26_letters_and_digits(time: int, chance: int) -> None:
    assert is_id(make_id(time, chance))


@given(TIME, CHANCE)
def test_an_id_says_when_it_was_made(time: int, chance: int) -> None:
    assert time_of(make_id(time, chance)) == time // 1000 * 1000


@given(TIME, TIME, CHANCE, CHANCE)
def test_ids_sort_by_time(one: int, other: int, chance: int, another: int) -> None:
    early, late = sorted((one, other))
    if early // 1000 < late // 1000:
        assert make_id(early, chance) < make_id(late, another)


@given(st.lists(st.tuples(st.integers(-10_000_000, 10_000_000), CHANCE), min_size=2, max_size=30))
def test_ids_strictly_increase_even_when_the_clock_runs_backwards(steps: list[tuple[int, int]]) -> None:
    ids = [""]
    for step, chance in steps:
        ids.append(make_id(NOW + step, chance, after=ids[-1]))
    assert all(before < after for before, after in pairwise(ids))
    assert all(map(is_id, ids[1:]))


def test_ids_strictly_increase_when_neither_clock_nor_chance_moves() -> None:
    ids = [make_id(NOW, 0)]
    for _ in range(5_000):
        ids.append(make_id(NOW, 0, after=ids[-1]))
    assert sorted(set(ids)) == ids


def test_after_the_largest_chance_the_next_id_is_still_larger() -> None:
    last = make_id(NOW, 2**80 - 1)
    assert make_id(NOW, 0, after=last) > last
    assert is_id(make_id(NOW, 0, after=last))


def test_what_is_no_id_is_not_taken_for_one() -> None:
    good = make_id(NOW, 7)
    for text in ("", good[:-1], good + "0", good.lower(), good[:-1] + "U", "8" + good[1:], good + "\n"):
        assert not is_id(text)
