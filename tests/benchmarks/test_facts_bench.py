"""The conversations that `everthread bench memory` makes up: what is planted is said, the same for the same seed."""

from __future__ import annotations

from benchmarks.facts import KINDS, conversation, preferences
from benchmarks.wishes import WISHES
from everthread.core.events import text_of


def test_two_hundred_facts_are_planted_and_each_is_said_once() -> None:
    events, planted = conversation(seed=1, after=10)
    said = "\n".join(map(text_of, events))
    assert {kind: sum(fact.kind == kind for fact in planted) for kind in KINDS} == KINDS
    assert sum(KINDS.values()) == len({fact.exact for fact in planted}) == 200
    for fact in planted:
        assert said.count(fact.exact) >= 1


def test_the_same_seed_gives_the_same_conversation() -> None:
    assert conversation(seed=3, after=5) == conversation(seed=3, after=5)
    assert conversation(seed=3, after=5) != conversation(seed=4, after=5)


def test_every_question_shares_a_word_with_its_fact() -> None:
    for fact in conversation(seed=1, after=0)[1]:
        telling = [
            word for word in fact.question.lower().strip("?").split() if word not in ("what", "did", "the", "is")
        ]
        assert any(word in fact.said.lower() for word in telling)


def test_preferences_come_in_every_wording_and_no_two_are_about_the_same() -> None:
    wishes = preferences(seed=1)
    assert len({wish.question for wish in wishes}) == len(wishes) == len(WISHES)
    assert preferences(seed=1) == wishes != preferences(seed=2)


def test_other_preferences_can_be_planted_in_place_of_the_usual_ones() -> None:
    wishes = preferences(seed=1)[:31]
    events, planted = conversation(seed=1, after=0, wishes=wishes)
    said = "\n".join(map(text_of, events))
    assert {fact for fact in planted if fact.kind == "preference"} == {*wishes}
    assert len(planted) == 180 + 31
    assert all(wish.said in said for wish in wishes)
