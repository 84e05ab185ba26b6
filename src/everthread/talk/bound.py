"""What every part of a `Talk` stands on: the conversation, the branch and the store."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from everthread.agent.runtime import Runtime
from everthread.context.build import Contexts
from everthread.core.branches import Line, Target
from everthread.core.outcomes import Delegated
from everthread.core.times import moment
from everthread.store.conversations import Conversation
from everthread.store.log import Log
from everthread.tools import ToolContext


class Bound(ToolContext):
    """A conversation with its branch and its store, and no verbs but to find its line."""

    def __init__(
        self, log: Log, conversation: Conversation, branch: int | None = None, *, runtime: Runtime | None = None
    ) -> None:
        self._log = log
        self._branch = branch
        self._runtime = runtime or Runtime(log, Contexts())
        self.conversation = conversation
        self.notes_seen: str | None = None  # MEMORY.md as the model was told of it last
        self._line: Line | None = None  # of the branch that was current a moment ago, for the next verb

    def __repr__(self) -> str:
        where = "its current branch" if self._branch is None else f"branch {self._branch}"
        return f"<Talk {self.id} of {self.conversation.user!r} with {self.conversation.agent!r}, on {where}>"

    @property
    def id(self) -> str:
        return self.conversation.id

    @property
    def now(self) -> datetime:
        """What time it is, by the store's clock."""
        return moment(self._log.now)

    async def line(self) -> Line:
        """The branch that is read and written, with its ancestors: what the verbs of `et.log` take."""
        if line := self._line:
            self._line = None
            return line
        return await self._log.line(self.conversation, self._branch)

    def _just_found(self) -> Self:
        """For one verb that reads, right after the conversation was found: it was told then which branch is current,
        and a branch whose line is known need not be asked for again."""
        if self._branch is None and self.conversation.archived is None:
            self._line = self._log.lines.get((self.conversation.tenant, self.id, self.conversation.current))
        return self

    def _at(self, branch: int | None) -> Self:
        return type(self)(self._log, self.conversation, branch, runtime=self._runtime)

    async def _said(self) -> Delegated | None:
        """With what the child was begun whose branch was chosen; None where it is no child's."""
        return None if self._branch is None else await self._runtime.children.said_of(self._log, await self.line())

    @property
    def _target(self) -> Target:
        return Target(self.conversation.tenant, self.conversation.id, self._branch)
