"""`everthread bench memory`: what is still known when a conversation has gone on, and what remembering it costs.

Facts: 200 exact ones are planted in long conversations (see `benchmarks.facts`); 10, 50 and 200 turns later it is
counted which share of them is there to the letter in brief and facts, and which share is among the first ten hits of
recall for a question that shares a word with the fact. Of preferences, as many are planted as the room for the facts
takes, in many wordings; all of them must be in the request. The brief is the extractive one, which needs no model.

Turns: the same turns with memory on and off, one after the other, as the caller sees them: until the first delta and
until the reply is complete. The first turn of a burst comes after a pause, when memory has nothing left to do; the
others follow at once, while memory works on the turn before. What is told is the difference of the medians, and by how
much those of even and odd rounds differ with memory off: what is less than that says nothing. Beside it, the longest
time for which the event loop was held up while memory worked.

Summaries: how long an extractive summary takes, the folding of facts, and all that memory has to do for a conversation
that it has not seen before, by the number of messages.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import chain, count, islice
from typing import Any, NamedTuple

from benchmarks.bars import Result, report, say, store
from benchmarks.facts import AFTER, Planted, conversation, numbered, preferences
from everthread import Everthread, Talk
from everthread.config import Settings
from everthread.core import tokens
from everthread.core.deltas import TextDelta
from everthread.core.events import Event
from everthread.language.extract import summary
from everthread.language.facts import NOTHING, Fact, fold, rendered

PARTS = ("facts", "turns", "summaries")
MODEL, BUDGET = "anthropic:claude-sonnet-4-6", 8_000  # of the requests
SPEAKER = "scripted:bench"  # repeats what it is told
FOUND, HITS = 0.95, 10
WAIT = 1.0  # milliseconds that a turn may wait for memory
BURST = 4  # turns one after the other, the first of them after a pause
PATIENCE = 60.0  # seconds for what memory has left to do
ALL, EVEN, ODD = slice(None), slice(0, None, 2), slice(1, None, 2)
TICK = 0.001  # seconds between two looks at the event loop


def main() -> None:
    options = _options()
    results: list[Result] = []
    for engine in ("sqlite", "postgres") if options.engine == "both" else (options.engine,):
        with (
            tempfile.TemporaryDirectory(dir=options.folder) as folder,
            store(engine, folder, private=bool(options.folder)) as address,
        ):
            results += asyncio.run(_measured(engine, address, options))
    report(results, other="memory off", as_json=options.json)


async def _measured(engine: str, address: str, options: argparse.Namespace) -> list[Result]:
    results: list[Result] = []
    async with Everthread.open(address, settings={"memory": True, "model": SPEAKER}) as et:
        if "facts" in options.parts:
            results += await Facts(engine, et, options.seeds, options.after).run()
        if "turns" in options.parts:
            for length in options.lengths:
                results += await Turns(engine, et, length, options.rounds).run()
        if "summaries" in options.parts:
            results += [one for size in options.sizes for one in await _summarised(engine, et, size)]
    return results


# -- which facts are left --------------------------------------------------------------------------------------


class Facts:
    def __init__(self, engine: str, et: Everthread, seeds: int, after: Sequence[int]) -> None:
        self._engine, self._et, self._seeds, self._after = engine, et, seeds, sorted(after)

    async def run(self) -> list[Result]:
        known: dict[int, list[tuple[str, bool]]] = {after: [] for after in self._after}
        found: dict[int, list[bool]] = {after: [] for after in self._after}
        sent: dict[int, list[tuple[bool, bool]]] = {after: [] for after in self._after}
        for seed in range(self._seeds):
            say(self._engine, f"facts, conversation {seed + 1} of {self._seeds}")
            async for talk, after, planted in self._going_on(seed):
                text = await _remembered(talk)
                known[after] += [(fact.kind, fact.exact in text) for fact in planted]
                found[after] += [await _recalled(talk, fact) for fact in planted]
            async for talk, after, planted in self._going_on(seed, fitting(seed)):
                sent[after] += await _sent(talk, [fact for fact in planted if fact.kind == "preference"])
        return [one for after in self._after for one in self._figures(after, known[after], found[after], sent[after])]

    async def _going_on(
        self, seed: int, wishes: Sequence[Planted] = ()
    ) -> AsyncIterator[tuple[Talk, int, list[Planted]]]:
        """A conversation at each of the moments at which it is looked at."""
        talk = await self._et.begin(user="ana", agent="bench")
        there = 0
        for after in self._after:
            events, planted = conversation(seed, after, wishes)
            await talk.append(*events[there:])
            there = len(events)
            await talk.remember()
            yield talk, after, planted

    def _figures(
        self, after: int, known: list[tuple[str, bool]], found: list[bool], sent: list[tuple[bool, bool]]
    ) -> Iterator[Result]:
        later = f"{after} turns later"
        for kind in dict.fromkeys(kind for kind, _ in sorted(known)):
            share = statistics.fmean(there for name, there in known if name == kind)
            yield Result(self._engine, f"in brief and facts, {later}: {kind}", share)
        whole = statistics.fmean(there for _, there in known)
        yield Result(self._engine, f"in brief and facts, {later}: all", whole, note=f"{len(known)} facts")
        share = statistics.fmean(found)
        yield Result(self._engine, f"found by recall, {later}", share, bar=FOUND, least=True, note=f"of {HITS} hits")
        share, past = (statistics.fmean(column) for column in zip(*sent, strict=True))
        note = f"{len(sent) / self._seeds:.0f} fit into {Settings().facts_tokens} tokens; {past:.0%} are in the past"
        yield Result(self._engine, f"preferences in the request, {later}", share, bar=1.0, least=True, note=note)


def fitting(seed: int) -> list[Planted]:
    """As many preferences as the room for the facts takes, if each of them is told at its longest."""
    wishes = preferences(seed)
    last = len(conversation(seed, 0, wishes)[0])
    facts = [Fact(kind="preference", text=f"… {wish.said}", seq=last, weight=0, key="") for wish in wishes]
    most = Settings().facts_tokens
    return wishes[: next(n for n in range(len(facts), 0, -1) if tokens.count(rendered(facts[:n])) <= most)]


async def _remembered(talk: Talk) -> str:
    brief = await talk.brief()
    return f"{brief.text}\n{brief.facts}" if brief else ""


async def _recalled(talk: Talk, fact: Planted) -> bool:
    return any(fact.exact in hit.text for hit in await talk.recall(fact.question, limit=HITS, neighbours=0))


async def _sent(talk: Talk, wishes: list[Planted]) -> list[tuple[bool, bool]]:
    """Of each preference: whether it is in the request, and whether the message that states it is not."""
    context = await talk.context(lookups=True, model=MODEL, budget=BUDGET)
    request = "\n".join(_texts(context.request))
    window = "\n".join(event.text for event in await talk.after(context.cutoff - 1, limit=1_000, messages=True))
    return [(wish.exact in request, wish.exact not in window) for wish in wishes]


def _texts(value: Any) -> Iterator[str]:
    """All that a request says, wherever it stands."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


