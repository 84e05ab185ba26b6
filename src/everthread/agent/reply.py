"""What `say` gives: the deltas of a turn as it runs, or its whole reply at the end.

    async for delta in talk.say("…"):
        print(delta, end="")

The turn runs in a task of its own, and begins when somebody listens. It ends when its caller stops listening: what has
come of the reply is kept, and the turn is closed as interrupted. A detached turn begins at once and goes on without its
caller. `await talk.say("…")` listens to the end and gives the text. An error is raised after the last delta. A reply
that nobody has listened to warns when it is dropped, as Python does of a coroutine: nothing was said.
Where `output` asks for a value, the last reply's text is read as one when the turn is over: `value`.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

import msgspec

from everthread.context.output import Output, plain_of
from everthread.core.deltas import CallDelta, Delta, Done, TextDelta
from everthread.core.logged import Logged
from everthread.core.values import Value, inner_form
from everthread.errors import BadValue, TurnCancelled

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    V = TypeVar("V", default=Any)
else:
    from typing import TypeVar

    V = TypeVar("V")

HOW = "`await talk.say(…)`, `async for delta in talk.say(…)`, or `talk.say(…, detached=True)`"

Work = Callable[[Callable[[Delta], None], Callable[[Logged], None]], Coroutine[Any, Any, None]]


class TurnResult(msgspec.Struct, Value, Generic[V], frozen=True):
    """A turn's outcome: the text of its reply, what it took, and what `output` asked for: None where it asked for
    nothing, or the turn waits."""

    text: str
    done: Done
    value: V = None  # type: ignore[assignment]

    def _form(self) -> dict[str, Any]:
        return {"text": self.text, "done": inner_form(self.done), "value": plain_of(self.value)}

    def __str__(self) -> str:
        return self.text


class Reply(Generic[V]):
    """`value`: what `output` asked for, once the last delta has come. Type checkers take it for that; while the turn
    waits it is None."""

    # Slots, so that a web framework that is handed one does not write what is inside as JSON.
    __slots__ = (
        *("__weakref__", "_accepted", "_closed", "_deltas", "_detached", "_done"),
        *("_how", "_last", "_output", "_task", "_text", "_work", "value"),
    )

    value: V

    def __init__(self, work: Work, *, detached: bool = False, output: Output | None = None) -> None:
        self._work, self._detached, self._output = work, detached, output
        self._how, self.value = HOW, None  # type: ignore[assignment]
        self._deltas: asyncio.Queue[Delta | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._accepted: asyncio.Future[Logged] | None = None
        self._text: list[str] = []
        self._last: list[str] = []  # of these, what was said since the last tool was called
        self._done: Done | None = None
        self._closed = False
        if detached:
            self._begin()

    def _begin(self) -> asyncio.Task[None]:
        if self._task is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                raise BadValue("detached", True, "given where an event loop runs: in a coroutine") from None
            # The task must not know of us: nobody listening is what ends it.
            tell, accepted = self._deltas.put_nowait, loop.create_future()
            self._accepted = accepted
            self._task = asyncio.create_task(self._work(tell, accepted.set_result))
            self._task.add_done_callback(lambda task: _over(task, tell, accepted))
        return self._task

    def __repr__(self) -> str:
        if self._task is None:
            return f"<Reply, not begun: write {self._how}>"
        return f"<Reply, {'over' if self._task.done() else 'under way'}: {''.join(self._text)!r}>"

    @property
    def is_accepted(self) -> bool:
        """Whether the message is in the log."""
        return self._accepted is not None and self._accepted.done() and not self._accepted.cancelled()

    async def accepted(self) -> Logged:
        """The message as it stands in the log, as soon as it does. Raises what went wrong before that."""
        task = self._begin()
        assert self._accepted is not None
        await asyncio.wait({self._accepted})
        if self._accepted.cancelled():
            if not task.cancelled():
                task.result()
            raise TurnCancelled
        return self._accepted.result()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delta:
        task = self._begin()
        try:
            delta = await self._deltas.get()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        if delta is not None:
            self._note(delta)
            return delta
        self._deltas.put_nowait(None)  # asked again, it has ended again
        if not task.cancelled():
            task.result()
            self._read()
        raise StopAsyncIteration

    def _note(self, delta: Delta) -> None:
        if isinstance(delta, TextDelta):
            self._text.append(delta.text)
            self._last.append(delta.text)
        elif isinstance(delta, CallDelta):
            self._last = []
            if self._text and not self._text[-1].endswith("\n"):
                self._text.append("\n\n")  # what is said next is another reply
        elif isinstance(delta, Done):
            self._done = delta

    def _read(self) -> None:
        """Read the value that was asked for, once there is a reply. Raises BadOutput."""
        if self._output and self._done and self._done.state == "idle" and self.value is None:
            self.value = self._output.parse("".join(self._last), self._done.finish)

    def __await__(self) -> Generator[Any, None, TurnResult[V]]:
        return self._whole().__await__()

    async def _whole(self) -> TurnResult[V]:
        async for _ in self:
            pass
        assert self._task is not None
        if self._task.cancelled() or self._done is None:
            raise TurnCancelled
        return TurnResult("".join(self._text), self._done, self.value)

    async def cancel(self) -> None:
        """End the turn; what had come of the reply is in the log when this returns."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    async def aclose(self) -> None:
        """Stop listening. Unless it is detached, this ends the turn."""
        self._closed = True
        if not self._detached:
            await self.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if self._detached:
            return
        if self._task is None:
            if not self._closed:
                never = f"A reply was never awaited or heard, so its turn has not begun: write {self._how}."
                warnings.warn(never, RuntimeWarning, stacklevel=2, source=self)
        elif not self._task.done() and not self._task.get_loop().is_closed():
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)


def _over(task: asyncio.Task[None], tell: Callable[[None], None], accepted: asyncio.Future[Logged]) -> None:
    tell(None)
    accepted.cancel()  # unless it was
    if not task.cancelled():
        task.exception()  # seen: it was logged, and whoever listens is told
