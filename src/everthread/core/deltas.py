"""Deltas: what `say` tells while a turn runs. Published; what is kept for good stands in the log as events.

A closed union by `kind`. `str(delta)` is what a plain program would print: the reply's text as it comes; everything
else prints as nothing. The last delta of a turn is `Done`, also where the conversation was erased or the store failed
in the middle of it; only a turn that another has taken over (`TakenOver`) has none, because it is not over. What went
wrong is no delta: it is raised.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from everthread.core.canvas import Change
from everthread.core.turns import State
from everthread.core.values import Value


class Usage(msgspec.Struct, Value, frozen=True, kw_only=True):
    """Tokens as the provider reports them. `input` is all of the input, what was read from the cache or written to it
    included; `output` is all of the output, reasoning included."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0

    def __add__(self, other: Usage) -> Usage:
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return Usage(**dict(zip(self.__struct_fields__, map(sum, pairs), strict=True)))


class _Delta(msgspec.Struct, Value, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    def __str__(self) -> str:
        return ""


class TextDelta(_Delta, tag="text", frozen=True):
    """A piece of the reply."""

    kind: ClassVar[Literal["text"]] = "text"
    text: str

    def __str__(self) -> str:
        return self.text


class ReasoningDelta(_Delta, tag="reasoning", frozen=True):
    """A piece of what the model thinks before it replies, where the provider shows it."""

    kind: ClassVar[Literal["reasoning"]] = "reasoning"
    text: str


class CallDelta(_Delta, tag="tool_call", frozen=True):
    """The model called a tool; it is about to run, or waits for approval."""

    kind: ClassVar[Literal["tool_call"]] = "tool_call"
    id: str
    name: str
    arguments: str
    approval: bool = False


class ResultDelta(_Delta, tag="tool_result", frozen=True):
    """What the tool answered, in words."""

    kind: ClassVar[Literal["tool_result"]] = "tool_result"
    id: str
    name: str
    text: str
    error: bool = False


class CanvasDelta(_Delta, tag="canvas", frozen=True):
    """A tool of the turn has changed the canvas, by the event `seq`."""

    kind: ClassVar[Literal["canvas"]] = "canvas"
    changes: tuple[Change, ...]
    seq: int


class Notice(_Delta, tag="notice", frozen=True):
    """Something that a person who waits would like to know: a model call is tried again, another model takes over.

    `restarts`: what was told of the model's reasoning is void, because it begins anew.
    """

    kind: ClassVar[Literal["notice"]] = "notice"
    text: str
    restarts: bool = False


class Done(_Delta, tag="done", frozen=True):
    """The turn is over, or waits. `seq`: of its newest event.

    `cutoff`, `sent`, `past`, `estimate`, `budget` and `degraded` are those of its last request, as `Context` has them;
    0 where there was none. `finish`: how its last reply ended: stop, tools, length, refused or other.
    """

    kind: ClassVar[Literal["done"]] = "done"
    state: State
    model: str
    seq: int
    usage: Usage = Usage()
    price: float | None = None  # in US dollars; None where it is not known
    calls: int = 0  # model calls
    cutoff: int = 0
    sent: int = 0
    past: int = 0
    estimate: int = 0
    budget: int = 0
    degraded: tuple[str, ...] = ()
    finish: str = ""


Delta = TextDelta | ReasoningDelta | CallDelta | ResultDelta | CanvasDelta | Notice | Done
