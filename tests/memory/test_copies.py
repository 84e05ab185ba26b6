"""What Everthread itself has copied of an event is forgotten with it, in all of the user's conversations."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from everthread import Everthread, Talk, assistant, user
from everthread.agent.tool_calls import ToolCalls
from everthread.core.branches import ENDLESS
from everthread.core.events import BriefUpdated, SessionEnded, Summary, ToolResult, tool_call
from everthread.core.ids import make_id
from everthread.errors import Outrun
from everthread.jobs.worker import Worker
from everthread.store.conversations import Owner
from everthread.store.scripts.restore import Portion
from everthread.testing.scripted import call as called
from everthread.testing.scripted import script
from everthread.transfer import export_lines
from everthread.transfer.lines import read_lines
from everthread.transfer.streams import JsonLine
from tests.contract.support import assert_sound
from tests.memory.conftest import Speak
from tests.memory.test_brief import briefs, say

SECRET = "ZX-4711"


async def looked_up(talk: Talk, tool: str, **arguments: Any) -> ToolResult:
    """What a tool of memory's gives, in the log as a turn has it."""
    call = tool_call(tool, arguments)
    result = await talk.look_up(call)
    await talk.append(user("What was it?"), call, result, assistant("So."))
    return result


async def opened(talk: Talk, source: Talk, seq: int) -> ToolResult:
    branch = (await source.line()).owner(seq)
    return await looked_up(talk, "open_event", reference=f"event {seq} on branch {branch} of conversation {source.id}")


async def tells(talk: Talk) -> list[int]:
    """The seqs of what tells the secret, on all branches."""
    found = []
    for totals in await talk.branches():
        side = await talk.on(totals.branch.number)
        found += [one.seq for one in await side.range(1, ENDLESS) if SECRET.encode() in one.body]
    return found


@pytest.fixture
async def other(et: Everthread, someone: str) -> Talk:
    return await et.begin(user=someone)


async def test_what_another_conversation_opened_is_forgotten(et: Everthread, talk: Talk, other: Talk) -> None:
    await talk.append(user(f"My PIN is {SECRET}."), assistant("Noted."))
    assert SECRET in repr(await opened(other, talk, 1))
    await talk.redact(1)
    assert not await tells(other)
    await assert_sound(et, other)


async def test_what_stood_next_to_a_hit_is_forgotten(et: Everthread, talk: Talk, other: Talk) -> None:
    await talk.append(user("About walnuts:"), assistant(f"The code is {SECRET}."))
    result = await looked_up(other, "recall_context", query="walnuts", scope="user")
    assert SECRET in repr(result)
    await talk.redact(2)
    assert not await tells(other)
    await assert_sound(et, other)


async def test_a_quote_of_a_quote_is_forgotten(et: Everthread, talk: Talk, other: Talk, someone: str) -> None:
    third = await et.begin(user=someone)
    await talk.append(user(f"My PIN is {SECRET}."), assistant("Noted."))
    await opened(other, talk, 1)
    await opened(third, other, 3)
    assert await tells(third)
    await talk.redact(1)
    assert not await tells(other) + await tells(third)


async def test_a_quote_on_a_branch_that_was_left_is_forgotten(talk: Talk, other: Talk) -> None:
    await talk.append(user(f"My PIN is {SECRET}."), assistant("Noted."))
    await other.append(user("Hello."), assistant("Hello."))
    await opened(other, talk, 1)
    await other.fork()
    await other.rewind(to=2)
    await opened(other, talk, 1)
    await talk.redact(1)
    assert not await tells(other)


@pytest.mark.parametrize(
    "made",
    [
        BriefUpdated(text=f"The PIN is {SECRET}.", covers=4, facts=SECRET),
        Summary(text=f"The PIN is {SECRET}.", covers=4),
        SessionEnded(session=1, recap=f"The PIN is {SECRET}."),
    ],
    ids=["a brief", "a summary", "a recap"],
)
async def test_what_memory_made_after_a_quote_is_forgotten(
    talk: Talk, other: Talk, made: BriefUpdated | Summary | SessionEnded
) -> None:
    await talk.append(user(f"My PIN is {SECRET}."), assistant("Noted."))
    await opened(other, talk, 1)
    side = await other.fork()
    await other.append(made)
    await side.append(made)
    await talk.redact(1)
    assert not await tells(other)


async def test_a_quote_of_what_memory_made_is_forgotten(
    talk: Talk, other: Talk, worker: Worker, remember: Speak
) -> None:
    remember(f"The PIN is {SECRET}.")
    await say(talk, f"My PIN is {SECRET}.")
    await worker.once(talk.conversation)
    brief = next(one.seq for one in await talk.range(1, ENDLESS) if one.kind == "brief_updated")
    assert await briefs(talk)
    await opened(other, talk, brief)
    await talk.redact(1)
    assert not await tells(talk) + await tells(other)


