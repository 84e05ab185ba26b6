"""An event loop in a thread of its own, for programs that read what somebody types.

Lines are read in the main thread, as any program reads them: editing, history and ctrl-C work as they should. What
the conversation does meanwhile (memory, listening) goes on in the loop. Ctrl-C while something is waited for cancels
that, and is raised once it has ended.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class Beside:
    def __init__(self) -> None:
        self._orders: SimpleQueue[Callable[[], None] | None] = SimpleQueue()  # what the main thread is asked to do
        self._begun, self._over = threading.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=lambda: asyncio.run(self._turn()), name="everthread-loop", daemon=True)

    async def _turn(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._begun.set()
        await self._over.wait()

    def __enter__(self) -> Self:
        self._thread.start()
        self._begun.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the work and give its result. Called from the main thread."""
        started: list[asyncio.Task[T]] = []
        orders = self._orders = SimpleQueue()  # whoever was interrupted twice has not waited for the end of the last

        def start() -> None:
            started.append(self._loop.create_task(work))
            started[0].add_done_callback(lambda _: orders.put(None))

        self._loop.call_soon_threadsafe(start)
        try:
            self._attend()
        except KeyboardInterrupt:
            self._loop.call_soon_threadsafe(lambda: started[0].cancel())
            self._attend()
            raise
        return started[0].result()

    def _attend(self) -> None:
        """Answer what the work asks of the main thread, until it has ended."""
        while order := self._orders.get():
            order()

    async def ask(self, question: Callable[[], T]) -> T:
        """Run a function in the main thread, where the user can be asked. Called by work that runs here."""
        answer: asyncio.Future[T] = self._loop.create_future()

        def order() -> None:
            self._loop.call_soon_threadsafe(answer.set_result, question())

        self._orders.put(order)
        return await answer
