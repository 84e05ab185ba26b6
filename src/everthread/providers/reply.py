"""A reply while it is put together, the same way for every provider.

The reader of a stream hands over what comes, in the model's order: pieces of text and of reasoning, which it passes on
as deltas, and parts and tool calls that are whole. Pieces that follow each other are one part; what stands between two
tool calls is one message; and there is a message or a call in every reply. How a wire says all this, and whether a
reply came to its end, is its reader's to know.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from everthread.core.deltas import ReasoningDelta, TextDelta, Usage
from everthread.core.events import Assistant, ToolCall
from everthread.core.parts import Part, Reasoning, Text
from everthread.providers.client import Finish, Replied


class ReplyBuilder:
    """`model`: as provider:name. `in_order`: whether the wire tells what was thought before which text; else all
    thoughts come first."""

    def __init__(self, model: str, *, in_order: bool = True) -> None:
        self.usage = Usage()
        self.reported = ""  # the model's name, as the provider tells it
        self.calls = 0
        self._model, self._in_order = model, in_order
        self._events: list[Assistant | ToolCall] = []
        self._parts: list[Part] = []
        self._pieces: dict[type[Reasoning | Text], list[str]] = {Reasoning: [], Text: []}

    def text(self, text: str) -> Iterator[TextDelta]:
        """A piece of text, to be passed on; nothing where it is empty."""
        if text:
            self._grow(Text, text)
            yield TextDelta(text=text)

    def thought(self, text: str) -> Iterator[ReasoningDelta]:
        """A piece of reasoning, to be passed on; nothing where it is empty."""
        if text:
            self._grow(Reasoning, text)
            yield ReasoningDelta(text=text)

    def part(self, part: Part) -> None:
        self._end_part()
        self._parts.append(part)

    def call(self, call: ToolCall) -> None:
        self._end_message()
        self._events.append(call)
        self.calls += 1

    def whole(self, finish: Finish) -> Replied:
        self._end_message()
        events = self._events or [Assistant(model=self._model)]
        return Replied(events=tuple(events), usage=self.usage, finish=finish, model=self.reported)

    def _grow(self, kind: type[Reasoning | Text], piece: str) -> None:
        if self._in_order and not self._pieces[kind]:
            self._end_part()  # of the other kind
        self._pieces[kind].append(piece)

    def _end_part(self) -> None:
        for kind, pieces in self._pieces.items():
            if pieces:
                self._parts.append(kind(text="".join(pieces)))
                pieces.clear()

    def _end_message(self) -> None:
        self._end_part()
        if self._parts:
            self._events.append(Assistant(parts=tuple(self._parts), model=self._model))
            self._parts = []


def new_id() -> str:
    """An id for a tool call that came without one."""
    return f"call_{uuid.uuid4().hex[:24]}"
