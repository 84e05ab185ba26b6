"""What `say` gives: the deltas of a turn that runs, and a handle on it.

    async for delta in talk.say("…"):
        print(delta, end="")

The turn runs in a task of its own, and begins when somebody listens. Who stops listening ends it: what had come of the
reply is kept, and the turn is closed as interrupted. `await talk.say("…")` listens to the end and gives the text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from everthread import errors
from everthread.core.deltas import Delta, Done, Failed, Notice, TextDelta
from everthread.errors import EverthreadError, ModelError

Work = Callable[[Callable[[Delta], None]], Coroutine[Any, Any, None]]


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
        self._task: asyncio.Task[None] | None = None

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
            return delta
        self._deltas.put_nowait(None)  # asked again, it has ended again
        if not self._task.cancelled() and (problem := self._task.exception()):
            raise problem
        raise StopAsyncIteration

    def __await__(self) -> Generator[Any, None, Said]:
        return self._whole().__await__()

    async def _whole(self) -> Said:
        text: list[str] = []
        done, failed = None, None
        async for delta in self:
            if isinstance(delta, TextDelta):
                text.append(delta.text)
            elif isinstance(delta, Notice) and delta.restarts:
                text.clear()
            elif isinstance(delta, Failed):
                failed = delta
            elif isinstance(delta, Done):
                done = delta
        if failed is not None:
            raise _error(failed)
        assert done is not None
        return Said("".join(text), done)

    async def cancel(self) -> None:
        """End the turn; what had come of the reply is in the log when this returns."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.cancel()

    aclose = cancel

    def __del__(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)


def _error(failed: Failed) -> EverthreadError:
    """The error that a delta tells of, as one that can be raised."""
    kind = getattr(errors, failed.name, ModelError)
    problem: EverthreadError = kind.__new__(kind, failed.error)
    Exception.__init__(problem, failed.error)
    return problem