# -- what a turn waits -----------------------------------------------------------------------------------------


class Heard(NamedTuple):
    """Milliseconds of a turn, as the caller sees it."""

    first: float
    complete: float


class Turns:
    """Bursts of turns with memory on and off, on branches of their own, so that the conversation keeps its length."""

    def __init__(self, engine: str, et: Everthread, length: int, rounds: int) -> None:
        self._engine, self._et, self._length, self._rounds = engine, et, length, rounds
        self._bursts: dict[bool, list[list[Heard]]] = {True: [], False: []}
        self._held: dict[bool, list[float]] = {True: [], False: []}

    async def run(self) -> list[Result]:
        say(self._engine, f"turns at {self._length:,} messages")
        talks = {memory: await self._filled(memory) for memory in (True, False)}
        for number in range(-1, self._rounds):  # the first is not counted
            for memory in (True, False) if number % 2 else (False, True):
                burst, held = await self._burst(await talks[memory].fork())
                if number >= 0:
                    self._bursts[memory].append(burst)
                    self._held[memory].append(held)
        return list(self._figures())

    async def _filled(self, memory: bool) -> Talk:
        talk = await self._et.begin(user="ana", agent="bench", settings={"memory": memory, "budget": BUDGET})
        await talk.append(*endless(self._length))
        await talk.remember()
        return talk

    async def _burst(self, talk: Talk) -> tuple[list[Heard], float]:
        """Turns one after the other, and the longest time for which the event loop was held up meanwhile."""
        await _heard(talk)  # on a new branch nothing is at hand yet
        await self._et.memory.drain(PATIENCE)
        async with _watched() as held:
            burst = [await _heard(talk) for _ in range(BURST)]
            await self._et.memory.drain(PATIENCE)
        return burst, max(held)

    def _figures(self) -> Iterator[Result]:
        moments = {"after a pause": slice(0, 1), "at once": slice(1, None)}  # of a burst
        for moment, which in moments.items():
            for until in Heard._fields:
                on, off = (self._median(memory, which, until) for memory in (True, False))
                reply = "the first delta" if until == "first" else "the whole reply"
                what = f"memory adds until {reply}, said {moment}, {self._length:,} messages"
                even, odd = (self._median(False, which, until, half) for half in (EVEN, ODD))
                note = f"{on:.2f} ms with it; without it, ± {abs(even - odd):.2f} ms"
                yield Result(self._engine, what, on - off, "ms", WAIT, other=off, note=note)
        on, off = (statistics.median(self._held[memory]) for memory in (True, False))
        yield Result(self._engine, f"the event loop is held up, {self._length:,} messages", on, "ms", other=off)

    def _median(self, memory: bool, which: slice, until: str, rounds: slice = ALL) -> float:
        turns = [heard for burst in self._bursts[memory][rounds] for heard in burst[which]]
        return statistics.median(float(getattr(heard, until)) for heard in turns)


