"""Running a tool's function: for a limited time, and without holding up the event loop.

A plain function runs in a thread of its own, with the caller's context variables. A thread cannot be ended from
outside: when its time is up it goes on in the background, and its result is dropped. It does not keep the
program from ending. A coroutine is cancelled, and given a moment to clean up.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from everthread.core.parts import Part
from everthread.tools.results import Drawing, Quoting, gathered, parts_of

GRACE = 1.0  # seconds that a cancelled tool has to clean up

T = TypeVar("T")


class OutOfTime(Exception):
    """The time was up. `goes_on`: it could not be stopped."""

    def __init__(self, goes_on: bool) -> None:
        super().__init__()
        self.goes_on = goes_on


class Ended(Exception):
    """A tool wanted to end the program: it raised SystemExit, or something else that is no `Exception`. If a task
    raised it, the event loop would end as well."""

    def __init__(self, problem: BaseException) -> None:
        super().__init__()
        self.problem = problem


async def outcome_of(call: Callable[[], Any], *, is_async: bool) -> tuple[Part, ...] | Drawing:
    """What a tool returns, as parts of a result, or a drawing. Raises what the tool raises, or Ended."""
    try:
        return await _outcome(call, is_async)
    except (Exception, asyncio.CancelledError, GeneratorExit):
        raise  # the last may mean that nobody waits for us any more: who does, knows better (`in_time`)
    except BaseException as problem:
        raise Ended(problem) from problem


async def _outcome(call: Callable[[], Any], is_async: bool) -> tuple[Part, ...] | Drawing:
    value = call() if is_async else await in_thread(lambda: _finished(call()))
    if inspect.isawaitable(value):
        value = await value
    if isinstance(value, AsyncIterator):
        value = await gathered(value)
    if isinstance(value, Quoting | Drawing):
        return value
    return tuple(value) if isinstance(value, _Finished) else parts_of(value)


class _Finished(tuple[Part, ...]):
    """Parts that were made in the function's own thread, because a generator works only while it is read."""


def _finished(value: Any) -> Any:
    left = isinstance(value, AsyncIterator | Quoting | Drawing) or inspect.isawaitable(value)
    return value if left else _Finished(parts_of(value))


async def in_time(work: Awaitable[T], seconds: float) -> T:
    """The result of the work. Raises OutOfTime, Ended, or what the work raises.

    The work has a task of its own, so that one that does not heed its cancellation is left behind, not waited for.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return _given(task)
        raise OutOfTime(goes_on=not await _stopped(task))
    except asyncio.CancelledError:
        if not task.done():
            with suppress(asyncio.CancelledError):
                await _stopped(task)
        raise


def _given(task: asyncio.Future[T]) -> T:
    """The result of a task that is done. A GeneratorExit came from the work itself: a task that is let go is not
    done."""
    try:
        return task.result()
    except GeneratorExit as problem:
        raise Ended(problem) from problem


async def _stopped(task: asyncio.Future[Any]) -> bool:
    """Whether the task ended when it was told to."""
    task.cancel()
    task.add_done_callback(_looked_at)
    await asyncio.wait({task}, timeout=GRACE)
    return task.done()


def _looked_at(task: asyncio.Future[Any]) -> None:
    """Retrieve the error of a task that was given up, because nobody else will."""
    if not task.cancelled():
        task.exception()


async def in_thread(call: Callable[[], T]) -> T:
    """The result of a function that runs in a thread of its own, with the context variables of the caller."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    given: list[T] = []
    raised: list[BaseException] = []

    def work() -> None:
        try:
            given.append(context.run(call))
        except BaseException as problem:  # noqa: BLE001 - it is raised where the caller waits
            raised.append(problem)
        with suppress(RuntimeError):  # the loop is gone, and so is who waited
            loop.call_soon_threadsafe(ended.set)

    context = contextvars.copy_context()
    threading.Thread(target=work, name="everthread-tool", daemon=True).start()
    await ended.wait()
    if raised:
        if isinstance(raised[0], StopIteration):  # which no coroutine can raise
            raise RuntimeError("StopIteration") from raised[0]
        raise raised[0]
    return given[0]
