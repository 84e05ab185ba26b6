"""One program for a store of its own and for a service: only the line that opens differs.

python docs/examples/client.py [sqlite:///talk.db]
EVERTHREAD_API_KEY=evk_… python docs/examples/client.py http://127.0.0.1:8321
"""

from __future__ import annotations

import asyncio
import sys

import everthread
from everthread import Everthread, client, user
from everthread.opening import Opening


def opened(address: str) -> Opening[Everthread] | Opening[client.Everthread]:
    if address.startswith(("http://", "https://")):
        return client.Everthread.open(address)  # with the key in EVERTHREAD_API_KEY
    # A model that needs no key. With yours: settings={"model": "anthropic:claude-sonnet-4-6"}.
    return Everthread.open(address, settings={"model": "scripted:baker", "memory": False})


async def bake(et: Everthread, who: str) -> None:
    talk: everthread.Talk = await et.conversation(user=who, agent="baker")
    if not await talk.tail():
        await talk.append(user("My son is allergic to walnuts."))
    async for delta in talk.say("What shall I bake?"):
        print(delta, end="", flush=True)
    print()
    print(f"{(await talk.totals()).messages} messages are kept.")


async def main(address: str = "sqlite:///talk.db") -> None:
    async with opened(address) as et:
        who = et.caller.user if isinstance(et, client.Everthread) else "ana"
        await bake(et, who)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
