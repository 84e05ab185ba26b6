"""Fork, rewind, mark, clear, switch: branches share what came before and nothing after."""

from __future__ import annotations

import asyncio

import pytest

from everthread import Everthread, Talk, assistant, tool_call, tool_result, user
from everthread.core.events import Command, Fork, Mark, Rewind
from everthread.errors import AlreadyExists, BadValue, UnknownBranch, UnknownMark, UnknownSeq
from tests.contract.support import assert_sound, everything, first_from, texts


async def spoken(talk: Talk, *words: str) -> None:
    await talk.append(*map(user, words))


async def test_a_fork_shares_what_came_before_and_goes_its_own_way(et: Everthread, talk: Talk) -> None:
    await spoken(talk, "a", "b", "c")
    side = await talk.fork(at=2)
    await spoken(side, "d")
    await spoken(talk, "e")
    assert await texts(side) == ["a", "b", "d"]
    assert await texts(talk) == ["a", "b", "c", "e"]
    assert [event.seq for event in await everything(side)] == [1, 2, 3, 4]
    await assert_sound(et, talk)


async def test_a_fork_begins_with_a_marker_that_says_where_from(talk: Talk) -> None:
    await spoken(talk, "a", "b")
    side = await talk.fork(at=1)
    assert (await everything(side))[-1].event == Fork(branch=1, at=1)


async def test_a_fork_shares_ids_and_times_with_its_parent(talk: Talk) -> None:
    await spoken(talk, "a", "b")
    side = await talk.fork(at=2)
    assert (await everything(side))[:2] == await everything(talk)


async def test_a_fork_is_from_the_newest_event_by_default(talk: Talk) -> None:
    await spoken(talk, "a", "b")
    assert await texts(await talk.fork()) == ["a", "b"]


async def test_a_fork_leaves_the_current_branch_where_it_is(talk: Talk) -> None:
    await spoken(talk, "a")
    await talk.fork(at=1)
    assert (await talk.line()).branch.name == "main"


async def test_a_fork_of_an_empty_conversation(et: Everthread, talk: Talk) -> None:
    side = await talk.fork()
    await spoken(side, "a")
    assert await texts(side) == ["a"]
    assert await texts(talk) == []
    await assert_sound(et, talk)


async def test_a_fork_at_nothing_starts_from_scratch(et: Everthread, talk: Talk) -> None:
    await spoken(talk, "a", "b")
    side = await talk.fork(at=0)
    await spoken(side, "c")
    assert await texts(side) == ["c"]
    assert [event.seq for event in await everything(side)] == [1, 2]
    assert [turn.number for turn in await side.turns()] == [1]
    assert [session.first for session in await side.sessions()] == [2]
    again = await side.fork(at=0)
    await spoken(again, "d")
    assert await texts(again) == ["d"]
    await assert_sound(et, talk)


async def test_a_fork_of_a_fork_of_a_fork(et: Everthread, talk: Talk) -> None:
    side, expected = talk, list[str]()
    for depth in range(8):
        await spoken(side, f"{depth} a", f"{depth} b", f"{depth} left behind")
        expected += [f"{depth} a", f"{depth} b"]
        side = await side.fork(at=(await everything(side))[-1].seq - 1)
        assert await texts(side) == expected
    assert len((await side.line()).segments) == 9
    await assert_sound(et, talk)


async def test_a_fork_at_the_point_where_its_parent_was_forked(et: Everthread, talk: Talk) -> None:
    """Shares nothing that the parent said itself, not even its marker."""
    await spoken(talk, "a", "b")
    side = await talk.fork(at=1)
    await spoken(side, "c")
    twin = await side.fork(at=1)
    await spoken(twin, "d")
    assert await texts(twin) == ["a", "d"]
    just_after = await side.fork(at=2)
    assert [event.kind for event in await everything(just_after)] == ["user", "fork", "fork"]
    await assert_sound(et, talk)


async def test_a_fork_before_its_parent_was_forked(et: Everthread, talk: Talk) -> None:
    await spoken(talk, "a", "b", "c")
    side = await talk.fork(at=3)
    early = await side.fork(at=1)
    await spoken(early, "d")
    assert await texts(early) == ["a", "d"]
    await assert_sound(et, talk)


