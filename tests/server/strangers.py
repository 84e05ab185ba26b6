"""What other processes do at the same moment: `python strangers.py <what> <address> …`; one line out."""

from __future__ import annotations

import asyncio
import sys

from everthread.errors import LinkUsed
from everthread.server.identity import Identity
from everthread.store.open import open_log


async def main(what: str, address: str, *given: str) -> None:
    log = await open_log(address)
    identity = Identity(log)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.readline)  # all begin together
    try:
        if what == "first":
            came = await identity.first()
        else:
            came = bool(await identity.use_link(given[0]))
    except LinkUsed:
        came = False
    sys.stdout.write(f"{came}\n")
    await log.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
