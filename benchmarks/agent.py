"""`everthread bench agent`: what a turn adds to a model call, against the provider's bare SDK in one run.

Three comparisons, on the same loopback server, which runs in a process of its own and whose replies tell the time. From
`say` until the request has arrived whole, against the SDK's own call with an equal body: what is added is reading the
history, building the request and the durable append of the message before it is sent. From the moment at which a
delta is sent until the caller has it. And how many deltas a second come through. Then what listeners hear and cost
(`listeners.py`), and at the end how long a process takes to start. `--parts` chooses among these.

What is compared takes turns, call by call, over connections that stay open; what is told is the median of the
differences. It can be less than nothing: the SDKs copy and check a request piece by piece, ours is handed to them
written out. So the SDK is also timed with a request that is written out, for information. A flush to disk takes ten
times as long in one minute as in the next, so the append and the lease are timed by themselves as well, in the same
rounds. With the defaults it takes two to five minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchmarks import listeners
from benchmarks.clocked import KEY, SERVERS, asking, moment, now
from benchmarks.peers import made_up_history
from benchmarks.start import Started, cold_starts
from everthread import Everthread, Talk, user
from everthread.config import Settings
from everthread.core.deltas import Done, TextDelta
from everthread.providers.choose import host_of
from everthread.transfer import from_openai
from tests.postgres_server import postgres_for_tests

MODELS = {"anthropic": "anthropic:claude-sonnet-4-6", "openai": "openai:gpt-5.6-terra"}
SHORT = 1_000
BUDGETS = (8_000, Settings().budget)
FILL = 5_000  # events of one append while filling
WARMING = 3  # turns before anything is measured
REPLY = 10  # pieces of an ordinary reply
SLOW, APART = 200, 2  # pieces of a slow reply, and the milliseconds between them
FAST = 10_000  # pieces of a fast one
MOST = 5.0  # milliseconds that may be added


class Result(NamedTuple):
    """Milliseconds, or what `unit` says. `added`: the median of ours less the bare SDK's, call by call."""

    engine: str
    what: str
    ours: float
    bare: float | None = None
    added: float | None = None
    bar: float | None = None
    unit: str = "ms"
    note: str = ""

    @property
    def missed(self) -> bool:
        measured = self.ours if self.added is None else self.added
        return self.bar is not None and measured > self.bar


class Heard(NamedTuple):
    """A reply as it was heard. `left`: milliseconds until the request had arrived; `late`: how long each piece was on
    its way; `rate`: pieces a second; `busy`: microseconds of this process for a piece."""

    left: float
    late: float
    rate: float
    busy: float


def main() -> None:
    options = _options()
    results: list[Result] = []
    for part in options.parts:
        results += PARTS[part](options)
    _report(results, options)


def _calls(options: argparse.Namespace) -> list[Result]:
    with _store(options) as address, _servers() as servers:
        measuring = Measuring(options, address, servers)
        asyncio.run(measuring.run())
        return measuring.results


def _listeners(options: argparse.Namespace) -> list[Result]:
    with _store(options) as address:
        measuring = listeners.Measuring(
            address, most=options.listeners, seconds=options.seconds, blocks=options.blocks, say=_say
        )
        return [Result(options.engine, **measured._asdict()) for measured in asyncio.run(measuring.run())]


def _starts(options: argparse.Namespace) -> list[Result]:
    _say("starting processes")
    return [_as_result(started) for started in cold_starts(options.starts)]


PARTS = {"calls": _calls, "listeners": _listeners, "starts": _starts}


@contextmanager
def _store(options: argparse.Namespace) -> Iterator[str]:
    if options.engine == "sqlite":
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            yield f"sqlite:///{folder}/ours.db"
        return
    with postgres_for_tests() as server:
        yield server.create_database("ours")


@contextmanager
def _servers() -> Iterator[dict[str, str]]:
    """The addresses of the loopback servers, by provider."""
    command = [sys.executable, "-m", "benchmarks.clocked", *MODELS]
    root = Path(__file__).parents[1]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield json.loads(process.stdout.readline())
        process.communicate()


