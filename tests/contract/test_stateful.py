"""Any interleaving of what can be done to a log equals a plain in-memory model, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from everthread import Everthread
from everthread.core.branches import ENDLESS
from everthread.core.events import (
    AgentKilled,
    Assistant,
    Clear,
    Command,
    Event,
    Fork,
    Mark,
    Other,
    Pin,
    Redacted,
    Rewind,
    SettingsChanged,
    ToolCall,
    assistant,
    system,
    tool_call,
    tool_result,
    user,
)
from everthread.errors import BadValue, UnknownMark
from everthread.store.open import open_log
from tests.contract.model import Model, Said, walk
from tests.contract.support import MINUTE, START, Clock, assert_sound, first_from, last_upto
from tests.examples import examples

T = TypeVar("T")
GAP = 30 * MINUTE
LARGE = "a large result " * 800

texts = st.sampled_from(["", "yes", "walnuts\0", "\ud800 alone", "龍", "tell me more about it"])
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(user, texts),
    st.builds(user, texts),
    st.builds(assistant, texts),
    st.builds(assistant, texts),
    st.builds(lambda text: assistant(text, interrupted=True), texts),
    st.builds(system, texts),
    st.just(tool_call("look", {"for": "x"})),
    st.sampled_from(
        [ToolCall(id="1", name="buy", waits_for="approval"), ToolCall(id="2", name="dig", waits_for="job")]
    ),
    st.builds(lambda text: tool_result(text, name="look"), texts | st.just(LARGE)),
    # But for what memory makes, and why something failed: they go with what they tell of (tests/memory/test_copies.py,
    # tests/contract/test_children_forgotten.py).
    st.sampled_from(
        [
            AgentKilled(reason="stopped"),
            Pin(turn=1),
            SettingsChanged(values={"retries": 7}),
            Command(name="/config"),
            Other(kind="note", data={"a": [1]}),
        ]
    ),
)
marks = st.sampled_from(["here", "there"])
UNTOUCHABLE = (Clear, Fork, Rewind)

_numbers = count(1)


class LogMachine(RuleBasedStateMachine):
    address: str

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = Clock()
        self.model = Model(gap=GAP)
        self.user = f"machine-{next(_numbers)}"

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    @initialize()
    def begin(self) -> None:
        self.et = self.do(self.open())
        self.talk = self.do(self.et.begin(user=self.user))

    async def open(self) -> Everthread:
        return Everthread(await open_log(self.address, clock=self.clock, session_gap=GAP))

    def teardown(self) -> None:
        try:
            if hasattr(self, "talk"):
                self.do(self.compare())
                self.do(self.compare_turns())
                self.do(assert_sound(self.et, self.talk))
        finally:
            if hasattr(self, "et"):
                self.do(self.et.close())
            self.do(asyncio.sleep(0))
            self.loop.close()

    # -- what can happen -----------------------------------------------------------------------------------

    @rule(minutes=st.sampled_from([0, 1, 29, 30, 31, 500, -45]), micro=st.sampled_from([0, 1, -1]))
    def time_passes(self, minutes: int, micro: int) -> None:
        self.clock.now += minutes * MINUTE + micro

    @rule(batch=st.lists(events, min_size=1, max_size=6))
    def append(self, batch: list[Event]) -> None:
        self.model.append(batch, self.clock.now)
        written = self.do(self.talk.append(*batch))
        assert [event.event for event in written] == batch
        assert self.do(self.talk.before(limit=len(batch))) == written

    @rule(batch=st.lists(events, min_size=1, max_size=3), pick=st.integers(0, 10**6))
    def append_to_a_branch(self, batch: list[Event], pick: int) -> None:
        branch = self.a_branch(pick)
        self.model.append(batch, self.clock.now, branch)
        self.do(self.do(self.talk.on(branch)).append(*batch))

    @rule()
    def clear(self) -> None:
        self.model.append([Clear()], self.clock.now)
        self.do(self.talk.clear())

    @rule(name=marks)
    def mark(self, name: str) -> None:
        self.model.append([Mark(name=name)], self.clock.now)
        self.do(self.talk.mark(name))

    @precondition(lambda self: len(self.model.branches) < 8)
    @rule(pick=st.integers(0, 10**6), at=st.integers(0, 10**6))
    def fork(self, pick: int, at: int) -> None:
        branch = self.a_branch(pick)
        at %= len(self.model.branches[branch]) + 1
        name = f"fork-{max(self.model.branches) + 1}"
        number = self.model.grow(branch, at, Fork(branch=branch, at=at), name, self.clock.now)
        side = self.do(self.do(self.talk.on(branch)).fork(at=at))
        assert self.do(side.line()).branch.number == number

    @precondition(lambda self: len(self.model.branches) < 8)
    @rule(pick=st.integers(0, 10**6), to=st.integers(0, 10**6))
    def rewind(self, pick: int, to: int) -> None:
        branch = self.a_branch(pick)
        to %= len(self.model.branches[branch]) + 1
        name = f"rewind-{max(self.model.branches) + 1}"
        marker = Rewind(branch=branch, to=to)
        self.model.current = self.model.grow(branch, to, marker, name, self.clock.now)
        self.do(self.do(self.talk.on(branch)).rewind(to=to))

    @precondition(lambda self: len(self.model.branches) < 8)
    @rule(name=marks)
    def rewind_to_a_mark(self, name: str) -> None:
        branch = self.model.current
        at = self.model.marked(branch, name)
        if at is None:
            with pytest.raises(UnknownMark):
                self.do(self.talk.rewind(to=name))
            return
        new = f"back-{max(self.model.branches) + 1}"
        marker = Rewind(branch=branch, to=at)
        self.model.current = self.model.grow(branch, at, marker, new, self.clock.now)
        self.do(self.talk.rewind(to=name, name=new))

    @rule(pick=st.integers(0, 10**6))
    def switch(self, pick: int) -> None:
        branch = self.a_branch(pick)
        self.model.append([Command(name="switch", arguments={"branch": branch})], self.clock.now, branch)
        self.model.current = branch
        self.do(self.talk.switch(self.model.names[branch]))

    @rule(pick=st.integers(0, 10**6), seq=st.integers(0, 10**6))
    def redact(self, pick: int, seq: int) -> None:
        branch = self.a_branch(pick)
        line = self.model.branches[branch]
        if not line:
            return
        seq = seq % len(line) + 1
        side = self.do(self.talk.on(branch))
        if isinstance(line[seq - 1].event, UNTOUCHABLE):
            with pytest.raises(BadValue):
                self.do(self.et.log.forgetting.redact(self.do(side.line()), seq))
            return
        owner = self.do(side.line()).owner(seq)
        note = Command(name="redact", arguments={"seq": seq, "branch": owner})
        self.model.hide(branch, seq)
        self.model.append([note], self.clock.now, branch)
        self.do(self.et.log.forgetting.redact(self.do(side.line()), seq))  # the log's verb: memory is not its business

    @rule()
    def reopen(self) -> None:
        self.do(self.et.close())
        self.et = self.do(self.open())
        self.talk = self.do(self.et.conversation(user=self.user, id=self.talk.id))

    # -- what must hold ------------------------------------------------------------------------------------

    @rule()
    def look(self) -> None:
        """The log only grows, so comparing now and then, and always at the end, misses nothing."""
        self.do(self.compare())
        self.do(self.compare_turns())

    async def compare(self) -> None:
        totals = {branch.branch.number: branch for branch in await self.talk.branches()}
        assert {number: known.branch.name for number, known in totals.items()} == self.model.names
        assert (await self.talk.line()).branch.number == self.model.current
        for number, said in self.model.branches.items():
            line = walk(said, GAP)
            found = await (await self.talk.on(number)).range(1, ENDLESS)
            assert [seen(event) for event in found] == [
                (
                    place.seq,
                    place.said.kind,
                    place.said.text,
                    place.turn,
                    place.session,
                    place.said.time,
                    sizes(place.said),
                )
                for place in line.places
            ]
            assert [isinstance(event.event, Redacted) for event in found] == [one.is_hidden for one in said]
            assert [event.event for event, one in zip(found, said, strict=True) if not one.is_hidden] == [
                one.event for one in said if not one.is_hidden
            ]
            own = totals[number].line
            assert (own.events, own.messages, own.tokens) == summed(said)
        distinct = list(self.model.distinct().values())
        whole = await self.talk.totals()
        assert (whole.events, whole.messages, whole.tokens) == summed(distinct)
        mine = await self.et.totals(user=self.user)
        assert (mine.conversations, mine.events, mine.messages, mine.tokens) == (1, *summed(distinct))

    async def compare_turns(self) -> None:
        """Turns, sessions and the look-ups by tokens, along every branch."""
        for number, said in self.model.branches.items():
            side = await self.talk.on(number)
            line, ref = walk(said, GAP), await side.line()
            assert [
                (t.number, t.first, t.last, t.state, t.session, t.tokens, t.settled, t.before)
                for t in await side.turns(limit=1_000)
            ] == [
                (
                    *(t.number, t.first, t.last, t.state, t.session),
                    *(sum(one.tokens for one in t.events), sum(one.settled for one in t.events), t.before),
                )
                for t in line.turns
            ]
            left = 0
            for turn in line.turns:
                begun, ended = await self.et.log.head(ref, at=turn.first), await self.et.log.head(ref, at=turn.last)
                assert (begun.left_importance, ended.importance) == (left, turn.importance)
                left = turn.importance
            recent = [turn for turn in line.turns if turn.first > line.cleared]
            for before in {0, 1, *(t.before for t in recent), *(t.before + 1 for t in recent)}:
                upwards = next((turn.first for turn in recent if turn.before >= before), None)
                downwards = next((turn.first for turn in reversed(recent) if turn.before <= before), None)
                start = await first_from(self.et.log, ref, before)
                end = await last_upto(self.et.log, ref, before)
                assert (start and start.first, end and end.first) == (upwards, downwards)
            for turns in (1, 2, len(line.turns) or 1):
                first = line.turns[-turns].first if len(line.turns) >= turns else 1
                assert [event.seq for event in await side.tail(turns=turns)] == list(range(first, len(said) + 1))
            sessions = await side.sessions(limit=1_000)
            assert [session.number for session in sessions] == sorted({p.session for p in line.places} - {0})
            for session in sessions:
                inside = [place for place in line.places if place.session == session.number]
                assert (session.first, session.last) == (inside[0].seq, inside[-1].seq)
                assert (session.messages, session.tokens) == summed([place.said for place in inside])[1:]

    def a_branch(self, pick: int) -> int:
        return sorted(self.model.branches)[pick % len(self.model.branches)]


def seen(event: Any) -> tuple[object, ...]:
    return (event.seq, event.kind, event.text, event.turn, event.session, event.micros, (event.tokens, event.settled))


def sizes(said: Said) -> tuple[int, int]:
    return said.tokens, said.settled


def summed(events: list[Said]) -> tuple[int, int, int]:
    messages = [said for said in events if said.kind in ("system", "user", "assistant", "tool_call", "tool_result")]
    return len(events), len(messages), sum(said.tokens for said in events)


@pytest.fixture
def machine(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> type[LogMachine]:
    """A machine class for one database. SQLite gets a new file for each example."""

    class Machine(LogMachine):
        def __init__(self) -> None:
            super().__init__()
            if engine == "sqlite":
                self.address = f"sqlite:///{tmp_path}/{self.user}.db"
            else:
                self.address = str(request.getfixturevalue("_shared_database"))

    return Machine


@pytest.mark.hypothesis
def test_any_interleaving_equals_a_plain_model(machine: type[LogMachine]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(100),
            stateful_step_count=25,
            deadline=None,
            report_multiple_bugs=False,
            phases=(Phase.reuse, Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_the_model_itself_tells_turns_apart() -> None:
    """A model that agreed with everything would prove nothing."""
    said: list[Event] = [user("a"), assistant("b"), tool_result("late", name="f"), Clear(), Assistant()]
    line = walk([Said(n, event, START) for n, event in enumerate(said)], GAP)
    assert [place.turn for place in line.places] == [1, 1, 2, 2, 3]
    assert [turn.before for turn in line.turns] == [0, sum(s.settled for s in line.turns[0].events), 0]
    assert [turn.importance for turn in line.turns] == [40, 55, 30]
