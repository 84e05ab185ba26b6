"""`everthread bench window`: what building the next request costs, as ratios in one run.

Four comparisons. A context of a short conversation against one of a long, and a line that was rewound again and again
against a straight one (`benchmarks/depth.py`): law 6 says that they cost the same. A
context written out as JSON against the bare engine, which reads the very same rows with a plain SELECT and writes
them out as a list of messages with no logic around it. And a context against what others need to find the messages
of the next request in the same history; they are installed into an environment of their own the first time. Those
that have a store keep it in SQLite, so where both engines are measured, it is our SQLite they are compared with.

What is compared takes turns in short blocks. Between blocks the conversations go on by a few turns, because a
stepped cutoff lets the window grow and then shrinks it: what counts is the whole way, not where it stands by chance.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import asyncpg

from benchmarks.depth import Depths
from benchmarks.peering import COMPARED, Peers, Unanswered, timed
from benchmarks.peers import PEERS, TURNS, History, made_up_history
from everthread import Everthread, Talk
from everthread.core.events import Event
from everthread.transfer import from_openai
from tests.postgres_server import ENVIRONMENT_VARIABLE, PrivatePostgres, postgres_for_tests

MODEL = "anthropic:claude-sonnet-4-6"
SHORT, MIDDLE = 1_000, 100_000
WIDE = 100_000  # the other budget, for information
BLOCKS, CALLS = 60, 5
FILL = 5_000  # events of one append while filling
DEPTHS = [10, 300, 1_000]

ALSO = (1_000, 100_000)  # messages of further histories that the peers get, for information

SELECT = (
    "SELECT body FROM events WHERE tenant = {} AND conversation = {} AND branch = 1 "
    "AND seq BETWEEN {} AND {} ORDER BY seq"
)


class Result(NamedTuple):
    """`ratio` is ours by theirs; where `faster` is set, theirs by ours, and the bar is a floor."""

    engine: str
    what: str
    ours: float | None = None
    other: float | None = None
    ratio: float | None = None
    bar: float | None = None
    faster: bool = False
    note: str = ""

    @property
    def missed(self) -> bool:
        if self.bar is None or self.ratio is None:
            return False
        return self.ratio < self.bar if self.faster else self.ratio > self.bar

    @property
    def unmeasured(self) -> bool:
        return self.bar is not None and self.ratio is None


def main() -> None:
    options = _options()
    results: list[Result] = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        peers = None if options.no_peers else Peers(Path(folder), options.budget)
        for engine in ("sqlite", "postgres") if options.engine == "both" else (options.engine,):
            with _store(engine, Path(folder), options) as address:
                measuring = Measuring(engine, address, options)
                asyncio.run(measuring.run(peers))
                results += measuring.results
                peers = None
    _report(results, options)


@contextmanager
def _store(engine: str, folder: Path, options: argparse.Namespace) -> Iterator[str]:
    if engine == "sqlite":
        yield f"sqlite:///{folder}/ours.db"
        return
    folder_wanted = options.folder and ENVIRONMENT_VARIABLE not in os.environ
    with PrivatePostgres(parent=folder) if folder_wanted else postgres_for_tests() as server:
        yield server.create_database("ours")


class Measuring:
    def __init__(self, engine: str, address: str, options: argparse.Namespace) -> None:
        self.engine, self.address, self.options = engine, address, options
        self.budget: int = options.budget
        self.results: list[Result] = []

    async def run(self, peers: Peers | None) -> None:
        async with Everthread.open(self.address, settings={"memory": False}) as et:
            self.et = et
            self.bare = Bare(self.address)
            await self.bare.open()
            lengths = sorted({SHORT, min(MIDDLE, self.options.messages), self.options.messages})
            talks = [await self._filled(length) for length in lengths]
            await self._lengths(talks)
            for talk in talks:
                await self._against_bare(talk, self.budget, bar=2)
            await self._against_bare(talks[-1], WIDE, bar=None)
            await self._first_time(talks[-1])
            await self.bare.close()
            await Depths(et, self.address, self.budget, self._add, self._say).run(self.options.depths)
            if peers:
                await self._against_peers(peers)

    # -- what is measured ------------------------------------------------------------------------------------

    async def _lengths(self, talks: list[Going]) -> None:
        for budget, bar in ((self.budget, 1.2), (WIDE, None)):
            self._say(f"contexts of {len(talks)} conversations, budget {budget:,}")
            spent = await self._in_turns(*(partial(talk.context, budget) for talk in talks), going=talks)
            for talk, ours in zip(talks, spent, strict=True):
                what = f"context of {talk.length:,} messages, budget {budget:,}"
                note = f"{await talk.sent(budget)} messages sent"
                if talk is talks[0]:
                    self.results.append(Result(self.engine, what, ours, note=note))
                    continue
                what += f", against {talks[0].length:,}"
                last = talk is talks[-1]
                self._add(what, ours, spent[0], bar=bar if last else None, note=note)

    async def _against_bare(self, talk: Going, budget: int, *, bar: float | None) -> None:
        self._say(f"the bare engine, {talk.length:,} messages, budget {budget:,}")

        async def bare() -> str:
            return _as_messages(await self.bare.bodies("default", talk.talk.id, *talk.rows))

        async def ours() -> str:
            return json.dumps((await talk.context(budget)).request)

        await talk.look(budget)
        one, other = await self._in_turns(ours, bare, going=[talk], look=partial(talk.look, budget))
        note = f"{talk.rows[1] - talk.rows[0] + 1} rows"
        what = f"context of {talk.length:,} messages as JSON, budget {budget:,}, against the same rows as JSON"
        self._add(what, one, other, bar=bar, note=note)

    async def _first_time(self, talk: Going) -> None:
        """What a process pays that has not seen these turns before."""
        self._say(f"nothing remembered, {talk.length:,} messages")

        async def afresh() -> Any:
            talk.talk._runtime.contexts.forget()
            return await talk.context(self.budget)

        cold, warm = await self._in_turns(afresh, partial(talk.context, self.budget), going=[talk])
        what = f"the first context of {talk.length:,} messages in a process, against the next"
        self._add(what, cold, warm, bar=None)

    async def _against_peers(self, peers: Peers) -> None:
        for messages in (COMPARED, *ALSO):
            talk = await self._filled_with(peers.history(messages))
            ask = partial(talk.context, self.budget, step=0)  # sliding, as theirs: as much as the budget takes
            sent = (await ask()).sent
            for name, peer in PEERS.items():
                self._say(f"{peer.name}, {messages:,} messages")
                counts = messages == COMPARED and peer.whole and not peer.for_information
                found = Result(
                    self.engine, f"{peer.name}, {messages:,} messages", bar=20 if counts else None, faster=True
                )
                try:
                    compared = await peers.take_turns(name, messages, ask)
                except Unanswered as problem:
                    self.results.append(found._replace(note=str(problem)))
                    continue
                ours, theirs = compared.ours * 1e6, compared.theirs * 1e6
                note = f"version {compared.version}; {compared.messages:,} messages found, {sent} sent by us"
                self.results.append(found._replace(ours=ours, other=theirs, ratio=theirs / ours, note=note))

    # -- how -----------------------------------------------------------------------------------------------

    async def _in_turns(
        self,
        *works: Callable[[], Awaitable[Any]],
        going: list[Going],
        look: Callable[[], Awaitable[None]] | None = None,
    ) -> list[float]:
        """Time each in every block; of their medians the mean of the middle half, in microseconds."""
        medians: list[list[float]] = [[] for _ in works]
        for block in range(BLOCKS):
            sides = list(zip(works, medians, strict=True))
            for work, list_ in sides if block % 2 else reversed(sides):
                list_.append(statistics.median(await timed(work, CALLS)))
            for talk in going:
                await talk.go_on()
            if look:
                await look()
        quarter = BLOCKS // 4
        return [statistics.fmean(sorted(list_)[quarter:-quarter]) * 1e6 for list_ in medians]

    async def _filled(self, length: int) -> Going:
        self._say(f"filling {length:,} messages")
        events = from_openai(made_up_history(SHORT))[:-1]
        talk = await self.et.begin(user="ana", agent="bench")
        coming = cycle(events)
        for first in range(0, length, FILL):
            await talk.append(*islice(coming, min(FILL, length - first)))
        going = Going(talk, length, coming)
        await going.append(1)  # the question that the request is for
        return going

    async def _filled_with(self, history: History) -> Going:
        talk = await self.et.begin(user="ana", agent="bench")
        events = from_openai(history)
        for first in range(0, len(events), FILL):
            await talk.append(*events[first : first + FILL])
        return Going(talk, len(events) - 1, iter(()))

    def _add(self, what: str, ours: float, other: float, *, bar: float | None, note: str = "") -> None:
        self.results.append(Result(self.engine, what, ours, other, ours / other, bar, note=note))

    def _say(self, what: str) -> None:
        print(f"  {self.engine}: {what} …", file=sys.stderr, flush=True)


class Going:
    """A conversation that goes on while it is measured. It always ends with a question."""

    def __init__(self, talk: Talk, length: int, coming: Iterator[Event]) -> None:
        self.talk, self.length = talk, length
        self._coming = coming
        self._newest = 0
        self.rows = (0, 0)  # the first and the last seq of the window, when it was last looked at

    async def context(self, budget: int, **settings: float) -> Any:
        given: Any = settings
        return await self.talk.context(lookups=True, model=MODEL, budget=budget, settings=given)

    async def go_on(self) -> None:
        await self.append(TURNS)

    async def append(self, count: int) -> None:
        self._newest = (await self.talk.append(*islice(self._coming, count)))[-1].seq

    async def look(self, budget: int) -> None:
        self.rows = ((await self.context(budget)).cutoff, self._newest)

    async def sent(self, budget: int) -> int:
        return int((await self.context(budget)).sent)


# -- the bare engine: the same rows, read with the driver alone ------------------------------------------------


class Bare:
    """Reads the bodies of a conversation's events, from the first seq to the last."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._sqlite: apsw.Connection | None = None
        self._postgres: Any = None

    async def open(self) -> None:
        if self._address.startswith("sqlite:///"):
            self._sqlite = apsw.Connection(self._address.removeprefix("sqlite:///"))
        else:
            self._postgres = await asyncpg.connect(self._address)

    async def bodies(self, *where: str | int) -> list[bytes]:
        if self._sqlite:
            return [row[0] for row in self._sqlite.execute(SELECT.format("?1", "?2", "?3", "?4"), where)]
        return [row[0] for row in await self._postgres.fetch(SELECT.format("$1", "$2", "$3", "$4"), *where)]

    async def close(self) -> None:
        if self._sqlite:
            self._sqlite.close()
        else:
            await self._postgres.close()


