"""What a line costs does not depend on how often it was forked, rewound or edited: counted, not timed."""

from __future__ import annotations

import pytest

from everthread import Everthread, user
from tests.depth.rewound import SHAPES, counted, deep, edit, newest_seq, readings

SHALLOW, DEEP = 12, 150


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_reading_asks_as_much_at_any_depth(et: Everthread, address: str, someone: str, shape: str) -> None:
    """By a process that has read it before."""
    found = []
    for depth in (SHALLOW, DEEP):
        talk = await deep(et, someone, shape, depth)
        async with counted(address) as (other, counting):
            here = await other.conversation(user=someone, id=talk.id)
            here = await here.on((await talk.line()).branch.number)
            all_of_them = await readings(here)
            for read in all_of_them.values():
                await read()
            found.append({name: await counting.of(read()) for name, read in all_of_them.items()})
    shallow, far = found
    for name, (asked, rows) in far.items():
        assert asked <= shallow[name][0] + 1, (name, shallow[name], far[name])
        assert rows <= 1.5 * shallow[name][1] + 4, (name, shallow[name], far[name])


@pytest.mark.parametrize("shape", SHAPES)
async def test_the_first_reading_of_a_process_asks_no_more_than_a_few_questions(
    et: Everthread, address: str, someone: str, shape: str
) -> None:
    found = []
    for depth in (SHALLOW, DEEP):
        talk = await deep(et, someone, shape, depth)
        number = (await talk.line()).branch.number
        async with counted(address) as (other, counting):
            here = await other.conversation(user=someone, id=talk.id)
            asked, rows = await counting.of(here.on(number))
            assert asked <= 4
            assert rows <= 3 * (depth + 2)  # each ancestor, where it was left, and the turn that had begun there
            all_of_them = await readings(await here.on(number))
            found.append({name: (await counting.of(read()))[0] for name, read in all_of_them.items()})
    shallow, far = found
    assert all(far[name] <= shallow[name] + 1 for name in far), (shallow, far)


async def test_an_append_asks_as_much_at_any_depth(et: Everthread, address: str, someone: str) -> None:
    found = []
    for depth in (SHALLOW, DEEP):
        talk = await deep(et, someone, "edit", depth)
        async with counted(address) as (other, counting):
            here = await other.conversation(user=someone, id=talk.id)
            found.append([await counting.of(here.append(user("x"))) for _ in range(3)])
    assert found[0] == found[1]


@pytest.mark.parametrize("verb", ["fork", "rewind"])
async def test_a_new_branch_asks_as_much_at_any_depth(et: Everthread, address: str, someone: str, verb: str) -> None:
    found = []
    for depth in (SHALLOW, DEEP):
        talk = await deep(et, someone, "edit", depth)
        async with counted(address) as (other, counting):
            here = await other.conversation(user=someone, id=talk.id)
            await here.tail(turns=1)
            before = await newest_seq(here)
            grow = here.rewind(to=before - 4) if verb == "rewind" else here.fork(at=before - 4)
            grown, read = await counting.of(grow), await counting.of(here.tail(turns=1))
            found.append((grown, read))
    assert found[0] == found[1]


async def test_a_branch_stores_nothing_but_its_own_events(et: Everthread, someone: str) -> None:
    talk = await et.begin(user=someone)
    for number in range(20):
        talk = await edit(talk, number)
    assert {total.own.events for total in (await talk.branches())[1:-1]} == {11}


@pytest.mark.parametrize("shape", SHAPES)
async def test_recall_along_a_line_asks_as_much_at_any_depth(
    et: Everthread, address: str, someone: str, shape: str
) -> None:
    found = []
    for depth in (SHALLOW, DEEP):
        talk = await deep(et, f"{someone}-{depth}", shape, depth)
        async with counted(address) as (other, counting):
            here = await other.conversation(user=f"{someone}-{depth}", id=talk.id)
            here = await here.on((await talk.line()).branch.number)
            await here.recall("walnuts in question 7")
            found.append(await counting.of(here.recall("walnuts in question 7")))
    assert found[1][0] <= found[0][0] + 2, found
    assert found[1][1] <= 1.5 * found[0][1] + 30, found
