"""Conversations of any shape, for properties: drawn in outline, with a number in every message.

The numbers are the messages' seqs less one, so that a request tells what is in it, and in which order.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from hypothesis import strategies as st

from everthread import assistant, system, tool_call, tool_result, user
from everthread.context.build import Context
from everthread.core.events import Command, Event, Other
from tests.contract.windows import LARGE


class Shape(NamedTuple):
    """A turn in outline: what happens in it, and how many words are asked and answered."""

    kind: str
    asked: int
    replied: int


KINDS = ("plain", "plain", "tools", "many", "large", "unanswered", "crashed", "interrupted", "instructed", "noted")
_lengths = st.sampled_from([1, 3, 10, 40, 120, 300])
shape = st.builds(Shape, st.sampled_from(KINDS), _lengths, _lengths)
shapes = st.lists(shape, min_size=1, max_size=20)


def dialogue(turns: list[Shape]) -> list[Event]:
    """What was said in these turns."""
    said = _Said()
    for turn in turns:
        said.turn(turn)
    return said.events


class _Said:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def turn(self, turn: Shape) -> None:
        self.say(user(self.words(turn.asked)))
        match turn.kind:
            case "tools" | "many":
                for _ in range(1 if turn.kind == "tools" else 4):
                    self.call(turn.asked)
            case "large":
                self.call(0)
            case "crashed":
                self.say(tool_call("look", {"tag": self.words(0)}, id=f"c{len(self.events)}"))
            case "instructed":
                self.say(system(self.words(turn.asked)))
            case "noted":
                self.say(Command(name="/help"))
        if turn.kind not in ("unanswered", "crashed"):
            self.say(assistant(self.words(turn.replied), interrupted=turn.kind == "interrupted"))
        if turn.kind == "noted":
            self.say(Other(kind="note"))

    def call(self, words: int) -> None:
        """A tool call and its result; a large one where there are no words."""
        id = f"c{len(self.events)}"
        self.say(tool_call("look", {"tag": self.words(0)}, id=id))
        self.say(tool_result(self.words(words) + ("" if words else LARGE), id=id, name="look"))

    def words(self, number: int) -> str:
        return f"<{len(self.events)}>" + "word " * number

    def say(self, event: Event) -> None:
        self.events.append(event)


def told(context: Context) -> list[int]:
    """The numbers of what is sent, in the order of the request."""
    pieces = json.dumps(context.request["messages"]).split("<")[1:]
    return [int(number) for number in (piece.partition(">")[0] for piece in pieces) if number.isdigit()]