@pytest.mark.parametrize("at", [-1, 4, 10**12])
async def test_a_fork_beyond_the_end_is_an_error_and_makes_no_branch(talk: Talk, at: int) -> None:
    await spoken(talk, "a", "b", "c")
    with pytest.raises(UnknownSeq):
        await talk.fork(at=at)
    with pytest.raises(UnknownSeq):
        await talk.rewind(to=at)
    assert len(await talk.branches()) == 1


async def test_a_fork_in_the_middle_of_a_turn_goes_on_with_it(et: Everthread, talk: Talk) -> None:
    await talk.append(user("a"), tool_call("f"), tool_call("g"), tool_result("r", name="f"))
    side = await talk.fork(at=3)
    await side.append(tool_result("other", name="f"), tool_result("more", name="g"), assistant("done"))
    (turn,) = await side.turns()
    assert (turn.number, turn.first, turn.last, turn.state) == (1, 1, 7, "idle")
    assert (await talk.turns())[0].state == "open"
    await assert_sound(et, talk)


# -- names -------------------------------------------------------------------------------------------------


async def test_branches_are_named_by_what_made_them_unless_told(talk: Talk) -> None:
    await spoken(talk, "a", "b")
    await talk.fork(at=1)
    await talk.rewind(to=1)
    await talk.fork(at=1, name="idea")
    assert [branch.branch.name for branch in await talk.branches()] == ["main", "fork-2", "rewind-3", "idea"]


async def test_a_name_that_is_taken_is_refused_and_makes_no_branch(et: Everthread, talk: Talk) -> None:
    await spoken(talk, "a")
    await talk.fork(name="idea")
    for name in ("idea", "main"):
        with pytest.raises(AlreadyExists):
            await talk.fork(name=name)
        with pytest.raises(AlreadyExists):
            await talk.rewind(to=1, name=name)
    assert len(await talk.branches()) == 2
    await assert_sound(et, talk)


async def test_a_name_that_somebody_chose_does_not_get_in_the_way_of_a_default(et: Everthread, talk: Talk) -> None:
    await spoken(talk, "a")
    await talk.fork(name="fork-3")
    await talk.fork()
    await talk.rewind(to=1, name="rewind-5")
    await talk.rewind(to=1)
    assert len({branch.branch.name for branch in await talk.branches()}) == 5
    await assert_sound(et, talk)


async def test_a_branch_may_be_named_fork(talk: Talk) -> None:
    await spoken(talk, "a")
    side = await talk.fork(name="fork")
    assert (await side.line()).branch.name == "fork"


@pytest.mark.parametrize("name", ["\0", "a\nb", "\ud800", "x" * 201], ids=ascii)
async def test_a_branch_name_is_plain_text(talk: Talk, name: str) -> None:
    with pytest.raises(BadValue):
        await talk.fork(name=name)


async def test_a_branch_is_found_by_name_and_by_number(talk: Talk) -> None:
    await spoken(talk, "a")
    await spoken(await talk.fork(name="idea"), "b")
    assert await texts(await talk.on("idea")) == await texts(await talk.on(2)) == ["a", "b"]


@pytest.mark.parametrize("branch", ["nowhere", "", "\0", "\ud800", 0, 3, -1, 2**31, 2**40], ids=ascii)
async def test_an_unknown_branch_is_an_error_that_says_what_there_is(talk: Talk, branch: str | int) -> None:
    with pytest.raises(UnknownBranch, match="it has: "):
        await talk.on(branch)


async def test_many_forks_at_once_each_get_their_own_number(et: Everthread, talk: Talk) -> None:
    await spoken(talk, "a")
    sides = await asyncio.gather(*(talk.fork(at=1) for _ in range(20)))
    assert {(await side.line()).branch.number for side in sides} == set(range(2, 22))
    await assert_sound(et, talk)


