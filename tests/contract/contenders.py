"""What other processes do about leases: `python contenders.py <what> <address> …`, one line out per answer."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from everthread.store.beside.holders import holder
from everthread.store.log import Log
from everthread.store.open import open_log


async def contend(address: str, name: str, inside: str, tasks: str, rounds: str) -> None:
    """Take the lease again and again, in several tasks at once; what would show two inside is an error."""
    log = await open_log(address)
    await asyncio.gather(*(enter(log, name, Path(inside), int(rounds)) for _ in range(int(tasks))))
    await log.close()
    say("done")


async def enter(log: Log, name: str, inside: Path, rounds: int) -> None:
    """`inside` is a file that only one can have made: it is there exactly while somebody has the lease."""
    own = holder()
    while rounds:
        if await log.leases.take("default", name, holder=own, seconds=60) != own:
            await asyncio.sleep(0.002)
            continue
        os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
        await asyncio.sleep(0)
        inside.unlink()
        await log.leases.release("default", name, holder=own)
        rounds -= 1


async def hold(address: str, name: str) -> None:
    """Take the lease for an hour, say as whom, and wait to be killed."""
    log = await open_log(address)
    say(await log.leases.take("default", name, holder=holder(), seconds=3_600))
    await asyncio.Event().wait()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


WORK: dict[str, Callable[..., Awaitable[None]]] = {"contend": contend, "hold": hold}


async def main(what: str, *arguments: str) -> None:
    await WORK[what](*arguments)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
