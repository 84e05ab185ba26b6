"""Results as the log keeps them: with a note where somebody has changed the arguments, and what stands in for a result
that cannot be kept.

The tool call keeps the arguments that the model has written. Those with which it was approved stand in a command right
before the verdict, and the note with the result tells the model. The note quotes that command, so that forgetting one
finds the other (`store.scripts.forget`).
"""

from __future__ import annotations

import msgspec

from everthread.core.branches import Line
from everthread.core.events import ToolCall, ToolResult
from everthread.core.logged import Logged
from everthread.core.parts import Text
from everthread.core.quotes import Quote
from everthread.core.request import object_of
from everthread.core.verdicts import changed_arguments
from everthread.errors import BadValue, EventTooLarge, Outrun

NOTE = "The user changed the arguments of this tool call before it ran, to "
UNDRAWN = "The canvas is as it was."
CHANGING = "Somebody else keeps changing it, or something of the conversation was redacted. Try again."
FORGOTTEN = "The tool's result quotes something that was redacted meanwhile. Look again."


def with_arguments(call: ToolCall, arguments: str) -> ToolCall:
    """The tool call as it was approved: with other arguments, where somebody has given any that differ."""
    if not arguments or object_of(arguments) == object_of(call.arguments):
        return call
    return msgspec.structs.replace(call, arguments=arguments)


def with_note(result: ToolResult, line: Line, change: Logged | None) -> ToolResult:
    """The result of a tool call; with a note where its arguments were changed."""
    if change is None:
        return result
    note = Text(text=f"{NOTE}{changed_arguments(change.event)}")
    quote = Quote(line.conversation, change.branch, change.seq)
    return msgspec.structs.replace(result, parts=(note, *result.parts), quotes=(*result.quotes, quote))


def undrawn(result: ToolResult, problem: BadValue | EventTooLarge | Outrun) -> ToolResult:
    """What is kept where the canvas could not be changed."""
    said = CHANGING if isinstance(problem, Outrun) else str(problem)
    return msgspec.structs.replace(result, parts=(Text(text=f"{UNDRAWN} {said}"),), error=True)


def instead_of(result: ToolResult, problem: EventTooLarge | Outrun) -> ToolResult:
    """What is kept where the log does not take a result."""
    if isinstance(problem, Outrun):
        return msgspec.structs.replace(result, parts=(Text(text=FORGOTTEN),), error=True, quotes=())
    said = Text(text=f"The tool ran, but its result of {problem.size:,} bytes is too large to be kept.")
    notes = [part for part in result.parts[:1] if isinstance(part, Text) and part.text.startswith(NOTE)]
    quotes = result.quotes[-1:] if notes else ()
    return msgspec.structs.replace(result, parts=(*notes, said), error=True, quotes=quotes)
