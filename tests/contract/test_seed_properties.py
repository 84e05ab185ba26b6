"""Properties of token accounting, windows and importance, over conversations of any shape.

The numbers are those of the list in tests/test_properties_listed.py. One store serves the whole module: what a
property says does not depend on the database, and tests/contract/test_window.py compares both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everthread import Everthread, Talk, assistant, system, tool_call, tool_result, user
from everthread.context.build import Context
from everthread.core.events import MESSAGES, Command, Event, Redacted, text_of
from everthread.core.importance import recency, score, worth
from everthread.core.logged import Logged
from everthread.core.tokens import count, sizes
from everthread.core.turns import Turn
from everthread.store.open import open_log
from tests.contract.shapes import Shape, dialogue, shape, shapes, told
from tests.contract.support import MINUTE, Clock, everything
from tests.contract.windows import STRATEGY_NAMES, known, plan_of, seen_of, sent_turns
from tests.core.strategies import storable
from tests.examples import examples

T = TypeVar("T")
MODEL = "openai:gpt-4o"  # its tokens are counted exactly
often = settings(max_examples=examples(100), deadline=None)


class Store:
    """An open store, and a loop to ask it from tests that are no coroutines."""

    def __init__(self, address: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = Clock()
        self.et = self.do(self._open(address))

    async def _open(self, address: str) -> Everthread:
        return Everthread(await open_log(address, clock=self.clock), {"memory": False})

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def begin(self, events: list[Event]) -> Talk:
        """A new conversation in which all this was said."""
        talk = self.do(self.et.begin(user="somebody"))
        self.do(self.et.log.append(talk._target, events))
        return talk

    def look(self, talk: Talk, strategy: str, budget: int, **more: Any) -> Context:
        return self.do(talk.context(**{"model": MODEL, "strategy": strategy, "budget": budget, **more}))

    def close(self) -> None:
        self.do(self.et.close())
        self.do(asyncio.sleep(0))
        self.loop.close()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = Store(f"sqlite:///{tmp_path_factory.mktemp('properties')}/talk.db")
    yield opened
    opened.close()


budgets = st.sampled_from([1, 30, 200, 500, 900, 1_500, 3_000, 8_000])
strategy_names = st.sampled_from(STRATEGY_NAMES)


def messages(events: list[Logged]) -> list[Logged]:
    return [event for event in events if event.kind in MESSAGES]


def said(turns: list[Turn], events: list[Logged]) -> list[list[Logged]]:
    """The messages of each turn."""
    return [[event for event in messages(events) if turn.first <= event.seq <= turn.last] for turn in turns]


# -- tokens ------------------------------------------------------------------------------------------------

_sayable = storable.filter(lambda event: not isinstance(event, Redacted))


@often
@given(st.lists(_sayable, min_size=1, max_size=8) | shapes.map(dialogue))
def test_property_1_every_stored_message_has_its_token_count(store: Store, events: list[Event]) -> None:
    talk = store.begin(events)
    for event in store.do(everything(talk)):
        assert (event.tokens, event.settled) == sizes(event.event)
        assert 0 <= event.settled <= event.tokens
        assert (event.tokens > 0) == (event.kind in MESSAGES)


@often
@given(shapes, budgets, strategy_names, st.sampled_from(["", "You are kind. " * 20]), st.sampled_from(["off", "hour"]))
def test_property_2_sections_turns_and_overhead_are_the_estimate(
    store: Store, turns: list[Shape], budget: int, strategy: str, instructions: str, clock: str
) -> None:
    """And a turn that is sent as it was said has the stored tokens of its messages."""
    talk = store.begin(dialogue(turns))
    tools = [{"name": "look", "description": "Looks.", "schema": {"type": "object", "properties": {}}}]
    context = store.look(talk, strategy, budget, instructions=instructions, tools=tools, settings={"clock": clock})
    account = context.explain()
    sent = {line.first: line.tokens for line in account.turns if line.sent}
    assert sum(account.sections.values()) + sum(sent.values()) == account.estimate == context.estimate
    assert {"overhead", "tools"} <= account.sections.keys()
    assert ("persona" in account.sections) == bool(instructions)
    if context.repaired or context.degraded:
        return
    found = store.do(talk.turns(limit=1_000))
    events = {turn.first: said for turn, said in zip(found, said(found, store.do(everything(talk))), strict=True)}
    for turn in found:
        if turn.first in sent:
            full = turn is found[-1] and turn.state in ("open", "waiting")
            assert sent[turn.first] == sum(event.tokens if full else event.settled for event in events[turn.first])


@often
@given(shapes, budgets, strategy_names, st.booleans())
def test_property_3_never_above_the_budget_without_saying_so(
    store: Store, turns: list[Shape], budget: int, strategy: str, pinned: bool
) -> None:
    talk = store.begin(dialogue(turns))
    if pinned:
        store.do(talk.pin(1))
    context = store.look(talk, strategy, budget, instructions="Be kind.")
    assert context.budget == budget
    assert context.over_budget == (context.estimate if context.estimate > budget else 0)
    assert _counted(context.request["messages"]) <= context.estimate
    if context.over_budget:  # nothing is left that might leave
        newest = store.do(talk.turns(limit=1))[0]
        assert sent_turns(context) == {newest.first}


def _counted(sent: list[dict[str, Any]]) -> int:
    """Tokens of all texts of a request, counted one by one."""
    texts = [message["content"] or "" for message in sent]
    calls = [call["function"] for message in sent for call in message.get("tool_calls", ())]
    return sum(map(count, texts)) + sum(count(call["name"]) + count(call["arguments"]) for call in calls)


# -- windows -----------------------------------------------------------------------------------------------


@often
@given(shapes, budgets, strategy_names)
def test_property_4_the_newest_messages_are_always_in(
    store: Store, turns: list[Shape], budget: int, strategy: str
) -> None:
    """Everything from the cutoff to the end, without a gap; and the newest of the user's uncut."""
    events = dialogue(turns)
    talk = store.begin(events)
    context = store.look(talk, strategy, budget, settings={"clock": "off"})
    found, logged = store.do(talk.turns(limit=1_000)), store.do(everything(talk))
    assert found[-1].first in sent_turns(context)
    recent = [event.seq - 1 for event in messages(logged) if event.seq >= context.cutoff]
    # A result that had to be shortened may have lost its number.
    assert [number for number in told(context) if number >= context.cutoff - 1] == recent or context.degraded
    newest = next(event for event in reversed(events) if event.kind == "user")
    assert {"role": "user", "content": text_of(newest)} in context.request["messages"]


