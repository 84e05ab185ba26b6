"""For tests of depth: an engine that counts what it is asked, and conversations that were rewound again and again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from everthread import Everthread, Talk, assistant, tool_call, tool_result, user
from everthread.core.branches import Line
from everthread.core.events import BriefUpdated, Event, ModelCall, Pin, SessionEnded, SettingsChanged
from everthread.store.engine import Engine, Outcome, Script
from everthread.store.log import Log
from everthread.store.open import open_log

T = TypeVar("T")

MODEL = "anthropic:claude-sonnet-4-6"
STRATEGIES = ("budget", "messages", "session", "importance")


class Counted:
    """An engine that counts the questions it is asked, and the rows it answers them with."""

    def __init__(self, inner: Engine) -> None:
        self.inner = inner
        self.bells = inner.bells
        self.names: list[str] = []
        self.rows = 0

    @property
    def asked(self) -> int:
        return len(self.names)

    def _counting(self, script: Callable[[], Script[T]]) -> Callable[[], Script[T]]:
        def run() -> Script[T]:
            running = script()
            try:
                ask = next(running)
                while True:
                    rows = yield ask
                    self.names.append(ask.name)
                    self.rows += len(rows)
                    ask = running.send(rows)
            except StopIteration as end:
                result: T = end.value
                return result

        return run

    async def read(self, script: Callable[[], Script[T]], *, large: bool = False) -> T:
        return await self.inner.read(self._counting(script), large=large)

    async def write(self, script: Callable[[], Script[Outcome[T]]], *, about: str, **how: bool) -> T:
        return await self.inner.write(self._counting(script), about=about, **how)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def of(self, work: Awaitable[Any]) -> tuple[int, int]:
        """How many questions something asks, and with how many rows that it does not return they are answered."""
        self.names, self.rows = [], 0
        found = await work
        return self.asked, self.rows - (len(found) if isinstance(found, list) else 0)


@asynccontextmanager
async def counted(address: str) -> AsyncIterator[tuple[Everthread, Counted]]:
    """A store of its own that has seen nothing yet, as another process would open it, and what it asks."""
    counting = Counted((await open_log(address))._engine)
    et = Everthread(Log(counting))
    try:
        yield et, counting
    finally:
        await et.close()


# -- conversations ---------------------------------------------------------------------------------------------


def turn(number: int) -> list[Event]:
    """A turn of four messages and what a model call leaves behind."""
    said = f"question {number} about walnuts " + "and more " * 20
    return [
        user(said),
        tool_call("look", {"for": number}, id=f"c{number}"),
        tool_result("nothing", id=f"c{number}", name="look"),
        assistant(f"answer {number} " + "at length " * 20),
        ModelCall(model=MODEL, at=1, input=100, output=10),
    ]


async def furnish(talk: Talk, *, turns: int = 12) -> None:
    """A conversation with all that a context looks for: settings, a clear, pins, a brief, a session that is over."""
    await talk.append(SettingsChanged(values={"temperature": 0.5}), *turn(0), *turn(1))
    await talk.clear()
    for number in range(2, 2 + turns):
        written = await talk.append(*turn(number))
        if number in (3, 4):
            await talk.append(Pin(turn=written[0].seq))
        if number == 6:
            await talk.append(
                BriefUpdated(text="So far.", covers=written[0].seq), SessionEnded(session=1, recap="Then.")
            )
    await talk.append(SettingsChanged(values={"temperature": 0.4}))


async def newest_seq(talk: Talk) -> int:
    return (await talk.before(limit=1))[-1].seq


async def again(talk: Talk, _: int) -> Talk:
    """Back to the newest event: a branch of nothing but its marker."""
    return await _back(talk, await newest_seq(talk))


async def edit(talk: Talk, number: int) -> Talk:
    """Something is said, taken back to just before the user's message, and said otherwise."""
    written = await talk.append(*turn(number))
    back = await _back(talk, written[0].seq - 1)
    await back.append(*turn(number))
    return back


async def halfway(talk: Talk, number: int) -> Talk:
    """Back into the middle of a turn, which goes on otherwise."""
    written = await talk.append(*turn(number))
    back = await _back(talk, written[2].seq)
    await back.append(assistant(f"another answer {number}"))
    return back


async def long(talk: Talk, number: int) -> Talk:
    """Two turns are kept of three."""
    written = await talk.append(*turn(number), *turn(number), *turn(number))
    return await _back(talk, written[-6].seq)


async def forked(talk: Talk, number: int) -> Talk:
    """A fork of a fork, each with a turn of its own."""
    side = await talk.fork(at=await newest_seq(talk))
    await side.append(*turn(number))
    return side


async def _back(talk: Talk, seq: int) -> Talk:
    return await talk.rewind(to=seq)


SHAPES: dict[str, Callable[[Talk, int], Awaitable[Talk]]] = {
    "again": again,
    "edit": edit,
    "halfway": halfway,
    "long": long,
    "forked": forked,
}


async def deep(et: Everthread, someone: str, shape: str, depth: int) -> Talk:
    """A conversation that was rewound or forked so often, and then went on by a turn and a question."""
    talk = await et.begin(user=someone, agent="helper")
    await furnish(talk)
    for number in range(depth):
        talk = await SHAPES[shape](talk, 100 + number)
    await talk.append(*turn(10_000), user("And now?"))
    return talk


async def readings(talk: Talk) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Every reading verb, ready to be asked."""
    line: Line = await talk.line()
    log: Log = talk._runtime.log
    newest = await newest_seq(talk)

    def context(strategy: Any) -> Callable[[], Awaitable[Any]]:
        return lambda: talk.context(model=MODEL, budget=3_400, lookups=True, settings={"strategy": strategy})

    return {
        **{f"context by {strategy}": context(strategy) for strategy in STRATEGIES},
        "context of before": lambda: talk.context(model=MODEL, budget=3_400, lookups=True, at=newest - 10),
        "tail": lambda: log.tail(line, turns=6),
        "turns": lambda: log.turns(line, limit=10),
        "sessions": lambda: log.sessions(line, limit=10),
        "after": lambda: log.after(line, newest - 50),
        "messages after": lambda: log.after(line, newest - 50, limit=10, messages=True),
        "the first page": lambda: log.after(line, 0, limit=20),
        "before": lambda: log.before(line, limit=50),
        "messages before": lambda: log.before(line, newest - 5, limit=20, messages=True),
        "range": lambda: log.range(line, newest - 30, newest - 3),
        "head": lambda: log.head(line),
        "an earlier head": lambda: log.head(line, at=newest - 20),
        "settings": lambda: log.markers(line, "settings", limit=4),
        "model calls": lambda: log.markers(line, "model_call", limit=4),
    }
