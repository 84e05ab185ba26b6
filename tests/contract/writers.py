"""What the other processes of the tests run: `python writers.py <what> <address> …`, one line out per answer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from everthread import Everthread, assistant, user


async def first(address: str, *users: str) -> None:
    """The first conversation of each user, found or begun."""
    async with Everthread.open(address, settings={"memory": False}) as et:
        for name in users:
            say((await et.conversation(user=name)).id)


async def write(address: str, owner: str, conversation: str, name: str, count: str) -> None:
    """Many small appends, one after the other."""
    async with Everthread.open(address, settings={"memory": False}) as et:
        talk = await et.conversation(user=owner, id=conversation)
        for number in range(int(count)):
            written = await talk.append(user(f"{name}/{number}"), assistant(f"{name}/{number} done"))
            say(str(written[0].seq))


async def churn(address: str, owner: str, conversation: str, name: str, count: str) -> None:
    """Open, append, read, close, again and again: opening and closing take locks of their own."""
    for number in range(int(count)):
        async with Everthread.open(address, settings={"memory": False}) as et:
            talk = await et.conversation(user=owner, id=conversation)
            (event,) = await talk.append(user(f"{name}/{number}"), key=f"{name}/{number}")
            assert event in await talk.range(event.seq, event.seq)
            await talk.turns(limit=2)
            say(str(event.seq))


async def redact(address: str, owner: str, conversation: str, name: str, count: str) -> None:
    """Say something and take it back."""
    async with Everthread.open(address, settings={"memory": False}) as et:
        talk = await et.conversation(user=owner, id=conversation)
        for number in range(int(count)):
            (event,) = await talk.append(user(f"secret of {name} {number}"))
            await talk.redact(event.seq)
            say(str(event.seq))


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


WORK: dict[str, Callable[..., Awaitable[None]]] = {"first": first, "write": write, "churn": churn, "redact": redact}


async def main(what: str, *arguments: str) -> None:
    await WORK[what](*arguments)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
