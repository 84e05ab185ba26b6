"""A child in a program's hand: to wait for, to listen to, to stop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from contextlib import aclosing
from typing import Any

from everthread.agent.children import ListedChild, as_listed
from everthread.agent.family import begun_on
from everthread.agent.outcomes import end, settle
from everthread.agent.runtime import Runtime
from everthread.core.branches import Line
from everthread.core.deltas import Delta
from everthread.core.logged import Logged
from everthread.core.outcomes import started_key
from everthread.core.partial import place_of
from everthread.core.told import Told, items
from everthread.errors import UnknownChild
from everthread.store.conversations import Conversation


class Child:
    """A child: `await child` waits for its outcome. `await talk.on(child.branch)` is its own talk, with every verb."""

    # Slots, so that a web framework that is handed one does not write what is inside as JSON.
    __slots__ = ("_conversation", "_line", "_runtime")

    def __init__(self, runtime: Runtime, conversation: Conversation, line: Line) -> None:
        self._runtime, self._conversation, self._line = runtime, conversation, line

    def __repr__(self) -> str:
        return f"<Child {self.name!r} on branch {self.branch} of {self._conversation.id}>"

    @property
    def branch(self) -> int:
        """The number of its branch, by which it is known in its conversation."""
        return self._line.branch.number

    @property
    def name(self) -> str:
        """The name of its branch."""
        return self._line.branch.name

    async def look(self) -> ListedChild:
        """The child as it stands. Raises UnknownChild."""
        found = await begun_on(self._runtime.log, self._line)
        started = await self._runtime.log.kept(self._line, started_key(self.branch))
        if found is None or not started:
            raise UnknownChild(self.branch)
        return await as_listed(self._runtime, self._conversation, self._line, found, started[-1])

    async def outcome(self) -> ListedChild:
        """Wait until the child has ended, in whichever process, or waits for approval; and how it stands then."""
        log = self._runtime.log
        async with aclosing(log.changes(self._line.about)) as changes:  # type: ignore[type-var]
            async for _ in changes:
                ended = await settle(self._runtime, self._conversation, self._line)
                if ended or (await log.head(self._line)).state == "waiting":
                    break
        return await self.look()

    def __await__(self) -> Generator[Any, None, ListedChild]:
        return self.outcome().__await__()

    def listen(self, *, after: int | None = None) -> AsyncIterator[Logged | Delta]:
        """What the child says and does, from its task on or after event `after`, as `talk.listen` has it."""
        return items(self.told(after=after))

    def told(self, *, after: int | str | None = None) -> AsyncIterator[Told]:
        """As `listen`, each item with its place, as `talk.told` has it."""

        async def line() -> Line:
            return self._line

        known = self._line.branch.at if after is None else after
        return self._runtime.live.listen(line, after=place_of(known))

    async def stop(self) -> bool:
        """End the child and its own children, in whichever process, and return when they have ended. Whether any of
        them ran or waited for approval. What had come of a reply is kept, and is part of the outcome."""
        return await end(self._runtime, self._conversation, self._line)
