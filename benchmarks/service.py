"""`everthread bench service`: the service beside the bare framework under the same web server, in one run.

The bare one is a Starlette application with an empty handler and a WebSocket that says what it hears. Both run in
processes of their own and take turns in short rounds; what counts are ratios of medians, of latency and of the CPU time
that the server's process takes for a request, because the machine is never quite still. The client is in this process,
and is little more than a socket (`benchmarks.asking`).

    page     a page of 50 events by an API key, against the empty handler
    talk     contexts, and turns of a scripted model to their end, at 1, 100 and 1,000 connections
    deltas   from the provider's piece to the client's byte, one each 50 ms: 200 streams of 200 replies that begin all
             at once, and of one reply; on PostgreSQL also from one process to listeners of another
    idle     memory of an open WebSocket that shows a conversation, above that of a bare one
    soak     memory while all of this goes on (`--soak SECONDS`; none without)
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.asking import USER, Asking, Kept, Socket, Stream, Wire, connected, streaming
from benchmarks.bars import Result, report, say, store
from benchmarks.clocked import asking as moments
from benchmarks.serving import CLOCK
from everthread import Everthread, assistant, user
from everthread.core.accounts import operator
from everthread.server.identity import Identity

PARTS = ("page", "talk", "deltas", "idle")
PAGE, MOST_TIMES = 50, 3.0
ROUNDS, EACH = 15, 200  # of pages
TURNS = 3  # that every connection asks for
APART = 50  # milliseconds between two deltas, as of a model that says twenty tokens a second
MOST_LATE, MOST_IDLE, MOST_GROWTH = 50.0, 20.0, 1.01
WARM = 50  # sockets that are opened before memory is looked at
SETTLED = 0.3  # of a soak, after which memory is to stay as it is
FEW = 40  # conversations of a soak
BUDGET = 12_000  # tokens: a window that is full does not grow with its conversation
_TEXT = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all. " * 3
_LONG = _TEXT * 68  # 16 KB: what is kept of turns (8 MB) is full before memory is to stay as it is
_PATIENCE = 180.0


def main() -> None:
    options = _options()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    results: list[Result] = []
    for engine in ("sqlite", "postgres") if options.engine == "both" else (options.engine,):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder, store(engine, folder) as address:
            results += _Measuring(engine, address, options).run()
    report(results, other="bare", as_json=options.json)


class Served(NamedTuple):
    """A server in a process of its own."""

    process: subprocess.Popen[str]
    port: int

    @property
    def cpu(self) -> float:
        """Seconds that the process has taken so far, of all its threads."""
        return time.clock_gettime((~self.process.pid << 3) | 2)

    @property
    def memory(self) -> int:
        """Kilobytes that are in use."""
        told = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(told.split("VmRSS:")[1].split()[0])


@contextmanager
def served(what: str) -> Iterator[Served]:
    """A service on the store at this address, or `bare`."""
    command = [sys.executable, "-m", "benchmarks.serving", what]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        yield Served(process, int(process.stdout.readline()))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        process.stdout.close()


class _Measuring:
    def __init__(self, engine: str, address: str, options: argparse.Namespace) -> None:
        self._engine, self._address, self._options = engine, address, options
        self._results: list[Result] = []
        self._key, self._ids = "", list[str]()

    def run(self) -> list[Result]:
        self._say("a store")
        asyncio.run(self._fill())
        parts: dict[str, Callable[[], None]] = {
            "page": self._pages,
            "talk": lambda: asyncio.run(self._talks()),
            "deltas": lambda: asyncio.run(self._deltas()),
            "idle": lambda: asyncio.run(self._idle()),
        }
        for part in self._options.parts:
            parts[part]()
        if self._options.soak:
            asyncio.run(self._soak(self._options.soak))
        return self._results

    async def _fill(self) -> None:
        async with Everthread.open(self._address, keys={}, settings={"memory": False}) as et:
            made = await Identity(et.log).make_key(operator("default"), label="bench", application="bench")
            self._key = str(made.secret)
            for number in range(1 + max(self._options.connections, self._options.streams, FEW)):
                talk = await et.begin(user=USER, agent="default", settings={"budget": BUDGET})
                await talk.append(*[user(_TEXT), assistant(_TEXT)] * (5 if number else 500))
                self._ids.append(talk.id)

    # -- pages -----------------------------------------------------------------------------------------------------

    def _pages(self) -> None:
        self._say(f"pages of {PAGE}")
        asking = {
            "ours": self._of(self._ids[0], "GET", f"before?limit={PAGE}").written(),
            "bare": Asking("GET", "/").written(),
        }
        late: dict[str, list[float]] = {"ours": [], "bare": []}
        spent: dict[str, list[float]] = {"ours": [], "bare": []}
        with served(self._address) as ours, served("bare") as bare:
            for number in range(self._options.rounds + 1):
                for name, at in [("ours", ours), ("bare", bare)][:: 1 if number % 2 else -1]:
                    latency, cpu = _round(at, asking[name])
                    if number:  # the first is to get warm
                        late[name].append(latency)
                        spent[name].append(cpu)
        self._compare(f"a page of {PAGE}, from request to answer", late)
        self._compare(f"a page of {PAGE}, CPU time of the process", spent)

    def _compare(self, what: str, took: dict[str, list[float]]) -> None:
        ratio = statistics.median(ours / bare for ours, bare in zip(took["ours"], took["bare"], strict=True))
        ours, bare = (statistics.median(times) * 1e6 for times in (took["ours"], took["bare"]))
        note = f"{ours:.0f} µs and {bare:.0f} µs; medians of {self._options.rounds} rounds"
        self._add(what, ratio, "×", bar=MOST_TIMES, other=1.0, note=note)

    # -- turns -----------------------------------------------------------------------------------------------------

    async def _talks(self) -> None:
        with served(self._address) as ours, served("bare") as bare:
            await self._asked(ours, [self._of(self._ids[1], "POST", "context", {})])  # loads what counts tokens
            for count in sorted({1, max(1, self._options.connections // 10), self._options.connections}):
                self._say(f"{count} connections")
                ids = self._ids[-count:]
                empty = await self._asked(bare, [Asking("GET", "/")] * count)
                contexts = await self._asked(ours, [self._of(id, "POST", "context", {}) for id in ids])
                said = [streaming(self._of(id, "POST", "say", {"pieces": ["Good morning!"]})) for id in ids]
                turns = await self._asked(ours, said)
                self._tell(f"a context, {count:,} connections", contexts, empty)
                self._tell(f"a turn to its end, {count:,} connections", turns, empty)

    async def _asked(self, at: Served, asking: Sequence[Asking]) -> tuple[list[float], float]:
        """Every connection asks its own thing some times: how long each took, and how many there were a second."""
        wires = await connected(at.port, [Wire() for _ in asking])
        late: list[float] = []
        times = self._options.turns if len(asking) > 1 else self._options.turns * 20

        async def ask(wire: Wire, request: bytes) -> None:
            for _ in range(times):
                began = time.perf_counter()
                answer = await wire.ask(request)
                assert answer.status == 200, answer.body[:500]
                assert b"event: problem" not in answer.body, answer.body[-1_000:]
                late.append(time.perf_counter() - began)

        began = time.perf_counter()
        async with asyncio.timeout(_PATIENCE):
            await asyncio.gather(*(ask(wire, one.written()) for wire, one in zip(wires, asking, strict=True)))
        rate = len(late) / (time.perf_counter() - began)
        for wire in wires:
            wire.close()
        return late, rate

    def _tell(self, what: str, ours: tuple[list[float], float], bare: tuple[list[float], float]) -> None:
        (late, rate), (empty, bare_rate) = ours, bare
        note = f"p99 {_hundredth(late) * 1000:,.1f} ms, {rate:,.0f} /s; an empty handler p99 "
        note += f"{_hundredth(empty) * 1000:,.1f} ms, {bare_rate:,.0f} /s"
        self._add(what, statistics.median(late) * 1000, "ms", other=statistics.median(empty) * 1000, note=note)

    # -- deltas ----------------------------------------------------------------------------------------------------

    async def _deltas(self) -> None:
        count = self._options.streams
        with ExitStack() as running:
            one = running.enter_context(served(self._address))
            await self._late(f"a delta, {count} streams of {count} replies", one, one, self._ids[-count:])
            await self._late(f"a delta, {count} streams of one reply", one, one, self._ids[-1:] * count)
            if self._engine == "postgres":
                other = running.enter_context(served(self._address))
                what = f"a delta, {count} streams of {count} replies, in another process"
                await self._late(what, one, other, self._ids[-count:], bar=None)

    async def _late(
        self, what: str, runner: Served, teller: Served, ids: Sequence[str], *, bar: float | None = MOST_LATE
    ) -> None:
        self._say(what)
        pieces = max(2, round(self._options.seconds * 1000 / APART))
        streams = await connected(teller.port, [Stream(self._of(id, "GET", "listen")) for id in ids])
        asking = {"pieces": [moments(pieces, APART)], "model": f"scripted:{CLOCK}"}
        async with asyncio.timeout(_PATIENCE):
            for stream in streams:
                await stream.joined.wait()
            wires = await connected(runner.port, [Wire() for _ in set(ids)])
            said = [self._of(id, "POST", "say", asking).written() for id in dict.fromkeys(ids)]
            answers = await asyncio.gather(*(wire.ask(one) for wire, one in zip(wires, said, strict=True)))
            assert {answer.status for answer in answers} == {202}, answers[0].body[:500]
            for stream in streams:
                await stream.done.wait()
        for one in (*streams, *wires):
            one.close()
        late = [each / 1000 for stream in streams for each in stream.late]
        note = f"p50 {statistics.median(late):.1f} ms; {len(late):,} of {pieces * len(ids):,} before the whole reply"
        self._add(f"{what}, p99", _hundredth(late), "ms", bar=bar, note=note)

    # -- memory ----------------------------------------------------------------------------------------------------

    async def _idle(self) -> None:
        self._say("idle WebSockets")
        count = self._options.connections
        with served(self._address) as ours:
            asking = [self._of(id, "GET", "live") for id in self._ids[-count:]]
            mine = await self._kilobytes(ours, asking, until=b'"kind":"opened"')
        with served("bare") as bare:
            empty = await self._kilobytes(bare, [Asking("GET", "/live")] * count)
        note = f"{mine:.1f} KB and {empty:.1f} KB for each of {count:,}"
        self._add("an idle WebSocket, above a bare one", mine - empty, "KB", bar=MOST_IDLE, note=note)

    async def _kilobytes(self, at: Served, asking: Sequence[Asking], *, until: bytes = b"") -> float:
        """What each of many open sockets takes; the first of them are to get warm."""
        open_ones: list[Socket] = []
        warm = min(WARM, len(asking) // 2)
        before = 0
        for number, one in enumerate(asking):
            if number == warm:
                before = await _settled(at)
            (socket,) = await connected(at.port, [Socket(one, until=until)])
            async with asyncio.timeout(_PATIENCE):
                await socket.open
            open_ones.append(socket)
        after = await _settled(at)
        for socket in open_ones:
            socket.close()
        return (after - before) / (len(asking) - warm)

    async def _soak(self, seconds: float) -> None:
        """Memory while a few users do all there is to do."""
        self._say(f"a soak of {seconds:g} s")
        seen: list[tuple[float, int]] = []
        done = 0
        with served(self._address) as at:
            began = time.monotonic()

            async def use(id: str) -> None:
                nonlocal done
                chance = random.Random(id)
                while time.monotonic() - began < seconds:
                    await self._something(at, id, chance)
                    done += 1

            async def look() -> None:
                while time.monotonic() - began < seconds:
                    seen.append((time.monotonic() - began, at.memory))
                    await asyncio.sleep(min(1.0, seconds / 100))

            await asyncio.gather(look(), *map(use, self._ids[-FEW:]))
        since = [kilobytes for when, kilobytes in seen if when >= SETTLED * seconds]
        few = max(1, len(since) // 10)
        first, last = statistics.median(since[:few]), statistics.median(since[-few:])
        note = f"{first / 1024:.1f} MB and {last / 1024:.1f} MB; {done:,} acts of {FEW} users in {seconds:g} s"
        self._add("memory at the end of a soak", last / first, "×", bar=MOST_GROWTH, other=1.0, note=note)

    async def _something(self, at: Served, id: str, chance: random.Random) -> None:
        """One of the things that users do, over a connection of its own."""
        act = chance.choice(["page", "context", "turn", "list", "stream", "socket"])
        if act == "socket":
            (socket,) = await connected(at.port, [Socket(self._of(id, "GET", "live"), until=b"opened")])
            await socket.open
            socket.close()
        elif act == "stream":
            (stream,) = await connected(at.port, [Stream(self._of(id, "GET", "listen"))])
            await stream.joined.wait()
            stream.close()
        else:
            (wire,) = await connected(at.port, [Wire()])
            answer = await wire.ask(self._act(act, id).written())
            assert answer.status == 200, answer.body[:500]
            wire.close()
        await asyncio.sleep(chance.uniform(0.0, 0.2))

    def _act(self, act: str, id: str) -> Asking:
        match act:
            case "page":
                return self._of(id, "GET", f"before?limit={PAGE}")
            case "context":
                return self._of(id, "POST", "context", {})
            case "list":
                return Asking("GET", "/api/conversations", self._key)
            case _:
                return streaming(self._of(id, "POST", "say", {"pieces": [_LONG]}))

    # -- what they share -------------------------------------------------------------------------------------------

    def _of(self, id: str, method: str, what: str, body: Any = None) -> Asking:
        return Asking(method, f"/api/conversations/{id}/{what}", self._key, body)

    def _say(self, what: str) -> None:
        say(self._engine, what)

    def _add(self, what: str, ours: float, unit: str, **more: Any) -> None:
        self._results.append(Result(self._engine, what, ours, unit, **more))


def _round(at: Served, asking: bytes) -> tuple[float, float]:
    """Seconds that an answer takes, and seconds of the server's process."""
    kept, late = Kept(at.port), list[float]()
    assert kept.ask(asking).status == 200
    before = at.cpu
    for _ in range(EACH):
        began = time.perf_counter()
        kept.ask(asking)
        late.append(time.perf_counter() - began)
    spent = at.cpu - before
    kept.close()
    return statistics.median(late), spent / EACH


async def _settled(at: Served) -> int:
    await asyncio.sleep(0.5)
    return at.memory


def _hundredth(late: Sequence[float]) -> float:
    return statistics.quantiles(late, n=100)[98] if len(late) > 1 else late[0]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="everthread bench service", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engine", choices=["sqlite", "postgres", "both"], default="both")
    parser.add_argument("--parts", choices=PARTS, nargs="*", default=list(PARTS), help="what is measured")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of {EACH} pages each")
    parser.add_argument("--connections", type=int, default=1000, help="the most at once, and idle WebSockets")
    parser.add_argument("--turns", type=int, default=TURNS, help="that every connection asks for")
    parser.add_argument("--streams", type=int, default=200, help="that are listened to at once")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each reply that is listened to")
    parser.add_argument("--soak", type=float, default=0.0, metavar="SECONDS", help="look at memory for so long, too")
    parser.add_argument("--folder", help="where the database goes for the time being: the disk that is measured")
    parser.add_argument("--json", action="store_true", help="write JSON for programs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
