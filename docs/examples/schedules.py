"""A message that is said to the agent by itself, a moment from now, and one every morning."""

import asyncio
from datetime import UTC, datetime, timedelta

from everthread import Everthread, GivenSettings
from everthread.testing.scripted import script


async def main() -> None:
    script("secretary", "The parcel is not there yet.")
    settings: GivenSettings = {"model": "scripted:secretary", "memory": False}
    async with Everthread.open("sqlite:///schedules.db", settings=settings) as et:
        talk = await et.conversation(user="ana")
        await talk.schedule("What is due today?", cron="0 8 * * 1-5", zone="Europe/Berlin")
        await talk.schedule("Is the parcel there?", at=datetime.now(UTC) + timedelta(seconds=1))
        await asyncio.sleep(1)
        await et.work(until_idle=True)  # a program that stays open does this by itself
        for event in await talk.after(messages=True):
            print(event.kind, event.text)
        for one in await talk.schedules():
            print(one.text, one.cron or "once", one.state)


asyncio.run(main())
