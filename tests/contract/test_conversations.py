"""Conversations are somebody's: begun, found, listed, changed and counted behind their wall."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import Any

import pytest

from everthread import Everthread, Talk, assistant, tool_call, tool_result, user
from everthread.core.events import Clear, Mark
from everthread.errors import BadValue, InputError, NotFound, NoUser, UnknownConversation
from everthread.store.open import open_log
from tests.contract.support import MINUTE, Clock, assert_sound, everything, module, run, texts


async def test_the_first_conversation_is_begun_and_then_found(et: Everthread, someone: str) -> None:
    first = await et.conversation(user=someone, agent="helper")
    again = await et.conversation(user=someone, agent="helper")
    assert again.conversation == first.conversation
    assert (first.conversation.user, first.conversation.agent) == (someone, "helper")


async def test_another_agent_has_another_conversation(et: Everthread, someone: str) -> None:
    one = await et.conversation(user=someone, agent="one")
    two = await et.conversation(user=someone, agent="two")
    assert one.id != two.id
    assert (await et.conversation(user=someone, agent="one")).id == one.id


async def test_a_conversation_that_is_begun_is_from_then_on_the_newest(et: Everthread, someone: str) -> None:
    for _ in range(20):
        talk = await et.begin(user=someone)
        assert (await et.conversation(user=someone)).id == talk.id


@pytest.mark.parametrize("step", [0, -1, -5 * MINUTE], ids=["a clock that stands", "that slips", "that runs back"])
async def test_the_newest_conversation_is_the_one_begun_last_whatever_the_clock_says(
    address: str, someone: str, step: int
) -> None:
    clock = Clock()
    et = Everthread(await open_log(address, clock=clock))
    for _ in range(10):
        clock.now += step
        talk = await et.begin(user=someone)
        assert (await et.conversation(user=someone)).id == talk.id
    await et.close()


async def test_it_is_begun_with_name_goal_and_settings(et: Everthread, someone: str) -> None:
    settings: dict[str, Any] = {"budget": 8_000, "instructions": "Help. \0 „Wie?“", "memory": False}
    talk = await et.begin(user=someone, agent="a", name="Cakes", goal="No walnuts", settings=settings)
    found = (await et.conversation(user=someone, id=talk.id)).conversation
    assert found == talk.conversation
    assert (found.name, found.goal, found.settings, found.agent) == ("Cakes", "No walnuts", settings, "a")


async def test_name_goal_and_settings_can_be_changed_each_on_its_own(et: Everthread, talk: Talk, someone: str) -> None:
    other = await et.conversation(user=someone, id=talk.id)
    await talk.rename("Cakes")
    await other.set_goal("No walnuts")
    await talk.set_settings({"budget": 600})
    found = (await et.conversation(user=someone, id=talk.id)).conversation
    assert (found.name, found.goal, found.settings) == ("Cakes", "No walnuts", {"budget": 600})
    assert talk.conversation == found
    await talk.rename("")
    assert (await et.conversations(user=someone))[0].name == ""


async def test_a_program_keeps_settings_of_its_own_with_it(et: Everthread, someone: str) -> None:
    own: dict[str, Any] = {"nested": {"a": [1, None, "\0\ud800"]}}
    talk = await et.begin(user=someone, settings=own)
    assert (await et.conversation(user=someone, id=talk.id)).conversation.settings == own
    await talk.set_settings({"colour": "blue"})
    assert (await et.conversation(user=someone, id=talk.id)).conversation.settings == {"colour": "blue"}


async def test_changes_from_two_openings_at_once_do_not_undo_each_other(address: str, someone: str) -> None:
    async with Everthread.open(address) as one, Everthread.open(address) as two:
        talk = await one.begin(user=someone)
        other = await two.conversation(user=someone, id=talk.id)
        for number in range(30):
            await asyncio.gather(talk.rename(f"name {number}"), other.set_goal(f"goal {number}"))
            found = (await one.conversation(user=someone, id=talk.id)).conversation
            assert (found.name, found.goal) == (f"name {number}", f"goal {number}")


BAD_SETTINGS: dict[str, dict[Any, Any]] = {
    "an object": {"a": object()},
    "a set": {"a": {1}},
    "not a number": {"a": math.nan},
    "a number as key": {1: "a"},
}


@pytest.mark.parametrize("bad", BAD_SETTINGS.values(), ids=BAD_SETTINGS.keys())
async def test_settings_that_would_not_come_back_are_refused(
    et: Everthread, talk: Talk, someone: str, bad: dict[Any, Any]
) -> None:
    with pytest.raises(InputError):
        await talk.set_settings(bad)
    with pytest.raises(InputError):
        await et.begin(user=someone, settings=bad)
    assert len(await et.conversations(user=someone)) == 1


async def test_switching_branches_and_renaming_do_not_undo_each_other(et: Everthread, talk: Talk, someone: str) -> None:
    await talk.append(user("a"))
    await talk.rewind(to=1)
    await talk.rename("Cakes")
    found = (await et.conversation(user=someone, id=talk.id)).conversation
    assert (found.name, found.current) == ("Cakes", 2)


@pytest.mark.parametrize("bad", ["\0", "a\nb", "\ud800", "x" * 201], ids=ascii)
async def test_names_are_plain_text(et: Everthread, talk: Talk, someone: str, bad: str) -> None:
    for ask in (
        et.begin(user=bad),
        et.begin(user=someone, agent=bad),
        et.begin(user=someone, name=bad),
        et.begin(user=someone, tenant=bad),
        et.conversation(user=bad),
        et.totals(user=bad),
        et.erase_user(user=bad),
        talk.rename(bad),
    ):
        with pytest.raises(BadValue):
            await ask


@pytest.mark.parametrize(
    "odd", ["\0", "\ud800", "x" * 5_000, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"], ids=lambda odd: ascii(odd)[:12]
)
async def test_what_nobody_could_have_named_is_simply_not_there(
    et: Everthread, talk: Talk, someone: str, odd: str
) -> None:
    """The same answer from every database, which may not even be able to ask for it."""
    with pytest.raises((NotFound, BadValue)):
        await et.conversation(user=someone, id=odd)
    with pytest.raises((NotFound, BadValue)):
        await talk.blob(odd)
    for ask in (et.conversations(user=odd), et.conversations(user=someone, agent=odd)):
        with suppress(BadValue):
            assert await ask == []


# -- listing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 50])
async def test_conversations_are_listed_newest_first_in_pages(et: Everthread, someone: str, limit: int) -> None:
    begun = [(await et.begin(user=someone, agent=f"agent {n % 2}", name=str(n))).id for n in range(7)]
    for agent, expected in (("", begun[::-1]), ("agent 0", begun[::-2]), ("nobody", [])):
        listed: list[str] = []
        page = await et.conversations(user=someone, agent=agent, limit=limit)
        while page:
            assert len(page) <= limit
            listed += [conversation.id for conversation in page]
            page = await et.conversations(user=someone, agent=agent, before=listed[-1], limit=limit)
        assert listed == expected


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_page_has_room_for_something(et: Everthread, someone: str, limit: int) -> None:
    await et.begin(user=someone)
    with pytest.raises(BadValue):
        await et.conversations(user=someone, limit=limit)


# -- the wall ----------------------------------------------------------------------------------------------


async def test_another_user_or_tenant_sees_nothing(et: Everthread, talk: Talk, someone: str) -> None:
    await talk.append(user("secret"))
    for name, tenant in ((f"{someone}-else", "default"), (someone, "elsewhere"), (someone.upper(), "default")):
        with pytest.raises(UnknownConversation):
            await et.conversation(user=name, tenant=tenant, id=talk.id)
        assert await et.conversations(user=name, tenant=tenant) == []
        assert (await et.totals(user=name, tenant=tenant)).events == 0
        assert (await et.conversation(user=name, tenant=tenant, agent="helper")).id != talk.id
    assert [found.id for found in await et.conversations(user=someone)] == [talk.id]


async def test_the_same_user_of_another_tenant_is_another_user(et: Everthread, someone: str) -> None:
    here = await et.conversation(user=someone)
    there = await et.conversation(user=someone, tenant="there")
    await here.append(user("here"))
    await there.append(user("there"))
    assert (await texts(here), await texts(there)) == (["here"], ["there"])
    assert await et.erase_user(user=someone, tenant="there") == 1
    assert await texts(here) == ["here"]


async def test_without_a_user_there_is_nothing(et: Everthread, talk: Talk) -> None:
    assert await et.conversations(user="") == []
    for ask in (
        et.conversation(user=""),
        et.conversation(user="", id=talk.id),
        et.begin(user=""),
        et.totals(user=""),
        et.erase_user(user=""),
    ):
        with pytest.raises(NoUser):
            await ask


async def test_a_conversation_without_an_owner_cannot_be_reached_by_an_empty_name(et: Everthread, someone: str) -> None:
    """An erased user's tombstones belong to nobody; nobody can ask for them."""
    talk = await et.begin(user=someone)
    await et.erase_user(user=someone)
    assert await et.conversations(user="") == []
    with pytest.raises(NoUser):
        await et.conversation(user="", id=talk.id)


