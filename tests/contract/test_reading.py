"""Reading along a line: tails, ranges and pages, right over every boundary between branches."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everthread import Everthread, Talk, assistant, tool_call, tool_result, user
from everthread.core.branches import ENDLESS
from everthread.core.events import Clear, Event, Mark, Other
from everthread.core.logged import Logged
from everthread.core.turns import Turn
from everthread.core.window import Start
from everthread.errors import BadValue
from everthread.store.log import Log
from everthread.store.open import open_log
from tests.contract.support import Interleaved, assert_sound, engine_of, everything, first_from, last_upto
from tests.examples import examples


class Tree(NamedTuple):
    main: Talk
    child: Talk
    grandchild: Talk


@pytest.fixture
async def tree(talk: Talk) -> Tree:
    """Main with 12 events, a child from its 7th with 6 of its own, a grandchild from the child's 10th with 4."""
    await talk.append(*(user(f"main {number}") for number in range(1, 13)))
    child = await talk.fork(at=7)
    await child.append(*(user(f"child {number}") for number in range(9, 14)))
    grandchild = await child.fork(at=10)
    await grandchild.append(*(user(f"grandchild {number}") for number in range(12, 15)))
    return Tree(talk, child, grandchild)


GRANDCHILD = [
    *(f"main {number}" for number in range(1, 8)),
    *("", "child 9", "child 10"),
    *("", "grandchild 12", "grandchild 13", "grandchild 14"),
]


async def test_a_line_is_read_through_its_ancestors(et: Everthread, tree: Tree) -> None:
    assert [event.text for event in await everything(tree.grandchild)] == GRANDCHILD
    assert [event.branch for event in await everything(tree.grandchild)] == [1] * 7 + [2] * 3 + [3] * 4
    assert len(await everything(tree.main)) == 12
    await assert_sound(et, tree.main)


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 13, 14, 15, 100])
async def test_pages_backwards_have_no_gaps_and_no_duplicates(tree: Tree, limit: int) -> None:
    for side in tree:
        pages: list[Logged] = []
        while page := await side.before(pages[0].seq if pages else ENDLESS, limit=limit):
            assert len(page) <= limit
            pages = page + pages
        assert pages == await everything(side)


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 13, 14, 15, 100])
async def test_pages_forwards_have_no_gaps_and_no_duplicates(tree: Tree, limit: int) -> None:
    for side in tree:
        pages: list[Logged] = []
        while page := await side.after(pages[-1].seq if pages else 0, limit=limit):
            assert len(page) <= limit
            pages += page
        assert pages == await everything(side)


async def test_pages_of_messages_leave_the_markers_out(tree: Tree) -> None:
    side = tree.grandchild
    spoken = [event for event in await everything(side) if event.kind == "user"]
    assert await side.before(limit=100, messages=True) == spoken
    assert await side.before(12, limit=4, messages=True) == spoken[5:9]
    assert await side.after(6, limit=4, messages=True) == spoken[6:10]
    assert await side.after(limit=1, messages=True) == spoken[:1]


async def test_every_range_is_exactly_its_events(tree: Tree) -> None:
    for side in tree:
        whole = await everything(side)
        for first in range(len(whole) + 3):
            for last in range(first - 1, len(whole) + 3):
                assert await side.range(first, last) == [e for e in whole if first <= e.seq <= last]


@pytest.mark.parametrize("seq", [-5, 0, 1])
async def test_before_the_first_event_there_is_nothing(tree: Tree, seq: int) -> None:
    assert await tree.grandchild.before(seq) == []


@pytest.mark.parametrize("seq", [14, 15, 10**6, 2**31, 2**40])
async def test_after_the_last_event_there_is_nothing(tree: Tree, seq: int) -> None:
    assert await tree.grandchild.after(seq) == []


@pytest.mark.parametrize("seq", [15, 10**6, 2**31, 2**40])
async def test_a_page_before_a_seq_beyond_the_end_is_the_newest(tree: Tree, seq: int) -> None:
    assert await tree.grandchild.before(seq, limit=3) == (await everything(tree.grandchild))[-3:]


async def test_a_range_may_reach_far_beyond_the_end(tree: Tree) -> None:
    assert await tree.grandchild.range(-(2**40), 2**40) == await everything(tree.grandchild)


@pytest.mark.parametrize("bad", [0, -1, 2**40])
async def test_counts_must_be_above_zero(talk: Talk, bad: int) -> None:
    for ask in (talk.tail(turns=bad), talk.before(limit=bad), talk.after(limit=bad), talk.turns(limit=bad)):
        with pytest.raises(BadValue):
            await ask


# -- tail --------------------------------------------------------------------------------------------------


