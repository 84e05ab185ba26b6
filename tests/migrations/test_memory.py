"""0005: what an older database holds is found as before, by an index that knows more of it."""

from __future__ import annotations

from everthread import Everthread, Talk, assistant, user
from everthread.store.conversations import Owner
from tests.contract.support import assert_sound
from tests.migrations.databases import copy, make_older, run


async def test_an_index_of_before_is_made_anew(talk: Talk, someone: str, address: str, fresh_address: str) -> None:
    await talk.append(user("My son is allergic to walnuts."), assistant("Noted."))
    await make_older(fresh_address, version=4)
    await copy(talk.id, address, fresh_address)
    stale = f"('default', '{talk.id}', 1, '{someone}', 2, 2, 9)"  # as if both were in it
    columns = 'tenant, conversation, branch, "user", last, events, words'
    await run(fresh_address, f"INSERT INTO recall_branches ({columns}) VALUES {stale}")
    async with Everthread.open(fresh_address, settings={"memory": False}) as et:
        again = et.talk(talk.conversation)
        hits = await et.log.recall.search(Owner("default", someone), "allergies", line=await again.line(), limit=1)
        assert [hit.event.text for hit in hits] == ["My son is allergic to walnuts."]
        await again.redact(1)
        await assert_sound(et, again)
