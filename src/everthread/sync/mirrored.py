"""The verbs of an asynchronous class without `await`, derived from that class.

    class Talk(Mirrored, of=everthread.talk.Talk): ...

has every public verb and attribute of the class that it is made `of`. A verb is looked up on the asynchronous object
when it is called, is carried out on the event loop of a `LoopThread`, and gives what it gives there; only a talk, a
reply or anything else that has verbs of its own comes as its mirrored form, and what is to be read with `async for` as
a `Stream`.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from functools import wraps
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar

from everthread.errors import Closed
from everthread.sync.thread import LoopThread

T = TypeVar("T")

_forms: dict[type, type[Mirrored]] = {}
_END = object()

OTHERWISE = {"aclose"}  # what has another name without `await`: `Stream.close`


class Mirrored:
    _of: ClassVar[type]

    def __init_subclass__(cls, *, of: type | None = None) -> None:
        super().__init_subclass__()
        if of is not None:
            cls._of, _forms[of] = of, cls
            for name, value in verbs(of).items():
                if not hasattr(cls, name):
                    setattr(cls, name, value)

    def __init__(self, mirrored: Any, thread: LoopThread) -> None:
        self._mirrored, self._thread = mirrored, thread

    def __repr__(self) -> str:
        return repr(self._mirrored)


def verbs(of: type) -> dict[str, Any]:
    """What a class offers in public, as its mirrored form has it."""
    annotated = (name for part in of.__mro__ for name in getattr(part, "__annotations__", {}))
    found: dict[str, Any] = {name: _attribute(name) for name in annotated}
    for name in dir(of):
        value = inspect.getattr_static(of, name)
        if inspect.isfunction(value):
            found[name] = _verb(name, value)
        elif isinstance(value, property):
            found[name] = _attribute(name, value.__doc__)
    return {name: value for name, value in found.items() if not name.startswith("_") and name not in OTHERWISE}


def _verb(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @derived(function)
    def verb(self: Mirrored, *given: Any, **named: Any) -> Any:
        async def work() -> Any:
            value = getattr(self._mirrored, name)(*given, **named)
            return await value if inspect.iscoroutine(value) else value

        return form(self._thread.run(work), self._thread)

    return verb


def derived(function: Callable[..., Any]) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Gives a verb the name, signature and docstring of the asynchronous one."""

    def give(verb: Callable[..., T]) -> Callable[..., T]:
        verb = wraps(function)(verb)
        verb.__doc__ = without_await(function.__doc__)
        return verb

    return give


def without_await(about: str | None) -> str | None:
    """A docstring as it reads without `await`."""
    return about and re.sub(r"\b(async|await) ", "", about).replace("`await`", "`result()` for")


def _attribute(name: str, about: str | None = None) -> property:
    return property(lambda self: form(getattr(self._mirrored, name), self._thread), doc=about)


def form(value: Any, thread: LoopThread) -> Any:
    """A value as callers without `await` can use it."""
    mirrored = next((_forms[one] for one in type(value).__mro__ if one in _forms), None)
    if mirrored is not None:
        return mirrored(value, thread)
    return Stream(value, thread) if isinstance(value, AsyncIterator) else value


class Stream(Mirrored, Generic[T]):
    """What comes bit by bit: `for item in stream`. Leaving the loop closes the stream; `close`, from any thread, ends
    the loop."""

    def __init__(self, mirrored: Any, thread: LoopThread) -> None:
        super().__init__(mirrored, thread)
        self._closed = asyncio.Event()
        self._coming: asyncio.Task[Any] | None = None

    def __iter__(self) -> Iterator[T]:
        return self._items(None)

    def pulse(self, seconds: float) -> Iterator[T | None]:
        """The same items, and None whenever nothing has come for `seconds`: time to send a sign of life, or to see
        whether anybody is still there."""
        return self._items(seconds)

    def _items(self, seconds: float | None) -> Iterator[Any]:
        try:
            while (item := self._thread.run(lambda: self._next(seconds))) is not _END:
                yield item
        finally:
            self.close()

    async def _next(self, seconds: float | None) -> Any:
        if self._closed.is_set():
            return _END
        coming = self._coming = self._coming or asyncio.create_task(self._one())
        try:
            await asyncio.wait({coming}, timeout=seconds)
        except asyncio.CancelledError:  # the caller was interrupted
            await self._close()
            raise
        if not coming.done():
            return None
        self._coming = None
        return _END if self._closed.is_set() else coming.result()

    async def _one(self) -> Any:
        try:
            return await anext(self._mirrored)
        except StopAsyncIteration:
            return _END

    def close(self) -> None:
        """Stop listening."""
        with suppress(Closed):  # then it has ended already
            if self._thread.is_here:  # dropped by chance where nobody can wait
                self._thread.soon(lambda: asyncio.ensure_future(self._close()))
            elif self._thread.is_open:
                self._thread.run(self._close)

    async def _close(self) -> None:
        self._closed.set()
        if self._coming is not None:
            self._coming.cancel()
            await asyncio.wait({self._coming})
        await self._mirrored.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
