"""0004: what an older database holds is found as soon as it is asked for."""

from __future__ import annotations

from everthread import Everthread, Talk, assistant, user
from everthread.store.conversations import Owner
from tests.contract.support import assert_sound
from tests.migrations.databases import copy, make_older


async def test_what_was_said_before_there_was_an_index_is_found(
    talk: Talk, someone: str, address: str, fresh_address: str
) -> None:
    await talk.append(user("My son is allergic to walnuts."), assistant("Noted."))
    await make_older(fresh_address, version=3)
    await copy(talk.id, address, fresh_address)
    async with Everthread.open(fresh_address) as et:
        again = et.talk(talk.conversation)
        hits = await et.log.recall.search(Owner("default", someone), "allergies", line=await again.line(), limit=1)
        assert [hit.event.text for hit in hits] == ["My son is allergic to walnuts."]
        await assert_sound(et, again)
