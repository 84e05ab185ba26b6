"""0002: what was said before importance was known is scored as if it had been said today."""

from __future__ import annotations

from typing import Any

import pytest

from everthread import Everthread, Talk, assistant, system, tool_call, tool_result, user
from everthread.core.branches import Branch
from everthread.core.events import Event, Mark
from everthread.core.importance import LONG
from everthread.core.times import moment
from everthread.store.conversations import Conversation
from everthread.store.scripts.append import Draft
from everthread.store.scripts.restore import Whole
from tests.contract.support import START, assert_sound, everything
from tests.migrations.databases import copy, make_older, rows

AT_LENGTH = "over and over " * (LONG // 10)  # plain ASCII: as many bytes as characters
CALL, RESULT = tool_call("find", {"what": "walnuts"}), tool_result("none", name="find")


@pytest.fixture
async def said(et: Everthread, someone: str) -> Talk:
    """Turns of every importance, a clear, and branches that begin within turns, before all of them and at their end."""
    talk = await et.begin(user=someone)
    await talk.append(system("Be kind."), assistant("Hello."))  # 1, 2
    await talk.append(user("Are there walnuts?"), CALL, RESULT, Mark(name="found"), assistant("No."))  # 3 to 7
    await talk.append(user(AT_LENGTH), assistant("I see."))  # 8, 9
    await talk.append(user(AT_LENGTH), assistant(AT_LENGTH))  # 10, 11
    await talk.append(user("Again."), CALL, tool_result(AT_LENGTH, name="find"), assistant(AT_LENGTH))  # 12 to 15
    await talk.clear()  # 16
    await talk.append(assistant("Where were we?"), Mark(name="afresh"), user("Nowhere."), user("Hello?"))  # 17 to 20

    within = await talk.fork(at=5)
    await within.append(assistant("None."), user("Good."), assistant("Good."))
    once = await talk.fork(at=4)
    twice = await once.fork(at=5)  # the marker that begins it: the turn goes on over three branches
    await twice.append(RESULT, assistant("None at all."), user("Good."))
    await (await twice.fork(at=7)).append(user("Sure?"))
    await (await talk.fork(at=0)).append(user("From the beginning."), user("Well?"))
    await (await talk.fork(at=16)).append(assistant("Afresh elsewhere."), user("Yes."))
    await talk.rewind(to="found")
    await talk.append(assistant("There are."), user("Where?"))
    return talk


async def _importance(address: str, talk: Talk) -> dict[tuple[int, int], tuple[Any, ...]]:
    """By branch and seq: how important the turn was so far and, where one begins, how important the one before."""
    left = "CASE WHEN turn_first = seq THEN left_importance END"
    found = await rows(address, f"SELECT branch, seq, importance, {left} FROM events WHERE conversation = '{talk.id}'")
    return {(branch, seq): (important, before) for branch, seq, important, before in found}


async def _migrated(talk: Talk, source: str, target: str) -> dict[tuple[int, int], tuple[Any, ...]]:
    """The importance of a conversation that an older version wrote, once this one has opened its database."""
    await make_older(target, version=1)
    await copy(talk.id, source, target)
    await (await Everthread.open(target)).close()
    return await _importance(target, talk)


async def test_an_older_database_is_scored_as_if_all_had_been_said_today(
    said: Talk, address: str, fresh_address: str
) -> None:
    today = await _importance(address, said)
    assert await _migrated(said, address, fresh_address) == today
    main = [before for (branch, _), (_, before) in sorted(today.items()) if branch == 1 and before is not None]
    assert main == [0, 90, 55, 30, 30, 55, 30, 40]


async def test_an_older_database_keeps_every_event_and_goes_on(
    et: Everthread, said: Talk, address: str, fresh_address: str
) -> None:
    before = {
        branch.branch.number: await everything(await said.on(branch.branch.number)) for branch in await said.branches()
    }
    await _migrated(said, address, fresh_address)
    async with Everthread.open(fresh_address) as again:
        talk = again.talk(said.conversation)
        for number, events in before.items():
            branch = await talk.on(number)
            assert await everything(branch) == events
            await branch.append(user("And now?"))
            await (await said.on(number)).append(user("And now?"))
        await assert_sound(again, talk)
    assert await _importance(fresh_address, said) == await _importance(address, said)


async def test_a_branch_without_the_marker_of_its_fork_is_scored_as_well(
    et: Everthread, someone: str, address: str, fresh_address: str
) -> None:
    """As other programs may write them; such a branch may begin with a turn, or within one."""

    def drafts(*events: Event) -> list[Draft]:
        return [Draft(event=event, time=START) for event in events]

    def grown(number: int, parent: int, at: int) -> Branch:
        return Branch(number=number, name=f"branch {number}", parent=parent, at=at, time=moment(START))

    made = Conversation(tenant="default", id=f"imported-{someone}", user=someone, agent="helper", began=moment(START))
    main = Branch(number=1, name="main", parent=None, at=0, time=moment(START))
    whole = Whole(
        conversation=made,
        branches=[
            (main, drafts(user("a"), CALL, RESULT, assistant("b"), user("c"))),
            (grown(2, 1, 4), drafts(user("another"), assistant("d"))),
            (grown(3, 1, 3), drafts(assistant("e"), user("f"))),
            (grown(4, 3, 4), drafts(assistant("g"), user("h"))),
        ],
    )
    await et.log.restore([whole])
    talk = et.talk(made)
    today = await _importance(address, talk)
    assert (today[2, 5], today[4, 5], today[4, 6]) == ((40, 55), (55, None), (40, 55))
    assert await _migrated(talk, address, fresh_address) == today