async def _heard(talk: Talk) -> Heard:
    began, first = time.perf_counter(), 0.0
    async for delta in talk.say("Is the ticket for the harbour still LUG-48149, and does it cost 2,417.50 EUR?"):
        if isinstance(delta, TextDelta):
            first = first or time.perf_counter()
    return Heard((first - began) * 1000, (time.perf_counter() - began) * 1000)


@asynccontextmanager
async def _watched() -> AsyncIterator[list[float]]:
    """How late the event loop was, in milliseconds, each time that it was looked at."""
    late = [0.0]

    async def look() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(TICK)
            late.append((time.perf_counter() - began - TICK) * 1000)

    looking = asyncio.create_task(look())
    try:
        yield late
    finally:
        looking.cancel()


# -- how long a summary takes ----------------------------------------------------------------------------------


async def _summarised(engine: str, et: Everthread, size: int) -> list[Result]:
    say(engine, f"summaries of {size:,} messages")
    events = endless(size)
    logged = numbered(events)
    assert [one.event for one in logged] == events  # and decoded before anything is timed
    talk = await et.begin(user="ana", agent="bench")
    await talk.append(*events)
    began = time.perf_counter()
    await talk.remember()
    whole = (time.perf_counter() - began) * 1000
    parts: dict[str, Callable[[], object]] = {
        "extract.summary": lambda: summary(logged, Settings().summary_tokens),
        "facts.fold": lambda: fold(NOTHING, logged),
    }
    found = [Result(engine, f"{name}, {size:,} messages", _timed(work), "ms") for name, work in parts.items()]
    return [*found, Result(engine, f"talk.remember(), {size:,} messages", whole, "ms")]


def _timed(work: Callable[[], object]) -> float:
    """Milliseconds, the median of three times."""
    spent = []
    for _ in range(3):
        began = time.perf_counter()
        work()
        spent.append((time.perf_counter() - began) * 1000)
    return statistics.median(spent)


def endless(messages: int) -> list[Event]:
    """So many messages of made-up conversations, one after the other."""
    return list(islice(chain.from_iterable(conversation(seed, 50)[0] for seed in count()), messages))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="everthread bench memory", description=__doc__)
    parser.add_argument("--engine", choices=["sqlite", "postgres", "both"], default="sqlite")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure; all by default")
    parser.add_argument("--seeds", type=int, default=5, help="how many conversations with facts")
    parser.add_argument("--after", type=int, nargs="+", default=AFTER, help="turns after which they are looked for")
    parser.add_argument("--lengths", type=int, nargs="+", default=(50, 5_000), help="messages before the turns")
    parser.add_argument("--rounds", type=int, default=20, help=f"bursts of {BURST} turns of each length")
    parser.add_argument("--sizes", type=int, nargs="+", default=(10, 100, 1_000, 10_000), help="messages to summarise")
    parser.add_argument("--folder", help="where the databases go for the time being")
    parser.add_argument("--json", action="store_true", help="write JSON for programs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
