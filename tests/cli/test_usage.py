"""`everthread usage`, and the model calls in what other commands show."""

from __future__ import annotations

import json
import re

import pytest

from everthread.errors import Overloaded
from everthread.testing.scripted import script
from tests.cli.conftest import Do
from tests.cli.terminal import Terminal

ECHO = ("--model", "scripted:echo", "--set", "clock=off")


@pytest.fixture
def said(do: Do) -> str:
    """A conversation of two turns with one model, and one that failed with another; its id."""
    script("down", Overloaded("scripted", "busy"))
    do("ask", "One", *ECHO)
    do("ask", "Two", *ECHO)
    do("ask", "Three", "--model", "scripted:down", "--set", "retries=0")
    conversation: str = json.loads(do("conversations", "--json").stdout)[0]["id"]
    return conversation


def test_usage_is_added_up_by_day(do: Do, said: str) -> None:
    [day] = json.loads(do("usage", "--json").stdout)
    assert (day["calls"], day["failed"], day["unpriced"]) == (3, 1, 1)
    assert day["output"] == 12
    shown = do("usage").stdout.splitlines()
    assert shown[0].split() == ["day", "calls", "failed", "tokens", "in", "cached", "out", "price", "seconds", "last"]
    assert shown[1].split()[1:3] == ["3", "1"]


def test_usage_by_model_has_a_sum_that_says_what_has_no_price(do: Do, said: str) -> None:
    shown = do("usage", "--by", "model").stdout.splitlines()
    assert [line.split()[0] for line in shown[1:3]] == ["scripted:down", "scripted:echo"]
    assert shown[1].split()[6] == "–"
    assert shown[-1] == "3 model calls, free and 1 without a price"


def test_usage_of_a_conversation_is_by_turn(do: Do, said: str) -> None:
    rows = json.loads(do("usage", said[-8:], "--json").stdout)
    assert sorted((row["turn"], row["calls"]) for row in rows) == [(1, 1), (2, 1), (3, 1)]
    assert json.loads(do("usage", said, "--json", "--since", "2999-01-01").stdout) == []
    assert do("usage", "--by", "turn").exit_code == 2


def test_on_a_narrow_terminal_no_figure_is_cut(do: Do, said: str) -> None:
    with Terminal("usage", "--by", "model", columns=60) as terminal:
        assert terminal.end() == 0
    assert terminal.shown.split("\n")[0].split() == ["model", "calls", "failed", "tokens", "in", "out", "price"]
    assert "…" not in terminal.shown


def test_where_no_model_was_called_it_says_so(do: Do) -> None:
    do("chat", *ECHO)
    assert do("usage").stdout == "No model has been called yet.\n"


def test_without_a_store_it_says_how_to_begin_one(do: Do) -> None:
    failed = do("usage")
    assert failed.exit_code == 1
    assert "begin one with `everthread chat`" in failed.stderr


def test_show_tells_of_each_model_call_what_it_took_or_why_it_failed(do: Do, said: str) -> None:
    shown = do("show").stdout
    assert re.search(r"model_call +scripted:echo: \d+ tokens in, 6 out, free, \d", shown)
    assert "model_call           scripted:down failed: scripted cannot reply now (busy)" in " ".join(shown.split("\n"))


def test_a_model_call_is_no_message(do: Do, said: str) -> None:
    assert json.loads(do("conversations", "--json").stdout)[0]["messages"] == 5
    context = json.loads(do("context", "--json", *ECHO).stdout)
    assert (context["sent"], context["past"]) == (5, 0)


def test_without_a_model_the_context_is_that_of_the_one_that_would_reply(do: Do, said: str) -> None:
    assert json.loads(do("context", "--json").stdout)["model"] == "local:smollm2"
