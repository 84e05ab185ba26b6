"""Events of an application's own kind: written beside what is said, read back, found by recall, never sent."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from everthread import Everthread, Other, marker
from everthread.testing.scripted import script


async def main(folder: Path) -> None:
    script("clerk", "Done: your order is placed.", "You are welcome.")
    async with Everthread.open(f"sqlite:///{folder / 'talk.db'}", settings={"model": "scripted:clerk"}) as et:
        talk = await et.conversation(user="ana", agent="clerk")
        await talk.say("Please order the green lamp.")
        await talk.append(marker("order.placed", order="A-2041", items=["green lamp"], price=39.5))
        await talk.say("Thank you!")

        for logged in await talk.markers("order.placed"):
            match logged.event:
                case Other(data={"order": order, "price": price}):
                    print(f"After event {logged.seq - 1}: order {order} for {price}")
        print([hit.kind for hit in await talk.recall("A-2041")])
        context = await talk.context()
        print("A-2041" in str(context.request))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
