"""0009: of the results that an older database holds it is not known what they quote, so they go with anything older."""

from __future__ import annotations

from everthread import Everthread, Talk, assistant, user
from everthread.core.events import Redacted, tool_call, tool_result
from tests.contract.support import assert_sound
from tests.migrations.databases import copy, make_older


async def test_results_of_before_are_forgotten_with_what_they_may_quote(
    et: Everthread, talk: Talk, someone: str, address: str, fresh_address: str
) -> None:
    early = await et.begin(user=someone)
    before = (user("Hm."), tool_call("open_event"), tool_result("My name is Ana.", name="open_event"), assistant("So."))
    await early.append(*before)
    await talk.append(user("My PIN is ZX-4711."), assistant("Noted."))
    other = await et.begin(user=someone)
    looked = tool_result("[event 1, user] My PIN is ZX-4711.", name="open_event")
    own = tool_result("ZX-4711 is a number.", name="calculator")
    await other.append(user("What was it?"), tool_call("open_event"), looked, tool_call("calculator"), own)
    await make_older(fresh_address, version=7)
    for one in (early, talk, other):
        await copy(one.id, address, fresh_address)
    async with Everthread.open(fresh_address, settings={"memory": False}) as new:
        for one in (early, talk, other):
            await assert_sound(new, new.talk(one.conversation))
        await new.talk(talk.conversation).redact(1)
        found = await new.talk(other.conversation).range(1, 5)
        assert found[2].event == Redacted(was="tool_result")
        assert found[4].event == own
        assert [one.event for one in await new.talk(early.conversation).range(1, 4)] == [*before]
        await assert_sound(new, new.talk(other.conversation))
