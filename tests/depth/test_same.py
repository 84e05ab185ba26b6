"""Whatever was forked, rewound and edited: a line reads as a straight conversation that holds the same events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everthread import Everthread, Talk, assistant, system, user
from everthread.core.branches import ENDLESS, Target
from everthread.core.events import BriefUpdated, Clear, Event, Mark, Pin, SessionEnded, SettingsChanged, Summary
from everthread.store.open import open_log
from everthread.store.scripts.append import Draft
from tests.contract.support import MINUTE, Clock
from tests.contract.windows import plan_of
from tests.depth.rewound import MODEL, STRATEGIES, turn

_numbers = count(1)

appends = st.sampled_from(
    ["turn", "turn", "turn", "answer", "system", "clear", "pin", "settings", "brief", "recap", "pause"]
)
steps = st.one_of(
    st.tuples(appends, st.integers(0, 10**6)),
    st.tuples(st.sampled_from(["rewind", "rewind", "rewind to the end", "fork", "edit"]), st.integers(0, 10**6)),
)
walks = st.lists(steps, min_size=4, max_size=40)


class Walk:
    """A conversation on its way, by the steps that were drawn."""

    def __init__(self, talk: Talk, clock: Clock) -> None:
        self.talk, self.clock = talk, clock

    async def go(self, steps: list[tuple[str, int]]) -> Talk:
        for number, (step, pick) in enumerate(steps):
            newest = (await self.talk._runtime.log.head(await self.talk.line())).seq
            match step:
                case "rewind":
                    self.talk = await self.talk.rewind(to=pick % (newest + 1))
                case "rewind to the end":
                    self.talk = await self.talk.rewind(to=newest)
                case "fork":
                    self.talk = await self.talk.fork(at=newest - pick % (min(newest, 4) + 1))
                case "edit":
                    written = await self.talk.append(*turn(number))
                    self.talk = await self.talk.rewind(to=written[0].seq - 1)
                    await self.talk.append(*turn(number))
                case "pause":
                    self.clock.now += 45 * MINUTE
                case _:
                    await self.talk.append(*said(step, number, pick, newest))
        await self.talk.append(user("And now?"))
        return self.talk


def said(step: str, number: int, pick: int, newest: int) -> list[Event]:
    seq = pick % max(1, newest) + 1
    steps: dict[str, list[Event]] = {
        "turn": turn(number),
        "answer": [assistant(f"one more word on {number}")],
        "system": [system(f"instruction {number}")],
        "clear": [Clear()],
        "pin": [Pin(turn=seq)],
        "settings": [SettingsChanged(values={"temperature": (pick % 10) / 10}), Mark(name=f"m{pick % 3}")],
        "brief": [
            BriefUpdated(text=f"Brief {number}.", covers=seq, extractive=pick % 2 == 0),
            Summary(text=f"Summary {number}.", covers=seq),
        ],
        "recap": [SessionEnded(session=pick % 3 + 1, recap=f"Recap {number}.")],
    }
    return steps[step]


async def straightened(talk: Talk, et: Everthread, name: str) -> Talk:
    """Another conversation with the same events, ids and times, all on one branch."""
    events = await talk.range(1, ENDLESS)
    other = await et.begin(user=name, agent="helper")
    drafts = [
        Draft(event=one.event, id=one.id, time=one.micros, sizes=(one.tokens, one.settled), session=one.session)
        for one in events
    ]
    target = Target(other.conversation.tenant, other.id)
    await et.log.append(target, drafts)
    return other


async def everything_read(talk: Talk, newest: int, pick: int) -> dict[str, Any]:
    """What all reading verbs say, without the branch that an event is on."""
    log, line = talk._runtime.log, await talk.line()
    at = pick % newest + 1

    def plain(events: list[Any]) -> list[Any]:
        return [msgspec.structs.astuple(event)[1:] for event in events]

    found: dict[str, Any] = {
        f"{strategy} {budget} {before}": (await context(talk, strategy, budget, before))
        for strategy in STRATEGIES
        for budget in (400, 2_000)
        for before in (None, at)
    }
    for turns in (1, 2, 5, 100):
        found[f"tail {turns}"] = plain(await log.tail(line, turns=turns))
        found[f"turns {turns}"] = await log.turns(line, limit=turns, last=at if turns == 2 else ENDLESS)
        found[f"sessions {turns}"] = await log.sessions(line, limit=turns)
    for limit in (1, 7, 30):
        for messages in (False, True):
            found[f"after {limit} {messages}"] = plain(await log.after(line, at - 1, limit=limit, messages=messages))
            found[f"before {limit} {messages}"] = plain(await log.before(line, at, limit=limit, messages=messages))
            found[f"newest {limit} {messages}"] = plain(await log.before(line, limit=limit, messages=messages))
        for kind in ("settings", "mark", "pin", "rewind", "clear"):
            found[f"{kind} {limit}"] = plain(
                await log.markers(line, kind, limit=limit, last=at if limit == 7 else ENDLESS)
            )
    found["range"] = plain(await log.range(line, at, at + 20))
    found["heads"] = [await log.head(line), await log.head(line, at=at)]
    return found


async def context(talk: Talk, strategy: Any, budget: int, at: int | None) -> Any:
    made = await talk.context(model=MODEL, budget=budget, at=at, settings={"strategy": strategy})
    # Each conversation has a fence of its own, which takes as many tokens.
    request = json.dumps(made.request).replace(plan_of(made).fence.number, "N")
    return request, made.cutoff, made.sent, made.degraded


@asynccontextmanager
async def opened(address: str, clock: Clock) -> AsyncIterator[Everthread]:
    et = Everthread(await open_log(address, clock=clock))
    try:
        yield et
    finally:
        await et.close()


async def compare(address: str, steps: list[tuple[str, int]], pick: int) -> None:
    clock, name = Clock(), f"walker-{next(_numbers)}"
    async with opened(address, clock) as et:
        deep = await Walk(await et.begin(user=name, agent="helper"), clock).go(steps)
        straight = await straightened(deep, et, f"{name}-straight")
        newest = len(await deep.range(1, ENDLESS))
        expected = await everything_read(straight, newest, pick)
        assert await everything_read(deep, newest, pick) == expected
        number = (await deep.line()).branch.number
    async with opened(address, clock) as again:  # a process that has seen nothing yet
        cold = await (await again.conversation(user=name, id=deep.id)).on(number)
        assert await everything_read(cold, newest, pick) == expected


@pytest.fixture
def walked(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if engine == "sqlite":
        return f"sqlite:///{tmp_path}/walks.db"
    return str(request.getfixturevalue("_shared_database"))


def test_a_line_of_many_pieces_reads_as_a_straight_one(walked: str) -> None:
    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(walks, st.integers(0, 10**6))
    def check(steps: list[tuple[str, int]], pick: int) -> None:
        asyncio.run(compare(walked, steps, pick))

    check()
