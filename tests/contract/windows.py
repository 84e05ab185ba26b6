"""For tests of windows: a branch as plain lists that answer every look-up, and conversations that wander.

`Known` walks its lists from end to end for each question, so what it answers needs no index to be right.
`Wanderer` lives through a conversation with everything that can befall one, an event at a time.
"""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from msgspec.structs import replace

from everthread import Talk, assistant, system, tool_call, tool_result, user
from everthread.context.build import Context
from everthread.context.pack import Packing
from everthread.context.plan import Plan
from everthread.context.turn_cache import TurnCache
from everthread.core.branches import ENDLESS
from everthread.core.events import MESSAGES, AgentKilled, Command, Event, Other, Pin, ToolCall
from everthread.core.importance import worth
from everthread.core.logged import Logged
from everthread.core.parts import Reasoning, Text
from everthread.core.strategies import At, Back, Choice, Level, Older, Question, Ranked, Strategy, View, choose
from everthread.core.turns import Turn
from everthread.core.window import From, Lookups, Start, Upto
from everthread.store.scripts.window import WindowRead
from tests.contract.support import MINUTE, Clock, everything

T = TypeVar("T")

STRATEGY_NAMES = ("budget", "messages", "session", "importance")


class Known:
    """A branch as of its newest event: its turns since the last clear, oldest first, and all its events."""

    def __init__(self, turns: list[Turn], events: list[Logged]) -> None:
        self.cleared = max((event.seq for event in events if event.kind == "clear"), default=0)
        self.events = events
        self.messages = [event for event in events if event.kind in MESSAGES]
        self.turns = [turn for turn in turns if turn.first > self.cleared]
        self.starts = [Start(turn.first, turn.before, turn.number, self._said_before(turn)) for turn in self.turns]

    def _said_before(self, turn: Turn) -> int:
        return sum(event.seq < turn.first for event in self.messages)

    def said_in(self, turn: Turn) -> list[Logged]:
        return [event for event in self.messages if turn.first <= event.seq <= turn.last]

    @property
    def size(self) -> int:
        """The newest turn's, as it is sent now: in full while it runs."""
        turn = self.turns[-1]
        return turn.tokens if turn.state in ("open", "waiting") else turn.settled

    def older(self, first: int = 0) -> list[Older]:
        """All turns but the newest, with how important each is."""
        return [
            Older(start, turn.last, turn.settled, max(worth(event.event) for event in self.said_in(turn)))
            for start, turn in zip(self.starts, self.turns[:-1], strict=False)
            if turn.first >= first
        ]

    def pinned(self) -> list[Older]:
        """The pinned turns but the newest, from the one that was pinned last."""
        said: dict[int, bool] = {}
        for event in reversed(self.events):
            if event.seq > self.cleared and isinstance(event.event, Pin):
                said.setdefault(event.event.turn, event.event.pinned)
        by_first = {turn.start.first: turn for turn in self.older()}
        return [by_first[first] for first, is_pinned in said.items() if is_pinned and first in by_first]

    def view(self, plan: Plan) -> View:
        newest_session = max(event.session for event in self.events)
        return View(
            newest=self.starts[-1],
            size=self.size,
            room=plan.room,
            messages=len(self.messages),
            session_first=next(event.seq for event in self.events if event.session == newest_session),
            last_messages=plan.settings.messages,
            active_messages=plan.settings.active_messages,
        )

    def choice(self, strategy: Strategy, plan: Plan) -> Choice:
        """What a strategy chooses under this plan, before pins."""
        return self.drive(choose(strategy, self.view(plan)))

    def drive(self, asking: Lookups[T]) -> T:
        answer: Any = None
        while True:
            try:
                answer = self.answer(asking.send(answer))
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]

    def answer(self, asked: Any) -> Any:
        match asked:
            case From(before):
                at = next((n for n, start in enumerate(self.starts) if start.before >= before), len(self.starts) - 1)
                return self.starts[at], self.starts[at - 1] if at else None
            case Upto(before):
                return [start for start in self.starts[:-1] if start.before <= before][-1]
            case At(seq):
                return ([start for start in self.starts if start.first <= seq] or self.starts[:1])[-1]
            case Back(count, spoken):
                kinds = ("user", "assistant") if spoken else MESSAGES
                said = [event.seq for event in self.messages if event.kind in kinds and event.seq > self.cleared]
                return self.answer(At((said or [self.starts[-1].first])[-count:][0]))
            case Question(before):
                first = [turn.first for turn in self.turns if self.said_in(turn)[0].kind == "user"]
                asked = [one for one in self.older() if one.start.first < before and one.start.first in first]
                return asked[-1]._replace(importance=0) if asked else None
            case Level(below):
                return max((turn.importance for turn in self.older() if turn.importance < below), default=None)
            case Ranked(importance, before, limit):
                ended = [turn for turn in self.older() if turn.last < before and turn.importance == importance]
                return ended[::-1][:limit]
        raise AssertionError(f"nobody knows how to answer {asked!r}")


async def known(talk: Talk, at: int | None = None) -> Known:
    """A branch as it is, or as it was before event `at`: then its last turn ends there."""
    turns, events = await talk.turns(limit=10_000), await everything(talk)
    if at is not None:
        events = events[: at - 1]
        turns = [replace(turn, last=min(turn.last, at - 1)) for turn in turns if turn.first < at]
    return Known(turns, events)


# -- looking at a context ----------------------------------------------------------------------------------


def plan_of(context: Context) -> Plan:
    return context._packing.plan


def seen_of(context: Context) -> WindowRead:
    return context._packing.seen


