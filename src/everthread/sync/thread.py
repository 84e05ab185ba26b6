"""A thread with an event loop, to which any other thread hands its work and waits for what comes of it.

Who is interrupted while it waits (Ctrl-C) has its work cancelled, and goes on when that has ended. When the program
ends and nobody has closed the store, it is closed then, within a few seconds.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

from everthread.errors import Closed, Forked, WouldHang

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]

STORE = "The store"
AT_EXIT = 5.0  # seconds that a store has to close when the program ends


class LoopThread:
    def __init__(self) -> None:
        self._process = os.getpid()
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._end = asyncio.Event()
        self._closing = False
        self._lock = threading.RLock()  # a generator may be dropped in here, which hands over its end
        # A daemon: a program that forgets to close the store ends all the same.
        self._thread = threading.Thread(target=self._serve, name="everthread", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with self._runner:  # in the end it cancels what is left, and waits for it
            self._runner.run(self._end_of_service())

    async def _end_of_service(self) -> None:
        await self._end.wait()

    @property
    def is_here(self) -> bool:
        """Whether the caller runs on this very thread, which then cannot wait for itself."""
        return threading.current_thread() is self._thread

    @property
    def is_open(self) -> bool:
        return not self._closing and os.getpid() == self._process

    def run(self, work: Work[T], *, seconds: float | None = None) -> T:
        """What the work comes to on the event loop. Raises what it raises; TimeoutError when `seconds` are over."""
        if os.getpid() != self._process:
            raise Forked(STORE)
        if self.is_here:
            raise WouldHang
        outcome: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            tasks.append(task := self._loop.create_task(work()))
            task.add_done_callback(lambda task: _tell(task, outcome))

        self.soon(begin)
        try:
            problem = outcome.exception(seconds)
        except BaseException:  # interrupted, or out of time
            with suppress(Closed):
                self.soon(lambda: tasks[0].cancel())
            wait([outcome], seconds)
            raise
        if problem is not None:
            raise problem
        return outcome.result()

    def soon(self, act: Callable[[], object]) -> None:
        """Do something on the event loop, without waiting for it."""
        with self._lock:  # whatever is handed over before the end is told its outcome
            if self._closing:
                raise Closed(STORE)
            self._loop.call_soon_threadsafe(act)

    def close(self, seconds: float | None = None) -> None:
        """End the loop and the thread. Work that somebody still waits for is cancelled; they are told Closed."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(seconds)


def _tell(task: asyncio.Task[T], outcome: Future[T]) -> None:
    if task.cancelled():
        outcome.set_exception(Closed(STORE))  # unless the caller was interrupted, and does not look
    elif problem := task.exception():
        outcome.set_exception(problem)
    else:
        outcome.set_result(task.result())


# -- the end of the program ----------------------------------------------------------------------------------

_open: dict[LoopThread, Work[None]] = {}


def close_at_exit(thread: LoopThread, close: Work[None]) -> None:
    """Close the store when the program ends, unless it was closed before."""
    _ask_for_the_end()
    _open[thread] = close


def close_now(thread: LoopThread) -> None:
    close = _open.pop(thread, None)  # by whoever comes first
    if close is not None and thread.is_open:
        try:
            thread.run(close)
        finally:
            thread.close()


@cache
def _ask_for_the_end() -> None:
    # By atexit it would be too late: the pools of threads that a turn may need have ended by then.
    getattr(threading, "_register_atexit", atexit.register)(_close_all)


def _close_all() -> None:
    for thread, close in tuple(_open.items()):
        if thread.is_open:
            with suppress(Exception):  # what was acknowledged is on disk, and nobody is left to be told
                thread.run(close, seconds=AT_EXIT)
            thread.close(AT_EXIT)
