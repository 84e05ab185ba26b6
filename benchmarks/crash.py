"""Killing writers at random moments, and proving that nothing that was acknowledged is lost.

A writer process appends with several tasks at once and reports each append only when it has returned. It is
killed with SIGKILL somewhere in between, again and again. Afterwards every reported event must be there, none
twice, none torn, without a gap, and the log must take the next append. Used by the tests with a few kills and
by the benchmark with hundreds. This file is also the writer: `crash.py write <address> <user> <conversation> <name>`.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import IO, NamedTuple

from everthread import Everthread, assistant, user
from everthread.core.branches import ENDLESS

OWNER = "crash"
TASKS = 4  # appends in flight at once, so that groups are committed
PATIENCE = 60.0  # seconds in which a writer must have reported something


class CrashReport(NamedTuple):
    kills: int
    acknowledged: int
    events: int
    unreported: int  # written, but killed before it could say so: at most one a task
    lost: list[str]
    twice: list[str]
    problems: list[str]

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.twice or self.problems)


class Writer:
    """A writer process and what it has reported."""

    def __init__(self, address: str, conversation: str, name: str, *, owner: str = OWNER) -> None:
        command = [sys.executable, os.path.abspath(__file__), "write", address, owner, conversation, name]
        # Unbuffered, so that what was reported is either heard or still in the pipe.
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        self.acknowledged: list[str] = []

    def hear(self, count: int) -> None:
        """Wait until it has reported so many appends more."""
        for _ in range(count):
            line = _pipe(self.process.stdout).readline()
            if not line:
                raise RuntimeError(f"the writer ended by itself: {_pipe(self.process.stderr).read().decode()}")
            self.acknowledged.append(line.decode().strip())

    def kill(self) -> None:
        """End it, and hear what it had still reported."""
        self.process.kill()
        out, err = self.process.communicate()
        self.acknowledged += out.decode().split()
        if err:
            raise RuntimeError(f"the writer complained: {err.decode()}")


def run(address: str, kills: int, seed: int, *, progress: Callable[[int], None] | None = None) -> CrashReport:
    """Kill `kills` writers on a new conversation at the address, and look at what is left."""
    chance = random.Random(seed)
    conversation = asyncio.run(_begin(address))
    acknowledged: list[str] = []
    for number in range(kills):
        writer = Writer(address, conversation, f"w{number}")
        try:
            writer.hear(chance.randint(1, 12))
            time.sleep(chance.uniform(0, 0.01))  # somewhere inside an append, not always just after one
        finally:
            writer.kill()
        acknowledged += writer.acknowledged
        acknowledged.append(asyncio.run(_go_on(address, conversation, number)))
        if progress:
            progress(number + 1)
    return asyncio.run(examine(address, conversation, acknowledged, kills=kills))


async def examine(
    address: str, conversation: str, acknowledged: list[str], *, kills: int, owner: str = OWNER
) -> CrashReport:
    """What is in the log, against what was reported."""
    async with Everthread.open(address, settings={"memory": False}) as et:
        talk = await et.conversation(user=owner, id=conversation)
        found = await talk.range(1, ENDLESS)
        _, problems = await et.log.check(talk.conversation.tenant, conversation)
        await talk.append(user("the end"))
    if [event.seq for event in found] != list(range(1, len(found) + 1)):
        problems.append("the numbers have gaps")
    if len({event.id for event in found}) != len(found):
        problems.append("two events have one id")
    firsts, seconds = found[::2], found[1::2]  # each append is a pair
    if [event.text + "." for event in firsts] != [event.text for event in seconds]:
        problems.append("an append is torn apart")
    counts = Counter(event.text for event in firsts)
    reported = set(acknowledged)
    unreported = set(counts) - reported
    if len(unreported) > kills * TASKS:
        problems.append(f"{len(unreported)} appends were written that nobody reported")
    return CrashReport(
        kills=kills,
        acknowledged=len(acknowledged),
        events=len(found),
        unreported=len(unreported),
        lost=sorted(reported - set(counts)),
        twice=sorted(text for text, count in counts.items() if count > 1),
        problems=problems,
    )


async def _begin(address: str) -> str:
    async with Everthread.open(address, settings={"memory": False}) as et:
        return (await et.begin(user=OWNER)).id


async def _go_on(address: str, conversation: str, number: int) -> str:
    """The next append after a kill."""
    async with Everthread.open(address, settings={"memory": False}) as et:
        talk = await et.conversation(user=OWNER, id=conversation)
        await talk.append(user(f"after{number}"), assistant(f"after{number}."))
    return f"after{number}"


async def _write(address: str, owner: str, conversation: str, name: str) -> None:
    """Append for ever, and report each append once it is durable."""

    async def work(task: int) -> None:
        number = 0
        while True:
            text = f"{name}/{task}/{number}"
            await talk.append(user(text), assistant(text + "."))
            os.write(1, text.encode() + b"\n")  # at once and whole: what is in a buffer dies with the process
            number += 1

    async with Everthread.open(address, patience=PATIENCE, settings={"memory": False}) as et:
        talk = await et.conversation(user=owner, id=conversation)
        await asyncio.gather(*map(work, range(TASKS)))


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


if __name__ == "__main__":
    asyncio.run(_write(*sys.argv[2:]))
