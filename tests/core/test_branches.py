"""A line is its branch and its ancestors in pieces: right at every boundary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from everthread.core.branches import ENDLESS, Branch, Departure, Line, Segment, line_of
from everthread.core.times import EPOCH
from everthread.core.turns import Head


def branch(number: int, parent: int | None, at: int) -> Branch:
    return Branch(number=number, name=f"b{number}", parent=parent, at=at, time=EPOCH)


def line(*ancestry: Branch) -> Line:
    return line_of("t", "c", [(one, Departure(Head(seq=one.at))) for one in ancestry])


MAIN = line(branch(1, None, 0))
FORKED = line(branch(3, 2, 7), branch(2, 1, 4), branch(1, None, 0))  # 1: 1–4, 2: 5–7, 3: 8 on


def test_the_pieces_of_main_are_main() -> None:
    assert list(MAIN.between()) == [Segment(1, 1, ENDLESS)]
    assert MAIN.owner(1) == MAIN.owner(10**6) == 1


def test_the_pieces_come_newest_first() -> None:
    assert list(FORKED.between()) == [Segment(3, 8, ENDLESS), Segment(2, 5, 7), Segment(1, 1, 4)]


def test_the_owner_changes_just_after_each_fork_point() -> None:
    assert [FORKED.owner(seq) for seq in range(1, 10)] == [1, 1, 1, 1, 2, 2, 2, 3, 3]


def test_pieces_are_cut_at_both_ends() -> None:
    assert list(FORKED.between(4, 8)) == [Segment(3, 8, 8), Segment(2, 5, 7), Segment(1, 4, 4)]
    assert list(FORKED.between(5, 7)) == [Segment(2, 5, 7)]
    assert list(FORKED.between(4, 4)) == [Segment(1, 4, 4)]
    assert list(FORKED.between(5, 5)) == [Segment(2, 5, 5)]
    assert list(FORKED.between(8, 8)) == [Segment(3, 8, 8)]


def test_an_empty_range_has_no_pieces() -> None:
    assert list(FORKED.between(5, 4)) == []
    assert list(FORKED.between(1, 0)) == []
    assert list(FORKED.between(-5, 0)) == []


def test_a_fork_at_nothing_shares_nothing() -> None:
    fresh = line(branch(2, 1, 0), branch(1, None, 0))
    assert list(fresh.between()) == [Segment(2, 1, ENDLESS)]
    assert fresh.owner(1) == 2


def test_a_fork_at_a_fork_point_leaves_no_empty_piece() -> None:
    """Its parent is the branch that stores the fork point, not the one from which it was asked for."""
    again = line(branch(4, 1, 4), branch(1, None, 0))
    assert list(again.between()) == [Segment(4, 5, ENDLESS), Segment(1, 1, 4)]


@given(
    st.lists(st.integers(1, 6), max_size=6),
    st.integers(-2, 45),
    st.integers(-2, 45),
)
def test_the_pieces_of_a_range_are_exactly_its_events_each_with_its_owner(
    lengths: list[int], first: int, last: int
) -> None:
    """Against a line written out event by event."""
    owners: list[int] = []
    ancestry = [branch(1, None, 0)]
    for number, length in enumerate(lengths, start=2):
        owners += [number - 1] * length
        ancestry.insert(0, branch(number, number - 1, len(owners)))
    owners += [len(lengths) + 1] * 50
    whole = line(*ancestry)
    found = {seq: piece.branch for piece in whole.between(first, last) for seq in range(piece.first, piece.last + 1)}
    assert found == {seq: owners[seq - 1] for seq in range(max(first, 1), last + 1)}
    assert all(whole.owner(seq) == owners[seq - 1] for seq in range(1, 45))