async def test_a_tail_is_whole_turns(et: Everthread, talk: Talk) -> None:
    await talk.append(assistant("greeting"))
    for number in range(3):
        await talk.append(user(str(number)), tool_call("f"), tool_result("r", name="f"), assistant("ok"))
        await talk.append(Mark(name="m"))
    whole = await everything(talk)
    assert [event.seq for event in await talk.tail(turns=1)] == [12, 13, 14, 15, 16]
    assert [event.seq for event in await talk.tail(turns=2)] == list(range(7, 17))
    assert await talk.tail(turns=3) == whole[1:]
    assert await talk.tail(turns=4) == whole
    assert await talk.tail(turns=100) == whole
    await assert_sound(et, talk)


async def test_the_tail_of_nothing_is_nothing(talk: Talk) -> None:
    assert await talk.tail() == []
    assert await talk.turns() == []
    assert await talk.sessions() == []


async def test_the_tail_of_markers_alone_is_the_markers(talk: Talk) -> None:
    await talk.mark("m")
    assert [event.kind for event in await talk.tail(turns=1)] == ["mark"]
    assert await talk.turns() == []


async def test_a_tail_reaches_back_over_fork_points(tree: Tree) -> None:
    whole = await everything(tree.grandchild)
    for turns in range(1, 14):
        found = await tree.grandchild.tail(turns=turns)
        assert found == [event for event in whole if event.seq >= found[0].seq]
        assert len([event for event in found if event.kind == "user"]) == min(turns, 12)
        assert found[0].kind == "user"


async def test_a_fork_in_mid_turn_gives_a_turn_that_spans_both_branches(et: Everthread, talk: Talk) -> None:
    await talk.append(user("a"), assistant("b"), user("c"), tool_call("f"), tool_result("main", name="f"))
    side = await talk.fork(at=4)
    await side.append(tool_result("side", name="f"), assistant("done"))
    (turn,) = await side.turns(limit=1)
    assert (turn.number, turn.first, turn.last, turn.state) == (2, 3, 7, "idle")
    tail = await side.tail(turns=1)
    assert [(event.branch, event.kind) for event in tail] == [
        (1, "user"),
        (1, "tool_call"),
        (2, "fork"),
        (2, "tool_result"),
        (2, "assistant"),
    ]
    assert turn.tokens == sum(event.tokens for event in tail)
    (left,) = await talk.turns(limit=1)
    assert (left.number, left.first, left.last, left.state) == (2, 3, 5, "open")
    await assert_sound(et, talk)


# -- turns against a linear scan ---------------------------------------------------------------------------

LARGE = tool_result("a large result " * 800, name="f")
steps = st.lists(
    st.one_of(
        st.lists(
            st.sampled_from(
                [user("u"), user("a longer message"), assistant("a"), tool_call("f"), LARGE, Clear(), Mark(name="m")]
            ),
            min_size=1,
            max_size=5,
        ),
        st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)),
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=steps)
def test_turns_and_their_look_ups_equal_a_linear_scan(
    address: str, someone: str, script: list[list[Event] | tuple[int, int]]
) -> None:
    """Sums and bounds of turns from the events alone; then both look-ups at every interesting value."""

    async def go() -> None:
        async with Everthread.open(address) as et:
            talk = await et.begin(user=someone)
            sides = [talk]
            for step in script:
                if isinstance(step, tuple):
                    parent = sides[step[0] % len(sides)]
                    sides.append(await parent.fork(at=step[1] % (len(await everything(parent)) + 1)))
                else:
                    await sides[-1].append(*step)
            for side in sides:
                await compare(et.log, side)
            await assert_sound(et, talk)

    asyncio.run(go())


async def compare(log: Log, side: Talk) -> None:
    line, whole = await side.line(), await everything(side)
    turns = await side.turns(limit=1_000)
    cleared = max((event.seq for event in whole if event.kind == "clear"), default=0)
    for place, turn in enumerate(turns):
        last = turns[place + 1].first - 1 if place + 1 < len(turns) else len(whole)
        inside = [event for event in whole if turn.first <= event.seq <= last]
        assert turn.last == last
        assert {event.turn for event in inside} == {turn.number}
        assert turn.tokens == sum(event.tokens for event in inside)
        assert turn.settled == sum(event.settled for event in inside)
        reset = max((e.seq for e in whole if e.kind == "clear" and e.seq < turn.first), default=0)
        assert turn.before == sum(event.settled for event in whole if reset < event.seq < turn.first)
        assert await log.turns(line, limit=1, last=turn.first) == [turn]
        assert await log.turns(line, limit=2, last=turn.last) == turns[max(0, place - 1) : place + 1]
    recent = [turn for turn in turns if turn.first > cleared]
    for before in sorted({0, 1, 10**9, *(t.before + d for t in recent for d in (-1, 0, 1))}):
        upwards = next((t for t in recent if t.before >= before), None)
        downwards = next((t for t in reversed(recent) if t.before <= before), None)
        assert place_of(await first_from(log, line, before)) == place_of(upwards)
        assert place_of(await last_upto(log, line, before)) == place_of(downwards)