@often
@given(shapes, budgets)
def test_property_4_as_many_of_the_newest_as_fit_are_in(store: Store, turns: list[Shape], budget: int) -> None:
    """Without steps: not one turn more would have fitted into the room."""
    talk = store.begin(dialogue(turns))
    context = store.look(talk, "budget", budget, settings={"step": 0.0})
    lists = store.do(known(talk))
    ends = [lists.starts[-1].before + lists.size - start.before for start in lists.starts]
    fit = [
        start.first for start, tokens in zip(lists.starts, ends, strict=True) if tokens <= plan_of(context).room.room
    ]
    chosen = seen_of(context).choice
    assert chosen
    assert chosen.begin.first == (fit or [lists.starts[-1].first])[0]


@often
@given(shapes, st.integers(1, 40))
def test_property_5_the_window_is_the_whole_turns_of_the_newest_messages_in_order(
    store: Store, turns: list[Shape], wanted: int
) -> None:
    talk = store.begin(dialogue(turns))
    logged = store.do(everything(talk))
    spoken = [event for event in logged if event.kind in ("user", "assistant")]
    context = store.look(talk, "messages", 0, settings={"messages": wanted})
    assert context.cutoff == _first_of_turn(logged, spoken[-wanted:][0])
    assert told(context) == [event.seq - 1 for event in messages(logged) if event.seq >= context.cutoff]


@often
@given(shapes, st.integers(1, 40))
def test_property_5_the_recent_part_holds_the_newest_messages_and_moves_by_half_of_them(
    store: Store, turns: list[Shape], active: int
) -> None:
    """So the N newest are always in, and up to half as many again until the next move."""
    talk = store.begin(dialogue(turns))
    logged = store.do(everything(talk))
    context = store.look(talk, "importance", 0, settings={"active_messages": active})
    assert context.cutoff == _recent_part(logged, active)
    assert [number for number in told(context) if number >= context.cutoff - 1] == [
        event.seq - 1 for event in messages(logged) if event.seq >= context.cutoff
    ]
    assert sorted(told(context)) == told(context)


