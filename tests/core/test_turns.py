"""The fold: what turn and session each event belongs to, and what it adds to the sums."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everthread.core.events import (
    AgentKilled,
    Clear,
    Event,
    Mark,
    Other,
    ToolCall,
    assistant,
    redacted,
    system,
    tool_call,
    tool_result,
    user,
)
from everthread.core.times import moment
from everthread.core.turns import SESSION_GAP, Head, advance, session_of, turn_of
from tests.core.strategies import events as any_event

MINUTE = 60_000_000
U, A, S = user("u"), assistant("a"), system("s")
CALL, RESULT = tool_call("f"), tool_result("r", name="f")
CUT = assistant("a", interrupted=True)
ASKS = ToolCall(id="1", name="f", waits_for="approval")
LONG_JOB = ToolCall(id="1", name="f", waits_for="job")
CLEAR, MARK, KILLED, NOTE = Clear(), Mark(name="m"), AgentKilled(), Other(kind="note")


def fold(*events: Event, size: int = 10, gap: int = SESSION_GAP) -> list[Head]:
    """The heads after each event, one a minute."""
    heads = [Head()]
    for number, event in enumerate(events, start=1):
        time = 1_000 * MINUTE + number * MINUTE
        heads.append(advance(heads[-1], event, id=str(number), time=time, sizes=(size, size), gap=gap))
    return heads[1:]


class Case(NamedTuple):
    events: list[Event]
    turns: list[int]
    state: str


CASES = {
    "a user message begins a turn": Case([U], [1], "open"),
    "an answer ends it": Case([U, A], [1, 1], "idle"),
    "each user message begins another": Case([U, A, U, A], [1, 1, 2, 2], "idle"),
    "two messages in a row are two turns": Case([U, U], [1, 2], "open"),
    "a greeting is turn 0": Case([A, U, A], [0, 1, 1], "idle"),
    "so is a system message": Case([S, A, U], [0, 0, 1], "open"),
    "and a tool call before anybody spoke": Case([CALL, RESULT, A, U], [0, 0, 0, 1], "open"),
    "a result that comes first is turn 0 too": Case([RESULT, U], [0, 1], "open"),
    "a system message in between stays in its turn": Case([U, S, A], [1, 1, 1], "idle"),
    "a tool call keeps the turn open": Case([U, CALL], [1, 1], "open"),
    "so does its result": Case([U, CALL, RESULT], [1, 1, 1], "open"),
    "until the agent has answered": Case([U, CALL, RESULT, A], [1, 1, 1, 1], "idle"),
    "parallel calls stay in one turn": Case([U, CALL, CALL, RESULT, RESULT, A], [1] * 6, "idle"),
    "results of repeated ids in any order": Case([U, CALL, CALL, RESULT, CALL, RESULT, RESULT], [1] * 7, "open"),
    "text before calls": Case([U, A, CALL, CALL, RESULT, RESULT, A], [1] * 7, "idle"),
    "text between call and result": Case([U, CALL, A, RESULT, A], [1] * 5, "idle"),
    "text between two parallel results": Case([U, CALL, CALL, RESULT, A, RESULT, A], [1] * 7, "idle"),
    "text beside a call does not end the turn": Case([U, CALL, A], [1, 1, 1], "open"),
    "several model calls": Case([U, CALL, RESULT, CALL, RESULT, A], [1] * 6, "idle"),
    "a second answer stays with the first": Case([U, A, A], [1, 1, 1], "idle"),
    "a late result opens a turn of its own": Case([U, A, RESULT, A], [1, 1, 2, 2], "idle"),
    "a result too many after the answer too": Case([U, CALL, RESULT, A, RESULT], [1, 1, 1, 1, 2], "open"),
    "a late result in a running turn stays there": Case([U, ASKS, U, RESULT, A], [1, 1, 2, 2, 2], "idle"),
    "an interrupted reply": Case([U, CUT], [1, 1], "interrupted"),
    "an interrupted reply beside a call": Case([U, CALL, CUT], [1, 1, 1], "interrupted"),
    "a result after an interruption opens its own turn": Case([U, CALL, CUT, RESULT], [1, 1, 1, 2], "open"),
    "a user message after an interruption": Case([U, CUT, U, A], [1, 1, 2, 2], "idle"),
    "a killed agent interrupts": Case([U, CALL, KILLED], [1, 1, 1], "interrupted"),
    "a call that waits for approval": Case([U, ASKS], [1, 1], "waiting"),
    "a call that waits for a long job": Case([U, LONG_JOB], [1, 1], "waiting"),
    "asking for approval in words": Case([U, ASKS, A], [1, 1, 1], "waiting"),
    "another call while one waits": Case([U, ASKS, CALL], [1, 1, 1], "waiting"),
    "a result while another call waits": Case([U, ASKS, CALL, RESULT], [1, 1, 1, 1], "waiting"),
    "approved in the same turn": Case([U, ASKS, RESULT, A], [1, 1, 1, 1], "idle"),
    "markers belong to the turn in which they come": Case([U, MARK, A, NOTE, U, MARK], [1, 1, 1, 1, 2, 2], "open"),
    "markers do not change the state": Case([U, A, MARK, NOTE], [1, 1, 1, 1], "idle"),
    "markers before anything belong to turn 0": Case([MARK, NOTE, U], [0, 0, 1], "open"),
    "a marker before a greeting": Case([MARK, A, U], [0, 0, 1], "open"),
    "a clear ends a running turn": Case([U, CALL, CLEAR], [1, 1, 1], "interrupted"),
    "a clear after an answer": Case([U, A, CLEAR], [1, 1, 1], "idle"),
    "the first message after a clear begins a turn": Case([U, A, CLEAR, A], [1, 1, 1, 2], "idle"),
    "an answer after a clear in mid-turn": Case([U, CALL, CLEAR, A], [1, 1, 1, 2], "idle"),
    "a result after a clear in mid-turn": Case([U, CALL, CLEAR, RESULT, A], [1, 1, 1, 2, 2], "idle"),
    "a call after a clear": Case([U, A, CLEAR, CALL, RESULT, A], [1, 1, 1, 2, 2, 2], "idle"),
    "a call after a clear while one waited": Case([U, ASKS, CLEAR, CALL], [1, 1, 1, 2], "open"),
    "markers between a clear and the next message": Case([U, A, CLEAR, MARK, A, A], [1, 1, 1, 1, 2, 2], "idle"),
    "a clear before anything": Case([CLEAR, U, A], [0, 1, 1], "idle"),
    "a clear before a greeting": Case([CLEAR, A, U], [0, 0, 1], "open"),
    "a system message after a clear in mid-turn": Case([U, CALL, CLEAR, S], [1, 1, 1, 2], "idle"),
    "a second waiting call after the first was answered": Case([U, ASKS, RESULT, CALL], [1] * 4, "open"),
    "two clears in a row": Case([U, A, CLEAR, CLEAR, U], [1, 1, 1, 1, 2], "open"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_turns_and_their_states(case: Case) -> None:
    heads = fold(*case.events)
    assert [head.turn for head in heads] == case.turns
    assert heads[-1].state == case.state


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_redacted_event_plays_the_same_part(case: Case) -> None:
    """Whichever content is forgotten, turns, sessions, states and sums stay as they were."""
    hidden = [event if isinstance(event, Clear) else redacted(event) for event in case.events]
    assert fold(*hidden) == fold(*case.events)


@given(st.lists(any_event, max_size=12))
def test_turn_and_session_numbers_never_fall_and_never_skip(events: list[Event]) -> None:
    heads = [Head(), *fold(*events)]
    for before, after in pairwise(heads):
        assert after.seq == before.seq + 1
        assert after.turn - before.turn in (0, 1)
        assert after.session - before.session in (0, 1)
        assert after.pending >= 0


# -- sums --------------------------------------------------------------------------------------------------


def test_sums_run_along_the_branch() -> None:
    heads = fold(U, MARK, A, U, size=5)
    assert [head.tokens_before for head in heads] == [0, 5, 10, 15]
    assert [head.tokens_sum for head in heads] == [5, 10, 15, 20]
    assert [head.messages_sum for head in heads] == [1, 1, 2, 3]
    assert [head.is_message for head in heads] == [True, False, True, True]
    assert [head.spoken for head in heads] == [1, 1, 3, 4]


def test_the_size_before_a_turn_starts_afresh_at_a_clear() -> None:
    heads = [Head()]
    for event, size in ((U, 5), (A, 7), (CLEAR, 0), (U, 5), (A, 7), (U, 5)):
        heads.append(advance(heads[-1], event, id="", time=0, sizes=(size, size)))
    befores = [turn_of(heads[first], heads[first], newest=True).before for first in (1, 4, 6)]
    assert befores == [0, 0, 12]


def test_a_turn_knows_its_size_in_full_and_settled() -> None:
    heads = [Head()]
    for event, sizes in ((U, (5, 5)), (CALL, (5, 5)), (RESULT, (900, 50)), (A, (5, 5))):
        heads.append(advance(heads[-1], event, id="", time=0, sizes=sizes))
    turn = turn_of(heads[1], heads[-1], newest=True)
    assert (turn.number, turn.first, turn.last, turn.state) == (1, 1, 4, "idle")
    assert (turn.tokens, turn.settled, turn.before) == (915, 65, 0)


def test_a_turn_left_open_by_a_later_one_was_interrupted() -> None:
    heads = fold(U, U)
    assert turn_of(heads[0], heads[0], newest=False).state == "interrupted"
    assert turn_of(heads[1], heads[1], newest=True).state == "open"


# -- sessions ----------------------------------------------------------------------------------------------


def sessions(*steps: tuple[Event, int], gap: int = SESSION_GAP) -> list[Head]:
    """Heads after events that come so many microseconds after each other."""
    head, time, heads = Head(), 10**15, []
    for event, pause in steps:
        time += pause
        head = advance(head, event, id="", time=time, sizes=(1, 1), gap=gap)
        heads.append(head)
    return heads


class Pauses(NamedTuple):
    steps: list[tuple[Event, int]]
    sessions: list[int]
    gap: int = SESSION_GAP


GAP = SESSION_GAP
PAUSES = {
    "the first message begins the first session": Pauses([(U, 0)], [1]),
    "a microsecond short of the gap": Pauses([(U, 0), (U, GAP - 1)], [1, 1]),
    "exactly the gap": Pauses([(U, 0), (U, GAP)], [1, 2]),
    "many short pauses do not add up": Pauses([(U, 0), (A, GAP - 1), (U, GAP - 1), (A, GAP - 1)], [1] * 4),
    "markers do not keep a session alive": Pauses([(U, 0), (MARK, GAP - 1), (U, 1)], [1, 1, 2]),
    "markers do not begin one": Pauses([(U, 0), (MARK, 5 * GAP), (NOTE, 5 * GAP)], [1, 1, 1]),
    "markers before anything have none": Pauses([(MARK, 0), (CLEAR, GAP), (U, 0)], [0, 0, 1]),
    "an answer after the gap begins one too": Pauses([(U, 0), (A, GAP)], [1, 2]),
    "a clear does not end a session": Pauses([(U, 0), (CLEAR, 1), (U, 1)], [1, 1, 1]),
    "a shorter gap": Pauses([(U, 0), (U, MINUTE)], [1, 2], MINUTE),
    "a clock that runs backwards": Pauses([(U, 0), (U, -5 * GAP), (U, 0)], [1, 1, 1]),
    "a turn may span two sessions": Pauses([(U, 0), (CALL, 1), (RESULT, 2 * GAP)], [1, 1, 2]),
}


@pytest.mark.parametrize("case", PAUSES.values(), ids=PAUSES.keys())
def test_sessions_by_gap(case: Pauses) -> None:
    assert [head.session for head in sessions(*case.steps, gap=case.gap)] == case.sessions


def test_a_session_knows_its_bounds_and_sums() -> None:
    heads = sessions((U, 0), (MARK, 5), (A, 5), (NOTE, 7), (U, GAP))
    session = session_of(heads[0], heads[3])
    assert (session.number, session.first, session.last, session.messages, session.tokens) == (1, 1, 4, 2, 4)
    assert (session.began, session.ended) == (moment(10**15), moment(10**15 + 10))
    assert heads[4].session_first == 5


def test_a_session_that_was_settled_before_is_taken_as_it_was() -> None:
    head = advance(Head(), U, id="", time=0, sizes=(1, 1))
    assert advance(head, U, id="", time=1, sizes=(1, 1), session=2).session_first == 2
    assert advance(head, U, id="", time=10 * GAP, sizes=(1, 1), session=1).session_first == 1
