"""The 22 properties that memory must have: which of them are proved here, each by tests that bear its number."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

PROPERTIES = {
    1: "a stored message knows its tokens",
    2: "the parts of a context add up to its estimate",
    3: "the budget is kept, or the context says that it is not",
    4: "the newest messages are sent, whatever must leave",
    5: "the recent part is the newest messages, in their order",
    6: "what is left out is there in a summary",
    7: "the window is as large as was asked for",
    8: "summaries are made once enough has gone by",
    9: "a summary says that it is one, and of which events",
    10: "a summary stands before the window",
    11: "a message's score follows its kind, its length and its place",
    12: "what scores higher stays longer",
    13: "the page draws what is in view, not the history",
    14: "a page has as many messages as were asked for",
    15: "pages that are loaded one after the other repeat nothing",
    16: "running totals are true sums",
    17: "conversations that have rested long enough are found",
    18: "an archived conversation comes back the same",
    19: "a summary keeps what the user prefers and demands",
    20: "a summary tells things in the order they happened",
    21: "a summary keeps within its tokens",
    22: "a setting in the environment is used",
}
DONE = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16, 17, 18, 19, 20, 21, 22}


@cache
def _found() -> dict[int, set[str]]:
    """The tests that bear a property's number, wherever they are."""
    found = defaultdict(set)
    for file in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                named = re.match(r"test_property_(\d+)_[a-z]", node.name)
                if named:
                    found[int(named[1])].add(node.name)
    return found


def test_there_are_twenty_two_properties() -> None:
    assert list(PROPERTIES) == list(range(1, 23))
    assert len(set(PROPERTIES.values())) == 22


@pytest.mark.parametrize("number", sorted(DONE))
def test_a_property_that_is_done_has_its_tests(number: int) -> None:
    assert number in _found(), f"property {number} is said to be proved: {PROPERTIES[number]}"


def test_no_other_property_has_any() -> None:
    """Whoever proves one adds its number above."""
    assert set(_found()) == DONE
