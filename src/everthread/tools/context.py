"""The conversation as a tool sees it: only verbs that stay within what is the user's own, and no store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Protocol

from everthread.core.branches import Line
from everthread.core.logged import Logged
from everthread.core.schedules import Missed, Schedule
from everthread.store.conversations import Conversation
from everthread.store.recall.hits import Hit, Scope
from everthread.store.scripts.quote import Spot

_running: ContextVar[Spot | None] = ContextVar("_running", default=None)


@contextmanager
def running_call(conversation: str, call: Logged) -> Iterator[None]:
    """While a tool call runs: whatever it makes that tells of it is forgotten with it."""
    token = _running.set(Spot(conversation, call.branch, call.seq))
    try:
        yield
    finally:
        _running.reset(token)


def call_that_runs() -> Spot | None:
    """The tool call that we are in; None outside of tools."""
    return _running.get()


class ToolContext(Protocol):
    """What a tool may use of the conversation that it is called in. A `Talk` is one, and has more."""

    conversation: Conversation
    notes_seen: str | None  # MEMORY.md as the model saw it last

    @property
    def now(self) -> datetime:
        """What time it is, by the store's clock."""
        ...

    async def line(self) -> Line:
        """The branch that is read and written, with its ancestors."""
        ...

    async def on(self, branch: str | int) -> ToolContext:
        """The same conversation on one of its branches. Raises NotFound."""
        ...

    async def another(self, id: str) -> ToolContext:
        """Another conversation of the same user. Raises NotFound."""
        ...

    async def range(self, first: int, last: int) -> list[Logged]:
        """The events from seq `first` to seq `last`."""
        ...

    async def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        scope: Scope = "conversation",
        kinds: Iterable[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[Hit]:
        """What was said about something, best first."""
        ...

    async def notes(self) -> str:
        """MEMORY.md: what the agent keeps of its user for good."""
        ...

    async def write_notes(self, text: str, *, expect: str | None = None) -> int:
        """Replace MEMORY.md. `expect`: the text that was seen there; raises Changed if it is another by now."""
        ...

    async def schedule(
        self, text: str, *, at: datetime | None = None, cron: str = "", zone: str = "", missed: Missed = "once"
    ) -> Schedule:
        """Have something said to the agent at a time, once or again and again."""
        ...
