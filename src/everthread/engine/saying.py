"""What `say` gives: the deltas of a turn that runs, and a handle on it.

    async for delta in talk.say("…"):
        print(delta, end="")

The turn runs in a task of its own, and begins when somebody listens. Who stops listening ends it: what had come of the
reply is kept, and the turn is closed as interrupted. `await talk.say("…")` listens to the end and gives the text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Self

from everthread.core.deltas import CallDelta, Delta, Done, TextDelta
from everthread.errors import EverthreadError, TurnCancelled

Work = Callable[[Callable[[Delta], None]], Coroutine[Any, Any, EverthreadError | None]]


class Said:
    """A turn's outcome: the text of its reply, and what it took."""

    def __init__(self, text: str, done: Done) -> None:
        self.text, self.done = text, done

    def __str__(self) -> str:
        return self.text


class Saying:
    def __init__(self, work: Work) -> None:
        self._work = work
        self._deltas: asyncio.Queue[Delta | None] = asyncio.Queue()
        self._task: asyncio.Task[EverthreadError | None] | None = None
        self._text: list[str] = []
        self._done: Done | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delta:
        if self._task is None:
            tell = self._deltas.put_nowait  # the task must not know of us: nobody listening is what ends it
            self._task = asyncio.create_task(self._work(tell))
            self._task.add_done_callback(lambda _: tell(None))
        try:
            delta = await self._deltas.get()
        except asyncio.CancelledError:
            await self.cancel()
            raise
        if delta is not None:
            self._note(delta)
            return delta
        self._deltas.put_nowait(None)  # asked again, it has ended again
        if not self._task.cancelled() and (problem := self._task.exception()):
            raise problem
        raise StopAsyncIteration

    def _note(self, delta: Delta) -> None:
        if isinstance(delta, TextDelta):
            self._text.append(delta.text)
        elif isinstance(delta, CallDelta) and self._text and not self._text[-1].endswith("\n"):
            self._text.append("\n\n")  # what is said next is another reply
        elif isinstance(delta, Done):
            self._done = delta

    def __await__(self) -> Generator[Any, None, Said]:
        return self._whole().__await__()

    async def _whole(self) -> Said:
        async for _ in self:
            pass
        assert self._task is not None
        if self._task.cancelled():
            raise TurnCancelled
        if problem := self._task.result():
            raise problem
        assert self._done is not None
        return Said("".join(self._text), self._done)

    async def cancel(self) -> None:
        """End the turn; what had come of the reply is in the log when this returns."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.cancel()

    aclose = cancel

    def __del__(self) -> None:
        if self._task is not None and not self._task.done() and not self._task.get_loop().is_closed():
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)