async def test_forks_from_two_openings_at_once_each_get_their_own_number(address: str, someone: str) -> None:
    async with Everthread.open(address) as one, Everthread.open(address) as two:
        talk = await one.begin(user=someone)
        other = await two.conversation(user=someone, id=talk.id)
        await spoken(talk, "a")
        sides = await asyncio.gather(*(side.fork(at=1) for side in (talk, other) * 10))
        assert {(await side.line()).branch.number for side in sides} == set(range(2, 22))
        await assert_sound(one, talk)


# -- rewind, mark, switch ----------------------------------------------------------------------------------


async def test_rewinding_goes_on_from_an_earlier_event_and_leaves_the_rest_reachable(
    et: Everthread, talk: Talk
) -> None:
    await spoken(talk, "a", "b", "c")
    await talk.rewind(to=1)
    await spoken(talk, "d")
    assert await texts(talk) == ["a", "d"]
    assert await texts(await talk.on("main")) == ["a", "b", "c"]
    assert (await everything(talk))[1].event == Rewind(branch=1, to=1)
    await assert_sound(et, talk)


async def test_rewinding_to_a_mark_keeps_the_mark(et: Everthread, talk: Talk) -> None:
    await spoken(talk, "a")
    mark = await talk.mark("here")
    await spoken(talk, "b")
    await talk.rewind(to="here")
    found = await everything(talk)
    assert [event.kind for event in found] == ["user", "mark", "rewind"]
    assert found[-1].event == Rewind(branch=1, to=mark.seq)
    await spoken(talk, "c")
    await talk.rewind(to="here")
    assert await texts(talk) == ["a"]
    await assert_sound(et, talk)


async def test_of_marks_with_the_same_name_the_newest_wins(talk: Talk) -> None:
    await spoken(talk, "a")
    await talk.mark("here")
    await spoken(talk, "b")
    await talk.mark("here")
    await talk.mark("there")
    await spoken(talk, "c")
    await talk.rewind(to="here")
    assert await texts(talk) == ["a", "b"]


async def test_a_mark_counts_only_along_its_own_line(talk: Talk) -> None:
    await spoken(talk, "a", "b")
    side = await talk.fork(at=1)
    await talk.mark("after the fork")
    await side.mark("on the side")
    with pytest.raises(UnknownMark):
        await side.rewind(to="after the fork")
    with pytest.raises(UnknownMark):
        await talk.rewind(to="on the side")
    assert len(await talk.branches()) == 2


async def test_a_mark_of_an_ancestor_is_found(et: Everthread, talk: Talk) -> None:
    await spoken(talk, "a")
    await talk.mark("here")
    await spoken(talk, "b")
    side = await (await talk.fork()).fork()
    await spoken(side, "c")
    await side.rewind(to="here")
    assert await texts(talk) == ["a"]
    await assert_sound(et, talk)


async def test_a_mark_may_look_like_a_number(talk: Talk) -> None:
    await spoken(talk, "a", "b", "c")
    await talk.mark("1")
    await spoken(talk, "d")
    await talk.rewind(to="1")
    assert await texts(talk) == ["a", "b", "c"]


async def test_an_unknown_mark_is_an_error_and_makes_no_branch(talk: Talk) -> None:
    await spoken(talk, "a")
    with pytest.raises(UnknownMark):
        await talk.rewind(to="nowhere")
    assert len(await talk.branches()) == 1


async def test_rewinding_to_nothing_starts_from_scratch(et: Everthread, talk: Talk) -> None:
    await spoken(talk, "a")
    await talk.rewind(to=0)
    assert await texts(talk) == []
    await spoken(talk, "b")
    assert await texts(talk) == ["b"]
    await assert_sound(et, talk)


async def test_rewinding_a_rewind(et: Everthread, talk: Talk) -> None:
    await spoken(talk, "a", "b")
    await talk.rewind(to=1)
    await spoken(talk, "c")
    await talk.rewind(to=2)
    await spoken(talk, "d")
    assert await texts(talk) == ["a", "d"]
    await talk.switch("main")
    assert await texts(talk) == ["a", "b"]
    await assert_sound(et, talk)


