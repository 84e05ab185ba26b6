"""What listeners cost, and how soon they hear: the part of `everthread bench agent` that is about `talk.listen`.

A model tells the time, a delta every 30 ms: each is the moment at which the turn has it, so whoever hears it knows how
long it was on its way. Listeners are in the runner's own process, or all of them in another one, which is this file
run as a program. On a SQLite file deltas reach other processes once a second, so there they are not timed.

Then 64 writers append, each to a conversation of its own, with and without listeners to all of them. Both take turns in
short blocks, because the disk's speed drifts by the minute. A block is over when every listener has heard every event.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from benchmarks.clocked import moment, now
from everthread import Everthread, GivenSettings, Talk, user
from everthread.core.deltas import Done, TextDelta, Usage
from everthread.core.events import Assistant
from everthread.core.logged import Logged
from everthread.core.parts import Text
from everthread.providers.client import Access, Replied, StreamPiece
from everthread.providers.scripted import client as scripted_client

APART = 0.03  # seconds between two deltas of a stream
WRITERS = 64
EACH = 50  # events that a writer appends in a block: long enough that the end of a block does not weigh
BLOCKS = 16  # with listeners, and as many without, unless it is told otherwise
MOST = 1.2  # times as long may appends take while somebody listens
PATIENCE = 120.0  # seconds, only so that what is broken fails instead of hanging
ANA = "ana"
TIME = "clock"
_STAMP = len(f"{0:012x} ")
_TEXT = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all. " * 3


Late = Callable[[], Awaitable[list[int]]]  # microseconds


class Measured(NamedTuple):
    what: str
    ours: float
    unit: str = "ms"
    bar: float | None = None
    note: str = ""


class Measuring:
    """`most`: how many listen at most; `seconds`: of each reply; `blocks`: of appends, with listeners and without."""

    def __init__(self, address: str, *, most: int, seconds: float, blocks: int, say: Callable[[str], None]) -> None:
        self._address, self._most, self._blocks, self._say = address, most, blocks, say
        self._deltas = max(2, round(seconds / APART))
        self._results: list[Measured] = []

    async def run(self) -> list[Measured]:
        def connect(_access: Access) -> Clock:
            return Clock(self._deltas)

        settings: GivenSettings = {"model": f"scripted:{TIME}", "memory": False}
        with patch.object(scripted_client, "connect", connect):
            async with Everthread.open(self._address, settings=settings, keys={}) as et:
                self._et = et
                await self._deltas_on_their_way()
                await self._appends()
        return self._results

    # -- deltas ------------------------------------------------------------------------------------------------

    async def _deltas_on_their_way(self) -> None:
        for listeners in sorted({1, max(1, self._most // 4), self._most}):
            await self._late(f"delta to {listeners} listeners of one reply, in its process", 1, listeners)
        if self._address.startswith("sqlite"):
            return
        for listeners in sorted({1, max(1, self._most // 4), self._most}):
            await self._late(f"delta to {listeners} listeners of one reply, in another", 1, listeners, apart=True)
        await self._late(f"delta to one listener each of {self._most} replies, in another", self._most, 1, apart=True)

    async def _late(self, what: str, replies: int, listeners: int, *, apart: bool = False) -> None:
        self._say(what)
        talks = [await self._begun() for _ in range(replies)]
        async with asyncio.timeout(PATIENCE), (self._elsewhere if apart else _here)(talks, listeners) as heard:
            await asyncio.gather(*(talk.say("What time is it?") for talk in talks))
            late = await heard()
        told = replies * listeners * self._deltas
        half, most = statistics.median(late) / 1000, statistics.quantiles(late, n=100)[98] / 1000
        note = f"p99 {most:.2f} ms; {len(late):,} of {told:,} heard before their reply was in the log"
        self._results.append(Measured(what, half, note=note))

    @asynccontextmanager
    async def _elsewhere(self, talks: Sequence[Talk], each: int) -> AsyncIterator[Late]:
        """The same as `_here`, in a process of its own."""
        ids = [talk.id for talk in talks]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.listeners", self._address, str(each), *ids),
            cwd=Path(__file__).parents[1],
            stdout=asyncio.subprocess.PIPE,
            limit=2**30,
        )
        told = process.stdout
        assert told

        async def late() -> list[int]:
            found: list[int] = json.loads(await told.readline())
            return found

        try:
            await told.readline()  # all have joined
            yield late
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    # -- appends -----------------------------------------------------------------------------------------------

    async def _appends(self) -> None:
        what = f"an append, {WRITERS} writers, with {self._most} listeners against none"
        self._say(what)
        talks = [await self._begun() for _ in range(WRITERS)]
        await self._block(talks, 0)  # opens connections
        spent: dict[int, list[float]] = {self._most: [], 0: []}
        for block in range(self._blocks):
            for listeners, times in list(spent.items())[:: 1 if block % 2 else -1]:
                times.append(await self._block(talks, listeners))
        ratio = statistics.median(one / other for one, other in zip(*spent.values(), strict=True))
        listened, alone = (statistics.median(times) * 1000 for times in spent.values())
        note = f"{listened:.3f} ms and {alone:.3f} ms; medians of {self._blocks} blocks"
        self._results.append(Measured(what, ratio, unit="×", bar=MOST, note=note))

    async def _block(self, talks: list[Talk], listeners: int) -> float:
        """Seconds for each append, until all is written and every listener has heard all of it."""
        first = (await self._et.log.head(await talks[0].line())).seq
        ears = [Ear(talk, first=first, last=first + EACH) for talk in islice(cycle(talks), listeners)]
        async with asyncio.timeout(PATIENCE), _listening(ears):
            began = time.perf_counter()
            await asyncio.gather(*map(_append, talks))
            for ear in ears:
                await ear.heard.wait()
            spent = time.perf_counter() - began
        assert all(ear.seqs == list(range(first, first + EACH + 1)) for ear in ears)
        return spent / (EACH * len(talks))

    async def _begun(self) -> Talk:
        """A conversation with one event in it: who has heard that one listens."""
        talk = await self._et.begin(user=ANA, agent="listeners")
        await talk.append(user(_TEXT))
        return talk


async def _append(talk: Talk) -> None:
    for _ in range(EACH):
        await talk.append(user(_TEXT))


class Ear:
    """Somebody who listens. `joined`: event `first` was heard; `heard`: event `last`, or the end of a turn; `late`: for
    how many microseconds each delta was on its way."""

    def __init__(self, talk: Talk, *, first: int = 1, last: int = 0) -> None:
        self._talk, self._first, self._last = talk, first, last
        self.joined, self.heard = asyncio.Event(), asyncio.Event()
        self.seqs: list[int] = []
        self.late: list[int] = []
        self._rest = ""

    async def listen(self) -> None:
        async with aclosing(self._talk.listen(after=self._first - 1)) as heard:  # type: ignore[type-var]
            async for item in heard:
                if isinstance(item, Logged):
                    self.seqs.append(item.seq)
                    if item.seq == self._first:
                        self.joined.set()
                    elif item.seq == self._last:
                        self.heard.set()
                elif isinstance(item, TextDelta):
                    self._note(item.text)
                elif isinstance(item, Done):
                    self.heard.set()

    def _note(self, text: str) -> None:
        """On their way deltas are joined, and may be cut anywhere."""
        came, text = now(), self._rest + text
        whole = len(text) - len(text) % _STAMP
        self.late += [came - moment(text[start : start + _STAMP]) for start in range(0, whole, _STAMP)]
        self._rest = text[whole:]


@asynccontextmanager
async def _listening(ears: Sequence[Ear]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(ear.listen()) for ear in ears]
    try:
        for ear in ears:
            await ear.joined.wait()
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def _here(talks: Sequence[Talk], each: int) -> AsyncIterator[Late]:
    """So many listeners to each conversation: how late they have heard its reply, once it is over."""
    ears = [Ear(talk) for talk in talks for _ in range(each)]

    async def late() -> list[int]:
        for ear in ears:
            await ear.heard.wait()
        return [late for ear in ears for late in ear.late]

    async with _listening(ears):
        yield late


class Clock:
    """A model whose replies are moments, one every APART seconds."""

    def __init__(self, deltas: int) -> None:
        self._deltas = deltas

    @asynccontextmanager
    async def reply(self, _body: dict[str, Any]) -> AsyncIterator[AsyncIterator[StreamPiece]]:
        yield self._told()

    async def _told(self) -> AsyncIterator[StreamPiece]:
        said = ""
        for _ in range(self._deltas):
            await asyncio.sleep(APART)
            text = f"{now():012x} "
            said += text
            yield TextDelta(text=text)
        whole = Assistant(parts=(Text(text=said),), model=f"scripted:{TIME}")
        yield Replied(events=(whole,), usage=Usage(), finish="stop", model=TIME)

    async def count(self, _body: dict[str, Any]) -> None:
        return None

    async def close(self) -> None:
        pass


async def _listen(address: str, each: str, *ids: str) -> None:
    async with Everthread.open(address, keys={}) as et:
        talks = [await et.conversation(user=ANA, id=id) for id in ids]
        async with _here(talks, int(each)) as heard:
            print(flush=True)
            print(json.dumps(await heard()), flush=True)


if __name__ == "__main__":
    asyncio.run(_listen(*sys.argv[1:]))
