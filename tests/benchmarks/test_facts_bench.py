"""The benchmark of facts: what it plants is said, and preferences survive to the last."""

from __future__ import annotations

import pytest

from benchmarks.facts import AFTER, KINDS, conversation, measure
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
        assert set(fact.question.lower().strip("?").split()) & set(
            fact.said.lower().replace(",", "").strip(".").split()
        )


@pytest.mark.parametrize("after", AFTER)
def test_all_stated_preferences_are_there_however_long_ago(after: int) -> None:
    (preferences,) = [result for result in measure(after, seeds=1) if result.kind == "preference"]
    assert preferences.in_facts == 1.0
    assert not preferences.missed
