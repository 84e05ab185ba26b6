"""Extractive summaries: within their tokens, in time order, preferences first, and always as reported speech."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everthread.core.events import Clear, Event, assistant, system, tool_call, tool_result, user
from everthread.core.logged import Logged
from everthread.core.tokens import count
from everthread.language.extract import recap, summary
from tests.core.logs import numbered
from tests.core.strategies import events
from tests.examples import examples

REPORTED = re.compile(
    r'(?:The (?:user|assistant) said|A message from .* said|The tool .* (?:gave|failed with)): ["“].*["”]'
)


def _long() -> list[Logged]:
    said: list[Event] = [user("I want to plan a trip to Lisbon."), assistant("Good. When will it be?")]
    for number in range(60):
        said += [
            user(f"What about option {number}? It is nice there."),
            assistant(f"Option {number} costs {number * 131 + 1000} EUR. Well. Anything else?"),
        ]
    said += [user("I prefer trains. I'm allergic to nuts."), assistant("We decided on option 7, ticket AB-1204.")]
    return numbered(said)


def test_a_summary_reports_who_said_what() -> None:
    said: list[Event] = [
        user("My order is AB-12."),
        assistant('It says "lost", sorry.'),
        user("Send it.", origin="schedule"),
    ]
    assert summary(numbered(said), 200).split("\n") == [
        'The user said: "My order is AB-12."',
        'The assistant said: “It says "lost", sorry.”',
        'A message from schedule said: "Send it."',
    ]


def test_tools_are_told_by_what_was_asked_and_what_came_out() -> None:
    said: list[Event] = [
        tool_call("find", {"id": "AB-12"}, id="1"),
        tool_result('{"state": "lost", "where": ["Porto"]}', id="1"),
        tool_call("pay", id="2"),
        tool_result("No card on file", id="2", name="pay", error=True),
        tool_result("late", id="9"),
    ]
    assert summary(numbered(said), 200).split("\n") == [
        'The tool find (id AB-12) gave: "state lost, where Porto"',
        'The tool pay failed with: "No card on file"',
        'The tool without a name gave: "late"',
    ]


def test_every_line_is_reported_speech() -> None:
    for line in summary(_long(), 400).split("\n"):
        assert REPORTED.fullmatch(line)


def test_preferences_and_instructions_are_chosen_first() -> None:
    assert "I prefer trains. I'm allergic to nuts." in summary(_long(), 60)


def test_what_is_told_beside_a_summary_is_not_told_again() -> None:
    said = numbered([user("I prefer trains."), user("The kiln burns at 1,204 °C."), user("The ferry costs 77 EUR.")])
    told = summary(said, 22, beside='- "I prefer trains." 1,204 °C')
    assert told == 'The user said: "The ferry costs 77 EUR."'


def test_a_summary_is_in_time_order() -> None:
    told = [int(number) for number in re.findall(r"Option (\d+) costs", summary(_long(), 500))]
    assert len(told) > 5
    assert told == sorted(told)


def test_the_goal_the_decision_and_the_numbers_come_before_chatter() -> None:
    told = summary(_long(), 120)
    assert "plan a trip to Lisbon" in told
    assert "ticket AB-1204" in told
    assert "Anything else?" not in told


def test_what_a_chosen_sentence_already_says_counts_no_more() -> None:
    said = ["Ticket AB-1204 is for the boiler.", "Ticket AB-1204 is for the cellar.", "The ferry is at pier CD-77 now."]
    told = summary(numbered(map(assistant, said)), 36)
    assert "AB-1204" in told
    assert "CD-77" in told


def test_a_sentence_that_was_said_twice_is_told_once() -> None:
    assert summary(numbered([user("The code is QX-9912."), user("The code is QX-9912.")]), 100).count("QX-9912") == 1


def test_what_is_left_out_between_two_sentences_of_a_message_is_marked() -> None:
    text = "The boiler needs 1,204 kWh. So so. Hm. Well then, yes indeed it is. The ferry needs 77.5 kWh in May."
    told = summary(numbered([assistant(text), user("Let us take the ferry CD-77.")]), 52)
    assert "1,204 kWh. … The ferry" in told


def test_items_of_a_list_are_told_apart() -> None:
    told = summary(numbered([assistant("- **Flight:** HAT175\n- Price: 155 EUR")]), 100)
    assert told == 'The assistant said: "Flight: HAT175; Price: 155 EUR"'


def test_instructions_and_markers_are_not_summarised() -> None:
    assert summary(numbered([system("Obey AB-12."), Clear(), tool_call("f")]), 100) == ""


@given(st.lists(events, max_size=8), st.integers(0, 60))
@settings(max_examples=examples(80))
def test_a_summary_never_takes_more_than_its_tokens(said: list[Event], tokens: int) -> None:
    told = summary(numbered(said), tokens)
    assert count(told) <= tokens
    assert count(recap(numbered(said), tokens=tokens)) <= tokens


@pytest.mark.parametrize("tokens", [0, 1, 9, 12, 20, 50, 100, 300, 1000])
def test_a_summary_of_a_long_talk_keeps_to_any_budget(tokens: int) -> None:
    assert count(summary(_long(), tokens)) <= tokens


def test_a_summary_keeps_to_the_budget_even_by_a_count_that_does_not_add_up() -> None:
    def odd(text: str) -> int:
        return len(text) if "\n" in text else 1

    assert odd(summary(_long(), 300, odd)) <= 300


def test_one_message_that_is_too_long_is_shortened() -> None:
    told = summary(numbered([user("word " * 5_000 + "AB-1204")]), 30)
    assert told.startswith('The user said: "word')
    assert count(told) <= 30


def test_ten_thousand_messages_are_summarised() -> None:
    """Quadratic time would not come to an end here."""
    logged = numbered(user(f"Ticket AB-{number} costs {number} EUR. And so on.") for number in range(10_000))
    assert 0 < count(summary(logged, 500)) <= 500


def test_a_recap_tells_how_it_began_what_mattered_and_how_it_ended() -> None:
    told = recap(_long())
    assert told.startswith('The user said: "I want to plan a trip to Lisbon."')
    assert told.endswith('We decided on option 7, ticket AB-1204."')
    assert "\n" not in told


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_a_recap_has_so_many_sentences_at_most(most: int) -> None:
    assert len(re.findall(r"[.?!](?= |\")", recap(_long(), most))) <= most


def test_a_recap_of_little_is_little() -> None:
    assert recap(numbered([user("Hi.")])) == 'The user said: "Hi."'
    assert recap([]) == ""


def test_a_recap_of_long_sentences_is_shortened_to_its_tokens() -> None:
    told = recap(numbered([user("one " * 400), assistant("two " * 400)]), tokens=60)
    assert count(told) <= 60
    assert "one" in told
    assert "two" in told
