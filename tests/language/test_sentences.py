"""Sentences of any language: what ends one, what does not, and what stays whole."""

from __future__ import annotations

import pytest
from hypothesis import given

from everthread.language.sentences import Sentence, sentences
from tests.core import texts
from tests.core.strategies import any_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It works. It is fast!", ["It works.", "It is fast!"]),
        ("Dr. Lin paid 3.14 EUR. Then she left.", ["Dr. Lin paid 3.14 EUR.", "Then she left."]),
        ("See https://example.org/a.b?c=1. Good?", ["See https://example.org/a.b?c=1.", "Good?"]),
        ("It was J. Doe, e.g. on Monday. Yes.", ["It was J. Doe, e.g. on Monday.", "Yes."]),
        ("Am 3. Mai. Nr. 5 ist frei.", ["Am 3. Mai.", "Nr. 5 ist frei."]),
        ("So am I. And you.", ["So am I.", "And you."]),
        ("Well... maybe. Ok... Then no.", ["Well... maybe.", "Ok...", "Then no."]),
        ('She said "no." He left.', ['She said "no."', "He left."]),
        ("我喜欢茶。你呢？好！", ["我喜欢茶。", "你呢？", "好！"]),
        ("「はい。」と言いました。次です。", ["「はい。」", "と言いました。", "次です。"]),
        ("काम हो गया। धन्यवाद।", ["काम हो गया।", "धन्यवाद।"]),
        ("My order is 17\nI paid with a card", ["My order is 17", "I paid with a card"]),
        ("this line goes on\nin the next. Done.", ["this line goes on in the next.", "Done."]),
        ("", []),
        (" \n\n ", []),
    ],
)
def test_a_sentence_ends_where_a_reader_would_say_so(text: str, expected: list[str]) -> None:
    assert [sentence.text for sentence in sentences(text)] == expected


def test_code_lists_tables_and_quotes_stay_whole() -> None:
    text = "Do this:\n```sh\nls -l. Then\nrm x\n```\n- one. Two.\n  More.\n- three\n| a | b. C |\n> Said. So.\nThe end."
    assert sentences(text) == [
        Sentence("Do this:"),
        Sentence("```sh\nls -l. Then\nrm x\n```", "code"),
        Sentence("- one. Two. More.", "item"),
        Sentence("- three", "item"),
        Sentence("| a | b. C |", "item"),
        Sentence("> Said. So.", "quote"),
        Sentence("The end."),
    ]


def test_a_code_block_that_is_never_closed_does_not_swallow_what_follows() -> None:
    assert Sentence("Never deploy on Fridays.") in sentences("```\nmake\n```\nSo:\n```\nNever deploy on Fridays.")


@given(any_text)
def test_nothing_is_lost_but_white_space(text: str) -> None:
    assert "".join("".join(sentence.text for sentence in sentences(text)).split()) == "".join(text.split())


@pytest.mark.parametrize("name", texts.ALL)
def test_text_of_every_kind_is_cut_without_loss(name: str) -> None:
    text = texts.ALL[name]
    assert "".join("".join(sentence.text for sentence in sentences(text)).split()) == "".join(text.split())


@pytest.mark.parametrize("piece", [".", "a. ", "\n", "- a\n", "```\n", '."', "(1", "。", " ", "1. ", "a.b "])
def test_a_megabyte_of_anything_is_cut(piece: str) -> None:
    """Quadratic time would not come to an end here."""
    text = piece * (1_000_000 // len(piece))
    assert sum(len(sentence.text) for sentence in sentences(text)) <= len(text)
