"""What the tests of the contract share: clocks, checks and ways to look at a log from outside."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from everthread import Everthread, Talk
from everthread.core.branches import ENDLESS, Line
from everthread.core.logged import Logged
from everthread.core.window import From, Lookups, Start, Upto
from everthread.store.engine import Ask, Engine, Outcome, Row, Script
from everthread.store.log import Log
from everthread.store.scripts.outlook import Outlook

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
START = 1_767_225_600_000_000  # 2026-01-01, in microseconds
MINUTE = 60_000_000


class Clock:
    """A clock that moves only when told to."""

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


async def everything(talk: Talk) -> list[Logged]:
    """All events along the talk's line."""
    return await talk.range(1, ENDLESS)


async def texts(talk: Talk) -> list[str]:
    """What was said along the talk's line: messages only."""
    return [event.text for event in await talk.after(limit=10_000, messages=True)]


async def strays(et: Everthread) -> list[str]:
    """What is wrong beside conversations, but for what tests of the index damage in a store that all of them share."""
    return [one for one in await et.log.strays() if not one.startswith("recall_words of block")]


async def assert_sound(et: Everthread, talk: Talk) -> None:
    """Nothing that `doctor` could complain of, and every branch is gapless."""
    count, problems = await et.log.check(talk.conversation.tenant, talk.id)
    assert problems == []
    branches = await talk.branches()
    assert count == sum(branch.own.events for branch in branches)
    for branch in branches:
        found = await everything(await talk.on(branch.branch.number))
        assert [event.seq for event in found] == list(range(1, branch.last + 1))
        assert len({event.id for event in found}) == len(found)
        assert sorted(event.id for event in found) == [event.id for event in found]


async def first_from(log: Log, line: Line, before: int) -> Start | None:
    """The first turn since the last clear with at least `before` tokens before it, if there is one."""

    def ask(_: Outlook) -> Lookups[Start | None]:
        found, _previous = yield From(before)
        return found if found.before >= before else None

    return await log.look(line, at=None, ask=ask, nothing=None)


async def last_upto(log: Log, line: Line, before: int) -> Start | None:
    """The last turn since the last clear with at most `before` tokens before it, the newest included."""

    def ask(outlook: Outlook) -> Lookups[Start | None]:
        newest = outlook.newest
        found = newest if newest and newest.before <= before else (yield Upto(before))
        return found if found.before <= before else None

    return await log.look(line, at=None, ask=ask, nothing=None)


def files_of(address: str) -> dict[str, bytes]:
    """The bytes of a SQLite database and of everything beside it."""
    path = Path(address.removeprefix("sqlite:///"))
    return {file.name: file.read_bytes() for file in path.parent.glob(f"{path.name}*")}


class Process(NamedTuple):
    status: int
    out: list[str]
    err: str


def module(name: str, *arguments: object) -> list[str]:
    return [sys.executable, str(ROOT / "tests" / "contract" / name), *map(str, arguments)]


async def run(*command: str) -> Process:
    """Another process, to its end."""
    child = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await child.communicate()
    return Process(child.returncode or 0, out.decode().splitlines(), err.decode())


class Interleaved:
    """An engine that lets somebody else write between any two questions of a reading script."""

    def __init__(self, inner: Engine) -> None:
        self.inner = inner
        self.bells = inner.bells
        self.bus = inner.bus
        self.between: Callable[[], Any] | None = None
        self.asked = 0

    async def read(self, script: Callable[[], Script[T]], *, large: bool = False) -> T:
        running = script()
        rows: list[Row] | None = None
        try:
            while True:
                ask = running.send(rows) if rows is not None else next(running)
                rows = list(await self.inner.read(lambda ask=ask: _once(ask)))  # type: ignore[misc]
                self.asked += 1
                if self.between:
                    await self.between()
        except StopIteration as end:
            result: T = end.value
            return result

    async def write(self, script: Callable[[], Script[Outcome[T]]], *, about: str, **how: bool) -> T:
        return await self.inner.write(script, about=about, **how)

    async def watch(self) -> None:
        await self.inner.watch()

    async def scrub(self, *, patient: bool = True) -> None:
        await self.inner.scrub(patient=patient)

    async def problems(self) -> list[str]:
        return await self.inner.problems()

    async def close(self) -> None:
        await self.inner.close()


def _once(ask: Ask) -> Script[list[Row]]:
    return list((yield ask))


def engine_of(log: Log) -> Engine:
    return log._engine
