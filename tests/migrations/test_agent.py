"""0003: a database of before the agent is opened, keeps what was said, and counts model calls from then on."""

from __future__ import annotations

from everthread import Everthread, Talk, assistant, user
from everthread.core.events import ModelCall
from everthread.store.conversations import Owner
from tests.contract.support import assert_sound, texts
from tests.migrations.databases import copy, make_older


async def test_an_older_database_goes_on_and_counts_model_calls(
    talk: Talk, someone: str, address: str, fresh_address: str
) -> None:
    await talk.append(user("hello"), assistant("hi"))
    await make_older(fresh_address, version=2)
    await copy(talk.id, address, fresh_address)
    async with Everthread.open(fresh_address) as et:
        again = et.talk(talk.conversation)
        owner = Owner("default", someone)
        assert await texts(again) == ["hello", "hi"]
        assert await et.log.usage.of_owner(owner, by="conversation") == []
        await again.append(user("and now?"), ModelCall(model="scripted:echo", at=3, input=7))
        (total,) = await et.log.usage.of_owner(owner, by="conversation")
        assert (total.conversation, total.calls, total.input) == (talk.id, 1, 7)
        await assert_sound(et, again)
