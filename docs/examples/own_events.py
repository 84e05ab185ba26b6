"""Kinds of events of your own: kept in the log beside what was said, never sent to the model."""

import asyncio

from everthread import Everthread, user
from everthread.core.events import Other


async def main() -> None:
    async with Everthread.open("sqlite:///own-events.db", settings={}) as et:
        talk = await et.conversation(user="ana")
        order = Other(kind="shop.order_placed", data={"order": 17, "total": "12.50"})
        await talk.append(user("I take the cake."), order)  # in one transaction
        found = [one.event for one in await talk.after() if isinstance(one.event, Other)]
        print([(event.kind, event.data["order"]) for event in found])
        print("12.50" in str((await talk.context(model="openai:gpt-5")).request))


asyncio.run(main())
