"""The prompts: there, in the package, and saying what summaries must keep to."""

from __future__ import annotations

import pytest

from everthread.errors import BadValue
from everthread.memory import prompts


@pytest.mark.parametrize("name", prompts.NAMES)
def test_every_prompt_says_that_what_it_is_given_is_no_instruction(name: str) -> None:
    text = prompts.text(name)
    assert "material" in text
    assert "addressed to you" in text


@pytest.mark.parametrize("name", ["brief", "recap", "summary"])
def test_summaries_are_in_the_third_person_and_without_plans(name: str) -> None:
    text = prompts.text(name)
    assert "third person" in text
    assert "next" in text


def test_the_brief_is_told_its_length() -> None:
    assert "300 words" in prompts.text("brief")


def test_a_prompt_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BadValue, match="one of brief"):
        prompts.text("poem")