def had_to_give_way(context: Context) -> bool:
    """Whether what was chosen turned out too large once it was packed: repairs and notes of time have a size too."""
    return Packing(plan_of(context), seen_of(context), TurnCache()).estimate() > context.budget


def sent_turns(context: Context) -> set[int]:
    """The first seqs of the turns that are sent."""
    return {line.first for line in context.explain().turns if line.sent}


def spelled(context: Context) -> str:
    """The request, byte for byte."""
    return json.dumps(context.request, ensure_ascii=False, sort_keys=False)


# -- conversations -----------------------------------------------------------------------------------------

LARGE = "row 17; " * 1_500
THINKERS = ("claude-opus-4-8", "claude-sonnet-4-6")


class Wanderer:
    """A conversation that anything may befall, by chance. `before` is called before every single event."""

    def __init__(self, talk: Talk, clock: Clock, seed: int) -> None:
        self.talk = talk  # on the current branch, which a rewind moves
        self.clock = clock
        self.chance = random.Random(seed)
        self.sides = [talk]
        self.before: Callable[[Talk], Awaitable[None]] | None = None

    async def live(self, moments: int) -> None:
        """So many things happen: mostly turns."""
        others = [
            self.mark,
            self.pin,
            self.pin,
            self.unpin,
            self.clear,
            self.fork,
            self.fork,
            self.rewind,
            self.elsewhere,
        ]
        for _ in range(moments):
            self.clock.now += self.chance.choice([0, 1, 1, 3, 20, 45, 600]) * MINUTE
            if self.chance.random() < 0.75:
                await self.say(*self.turn())
            else:
                await self.chance.choice(others)()

    async def say(self, *events: Event) -> None:
        for event in events:
            if self.before:
                await self.before(self.talk)
            await self.talk.append(event)

    async def last(self) -> int:
        newest = await self.talk.before(limit=1)
        return newest[0].seq if newest else 0

    # -- turns -------------------------------------------------------------------------------------------

    def turn(self) -> list[Event]:
        """A turn of any kind; some are left in the middle."""
        make = self.chance.choice(
            [self.plain, self.plain, self.tools, self.tools, self.parallel, self.broken, self.late]
        )
        events = make()
        return events[: self.chance.randint(1, len(events))] if self.chance.random() < 0.15 else events

    def words(self) -> str:
        number = self.chance.choice([1, 4, 12, 30, 80, 200])
        return f"{self.chance.randint(0, 10**6)} " + "word " * number

    def plain(self) -> list[Event]:
        return [user(self.words()), assistant(self.words())]

    def tools(self) -> list[Event]:
        events: list[Event] = [user(self.words())]
        for _ in range(self.chance.randint(1, 3)):
            events += [self.thought(), tool_call("look", {"for": "x"}), tool_result(self.result(), name="look")]
        return [*events, assistant(self.words())]

    def thought(self) -> Event:
        block = json.dumps({"type": "thinking", "thinking": "hm", "signature": "s" * 40})
        thinking = Reasoning(text="hm", meta={"anthropic": block})
        return assistant(thinking, Text(text="I look."), model=self.chance.choice(THINKERS))

    def result(self) -> str:
        return LARGE if self.chance.random() < 0.2 else self.words()

    def parallel(self) -> list[Event]:
        calls: list[Event] = [tool_call("look", id=f"c{number}") for number in range(3)]
        results: list[Event] = [tool_result(self.result(), id=f"c{number}", name="look") for number in (2, 0, 1)]
        return [user(self.words()), *calls, *results, assistant(self.words())]

    def broken(self) -> list[Event]:
        ends: list[Event] = [AgentKilled(), assistant("I was say", interrupted=True), assistant(self.words())]
        begins: list[Event] = [system("Be brief.")] if self.chance.random() < 0.5 else []
        return [*begins, user(self.words()), tool_call("look"), self.chance.choice(ends)]

    def late(self) -> list[Event]:
        """An approval is waited for, and the result comes when something else has been said."""
        call = ToolCall(id="call_buy", name="buy", waits_for="approval")
        after: list[Event] = [user(self.words()), assistant(self.words())] if self.chance.random() < 0.7 else []
        return [user(self.words()), call, *after, tool_result(self.result(), name="buy"), assistant(self.words())]

    # -- what else may happen ----------------------------------------------------------------------------

    async def mark(self) -> None:
        markers: list[Event] = [Command(name="/help"), Other(kind="note", data={"a": 1})]
        await self.say(self.chance.choice(markers))

    async def pin(self) -> None:
        if turns := await self.talk.turns(limit=12):
            await self.say(Pin(turn=self.chance.choice(turns).first))

    async def unpin(self) -> None:
        if turns := await self.talk.turns(limit=12):
            await self.say(Pin(turn=self.chance.choice(turns).first, pinned=False))

    async def clear(self) -> None:
        if self.chance.random() < 0.5:
            await self.talk.clear()

    async def fork(self) -> None:
        """Anywhere: often in the middle of a turn, often off a branch that was forked itself."""
        if len(self.sides) < 6:
            self.talk = await self.talk.fork(at=self.chance.randint(max(0, await self.last() - 25), await self.last()))
            self.sides.append(self.talk)

    async def rewind(self) -> None:
        if len(self.sides) < 6:
            back = await self.talk.rewind(to=self.chance.randint(max(0, await self.last() - 15), await self.last()))
            self.talk = await back.on((await back.line()).branch.number)
            self.sides.append(self.talk)

    async def elsewhere(self) -> None:
        self.talk = self.chance.choice(self.sides)


async def seqs(talk: Talk) -> range:
    """Every event's, and the one that comes next."""
    return range(1, len(await talk.range(1, ENDLESS)) + 2)
