"""`everthread bench log`: the log against the bare engine, as ratios in one run.

The bare engine does the same inserts (the same row into the same table with the same indexes, committed with
the same durability) and reads the same rows with a plain SELECT, with no logic around it. Both take turns in
short blocks, because the disk's speed drifts by the minute; what counts is the ratio of the medians. Bytes are
compared with a plain message table that has none of the log's columns. At the end writers are killed with
SIGKILL at random moments, and what they were told is on disk is looked for.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import crash
from benchmarks.bare import Bare, BarePostgres, BareSqlite
from everthread import Everthread, Talk, assistant, tool_call, tool_result, user
from everthread.core.branches import Line
from everthread.core.events import Event
from everthread.core.logged import Logged
from tests.postgres_server import ENVIRONMENT_VARIABLE, PrivatePostgres, postgres_for_tests

WINDOW = 200  # events of the tail that is read
PAGE = 50
BATCH = 100
CALLERS = 64
BLOCKS = 12  # in which both sides take turns
FILL = 5_000  # events of one append while filling


class Result(NamedTuple):
    engine: str
    what: str
    ours: float
    bare: float | None
    ratio: float | None
    bar: float | None
    unit: str = "µs"

    @property
    def missed(self) -> bool:
        return self.bar is not None and self.ratio is not None and self.ratio > self.bar


def main() -> None:
    options = _options()
    results: list[Result] = []
    for engine in ("sqlite", "postgres") if options.engine == "both" else (options.engine,):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            results += _measure(engine, Path(folder), options)
    _report(results, options)


def _measure(engine: str, folder: Path, options: argparse.Namespace) -> list[Result]:
    if engine == "sqlite":
        measuring = Measuring(engine, f"sqlite:///{folder}/ours.db", BareSqlite(folder / "bare.db"), options)
        asyncio.run(measuring.run())
        measuring.crash(f"sqlite:///{folder}/crash.db")
        return measuring.results
    folder_wanted = options.folder and ENVIRONMENT_VARIABLE not in os.environ
    with PrivatePostgres(parent=folder) if folder_wanted else postgres_for_tests() as server:
        bare = BarePostgres(server.create_database("bare"))
        measuring = Measuring(engine, server.create_database("ours"), bare, options)
        asyncio.run(measuring.run())
        measuring.crash(server.create_database("crash"))
        return measuring.results


class Measuring:
    def __init__(self, engine: str, address: str, bare: Bare, options: argparse.Namespace) -> None:
        self.engine, self.address, self.bare, self.options = engine, address, bare, options
        self.results: list[Result] = []

    async def run(self) -> None:
        async with Everthread.open(self.address, settings={"memory": False}) as et:
            self.et = et
            await self.bare.open()
            self.short, self.written = await self._filled(1_000), await self._filled(1_000)
            await self._bytes()
            await self._appends()
            self._say(f"filling {self.options.messages:,} messages")
            self.long = await self._filled(self.options.messages)
            await self._reads()
            await self._forks()
            await self.bare.close()

    def crash(self, address: str) -> None:
        """Writers killed at random moments: whatever they were told is on disk must be there."""
        if not self.options.kills:
            return
        self._say(f"killing {self.options.kills} writers")
        report = crash.run(address, self.options.kills, self.options.seed)
        what = f"events lost or doubled of {report.acknowledged:,} acknowledged, {report.kills} writers killed"
        wrong = len(report.lost) + len(report.twice) + len(report.problems)
        self.results.append(Result(self.engine, what, wrong, None, None, None, ""))
        if not report.is_clean:
            raise SystemExit(f"{self.engine}: {report}")

    # -- what is measured ------------------------------------------------------------------------------------

    async def _bytes(self) -> None:
        """Per message, against a plain table of the same messages with the same key."""
        talk = await self._filled(50_000)
        ours = await self.bare.size_of(self.address) / (50_000 + 2 * 1_000)
        plain = await self.bare.plain_bytes([e async for e in _all(talk)])
        self._add("bytes a message", ours, plain, bar=1.3, unit="bytes")

    async def _appends(self) -> None:
        talk, rows = self.written, self.bare.rows(self.written)
        one = [user(_TEXT)]
        await self._versus(
            "append one", lambda: talk.append(*one), lambda: self.bare.insert([next(rows)]), times=40, bar=1.5
        )
        batch: list[Event] = [user(_TEXT), assistant(_TEXT)] * (BATCH // 2)
        await self._versus(
            f"append {BATCH}",
            lambda: talk.append(*batch),
            lambda: self.bare.insert([next(rows) for _ in range(BATCH)]),
            times=10,
            bar=None,
        )
        talks = [await self.et.begin(user="ana", agent="crowd") for _ in range(CALLERS)]
        began = time.perf_counter()
        await asyncio.gather(*(self._many(talk, 20) for talk in talks))
        each = (time.perf_counter() - began) / (20 * CALLERS)
        self.results.append(Result(self.engine, f"append one, {CALLERS} callers at once", each * 1e6, None, None, None))

    async def _many(self, talk: Talk, times: int) -> None:
        for _ in range(times):
            await talk.append(user(_TEXT))

    async def _reads(self) -> None:
        turns = WINDOW // 4  # a turn of the filling has four events
        size = f"{self.options.messages:,}"
        short, line = await self.short.line(), await self.long.line()
        for name, talk in (("1,000", self.short), (size, self.long)):
            along = await talk.line()
            events = await self.et.log.tail(along, turns=turns)
            await self._versus(
                f"tail of {len(events)} events of {name}",
                partial(self.et.log.tail, along, turns=turns),
                partial(self.bare.select, self.address, talk.id, events[0].seq, events[-1].seq),
                times=20,
                bar=1.5,
            )
        await self._versus(
            f"the same tail of {size} against that of 1,000",
            partial(self.et.log.tail, line, turns=turns),
            partial(self.et.log.tail, short, turns=turns),
            times=20,
            bar=1.2,
        )
        await self._versus(
            "the same tail with every event decoded, against as stored",
            lambda: self._decoded(line, turns),
            partial(self.et.log.tail, line, turns=turns),
            times=20,
            bar=None,
        )
        middle = self.options.messages // 2
        await self._versus(
            f"page of {PAGE} in the middle",
            partial(self.et.log.before, line, middle, limit=PAGE),
            partial(self.bare.select, self.address, self.long.id, middle - PAGE, middle - 1),
            times=20,
            bar=None,
        )

    async def _decoded(self, line: Line, turns: int) -> None:
        for event in await self.et.log.tail(line, turns=turns):
            event.event  # noqa: B018

    async def _forks(self) -> None:
        ten = await self._filled(10)
        await self._versus(
            f"fork of {self.options.messages:,} events against one of 10",
            partial(self.long.fork, at=8),
            partial(ten.fork, at=8),
            times=5,
            bar=None,
        )

    # -- how -----------------------------------------------------------------------------------------------

    async def _versus(
        self,
        what: str,
        ours: Callable[[], Awaitable[Any]],
        bare: Callable[[], Awaitable[Any]],
        *,
        times: int,
        bar: float | None,
    ) -> float:
        """Time both, in turns, and record the ratio of their medians. Ours, in microseconds."""
        self._say(what)
        spent: tuple[list[float], list[float]] = ([], [])
        for block in range(BLOCKS):
            sides = list(zip((ours, bare), spent, strict=True))
            for work, list_ in sides if block % 2 else reversed(sides):
                for _ in range(times):
                    began = time.perf_counter()
                    await work()
                    list_.append(time.perf_counter() - began)
        medians = [statistics.median(list_) * 1e6 for list_ in spent]
        self._add(what, *medians, bar=bar)
        return medians[0]

    async def _filled(self, messages: int) -> Talk:
        talk = await self.et.begin(user="ana", agent="bench")
        events = list(_dialogue(min(messages, FILL)))
        for _ in range(0, messages, FILL):
            await talk.append(*events)
        return talk

    def _add(self, what: str, ours: float, bare: float, *, bar: float | None, unit: str = "µs") -> None:
        self.results.append(Result(self.engine, what, ours, bare, ours / bare, bar, unit))

    def _say(self, what: str) -> None:
        print(f"  {self.engine}: {what} …", file=sys.stderr, flush=True)


_TEXT = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all. " * 3


def _dialogue(messages: int) -> Iterator[Event]:
    """Turns of four events: a question, a tool call and its result, an answer."""
    for number in range(messages // 4):
        yield user(f"Question {number}: {_TEXT}")
        yield tool_call("look_up", {"number": number}, id=f"call_{number}")
        yield tool_result(_TEXT, id=f"call_{number}", name="look_up")
        yield assistant(f"Answer {number}: {_TEXT}")
    for _ in range(messages % 4):
        yield user(_TEXT)


async def _all(talk: Talk) -> AsyncIterator[Logged]:
    after = 0
    while page := await talk.after(after, limit=1_000):
        for event in page:
            yield event
        after = page[-1].seq


def _report(results: list[Result], options: argparse.Namespace) -> None:
    if options.json:
        print(json.dumps([{**r._asdict(), "missed": r.missed} for r in results], indent=2))
        return
    print("| engine | what | Everthread | bare engine | ratio | bar |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for r in results:
        bare = f"{r.bare:,.0f} {r.unit}" if r.bare is not None else ""
        ratio = f"{r.ratio:.2f}×" if r.ratio is not None else ""
        bar = f"≤ {r.bar}×{' **missed**' if r.missed else ''}" if r.bar else ""
        print(f"| {r.engine} | {r.what} | {r.ours:,.0f} {r.unit} | {bare} | {ratio} | {bar} |")
    missed = [r for r in results if r.missed]
    print(f"\n{len(missed)} of {sum(r.bar is not None for r in results)} bars missed.")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="everthread bench log", description=__doc__)
    parser.add_argument("--engine", choices=["sqlite", "postgres", "both"], default="both")
    parser.add_argument("--messages", type=int, default=1_000_000, help="of the long conversation")
    parser.add_argument("--kills", type=int, default=200, help="writers to kill; 0 for none")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", help="where the databases go for the time being: the disk that is measured")
    parser.add_argument("--json", action="store_true", help="write JSON for programs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
