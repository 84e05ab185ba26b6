"""A process that asks for conversations by ids of its own, and says which ones it got: own_ids.py ADDRESS USER"""

from __future__ import annotations

import asyncio
import sys

from everthread import Everthread


async def main(address: str, user: str) -> None:
    async with Everthread.open(address, settings={"memory": False}) as et:
        for number in range(20):
            talk = await et.conversation(user=user, id=f"thread-{number}")
            sys.stdout.write(f"{talk.id}\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
