"""Everthread without `await`: for scripts, notebooks, Flask, Django, threads.

    from everthread.sync import Everthread

    with Everthread.open("sqlite:///talk.db") as et:
        talk = et.conversation(user="ana", agent="helper")
        for delta in talk.say("What may I put into the cake?"):
            print(delta, end="", flush=True)

The same verbs, derived from the asynchronous classes: nothing is written twice. Each open store has one thread with an
event loop, where all its work is done; any number of threads may use it. Types are in `__init__.pyi`, which
`scripts/sync_stub.py` writes from the code.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, overload

from everthread import app, talk
from everthread.agent import child, personas, reply
from everthread.agent.reply import V
from everthread.core.deltas import Delta
from everthread.sync.mirrored import Mirrored, Stream, derived, form
from everthread.sync.thread import LoopThread, close_at_exit, close_now

__all__ = ["Agents", "Child", "Everthread", "Reply", "Stream", "Talk"]

T = TypeVar("T")
HOW = "`talk.say(…).result()`, `for delta in talk.say(…)`, or `talk.say(…, detached=True)`"


class Reply(Stream[Delta], Generic[V], of=reply.Reply):
    """What `say` gives: the deltas of a turn, `for delta in reply`, or the whole, `reply.result()`.

    The turn begins when somebody listens or waits. Leaving the loop early, by `break` or by an error, ends it, and so
    does Ctrl-C; what had come of the reply is kept.
    """

    def __init__(self, mirrored: reply.Reply, thread: LoopThread) -> None:
        super().__init__(mirrored, thread)
        mirrored._how = HOW

    def result(self) -> reply.TurnResult[V]:
        """Listen to the end: the text of the reply, and what it took."""
        return self._thread.run(lambda: self._mirrored._whole())


class Agents(Mirrored, of=personas.Agents):
    """The agents of every tenant, with their versions, in a store."""


class Child(Mirrored, of=child.Child):
    """A child: `outcome()` waits until it has ended. `talk.on(child.branch)` is its own talk, with every verb."""


class Talk(Mirrored, of=talk.Talk):
    """A conversation, on its current branch or on one that was chosen."""


class Everthread(Mirrored, of=app.Everthread):
    """An open store of conversations."""

    def __init__(self, mirrored: app.Everthread, thread: LoopThread) -> None:
        super().__init__(mirrored, thread)
        close_at_exit(thread, mirrored.close)

    @staticmethod
    @derived(app.Everthread.open)
    def open(*given: Any, **named: Any) -> Everthread:
        opening, thread = app.Everthread.open(*given, **named), LoopThread()
        try:
            return Everthread(thread.run(opening.__aenter__), thread)
        except BaseException:
            thread.close()
            raise

    @overload
    def run(self, work: Callable[[app.Everthread], AsyncIterator[T]]) -> Stream[T]: ...

    @overload
    def run(self, work: Callable[[app.Everthread], Awaitable[T]]) -> T: ...

    def run(self, work: Callable[[app.Everthread], Any]) -> Any:
        """Do something asynchronous with the store: `et.run(lambda et: et.log.strays())`. What comes bit by bit is a
        `Stream`."""

        async def done() -> Any:
            value = work(self._mirrored)
            return await value if hasattr(value, "__await__") else value

        return form(self._thread.run(done), self._thread)

    def close(self) -> None:
        """Finish what is under way and let go of the store."""
        close_now(self._thread)

    def __getattr__(self, name: str) -> Any:
        also = f"; the asynchronous store has it: et.run(lambda et: et.{name} …)" if name in ("log", "memory") else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{also}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