async def test_a_percent_sign_is_only_a_percent_sign(et: Everthread, talk: Talk) -> None:
    for name in ("%", "_", "*", "user-%"):
        assert await et.conversations(user=name) == []


async def test_an_image_is_kept_behind_the_wall_of_its_conversation(et: Everthread, talk: Talk, someone: str) -> None:
    from everthread import image

    picture = image(b"GIF89a secret")
    await talk.append(user(picture))
    other = await et.begin(user=f"{someone}-else")
    with pytest.raises(NotFound):
        await other.blob(picture.blob)


# -- the first one, at the same moment ---------------------------------------------------------------------


async def test_two_tasks_that_ask_for_the_first_conversation_get_the_same(et: Everthread, someone: str) -> None:
    talks = await asyncio.gather(*(et.conversation(user=someone) for _ in range(20)))
    assert len({talk.id for talk in talks}) == 1
    assert len(await et.conversations(user=someone)) == 1


async def test_two_openings_that_ask_for_the_first_conversation_get_the_same(address: str, someone: str) -> None:
    async with Everthread.open(address) as one, Everthread.open(address) as two:
        for number in range(20):
            asks = [side.conversation(user=f"{someone}-{number}") for side in (one, two, one, two)]
            assert len({talk.id for talk in await asyncio.gather(*asks)}) == 1


