"""Workers that run schedules by one clock, which jumps, and that are killed while they do.

The clock is a file. It is moved when nothing is due any more, forward by an hour or many and back by some, so that it
can be told which due times must have run; only what waits behind another turn is helped on by a few seconds. Run as
`python -m tests.failures.scheduling ADDRESS WORKERS SCHEDULES STEPS KILLS SEED [RESTARTS]`; prints what came of it as
JSON. With RESTARTS it asks for as many restarts of the server, each by a line "restart", and waits for a line.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from everthread import Assistant, Everthread, Schedule, ScheduleFailed, Talk, User
from everthread.core.branches import ENDLESS
from everthread.core.times import moment
from everthread.jobs import schedules as jobs
from everthread.store.open import open_log
from everthread.testing.scripted import script
from tests.core.due_times import expected_runs
from tests.waiting import WHOLE

START = datetime(2026, 3, 28, 0, 30, tzinfo=UTC)  # on the next day the clocks of Europe jump
HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
WORDS = "Very well, then: so be it."
SETTINGS = {"model": "scripted:worker", "memory": False}


class FileClock:
    """Microseconds since 1970 in a file, for all processes."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT)

    def __call__(self) -> int:
        return int.from_bytes(os.pread(self._file, 8, 0), "big")

    def set(self, time: datetime) -> None:
        os.pwrite(self._file, ((time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)).to_bytes(8), 0)

    @property
    def now(self) -> datetime:
        return moment(self())


# -- workers -----------------------------------------------------------------------------------------------------


async def _work(address: str, clock: FileClock) -> None:
    jobs.LOOK = 0.05
    script("worker", *[WORDS] * 100_000, pace=0.002)
    et = Everthread(await open_log(address, clock=clock, patience=60), SETTINGS, environment=False)
    await et.work()


class Nursery:
    """A process that never opens the store, and starts those that do: a file must not be open where one forks."""

    def __init__(self, address: str, clock: FileClock) -> None:
        ours, theirs = os.pipe(), os.pipe()
        self._hear, self._tell = ours[0], theirs[1]
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            os.close(self._tell)
            while os.read(theirs[0], 1):
                if not (child := os.fork()):
                    os.close(theirs[0])
                    asyncio.run(_work(address, clock))
                os.write(ours[1], child.to_bytes(8))
            os._exit(0)

    def start(self) -> int:
        os.write(self._tell, b".")
        return int.from_bytes(os.read(self._hear, 8))


# -- the driver --------------------------------------------------------------------------------------------------


