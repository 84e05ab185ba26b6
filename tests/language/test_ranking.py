"""Postings and the order of what is found by them."""

from __future__ import annotations

import pytest

from everthread.language.ranking import (
    SLOTS,
    PostingRow,
    Ranking,
    count_postings,
    pack_seqs,
    postings_of,
    seq_at,
    unpack_seqs,
    without_slot,
)


def row(
    *slots: int, times: int = 1, length: int = 10, session: int = 0, kind: str = "user", asks: bool = False
) -> PostingRow:
    forms = [postings_of(slot, kind, length=length, session=session, asks=asks) for slot in slots]
    return PostingRow(0, "".join(form[times - 1] for form in forms), 1)


def ranked(*rows: PostingRow, events: int = 100, among: float = 1) -> list[int]:
    ranking = Ranking(events=events, words=events * 10)
    ranking.add(rows, among=among, exact=False)
    return [place for place, _ in ranking.best()]


def test_a_posting_is_four_characters_that_every_database_can_keep() -> None:
    for slot in (0, 7, 8, 63, 511):
        for form in postings_of(slot, "mark", length=10**6, session=10**6, asks=True):
            assert len(form) == 4
            assert form.isascii()
            assert form.isprintable()


def test_the_event_itself_comes_before_its_neighbours_and_those_far_away_not_at_all() -> None:
    assert ranked(row(10))[0] == 10
    assert sorted(ranked(row(10))) == [8, 9, 10, 11, 12]


def test_a_word_may_count_without_its_neighbours() -> None:
    ranking = Ranking(events=100, words=1000)
    ranking.add([row(10, 20)], among=90, exact=False, alone=True)
    assert sorted(place for place, _ in ranking.best()) == [10, 20]


def test_neighbours_reach_into_the_next_block() -> None:
    assert SLOTS in ranked(row(SLOTS - 1))


def test_a_word_said_more_often_or_in_a_shorter_text_counts_more() -> None:
    assert ranked(row(10), row(20, times=3))[0] == 20
    assert ranked(row(10, length=500), row(20, length=5))[0] == 20


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    ranking = Ranking(events=100, words=1000)
    ranking.add([row(10)], among=90, exact=False)
    ranking.add([row(20)], among=2, exact=False)
    assert ranking.best()[0][0] == 20


def test_what_stands_between_two_words_of_a_question_comes_before_one_of_them_far_away() -> None:
    ranking = Ranking(events=1000, words=10_000)
    ranking.add([row(10, 30)], among=2, exact=False)
    ranking.add([row(12)], among=1, exact=False)
    order = [place for place, _ in ranking.best()]
    assert order.index(10) < order.index(30)


def test_what_follows_a_question_comes_before_what_follows_a_statement() -> None:
    order = ranked(row(10, asks=True), row(20))
    assert order.index(11) < order.index(21)
    assert order.index(11) < order.index(9)


def test_what_those_said_who_are_asked_about_comes_first() -> None:
    ranking = Ranking(events=100, words=1000)
    ranking.add([row(10, 20, 30)], among=3, exact=False)
    ranking.add_spoken([row(20, 50)])
    order = [place for place, _ in ranking.best()]
    assert order[0] == 20
    assert 50 not in order


def test_a_session_that_is_about_it_lifts_what_is_said_in_it() -> None:
    ranking = Ranking(events=1000, words=10_000)
    ranking.add([row(10, session=1), row(100, session=2)], among=2, exact=False)
    ranking.add([row(150, session=2)], among=1, exact=False)
    order = [place for place, _ in ranking.best()]
    assert order.index(100) < order.index(10)


def test_what_was_named_exactly_comes_first_whatever_else_scores() -> None:
    ranking = Ranking(events=100, words=1000)
    for _ in range(5):
        ranking.add([row(10, times=4)], among=1, exact=False)
    ranking.add([row(50)], among=90, exact=True)
    assert ranking.best()[0][0] == 50


def test_a_word_that_is_everywhere_is_found_all_the_same() -> None:
    assert len(ranked(row(*range(100)), events=100, among=100)) >= 100


def test_slots_that_do_not_count_are_passed_over() -> None:
    ranking = Ranking(events=100, words=1000, counting={0: b"\1" * 20 + bytes(492)})
    ranking.add([row(10, 20, 30)], among=3, exact=False)
    assert 10 in ranking.scores
    assert not {20, 30} & ranking.scores.keys()


def test_other_kinds_and_later_sessions_are_left_out() -> None:
    ranking = Ranking(events=100, words=1000)
    ranking.add([row(10), row(20, kind="mark"), row(30, session=5)], among=3, exact=False)
    kinds = frozenset({0})
    assert 20 not in dict(ranking.best(kinds=kinds))
    assert 10 in dict(ranking.best(kinds=kinds))
    assert 30 not in dict(ranking.best(session=1))


def test_common_words_are_counted_in_given_places_only() -> None:
    ranking = Ranking(events=100, words=1000)
    ranking.add([row(10, 20)], among=2, exact=False)
    ranking.add_at(frozenset({20}), [row(10, 20, 40)], among=50)
    assert ranking.best()[0][0] == 20
    assert 40 not in ranking.scores


def test_one_slot_is_taken_out_and_the_others_stay() -> None:
    both = row(3, 4).postings
    assert without_slot(both, 3) == row(4).postings
    assert without_slot(both, 5) == both
    assert without_slot(row(3).postings, 3) == ""


@pytest.mark.parametrize(("kinds", "session", "expected"), [((), None, 3), ((0,), None, 2), ((), 3, 1), ((6,), 1, 1)])
def test_postings_of_some_kinds_and_one_session_are_counted(
    kinds: tuple[int, ...], session: int | None, expected: int
) -> None:
    texts = row(1).postings + row(2, session=2).postings + row(3, kind="mark").postings
    assert count_postings(PostingRow(0, texts, 1), kinds=frozenset(kinds), session=session) == expected


def test_seqs_come_back() -> None:
    seqs = [1, 2, 64, 4095, 2**31 - 1]
    assert unpack_seqs(pack_seqs(seqs)) == seqs
    assert [seq_at(pack_seqs(seqs), slot) for slot in range(6)] == [*seqs, 0]
