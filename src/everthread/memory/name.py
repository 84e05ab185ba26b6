"""The conversation's name, from its first message that has words."""

from __future__ import annotations

from everthread.core.events import text_of
from everthread.language.naming import name_from
from everthread.memory.branch import Memory
from everthread.memory.due import Due

UNNAMED = "Untitled"  # a conversation without a word


def is_due(memory: Memory, due: Due, *, all: bool) -> bool:
    return not memory.conversation.name and bool(due.head.turn)


async def make(memory: Memory, due: Due) -> None:
    names = (name_from(text_of(one.event)) for one in await memory.messages(1) if one.kind == "user")
    name = next(filter(None, names), UNNAMED)
    change = memory.log.conversations.change(
        memory.conversation, name=name, under=memory.lease, forgotten=due.forgotten
    )
    memory.conversation = await change