async def test_processes_that_ask_for_the_first_conversation_get_the_same(address: str, someone: str) -> None:
    users = [f"{someone}-{number}" for number in range(10)]
    async with Everthread.open(address) as et:  # so that none of them has to make the tables
        done = await asyncio.gather(*(run(*module("writers.py", "first", address, *users)) for _ in range(4)))
        assert [(process.status, process.err) for process in done] == [(0, "")] * 4
        for number, name in enumerate(users):
            assert len({process.out[number] for process in done}) == 1
            assert len(await et.conversations(user=name)) == 1


async def test_processes_may_open_a_new_database_at_the_same_moment(fresh_address: str) -> None:
    """Whoever is first makes the tables; the others wait for it."""
    done = await asyncio.gather(*(run(*module("writers.py", "first", fresh_address, "ana")) for _ in range(4)))
    assert [(process.status, process.err) for process in done] == [(0, "")] * 4
    assert len({tuple(process.out) for process in done}) == 1


# -- totals ------------------------------------------------------------------------------------------------


async def test_totals_are_the_sums_of_the_events_each_counted_once(et: Everthread, talk: Talk, someone: str) -> None:
    await talk.append(user("a"), tool_call("f"), tool_result("r " * 9_000, name="f"), assistant("b"), Mark(name="m"))
    side = await talk.fork(at=3)
    await side.append(assistant("c"), user("d"), Clear())
    deeper = await side.fork(at=5)
    await deeper.append(user("e"))
    await (await talk.fork(at=0)).append(user("f"))
    await talk.rewind(to="m")
    await talk.append(user("g"))
    other = await et.begin(user=someone)
    await other.append(user("another conversation"))

    events = {}
    for branch in await talk.branches():
        found = await everything(await talk.on(branch.branch.number))
        events.update({(event.branch, event.seq): event for event in found})
        line = (len(found), sum(e.kind in SPOKEN for e in found), sum(e.tokens for e in found))
        own = [event for event in found if event.branch == branch.branch.number]
        assert (branch.line.events, branch.line.messages, branch.line.tokens) == line
        assert branch.last == len(found)
        assert branch.newest == found[-1].time
        assert (branch.own.events, branch.own.messages) == (len(own), sum(e.kind in SPOKEN for e in own))
        assert branch.own.tokens == sum(event.tokens for event in own)
    totals = await talk.totals()
    assert totals.events == len(events)
    assert totals.messages == sum(event.kind in SPOKEN for event in events.values())
    assert totals.tokens == sum(event.tokens for event in events.values())
    assert totals.newest == max(event.time for event in events.values())
    mine = await et.totals(user=someone)
    others = await other.totals()
    assert (mine.conversations, mine.events) == (2, totals.events + others.events)
    assert mine.messages == totals.messages + others.messages
    assert mine.tokens == totals.tokens + others.tokens
    await assert_sound(et, talk)


