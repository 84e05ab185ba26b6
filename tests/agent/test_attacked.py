"""What an attack found: approvals that name several calls, conversations erased elsewhere."""

from __future__ import annotations

import pytest

from everthread import Everthread, Talk
from everthread.errors import NotWaiting, UnknownConversation
from everthread.testing.scripted import call
from everthread.tools import tool
from tests.agent.conftest import Speak


async def test_an_id_that_several_waiting_calls_have_approves_none_of_them(talk: Talk, speak: Speak) -> None:
    paid: list[str] = []

    @tool(approval=True)
    def pay(to: str) -> str:
        """Pays somebody."""
        paid.append(to)
        return "Paid."

    speak([call("pay", {"to": "mallory"}, id="call_0")], [call("pay", {"to": "baker"}, id="call_0")], "Done.")
    await talk.say("Pay Mallory.", tools=[pay])
    await talk.say("Pay the baker.", tools=[pay])
    first, second = await talk.waiting()
    for verb in (talk.approve, talk.refuse):
        with pytest.raises(NotWaiting, match=f"by its seq: {first.seq}, {second.seq}"):
            await verb("call_0", tools=[pay])
    await talk.approve(second.seq, tools=[pay])
    assert paid == ["baker"]


async def test_a_context_of_a_conversation_that_another_process_has_erased_is_refused(
    address: str, et: Everthread, talk: Talk
) -> None:
    await talk.context(model="openai:gpt-4o")
    async with Everthread.open(address, keys={}) as other:
        await (await other.conversation(user=talk.conversation.user, id=talk.id)).erase()
    with pytest.raises(UnknownConversation):
        await talk.context(model="openai:gpt-4o")
