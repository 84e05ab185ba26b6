"""Children: turns on branches of their own. What a process knows of them, and the list of them as they stand.

How one is begun is in `delegate`, how it ends and who is told in `outcomes`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import msgspec

from everthread.agent.family import begun_on
from everthread.agent.figures import Figures
from everthread.agent.outcomes import settle
from everthread.core.branches import Line
from everthread.core.ended import usage_of
from everthread.core.happenings import FlowCompleted, FlowStarted
from everthread.core.logged import Logged, readable
from everthread.core.outcomes import ChildState, Delegated, child_of
from everthread.core.values import Value
from everthread.errors import NotFound
from everthread.store.conversations import Conversation
from everthread.store.log import Log
from everthread.store.scripts.children import Begun
from everthread.store.scripts.read import own_calls

if TYPE_CHECKING:
    from everthread.agent.runtime import Runtime

AGAIN = 60.0  # seconds after which a parent's turn looks again for children that were left
KNOWN = 10_000  # conversations and branches of which something is kept


class ListedChild(msgspec.Struct, Value, frozen=True, kw_only=True):
    """A child as it stands: running, waiting for approval, done, failed, stopped, at a limit, or killed.

    `branch` and `name` are its branch's. `task` is its beginning, in one line; the whole is the first message there.
    `result` is what it said at the end, or had said until then, and `why` why it ended before its time. `agent` is
    empty where it is the conversation's. Model calls, tokens and price are those of its task, without its children's;
    the price is null where one is not known.
    """

    branch: int
    name: str
    task: str
    agent: str
    state: ChildState
    depth: int
    result: str = ""
    why: str = ""
    calls: int = 0
    input: int = 0
    output: int = 0
    price: float | None = None
    began: datetime
    ended: datetime | None = None

    def __str__(self) -> str:
        return self.result


class Children:
    """What a process knows of children: with what they were begun, those that a tool of the parent's waits for, what
    those that run have taken, when a conversation was last looked at, and who begins one in it: one after another, so
    that no more run than may."""

    def __init__(self) -> None:
        self._awaited: set[tuple[str, int]] = set()
        self._looked: dict[str, float] = {}
        self._taking: dict[tuple[str, int], Figures] = {}
        self._said: dict[tuple[str, int], Delegated | None] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def beginning(self, conversation: str) -> asyncio.Lock:
        return self._locks.setdefault(conversation, asyncio.Lock())

    async def said_of(self, log: Log, line: Line) -> Delegated | None:
        """What the child was begun with whose branch has a turn; None where it is no child's. It never changes."""
        if line.branch.parent is None:
            return None
        where = (line.about, line.branch.number)
        if where not in self._said:
            found = await begun_on(log, line)
            self.know(line, found.said if found else None)
        return self._said[where]

    def know(self, line: Line, said: Delegated | None) -> None:
        """Keep in mind with what a child was begun."""
        if len(self._said) >= KNOWN:
            self._said.clear()
        self._said[line.about, line.branch.number] = said

    def wait_for(self, line: Line) -> None:
        """From now on a tool of the parent's waits for this child, and will tell its outcome."""
        self._awaited.add((line.conversation, line.branch.number))

    def leave(self, line: Line) -> None:
        """It no longer does."""
        self._awaited.discard((line.conversation, line.branch.number))

    def is_awaited(self, line: Line) -> bool:
        return (line.conversation, line.branch.number) in self._awaited

    def is_time_to_look(self, conversation: str) -> bool:
        """Whether a conversation was not looked at for a while."""
        now = time.monotonic()
        if conversation in self._looked and now - self._looked[conversation] < AGAIN:
            return False
        if len(self._looked) >= KNOWN:
            self._looked.clear()
        self._looked[conversation] = now
        return True

    def look_again(self, conversation: str) -> None:
        """A branch was begun in a conversation: its first turn shall look which outcomes it was not told."""
        self._looked.pop(conversation, None)

    @contextmanager
    def taking(self, line: Line, said: Delegated | None) -> Iterator[Figures]:
        """What a turn takes, while it runs. A child's counts for its parent's as well, where that runs here."""
        if said is None:
            yield Figures()
            return
        where = (line.about, line.branch.number)
        self._taking[where] = figures = Figures(over=self._taking.get((line.about, said.parent)))
        try:
            yield figures
        finally:
            del self._taking[where]


# -- listing ---------------------------------------------------------------------------------------------------


async def listed(runtime: Runtime, conversation: Conversation, line: Line, *, limit: int) -> list[ListedChild]:
    """The newest children that were begun along a line, newest first."""
    started = readable(await runtime.log.markers(line, "flow_started", limit=limit))
    found = [await _listed(runtime, conversation, one) for one in started if child_of(one.event)]
    return [one for one in found if one is not None]


async def _listed(runtime: Runtime, conversation: Conversation, started: Logged) -> ListedChild | None:
    try:
        line = await runtime.log.line(conversation, child_of(started.event))
    except NotFound:  # an application's event, that looks like ours
        return None
    found = await begun_on(runtime.log, line)
    if found is None or found.said.parent != started.branch:
        return None
    return await as_listed(runtime, conversation, line, found, started)


async def as_listed(
    runtime: Runtime, conversation: Conversation, line: Line, found: Begun, started: Logged
) -> ListedChild:
    """A child as it stands. What has ended is settled on the way."""
    outcome = await settle(runtime, conversation, line)
    event = started.event
    about: dict[str, Any] = {
        "branch": line.branch.number,
        "name": line.branch.name,
        "task": event.name if isinstance(event, FlowStarted) else "",
        "agent": found.said.agent,
        "depth": found.said.depth,
        "began": started.time,
    }
    return ListedChild(**about, **(_ended(outcome) if outcome else await _so_far(runtime.log, line)))


def _ended(outcome: Logged) -> dict[str, Any]:
    """What an outcome says; where it was redacted, only that there was one."""
    event = outcome.event
    if not isinstance(event, FlowCompleted):
        return {"state": "done", "ended": outcome.time}
    names = ("state", "why", "calls", "input", "output", "price")
    return {name: event.data[name] for name in names if name in event.data} | {
        "result": event.result,
        "ended": outcome.time,
    }


async def _so_far(log: Log, line: Line) -> dict[str, Any]:
    """What a child that has not ended has taken until now."""
    head = await log.head(line)
    made = await log.ask(lambda: own_calls(line, first=line.branch.at + 1))
    calls = [one.call for one in made]
    prices = [call.price for call in calls if not call.error]
    return {
        "state": "waiting" if head.state == "waiting" else "running",
        "calls": len(calls),
        "input": sum(usage_of(call).input for call in calls),
        "output": sum(usage_of(call).output for call in calls),
        "price": None if None in prices else sum(price for price in prices if price),
    }
