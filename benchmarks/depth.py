"""A line that was rewound again and again against a straight one of the same length, for `everthread bench window`.

Each rewind goes back one turn and says another, so after a thousand of them the line has a thousand pieces more. Where
a rewind leaves its marker the straight line has a command, so that both have the same length. Both go on while they
are measured, the one straight on, the other with a rewind at every turn.
"""

from __future__ import annotations

import statistics
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

from benchmarks.peering import timed
from everthread import Everthread, Talk, assistant, user
from everthread.core.events import Command, Event

MODEL = "anthropic:claude-sonnet-4-6"
BASE = 500  # turns before the first rewind
TURNS, PAGE = 10, 50
BLOCKS, CALLS = 40, 5
COLD = 5
BAR = 1.5

QUERY = "What about the lantern in turn 77?"

Add = Callable[..., None]


def said(number: int) -> list[Event]:
    asked = f"Turn {number}: what about the lantern that we hung over door {number % 97}, and how long will it last?"
    return [
        user(asked),
        assistant(f"As of turn {number} it hangs well; the oil of week {number % 53} is enough for it."),
    ]


class Depths:
    """The same measurements at several depths."""

    def __init__(self, et: Everthread, address: str, budget: int, add: Add, say: Callable[[str], None]) -> None:
        self.et, self.address, self.budget, self.add, self.say = et, address, budget, add, say

    async def run(self, depths: list[int]) -> None:
        for depth in depths:
            self.say(f"{depth:,} rewinds")
            straight, deep = await self._straight(depth), await self._deep(depth)
            for what, make in self._works().items():
                ours, other = await self._in_turns(straight, deep, make)
                self.add(f"{what} after {depth:,} rewinds, against a straight line", ours, other, bar=BAR)
            await self._cold(straight, deep, depth)

    async def _straight(self, depth: int) -> Line:
        line = Line(await self.et.begin(user="straight", agent="bench"))
        await line.begin(BASE)
        await line.say(depth)
        return line

    async def _deep(self, depth: int) -> Line:
        line = Line(await self.et.begin(user="deep", agent="bench"), rewinds=True)
        await line.begin(BASE)
        await line.say(depth)
        return line

    def _works(self) -> dict[str, Callable[[Line], Callable[[], Awaitable[Any]]]]:
        return {
            f"context, budget {self.budget:,},": lambda line: (
                lambda: line.talk.context(lookups=True, model=MODEL, budget=self.budget)
            ),
            "append": lambda line: lambda: line.talk.append(user("And then?")),
            f"tail of {TURNS} turns": lambda line: lambda: line.talk.tail(turns=TURNS),
            f"the newest {PAGE} events": lambda line: lambda: line.talk.after(line.newest - PAGE),
            "recall": lambda line: lambda: line.talk.recall(QUERY),
        }

    async def _in_turns(
        self, straight: Line, deep: Line, make: Callable[[Line], Callable[[], Awaitable[Any]]]
    ) -> tuple[float, float]:
        """Of all blocks' medians the mean of the middle half, in microseconds: of the deep line and of the other."""
        medians: dict[Line, list[float]] = {straight: [], deep: []}
        for block in range(BLOCKS):
            for line in (straight, deep) if block % 2 else (deep, straight):
                await make(line)()  # what was said since is indexed, or remembered
                medians[line].append(statistics.median(await timed(make(line), CALLS)))
            for line in (straight, deep):
                await line.say(1)
        middle = {line: sorted(found)[BLOCKS // 4 : -BLOCKS // 4] for line, found in medians.items()}
        return statistics.fmean(middle[deep]) * 1e6, statistics.fmean(middle[straight]) * 1e6

    async def _cold(self, straight: Line, deep: Line, depth: int) -> None:
        """The first context of a store that was just opened, for information."""
        first = {line: [await self._first(line) for _ in range(COLD)] for line in (deep, straight)}
        spent = [statistics.median(times) * 1e6 for times in first.values()]
        self.add(f"the first context of a process after {depth:,} rewinds, against a straight line", *spent, bar=None)

    async def _first(self, line: Line) -> float:
        async with _opened(self.address) as et:
            other = await et.begin(user="other", agent="bench")
            await other.append(*said(0))
            await other.context(lookups=True, model=MODEL, budget=self.budget)  # models and templates are loaded
            talk = await et.conversation(user=line.talk.conversation.user, id=line.talk.id)
            began = perf_counter()
            await talk.context(lookups=True, model=MODEL, budget=self.budget)
            return perf_counter() - began


@asynccontextmanager
async def _opened(address: str) -> AsyncIterator[Everthread]:
    async with Everthread.open(address, settings={"memory": False}) as et:
        yield et


class Line:
    """A conversation that goes on, straight or with a rewind at every turn."""

    def __init__(self, talk: Talk, *, rewinds: bool = False) -> None:
        self.talk, self.newest = talk, 0
        self._rewinds, self._number = rewinds, 0

    async def begin(self, turns: int) -> None:
        for number in range(turns):
            await self.talk.append(*said(number))

    async def say(self, turns: int) -> None:
        for _ in range(turns):
            self._number += 1
            if self._rewinds:
                written = await self.talk.append(*said(self._number))
                self.talk = await self.talk.rewind(to=written[0].seq - 1)
            else:
                await self.talk.append(Command(name="/again"))
            self.newest = (await self.talk.append(*said(self._number)))[-1].seq