def _as_messages(bodies: list[bytes]) -> str:
    events = [json.loads(body) for body in bodies]
    return json.dumps([{"role": e["kind"], "content": e.get("parts", e.get("arguments"))} for e in events])


# -- the report ------------------------------------------------------------------------------------------------


def _report(results: list[Result], options: argparse.Namespace) -> None:
    if options.json:
        said = [{**r._asdict(), "unit": "µs", "missed": r.missed, "unmeasured": r.unmeasured} for r in results]
        print(json.dumps(said, indent=2))
        return
    print("| engine | what | Everthread | the other | ratio | bar | |")
    print("| --- | --- | ---: | ---: | ---: | ---: | --- |")
    for r in results:
        ours, other = (f"{figure:,.0f} µs" if figure is not None else "" for figure in (r.ours, r.other))
        ratio = _ratio(r.ratio, faster=r.faster) if r.ratio else ""
        bar = f"{'≥' if r.faster else '≤'} {r.bar}×" if r.bar else ""
        verdict = " **missed**" if r.missed else " **not measured**" if r.unmeasured else ""
        print(f"| {r.engine} | {r.what} | {ours} | {other} | {ratio} | {bar}{verdict} | {r.note} |")
    bars = [r for r in results if r.bar is not None]
    missed, unmeasured = (sum(getattr(r, name) for r in bars) for name in ("missed", "unmeasured"))
    print(f"\n{missed} of {len(bars)} bars missed, {unmeasured} not measured.")


def _ratio(ratio: float, *, faster: bool) -> str:
    if not faster:
        return f"{ratio:.2f}×"
    return f"{ratio:,.1f}× faster" if ratio >= 1 else f"{1 / ratio:,.1f}× slower"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="everthread bench window", description=__doc__)
    parser.add_argument("--engine", choices=["sqlite", "postgres", "both"], default="both")
    parser.add_argument("--messages", type=int, default=1_000_000, help="of the longest conversation")
    parser.add_argument("--budget", type=int, default=8_000, help="tokens of a request")
    parser.add_argument(
        "--depths",
        type=int,
        nargs="*",
        default=DEPTHS,
        help="rewinds of the lines that are compared with straight ones",
    )
    parser.add_argument("--no-peers", action="store_true", help="leave the others out, and install nothing")
    parser.add_argument("--folder", help="where the databases go for the time being: the disk that is measured")
    parser.add_argument("--json", action="store_true", help="write JSON for programs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
