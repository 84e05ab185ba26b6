"""Going on with a turn: it keeps its model, and whether memory is told of it. And saying a message again: what the turn
that it began has already."""

from __future__ import annotations

import msgspec

from everthread.agent.abandoned import is_without_memory
from everthread.context.plan import Asked
from everthread.context.record import as_recorded
from everthread.core.branches import Line
from everthread.core.events import Assistant, Event, detach, unremembered
from everthread.core.logged import Logged, readable
from everthread.core.turns import Head
from everthread.store.conversations import Conversation
from everthread.store.log import Log
from everthread.store.scripts.read import own_calls

SAID_AGAIN = (
    "The same was said before and had no reply, so the log has it twice now. `talk.resume()` would have gone on "
    "without saying it again; with a key, it is said only once."
)
REPEATED = 1_000  # messages of a turn among which its reply is looked for


def why_over(head: Head) -> str:
    """Why the newest turn cannot be gone on with; empty where it was cut short, and closed."""
    if not head.turn_first:
        return "not begun"
    if head.cleared > head.turn_first:
        return "cleared"
    return "" if head.state == "interrupted" else head.state


async def with_same_model(log: Log, line: Line, asked: Asked) -> Asked:
    """A turn goes on with the model that it was with, unless another is asked for."""
    if "model" in asked.settings:
        return asked
    made = await log.ask(lambda: own_calls(line))
    return msgspec.structs.replace(asked, record=as_recorded(*made[0])) if made else asked


async def with_same_memory(log: Log, line: Line, asked: Asked, first: int, last: int) -> Asked:
    """A turn that was to be without memory stays so, whoever goes on with it."""
    if await is_without_memory(log, line, first, last):
        return msgspec.structs.replace(asked, settings={**asked.settings, "memory": False})
    return asked


async def is_said_again(log: Log, line: Line, head: Head, message: Event) -> bool:
    """Whether the same was said last, and had no reply."""
    if head.state != "interrupted" or head.spoken != head.turn_first:
        return False
    before = await log.range(line, head.turn_first, head.turn_first)
    said = unremembered(detach(message))
    return any(unremembered(one.event) == said for one in readable(before))


async def first_reply(log: Log, conversation: Conversation, message: Logged) -> list[str]:
    """The texts of the reply that a message had when it was first said, on whichever branch."""
    line = await log.line(conversation, message.branch)
    after = await log.after(line, message.seq, limit=REPEATED, messages=True)
    own = [one for one in after if one.turn == message.turn and isinstance(one.event, Assistant)]
    return [one.text for one in own if one.text]