async def test_a_talk_follows_the_current_branch_and_one_on_a_branch_does_not(talk: Talk) -> None:
    await spoken(talk, "a", "b")
    main = await talk.on("main")
    await talk.rewind(to=1)
    await spoken(talk, "new")
    await spoken(main, "old")
    assert await texts(talk) == ["a", "new"]
    assert await texts(main) == ["a", "b", "old"]


async def test_switching_is_logged_and_remembered(address: str, someone: str) -> None:
    async with Everthread.open(address) as et:
        talk = await et.begin(user=someone)
        await spoken(talk, "a")
        await spoken(await talk.fork(name="idea"), "b")
        await talk.switch("idea")
        assert (await everything(talk))[-1].event == Command(name="switch", arguments={"branch": 2})
    async with Everthread.open(address) as et:
        talk = await et.conversation(user=someone)
        assert (await talk.line()).branch.name == "idea"
        await spoken(talk, "c")
        assert await texts(talk) == ["a", "b", "c"]
        await talk.switch(1)
        assert await texts(talk) == ["a"]
        await assert_sound(et, talk)


@pytest.mark.parametrize("name", ["", "\0", "a\nb", "\ud800"], ids=ascii)
async def test_a_mark_is_plain_text(talk: Talk, name: str) -> None:
    with pytest.raises(BadValue):
        await talk.mark(name)


async def test_a_mark_that_an_application_wrote_is_found_too(talk: Talk) -> None:
    await talk.append(user("a"), Mark(name="odd\0\ud800"), user("b"))
    await talk.rewind(to="odd\0\ud800")
    assert await texts(talk) == ["a"]


# -- clear -------------------------------------------------------------------------------------------------


async def test_a_clear_starts_the_sums_afresh_and_keeps_the_history(et: Everthread, talk: Talk) -> None:
    await talk.append(user("a"), assistant("b"))
    await talk.clear()
    await talk.append(user("c"), assistant("d"), user("e"))
    turns = await talk.turns()
    assert [turn.before for turn in turns] == [0, 0, turns[1].settled]
    assert await texts(talk) == ["a", "b", "c", "d", "e"]
    first = await first_from(et.log, await talk.line(), 0)
    assert first is not None
    assert (first.first, first.before, first.number) == (turns[1].first, 0, turns[1].number)
    await assert_sound(et, talk)


async def test_a_clear_in_the_parent_after_the_fork_point_does_not_reach_the_child(et: Everthread, talk: Talk) -> None:
    await talk.append(user("a"), assistant("b"))
    side = await talk.fork(at=2)
    await talk.clear()
    await side.append(user("c"))
    turns = await side.turns()
    assert turns[1].before == turns[0].settled > 0
    first = await first_from(et.log, await side.line(), 0)
    assert first is not None
    assert first.first == 1
    assert await first_from(et.log, await talk.line(), 0) is None
    await assert_sound(et, talk)


async def test_rewinding_behind_a_clear_undoes_it(et: Everthread, talk: Talk) -> None:
    await talk.append(user("a"), assistant("b"))
    await talk.clear()
    await talk.append(user("c"))
    await talk.rewind(to=2)
    await talk.append(user("d"))
    turns = await talk.turns()
    assert turns[1].before == turns[0].settled > 0
    await talk.switch("main")
    assert [turn.before for turn in await talk.turns()] == [0, 0]
    await assert_sound(et, talk)


async def test_a_clear_before_the_fork_point_holds_in_the_child(et: Everthread, talk: Talk) -> None:
    await talk.append(user("a"), assistant("b"))
    await talk.clear()
    side = await talk.fork()
    await side.append(user("c"))
    assert [turn.before for turn in await side.turns()] == [0, 0]
    first = await first_from(et.log, await side.line(), 0)
    assert first is not None
    assert first.first == 5
    await assert_sound(et, talk)


async def test_a_clear_in_the_child_does_not_reach_the_parent(et: Everthread, talk: Talk) -> None:
    await talk.append(user("a"), assistant("b"))
    side = await talk.fork()
    await side.clear()
    await talk.append(user("c"))
    assert (await talk.turns())[1].before > 0
    await assert_sound(et, talk)
