"""A child that a service runs, in a program's hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from everthread import wire
from everthread.agent import child
from everthread.agent.children import ListedChild
from everthread.client.calls import TABLE, request_of
from everthread.client.remote import Remote, remote
from everthread.core.partial import place_of
from everthread.core.told import Told

if TYPE_CHECKING:
    from everthread.client.talk import Talk


@remote("child")
class Child(Remote, child.Child):
    """A child: `await child` waits for its outcome. `await talk.on(child.branch)` is its own talk, with every verb."""

    __slots__ = ("_begun", "_talk", "_visit")

    def __init__(self, talk: Talk, listed: ListedChild) -> None:
        self._talk, self._begun, self._visit = talk, listed, talk._visit
        self._conversation = talk.conversation

    @property
    def branch(self) -> int:
        """The number of its branch, by which it is known in its conversation."""
        return self._begun.branch

    @property
    def name(self) -> str:
        """The name of its branch."""
        return self._begun.name

    @property
    def _where(self) -> Mapping[str, str]:
        return {**self._talk._where, "branch": str(self.branch)}

    def _for(self, given: dict[str, Any]) -> str:
        return self._talk._for(given)

    async def outcome(self) -> ListedChild:
        """Wait until the child has ended, in whichever process, or waits for approval; and how it stands then."""
        asked = request_of(TABLE["child.outcome"], self._where, {})._replace(user=self._for({}))
        while True:  # the service answers before a connection would be taken for dead
            found = wire.loads(ListedChild, (await self._visit.connection.ask(asked, waits=True)).body)
            if found.state != "running":
                return found

    def told(self, *, after: int | str | None = None) -> AsyncIterator[Told]:
        """As `listen`, each item with its place, as `talk.told` has it."""
        return self._told(None if after is None else str(place_of(after)))

    async def _told(self, after: str | None) -> AsyncIterator[Told]:
        own = self._talk._at(self.branch)
        known = (await own.line()).branch.at if after is None else after
        async with aclosing(own.told(after=known)) as told:  # type: ignore[type-var]
            async for one in told:
                yield one