SPOKEN = {"system", "user", "assistant", "tool_call", "tool_result"}


async def test_totals_of_nothing(et: Everthread, someone: str) -> None:
    mine = await et.totals(user=someone)
    assert (mine.conversations, mine.events, mine.messages, mine.tokens) == (0, 0, 0, 0)
    talk = await et.begin(user=someone)
    totals = await talk.totals()
    assert (totals.events, totals.messages, totals.tokens, totals.newest) == (0, 0, 0, None)
    mine = await et.totals(user=someone)
    assert (mine.conversations, mine.events) == (1, 0)


async def test_sessions_end_by_idle_gap_and_know_their_sums(address: str, someone: str) -> None:
    clock = Clock()
    et = Everthread(await open_log(address, clock=clock, session_gap=10 * MINUTE))
    talk = await et.begin(user=someone)
    for pause in (0, 9, 10, 3, 60):
        clock.now += pause * MINUTE
        await talk.append(user("a"), assistant("b"))
        await talk.mark("m")
    found = await everything(talk)
    sessions = await talk.sessions()
    assert [(s.number, s.first, s.last) for s in sessions] == [(1, 1, 7), (2, 8, 14), (3, 15, 17)]
    for session in sessions:
        inside = [event for event in found if event.session == session.number]
        assert session.messages == sum(event.kind in SPOKEN for event in inside)
        assert session.tokens == sum(event.tokens for event in inside)
        said = [event for event in inside if event.kind in SPOKEN]
        assert (session.began, session.ended) == (said[0].time, said[-1].time)
    assert await talk.sessions(limit=2) == sessions[1:]
    side = await talk.fork(at=8)
    clock.now += 60 * MINUTE
    await side.append(user("c"))
    assert [(s.number, s.first, s.last) for s in await side.sessions()] == [(1, 1, 7), (2, 8, 10), (3, 11, 11)]
    await assert_sound(et, talk)
    await et.close()


async def test_the_message_that_finds_the_session_over_is_kept(address: str, someone: str) -> None:
    """An idle reset must never drop the very message that triggered it."""
    clock = Clock()
    et = Everthread(await open_log(address, clock=clock))
    talk = await et.begin(user=someone)
    await talk.append(user("a"))
    clock.now += 31 * MINUTE
    (event,) = await talk.append(user("b"))
    assert (event.session, event.turn) == (2, 2)
    assert await texts(talk) == ["a", "b"]
    await et.close()