class Driver:
    def __init__(self, et: Everthread, clock: FileClock, nursery: Nursery, chance: random.Random) -> None:
        self.et, self.clock, self.nursery, self.chance = et, clock, nursery, chance
        self.workers: list[int] = []
        self.talks: list[Talk] = []
        self.made: list[Schedule] = []
        self.looks: list[datetime] = []
        self.killed = 0

    async def prepare(self, workers: int, count: int) -> None:
        """Schedules of all kinds, some of them together in a conversation."""
        for number in range(count):
            if number % 3 == 0:
                self.talks.append(await self.et.begin(user=f"user-{number % 7}"))
            missed: Any = "skip" if number % 4 == 1 else "once"
            if number % 5 == 4:
                when: dict[str, Any] = {"at": START + (1 + number % 20) * HOUR, "missed": "once"}
            else:
                crons = ("30 * * * *", "30 */3 * * *", "30 2 * * *", "30 8,20 * * *")
                zone = ("UTC", "Europe/Berlin", "America/New_York")[number % 3]
                when = {"cron": crons[number % 4], "zone": zone, "missed": missed}
            self.made.append(await self.talks[-1].schedule(f"schedule {number}", **when))
        self.workers = [self.nursery.start() for _ in range(workers)]

    async def step(self, *, kill: bool) -> None:
        """Move the clock, kill a worker a moment later if asked to, and wait until nothing is due."""
        before = self.looks[-1] if self.looks else START
        if self.chance.random() < 0.3:
            self.clock.set(before - self.chance.randrange(1, 5) * HOUR)  # nothing may run twice
            await asyncio.sleep(0.05)
        self.looks.append(before + (self.chance.choice((1, 1, 1, 2, 7, 30))) * HOUR)
        self.clock.set(self.looks[-1])
        if kill:
            await asyncio.sleep(self.chance.uniform(0, 0.1))
            os.kill(self.workers.pop(self.chance.randrange(len(self.workers))), signal.SIGKILL)
            self.killed += 1
            self.workers.append(self.nursery.start())
        await self._settled()

    async def _settled(self) -> None:
        async with asyncio.timeout(WHOLE):
            while pending := await self._due():
                if all(one.look and one.look > self.clock.now for one in pending):
                    # All of them wait behind another turn, or for what a killed process held.
                    self.clock.set(self.clock.now + 5 * SECOND)
                await asyncio.sleep(0.02)

    async def _due(self) -> list[Schedule]:
        found = [one for talk in self.talks for one in await talk.schedules()]
        return [one for one in found if one.due is not None and one.due <= self.clock.now]

    # -- what came of it ---------------------------------------------------------------------------------------

    async def problems(self) -> list[str]:
        found = [*await self.et.log.strays()]
        for talk in self.talks:
            found += (await self.et.log.check(talk.conversation.tenant, talk.id))[1]
            found += await self._wrong(talk)
        return found

    async def _wrong(self, talk: Talk) -> list[str]:
        events = [one.event for one in await talk.range(1, ENDLESS)]
        said = Counter(event.origin for event in events if isinstance(event, User))
        whole = sum(isinstance(event, Assistant) and not event.interrupted for event in events)
        problems = [f"failed: {event.reason}" for event in events if isinstance(event, ScheduleFailed)]
        if whole != said.total():
            problems.append(f"{said.total()} messages had {whole} replies")
        for one in (one for one in self.made if one.conversation == talk.id):
            problems += await self._wrong_runs(talk, one, said[one.origin])
        return problems

    async def _wrong_runs(self, talk: Talk, one: Schedule, said: int) -> list[str]:
        """Whether each due time that had to run did, once, and no other."""
        expected = [one.at] if one.at else expected_runs(one, START, self.looks)
        expected = [due for due in expected if due <= self.looks[-1]]
        line = await talk.line()
        missing = [due for due in expected if not await self.et.log.kept(line, _at(one, due).key)]
        if missing or said != len(expected):
            return [f"{one.text}: {said} of {len(expected)} runs; without {', '.join(map(str, missing)) or 'none'}"]
        return []


def _at(one: Schedule, due: datetime) -> Schedule:
    return Schedule(**{name: getattr(one, name) for name in one.__struct_fields__ if name != "due"}, due=due)


async def drive(address: str, clock: FileClock, nursery: Nursery, counts: list[int]) -> dict[str, Any]:
    workers, schedules, steps, kills, seed, restarts = counts
    clock.set(START)
    chance = random.Random(seed)
    et = Everthread(await open_log(address, clock=clock, patience=60), SETTINGS, environment=False)
    driver = Driver(et, clock, nursery, chance)
    try:
        await driver.prepare(workers, schedules)
        killing = {*chance.sample(range(steps), kills)}
        restarting = {*chance.sample(range(steps), restarts)}
        for step in range(steps):
            moving: Awaitable[None] = asyncio.ensure_future(driver.step(kill=step in killing))
            if step in restarting:
                await asyncio.to_thread(_restart)
            await moving
        runs = sum(
            [len([one for one in await talk.after(limit=10_000) if one.kind == "user"]) for talk in driver.talks]
        )
        return {"runs": runs, "killed": driver.killed, "problems": await driver.problems()}
    finally:
        for worker in driver.workers:
            os.kill(worker, signal.SIGKILL)
        await et.close()


def _restart() -> None:
    sys.stdout.write("restart\n")
    sys.stdout.flush()
    sys.stdin.readline()


def main(address: str, *counts: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        clock = FileClock(Path(folder) / "clock")
        clock.set(START)
        nursery = Nursery(address, clock)
        numbers = [int(count) for count in (*counts, "0")[:6]]
        sys.stdout.write(json.dumps(asyncio.run(drive(address, clock, nursery, numbers))) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