def place_of(found: Turn | Start | None) -> tuple[int, int, int] | None:
    return (found.first, found.before, found.number) if found else None


async def test_markers_of_a_kind_newest_first_along_the_line(et: Everthread, talk: Talk) -> None:
    await talk.append(Other(kind="note", data={"n": 1}), user("a"), Other(kind="note", data={"n": 2}), Mark(name="m"))
    side = await talk.fork(at=3)
    await side.append(Other(kind="note", data={"n": 3}))
    await talk.append(Other(kind="note", data={"n": 4}))
    line = await side.line()
    assert [m.event.data["n"] for m in await et.log.markers(line, "note")] == [3, 2, 1]  # type: ignore[union-attr]
    assert [m.seq for m in await et.log.markers(line, "note", limit=1)] == [5]
    assert [m.seq for m in await et.log.markers(line, "note", last=4)] == [3, 1]
    assert await et.log.markers(line, "mark") == []
    assert await et.log.markers(line, "user") == []


async def test_the_head_before_the_first_event_is_empty(et: Everthread, talk: Talk) -> None:
    await talk.append(user("a"))
    line = await talk.line()
    assert (await et.log.head(line, at=0)).seq == 0
    assert (await et.log.head(line, at=1)).seq == (await et.log.head(line)).seq == 1


# -- while somebody writes ---------------------------------------------------------------------------------


async def test_a_reader_sees_whole_turns_whatever_is_written_between_its_questions(address: str, someone: str) -> None:
    """A turn ends before the next one begins, also when that began while the reader was asking."""
    inner = await open_log(address)
    engine = Interleaved(engine_of(inner))
    et, watched = Everthread(inner), Log(engine)
    talk = await et.begin(user=someone)
    await talk.append(user("1"), assistant("1"))
    line = await talk.line()

    async def somebody_speaks() -> None:
        await talk.append(user("more"), assistant("more"))

    engine.between = somebody_speaks
    for _ in range(5):
        turns = await watched.turns(line, limit=3)
        assert all(turn.last - turn.first == 1 for turn in turns)
        # A look-up knows the turns that there were when it was asked, and no other.
        first, *_ = await inner.turns(line, limit=1_000)
        assert place_of(await first_from(watched, line, 0)) == place_of(first)
        *_, newest = await inner.turns(line)
        assert place_of(await first_from(watched, line, newest.before)) == place_of(newest)
        *_, newest = await inner.turns(line)
        assert await first_from(watched, line, newest.before + 1) is None
        *_, newest = await inner.turns(line)
        assert place_of(await last_upto(watched, line, 10**9)) == place_of(newest)
        *_, previous, newest = await inner.turns(line)
        assert place_of(await last_upto(watched, line, newest.before - 1)) == place_of(previous)
        tail = await watched.tail(line, turns=2)
        assert [event.kind for event in tail] == ["user", "assistant"] * (len(tail) // 2)
        sessions = await watched.sessions(line)
        assert [session.number for session in sessions] == [1]
        assert sessions[0].messages == sessions[0].last
    await inner.close()


async def test_a_check_finds_nothing_wrong_with_a_log_that_grows_meanwhile(address: str, someone: str) -> None:
    inner = await open_log(address)
    engine = Interleaved(engine_of(inner))
    et, watched = Everthread(inner), Log(engine)
    talk = await et.begin(user=someone)
    await talk.append(user("1"), assistant("1"))

    async def somebody_works() -> None:
        side = await talk.fork()
        await side.append(user("more"))
        await talk.append(user("more"))
        if engine.asked == 3:
            engine.between = None

    engine.between = somebody_works
    _, problems = await watched.check(talk.conversation.tenant, talk.id)
    assert problems == []
    await inner.close()


async def test_a_cancelled_read_leaves_the_next_one_alone(et: Everthread, talk: Talk) -> None:
    """A long read goes on in its thread when its caller is gone; nobody else may get its connection."""
    await talk.append(*(user("x" * 200) for _ in range(3_000)))
    for _ in range(10):
        tasks = [asyncio.create_task(talk.range(1, 5_000)) for _ in range(4)]
        await asyncio.sleep(0.001)
        for task in tasks:
            task.cancel()
        found = await asyncio.gather(*(talk.range(1, 5_000) for _ in range(4)))
        assert {len(events) for events in found} == {3_000}
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_store_can_be_closed_just_after_a_read_was_cancelled(address: str, someone: str) -> None:
    for number in range(3):
        et = await Everthread.open(address)
        talk = await et.begin(user=f"{someone}-{number}")
        await talk.append(*(user("x" * 200) for _ in range(3_000)))
        tasks = [asyncio.create_task(talk.range(1, 5_000)) for _ in range(4)]
        await asyncio.sleep(0.001)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await et.close()