class Measuring:
    def __init__(self, options: argparse.Namespace, address: str, servers: dict[str, str]) -> None:
        self.engine, self.turns, self.messages = options.engine, options.turns, options.messages
        self.address, self.servers = address, servers
        self.results: list[Result] = []

    async def run(self) -> None:
        keys = {host_of(address): KEY for address in self.servers.values()}
        async with Everthread.open(self.address, settings={"memory": False}, keys=keys) as et:
            self.et, self.beside = et, await et.begin(user="ana", agent="beside")
            talks = {length: await self._filled(length) for length in sorted({SHORT, self.messages})}
            for provider, address in self.servers.items():
                bare = BARE[provider](address)
                for length, talk in talks.items():
                    for budget in BUDGETS:
                        await self._leaving(Ours(talk, provider, address), bare, length, budget)
                # On a branch of their own, because replies of any length would crowd the windows of the others.
                longest = Ours(await talks[self.messages].fork(), provider, address)
                await self._coming(longest, bare)
                await self._rushing(longest, bare)
                await bare.close()

    # -- what is measured --------------------------------------------------------------------------------------

    async def _leaving(self, ours: Ours, bare: Bare, length: int, budget: int) -> None:
        """From `say` to the request, and what of it is the append, the lease and the context."""
        what = f"{ours.provider}: from `say` to the request, {length:,} messages, budget {budget:,}"
        _say(what)
        await ours.set(budget)
        parts: dict[str, Callable[[], Awaitable[Any]]] = {
            "append": self._append,
            "lease": self._lease,
            "context": ours.talk.context,
        }
        rounds = []
        for _ in range(WARMING + self.turns):
            mine, body = await ours.ask(REPLY), await ours.body()
            left = mine.left, (await bare.ask(body)).left, (await bare.ask(body, written=True)).left
            rounds.append((*left, *[await _timed(work) for work in parts.values()]))
        one, other, *alone = map(list, zip(*rounds[WARMING:], strict=True))
        names = ("bare and written out", *parts)
        told = ", ".join(f"{name} {statistics.median(times):.2f}" for name, times in zip(names, alone, strict=True))
        bar = MOST if (length, budget) == (self.messages, BUDGETS[0]) else None
        self._add(what, one, other, bar=bar, note=f"{told} ms")

    async def _coming(self, ours: Ours, bare: Bare) -> None:
        """From a delta's leaving to its coming."""
        what = f"{ours.provider}: from the provider's delta to the caller, {self.messages:,} messages"
        _say(what)
        await ours.set(BUDGETS[0])
        one, other = [], []
        for _ in range(max(1, self.turns // 6)):
            one.append((await ours.ask(SLOW, APART)).late)
            other.append((await bare.ask(await ours.body())).late)
        self._add(what, one, other, bar=MOST, note=f"medians of {SLOW} deltas {APART} ms apart")

    async def _rushing(self, ours: Ours, bare: Bare) -> None:
        what = f"{ours.provider}: deltas a second, as fast as they come"
        _say(what)
        rounds = range(max(1, self.turns // 6))
        pairs = [(await ours.ask(FAST), await bare.ask(await ours.body())) for _ in rounds]
        one, other = (Heard(*map(statistics.median, zip(*side, strict=True))) for side in zip(*pairs, strict=True))
        note = f"{one.busy:.0f} µs of the process for a delta, {other.busy:.0f} µs bare"
        self.results.append(Result(self.engine, what, one.rate, other.rate, unit="/s", note=note))

    async def _append(self) -> None:
        await self.beside.append(user(asking(REPLY)))

    async def _lease(self) -> None:
        held = await self.et.log.leases.take("default", "bench", holder="bench", seconds=30)
        assert held == "bench"

    # -- how ---------------------------------------------------------------------------------------------------

    async def _filled(self, length: int) -> Talk:
        _say(f"filling {length:,} messages")
        coming = cycle(from_openai(made_up_history(SHORT))[:-1])
        talk = await self.et.begin(user="ana", agent="bench")
        for first in range(0, length, FILL):
            await talk.append(*islice(coming, min(FILL, length - first)))
        return talk

    def _add(self, what: str, ours: list[float], bare: list[float], *, bar: float | None, note: str) -> None:
        added = statistics.median(one - other for one, other in zip(ours, bare, strict=True))
        self.results.append(
            Result(self.engine, what, statistics.median(ours), statistics.median(bare), added, bar, note=note)
        )


async def _timed(work: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) * 1000


# -- the two sides ---------------------------------------------------------------------------------------------


async def _heard(pieces: AsyncIterator[str]) -> Heard:
    """Listen to a reply of the clocked server; who is asked begins with the first piece that is waited for."""
    began, arrived = now(), 0
    times: list[tuple[int, int]] = []
    busy = time.process_time_ns()
    async for piece in pieces:
        if arrived:
            times.append((moment(piece), now()))
        else:
            arrived = moment(piece)
            busy = time.process_time_ns()
    busy = time.process_time_ns() - busy
    late = statistics.median(came - sent for sent, came in times)
    lasted = max(1, times[-1][1] - times[0][1])
    return Heard((arrived - began) / 1000, late / 1000, len(times) * 1e6 / lasted, busy / 1000 / len(times))


class Ours:
    """A conversation, and what was last said in it."""

    def __init__(self, talk: Talk, provider: str, address: str) -> None:
        self.talk, self.provider, self._address = talk, provider, address
        self._seq = 0

    async def set(self, budget: int) -> None:
        settings = {"model": MODELS[self.provider], "address": self._address, "budget": budget}
        await self.talk.set_settings(settings)

    async def ask(self, pieces: int, apart: int = 0) -> Heard:
        return await _heard(self._said(f"{_FILLING} {asking(pieces, apart)}"))

    async def _said(self, text: str) -> AsyncIterator[str]:
        async for delta in self.talk.say(text):
            if isinstance(delta, TextDelta):
                yield delta.text
            elif isinstance(delta, Done):
                self._seq = delta.seq

    async def body(self) -> dict[str, Any]:
        """The request that was last sent, for the bare SDK to send again."""
        built = await self.talk.rebuild(self._seq)
        if built.differences:
            raise SystemExit(f"The request cannot be built again: {', '.join(built.differences)}")
        return built.context.request


class Bare:
    """A provider's SDK, used as its documentation says. `written`: with a request that it need not write out itself."""

    sdk: Any

    async def ask(self, body: dict[str, Any], *, written: bool = False) -> Heard:
        return await _heard(self._said({**body, "stream": True}, written))

    def _said(self, body: dict[str, Any], written: bool) -> AsyncIterator[str]:
        raise NotImplementedError

    async def _written(self, path: str, body: dict[str, Any], stream: Any) -> Any:
        return await self.sdk.post(
            path, content=msgspec.json.encode(body), cast_to=object, stream=True, stream_cls=stream
        )

    async def close(self) -> None:
        await self.sdk.close()


class BareAnthropic(Bare):
    def __init__(self, address: str) -> None:
        from anthropic import AsyncAnthropic, AsyncStream
        from anthropic.types import RawMessageStreamEvent

        self._stream = AsyncStream[RawMessageStreamEvent]
        self.sdk = AsyncAnthropic(api_key=KEY, base_url=address, max_retries=0)

    async def _said(self, body: dict[str, Any], written: bool) -> AsyncIterator[str]:
        create = self.sdk.messages.create
        async for event in await (self._written("/v1/messages", body, self._stream) if written else create(**body)):
            if event.type == "content_block_delta":
                yield event.delta.text


class BareOpenAI(Bare):
    def __init__(self, address: str) -> None:
        from openai import AsyncOpenAI, AsyncStream
        from openai.types.chat import ChatCompletionChunk

        self._stream = AsyncStream[ChatCompletionChunk]
        self.sdk = AsyncOpenAI(api_key=KEY, base_url=address, max_retries=0)

    async def _said(self, body: dict[str, Any], written: bool) -> AsyncIterator[str]:
        create, body = self.sdk.chat.completions.create, {**body, "stream_options": {"include_usage": True}}
        async for chunk in await (
            self._written("/chat/completions", body, self._stream) if written else create(**body)
        ):
            if chunk.choices and (text := chunk.choices[0].delta.content):
                yield text


BARE: dict[str, Callable[[str], Bare]] = {"anthropic": BareAnthropic, "openai": BareOpenAI}
assert BARE.keys() == MODELS.keys() == SERVERS.keys()

_FILLING = "This message is about as long as others are, so that the window is filled by as many of them as usual."


# -- the report ------------------------------------------------------------------------------------------------


def _as_result(started: Started) -> Result:
    note = f"{started.ours / started.bare:.1f} times a bare start" if started.bare else ""
    return Result("", started.what, started.ours, started.bare, bar=started.bar, note=note)


def _say(what: str) -> None:
    print(f"  {what} …", file=sys.stderr, flush=True)


def _report(results: list[Result], options: argparse.Namespace) -> None:
    if options.json:
        print(json.dumps([{**result._asdict(), "missed": result.missed} for result in results], indent=2))
        return
    print("| engine | what | Everthread | bare | added | bar | |")
    print("| --- | --- | ---: | ---: | ---: | ---: | --- |")
    for r in results:
        ours, bare = (_figure(figure, r.unit) for figure in (r.ours, r.bare))
        added = f"{r.added:+.2f} ms" if r.added is not None else ""
        bar = f"≤ {r.bar:,g} {r.unit}" if r.bar is not None else ""
        print(f"| {r.engine} | {r.what} | {ours} | {bare} | {added} | {bar}{' **missed**' * r.missed} | {r.note} |")
    bars = [r for r in results if r.bar is not None]
    print(f"\n{sum(r.missed for r in bars)} of {len(bars)} bars missed.")


def _figure(figure: float | None, unit: str) -> str:
    if figure is None:
        return ""
    return f"{figure:,.0f} {unit}" if figure >= 1000 else f"{figure:,.2f} {unit}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="everthread bench agent", description=__doc__)
    parser.add_argument("--engine", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--parts", choices=PARTS, nargs="+", default=list(PARTS), help="what is measured")
    parser.add_argument("--messages", type=int, default=100_000, help="of the longest conversation")
    parser.add_argument("--turns", type=int, default=30, help="of each measurement; deltas are taken from a sixth")
    parser.add_argument("--starts", type=int, default=15, help="of each kind of process")
    parser.add_argument("--listeners", type=int, default=200, help="the most that listen at once")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each reply that is listened to")
    blocks = "blocks of appends while some listen, and as many while nobody does"
    parser.add_argument("--blocks", type=int, default=listeners.BLOCKS, help=blocks)
    parser.add_argument("--folder", help="where the database goes for the time being: the disk that is measured")
    parser.add_argument("--json", action="store_true", help="write JSON for programs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
