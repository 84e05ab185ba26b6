"""What is told beside the messages of a request: the time, a pause, what is on the user's canvas, and the outcomes of
children.

Each is told after the user's words, as it was when these were said, and only where it differs from what was told last;
an outcome also after the results of tools, for it may come in the middle of a turn. So all of it is a function of the
log, and stays where it is for as long as the window begins with the same turn. What stands on the canvas and in an
outcome was written by models, tools and users: it is data, between tags that only we can make.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from everthread.core import outcomes
from everthread.core.branches import CANVAS
from everthread.core.canvas import Telling
from everthread.core.estimates import Measure
from everthread.core.events import Event
from everthread.core.fence import Fence
from everthread.core.happenings import FlowCompleted
from everthread.core.logged import Logged, readable
from everthread.core.parts import Text
from everthread.core.request import Item, MessageItem, ReplyItem
from everthread.core.sections import Clock, fenced_canvas, tagged
from everthread.store.scripts.canvas import folded
from everthread.store.scripts.outlook import ToldBeside

WRAPPED = 2  # tokens around a text of its own


class Asides:
    """What is told after each message of the user's, from the first of a request to the last. `canvas_most`: the tokens
    of what is told of the canvas at once, 0 where it is not told here."""

    def __init__(self, beside: ToldBeside, measure: Measure, fence: Fence, *, clock: str, canvas_most: int) -> None:
        self._measure, self._fence = measure, fence
        self._clock, self._telling = Clock(clock), Telling(canvas_most, measure.text)
        self._canvas, self._canvas_most = beside.canvas, canvas_most
        self._markers = deque(beside.markers)
        self._outcomes: list[str] = []
        self._from = 0  # the message with which telling of the canvas begins

    def restart(self, messages: Iterable[int]) -> int:
        """Find the message with which telling of the canvas begins, among the user's of a request: the first of them,
        unless it has changed so much that all of it together is more than is set aside. Then everything is told anew,
        and what was told before leaves, so that this happens as seldom as a step. 0 where it is the first."""
        canvas, markers = self._canvas, deque(one for one in self._markers if one.kind == CANVAS)
        telling, told = self._telling, 0
        for seq in messages if markers else ():
            while markers and markers[0].seq < seq:
                canvas = folded(canvas, [markers.popleft()])
            told += self._measure.text(telling.of(canvas))
            if told > 2 * self._canvas_most:
                telling, self._from = Telling(self._canvas_most, self._measure.text), seq
                told = self._measure.text(telling.of(canvas))
        self._telling = Telling(self._canvas_most, self._measure.text)
        return self._from

    @property
    def pending(self) -> bool:
        """Whether there may be something to tell after results."""
        return bool(self._markers or self._outcomes)

    def beside(self, item: Item, previous: Logged | None) -> tuple[Item, dict[str, str]]:
        """An item with what is told after it, and that by section. `previous`: the event before, where a turn begins
        with this item."""
        if isinstance(item, ReplyItem):
            outcomes = self._after_results(item)
            return (_with_text(item, outcomes), {"outcomes": outcomes}) if outcomes else (item, {})
        if item.role != "user":
            return item, {}
        returned = previous is not None and previous.session != item.session
        told = self._after(item, item.time - previous.micros if previous and returned else 0)
        return (msgspec.structs.replace(item, aside="\n".join(told.values())) if told else item), told

    def _after(self, message: MessageItem, pause: int) -> dict[str, str]:
        """What is told after a message. `pause`: the time since the one before, where a session began with it."""
        self._go_on(message.seq)
        told = {"time": self._clock.of(message.time, pause)}
        tells = self._canvas_most and message.seq >= self._from
        if tells and (text := self._telling.of(self._canvas)):
            told[CANVAS] = tagged(self._fence, CANVAS, text)
        told["outcomes"] = self._taken()
        return {name: text for name, text in told.items() if text}

    def _after_results(self, reply: ReplyItem) -> str:
        """The outcomes that came before the newest result of a reply, and were not told yet."""
        if seq := max([answer.seq for answer in reply.answers], default=0):
            self._go_on(seq)
            return self._taken()
        return ""

    def _taken(self) -> str:
        told, self._outcomes = self._outcomes, []
        return tagged(self._fence, "outcome", "\n\n".join(told)) if told else ""

    def size(self, text: str) -> int:
        return self._measure.text(text) + WRAPPED

    def _go_on(self, seq: int) -> None:
        """Take in what happened before an event."""
        while self._markers and self._markers[0].seq < seq:
            marker = self._markers.popleft()
            if marker.kind == CANVAS:
                self._canvas = folded(self._canvas, [marker])
            else:
                self._outcomes += [text for one in readable([marker]) if (text := _outcome(one.event))]


def _outcome(event: Event) -> str:
    return outcomes.told(event) if isinstance(event, FlowCompleted) else ""


def whole_canvas(beside: ToldBeside, measure: Measure, fence: Fence, most: int) -> str:
    """What is on the canvas now, for the instructions; nothing where it is empty."""
    drawn = [marker for marker in beside.markers if marker.kind == CANVAS]
    text = Telling(most, measure.text).of(folded(beside.canvas, drawn))
    return fenced_canvas(fence, text) if text else ""


def _with_text(reply: ReplyItem, text: str) -> ReplyItem:
    """A reply with a text after the newest result of its tool calls."""
    newest = max(reply.answers, key=lambda answer: answer.seq)
    after = msgspec.structs.replace(newest, parts=(*newest.parts, Text(text=text)))
    return msgspec.structs.replace(reply, answers=tuple([after if one is newest else one for one in reply.answers]))