def _recent_part(logged: list[Logged], active: int) -> int:
    """Where the part that is sent whatever its score begins: after a multiple of half the newest messages' number."""
    everyone, half = messages(logged), max(1, active // 2)
    left = max(0, len(everyone) - active) // half * half
    return _first_of_turn(logged, everyone[left])


def _first_of_turn(events: list[Logged], event: Logged) -> int:
    return next(one.seq for one in messages(events) if one.turn == event.turn)


@often
@given(shapes, st.integers(1, 30), st.integers(20, 4_000))
def test_property_7_the_sizes_that_were_set_are_kept_to(
    store: Store, turns: list[Shape], wanted: int, budget: int
) -> None:
    """Whether they are given in the moment, by the branch, or by the conversation; never more than a turn too many."""
    talk = store.begin(dialogue(turns))
    logged = store.do(everything(talk))
    store.do(talk.set_settings({"active_messages": wanted}))
    store.do(talk.configure(messages=wanted))
    by_messages, by_importance = store.look(talk, "messages", 0), store.look(talk, "importance", 0)
    assert {by_messages.explain().settings["messages"], by_importance.explain().settings["active_messages"]} == {wanted}
    for context, kinds, spare in (
        (by_messages, ("user", "assistant"), 0),
        (by_importance, MESSAGES, max(1, wanted // 2) - 1),
    ):
        counted = [event for event in logged if event.kind in kinds]
        inside = [event for event in counted if event.seq >= context.cutoff]
        after_first = [event for event in inside if event.turn != inside[0].turn]
        assert min(wanted, len(counted)) <= len(inside)
        assert len(after_first) < wanted + spare
    for strategy in STRATEGY_NAMES:
        context = store.look(talk, strategy, budget)
        assert context.budget == budget
        assert context.estimate <= budget or context.over_budget


# -- importance --------------------------------------------------------------------------------------------

_texts = st.text(max_size=20) | st.integers(4_990, 5_010).map(lambda length: "a" * length)
_places = st.floats(0, 1)


@often
@given(_texts, _places, _places)
def test_property_11_scores_follow_their_rules(text: str, place: float, later: float) -> None:
    place, later = sorted((place, later))
    said: list[Event] = [system(text), tool_result(text, name="f"), user(text), assistant(text)]
    long = 10 if len(text) > 5_000 else 0
    assert [worth(event) for event in said] == [90 - long, 55 - long, 40 - long, 30 - long]
    assert worth(tool_call("f", "{}")) == 55
    assert worth(Command(name=text)) == 0
    for event in said:
        assert 0 <= score(worth(event), place) <= score(worth(event), later) <= 100
    assert recency(0) == 0
    assert recency(place) == pytest.approx(30 * place**2)
    scores = [score(worth(event), place) for event in said]
    assert scores == sorted(scores, reverse=True)


@often
@given(
    st.lists(shape, min_size=6, max_size=25),
    st.sampled_from([900, 1_500, 2_500, 4_000]),
    st.integers(1, 6),
)
def test_property_12_what_is_left_out_scores_less_or_was_too_large(
    store: Store, turns: list[Shape], budget: int, active: int
) -> None:
    """A left-out turn that scores higher than some that are sent is larger than all of these together."""
    talk = store.begin(dialogue(turns))
    context = store.look(talk, "importance", budget, settings={"active_messages": active})
    found, logged = store.do(talk.turns(limit=1_000)), store.do(everything(talk))
    before = [turn for turn in found if turn.first < context.cutoff]
    scores = _scores(before, logged, len([e for e in messages(logged) if e.seq < context.cutoff]))
    sent = sent_turns(context)
    for turn in before:
        beaten = [one for one in before if one.first in sent and scores[one.first] < scores[turn.first] - 1e-9]
        assert turn.first in sent or not beaten or turn.settled > sum(one.settled for one in beaten)
    # Where the recent part is too large it is cut by size, and older turns stay out.
    if before and context.cutoff == _recent_part(logged, active):
        best = max(before, key=lambda turn: (scores[turn.first], turn.first))
        assert best.first in sent or best.settled > _surely_free(context, found)


def _scores(turns: list[Turn], logged: list[Logged], messages_before: int) -> dict[int, float]:
    """What the specification makes of each turn: its most important message, and how recent it is."""
    base = {"system": 90, "user": 40, "assistant": 30, "tool_call": 55, "tool_result": 55}
    found = {}
    for turn, inside in zip(turns, said(turns, logged), strict=True):
        place = len([event for event in messages(logged) if event.seq < turn.first]) / messages_before
        most = max(base[event.kind] - (10 if len(event.text) > 5_000 else 0) for event in inside)
        found[turn.first] = min(100.0, most + 30 * place**2)
    return found


def _surely_free(context: Context, turns: list[Turn]) -> int:
    """Room that is there for older turns even after what is kept for twice as many messages as are recent now."""
    room, newest = plan_of(context).room, turns[-1]
    first = next(turn for turn in turns if turn.first == context.cutoff)
    recent = newest.before - first.before + max(newest.tokens, room.reserve)
    return room.room - room.reserve - 2 * max(recent, room.room // 16)


# -- running totals ----------------------------------------------------------------------------------------


@often
@given(shapes, shapes, st.integers(0, 10**6), st.sampled_from([0, 1, 45]))
def test_property_16_running_totals_are_the_sums_of_what_was_said(
    store: Store, first: list[Shape], second: list[Shape], at: int, pause: int
) -> None:
    """Of turns, sessions, branches and the conversation, which counts what branches share once."""
    talk = store.begin(dialogue(first))
    shared = store.do(everything(talk))
    side = store.do(talk.fork(at=at % (len(shared) + 1)))
    store.clock.now += pause * MINUTE
    store.do(side.append(*dialogue(second)))
    along = store.do(everything(side))
    own = [event for event in along if event.branch != 1]
    whole = store.do(talk.totals())
    assert (whole.tokens, whole.messages) == (_sum([*shared, *own]), len(messages([*shared, *own])))
    branches = {branch.branch.number: branch for branch in store.do(talk.branches())}
    assert [branches[1].line.tokens, branches[2].line.tokens] == [_sum(shared), _sum(along)]
    assert sum(turn.tokens for turn in store.do(side.turns(limit=1_000))) == _sum(along)
    assert sum(session.tokens for session in store.do(side.sessions(limit=1_000))) == _sum(along)


def _sum(events: list[Logged]) -> int:
    return sum(event.tokens for event in events)
