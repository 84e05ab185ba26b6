"""The branches of a conversation: to fork, to rewind, to go from one to another."""

from __future__ import annotations

from typing import Self

import msgspec

from everthread import arguments
from everthread.core.branches import Line
from everthread.store.conversations import BranchTotals
from everthread.talk.bound import Bound


class Branching(Bound):
    async def branches(self) -> list[BranchTotals]:
        """All branches, each with its sums: along its whole line, and what it added itself."""
        return await self._log.conversations.branches(self.conversation)

    async def on(self, branch: str | int) -> Self:
        """The same conversation on one of its branches, by name or number."""
        line = await self._log.line(self.conversation, arguments.branch(branch))
        return self._at(line.branch.number)

    async def another(self, id: str) -> Self:
        """Another conversation of the same user."""
        found = await self._log.conversations.find(self.conversation.owner, arguments.text("id", id))
        return type(self)(self._log, found, runtime=self._runtime)

    async def fork(self, *, at: int | None = None, name: str = "") -> Self:
        """A new branch from event `at` (the newest by default). The current branch stays current."""
        line = await self.line()
        seq = (await self._log.head(line)).seq if at is None else arguments.seq("at", at)
        grown = await self._log.fork(line, at=seq, name=arguments.name("name", name, empty=True))
        self._runtime.children.look_again(self.id)
        return self._at(grown.branch.number)

    async def rewind(self, *, to: int | str, name: str = "") -> Self:
        """Go back to an earlier seq or mark and go on from there, on a new branch that becomes the current one."""
        to, name = arguments.point(to), arguments.name("name", name, empty=True)
        grown = await self._log.rewind(await self.line(), to=to, name=name)
        return self._pointing_at(grown)

    async def switch(self, branch: str | int) -> Self:
        """Make a branch the current one."""
        line = await self._log.line(self.conversation, arguments.branch(branch))
        return self._pointing_at(await self._log.switch(line))

    def _pointing_at(self, line: Line) -> Self:
        self._runtime.children.look_again(self.id)
        self.conversation = msgspec.structs.replace(self.conversation, current=line.branch.number)
        return self._at(None)