async def test_erasing_a_conversation_forgets_what_others_quote_of_it(et: Everthread, talk: Talk, other: Talk) -> None:
    await talk.append(user(f"My PIN is {SECRET}."), assistant("Noted."))
    await opened(other, talk, 1)
    await talk.erase()
    assert not await tells(other)
    await assert_sound(et, other)


async def test_nothing_of_another_user_is_touched(et: Everthread, talk: Talk, someone: str) -> None:
    """A result that claims to quote somebody else's conversation stays as it is."""
    await talk.append(user(f"My PIN is {SECRET}."), assistant("Noted."))
    mine = await opened(await et.begin(user=someone), talk, 1)
    stranger = await et.begin(user=f"{someone}-else")
    await stranger.append(user("Hm."), tool_call("open_event", {}), mine, assistant("So."))
    await talk.redact(1)
    assert (await stranger.range(3, 3))[0].event == mine


async def test_quotes_come_along_with_an_export(et: Everthread, talk: Talk, other: Talk, someone: str) -> None:
    """What is restored from lines is forgotten with what it quotes."""
    await talk.append(user(f"My PIN is {SECRET}."), assistant("Noted."))
    await opened(other, talk, 1)
    lines = [line async for line in export_lines(et.log, other.conversation)]
    await other.erase()
    values = [JsonLine(str(number), msgspec.json.decode(line)) for number, line in enumerate(lines)]
    [whole] = read_lines(values, Owner(other.conversation.tenant, someone))
    assert isinstance(whole, Portion)
    again = msgspec.structs.replace(whole.conversation, id=make_id(et.log.now, 7))
    await et.log.imports.grow(msgspec.structs.replace(whole, conversation=again))
    back = await et.conversation(user=someone, id=again.id)
    assert await tells(back)
    await talk.redact(1)
    assert not await tells(back)
    await assert_sound(et, back)


async def test_an_unrelated_result_stays(talk: Talk, other: Talk) -> None:
    await talk.append(user(f"My PIN is {SECRET}."), assistant("Noted."), user("Walnuts are nuts."), assistant("Yes."))
    result = await opened(other, talk, 3)
    await talk.redact(1)
    assert (await other.range(3, 3))[0].event == result


async def test_what_is_redacted_between_the_look_and_the_append_is_not_written(talk: Talk, other: Talk) -> None:
    await talk.append(user(f"My PIN is {SECRET}."), assistant("Noted."))
    call = tool_call("open_event", {"reference": f"event 1 on branch 1 of conversation {talk.id}"})
    result = await other.look_up(call)
    await talk.redact(1)
    with pytest.raises(Outrun):
        await other.append(user("What was it?"), call, result)
    assert await other.range(1, 9) == []


async def test_what_is_erased_between_the_look_and_the_append_is_not_written(talk: Talk, other: Talk) -> None:
    await talk.append(user(f"My PIN is {SECRET}."), assistant("Noted."))
    call = tool_call("open_event", {"reference": f"event 1 on branch 1 of conversation {talk.id}"})
    result = await other.look_up(call)
    await talk.erase()
    with pytest.raises(Outrun):
        await other.append(user("What was it?"), call, result)


async def test_a_turn_goes_on_whose_tool_quotes_what_was_redacted_meanwhile(
    talk: Talk, other: Talk, someone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talk.append(user(f"My PIN is {SECRET}."), assistant("Noted."))
    reference = f"event 1 on branch 1 of conversation {talk.id}"
    script(someone, [called("open_event", {"reference": reference})], "I do not know.")
    keep = ToolCalls.keep

    async def redacted_first(self: ToolCalls, *given: Any) -> None:
        await talk.redact(1)
        await keep(self, *given)

    monkeypatch.setattr(ToolCalls, "keep", redacted_first)
    await other.say("What was it?")
    assert not await tells(other)
    assert [one.text for one in await other.range(1, ENDLESS) if one.kind == "assistant"][-1] == "I do not know."


async def test_redacting_and_quoting_at_once_leave_nothing_behind(
    et: Everthread, talk: Talk, other: Talk, address: str
) -> None:
    """Whichever comes first, in whichever process."""
    async with Everthread.open(address, settings={"memory": False}) as elsewhere:
        there = elsewhere.talk(other.conversation)
        for number in range(20):
            [said] = await talk.append(user(f"{number}: {SECRET}."))
            reference = f"event {said.seq} on branch 1 of conversation {talk.id}"
            call = tool_call("open_event", {"reference": reference})
            result = await there.look_up(call)
            await asyncio.gather(
                talk.redact(said.seq), there.append(user("Hm."), call, result, assistant("So.")), return_exceptions=True
            )
        assert not await tells(other)
        await assert_sound(et, other)
