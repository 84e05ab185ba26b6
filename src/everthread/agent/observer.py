"""Who looks on while turns run: the service's metrics and traces. Turns know nothing else of them.

An observer gives a context manager for each turn, model call and tool call, which is entered in the task that does the
work: what it sets there (a trace's span) holds for whatever is begun inside. It is told names and figures, and no
content, and must not raise. Without observers nothing is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from everthread.agent.call import Calling
    from everthread.core.events import ToolCall
    from everthread.store.conversations import Conversation


class Observer(Protocol):
    def turn(self, conversation: Conversation) -> AbstractContextManager[object]:
        """Around a turn, with the wait for its branch. How it ended is told by what is raised."""

    def model_call(self, calling: Calling) -> AbstractContextManager[object]:
        """Around a model call, a turn's or memory's, with all its tries. Once it has replied, its record is there."""

    def tool_call(self, call: ToolCall) -> AbstractContextManager[object]:
        """Around a tool while it runs."""

    def taken_over(self) -> None:
        """A turn was closed whose runner is gone."""


class Observers:
    """Any number of observers, as one."""

    def __init__(self) -> None:
        self._all: list[Observer] = []

    def add(self, observer: Observer) -> None:
        self._all.append(observer)

    def turn(self, conversation: Conversation) -> AbstractContextManager[object]:
        return self._around(lambda one: one.turn(conversation))

    def model_call(self, calling: Calling) -> AbstractContextManager[object]:
        return self._around(lambda one: one.model_call(calling))

    def tool_call(self, call: ToolCall) -> AbstractContextManager[object]:
        return self._around(lambda one: one.tool_call(call))

    def taken_over(self) -> None:
        for one in self._all:
            one.taken_over()

    @contextmanager
    def _around(self, of: Callable[[Observer], AbstractContextManager[object]]) -> Iterator[None]:
        with ExitStack() as stack:
            for one in self._all:
                stack.enter_context(of(one))
            yield
