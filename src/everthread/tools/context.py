"""The conversation as a tool has it."""

from __future__ import annotations

from typing import Protocol

from everthread.core.branches import Line
from everthread.store.conversations import Conversation
from everthread.store.log import Log


class ToolContext(Protocol):
    """What a tool may use of the conversation that it is called in. A `Talk` is one, and has more."""

    conversation: Conversation
    notes_seen: str | None  # MEMORY.md as the model was told of it last

    @property
    def log(self) -> Log:
        """The store; it does not ask whose a line or place is."""
        ...

    async def line(self) -> Line:
        """The branch that is read and written, with its ancestors."""
        ...
