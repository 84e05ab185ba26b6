"""What `Everthread.open` returns: something to await, or to enter with `async with`, which closes it in the end.

Whoever forgets both holds this and not a store; it says so, rather than that some attribute is missing, and warns when
it is let go, as Python does of a coroutine.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar

WRITE = "write `et = await Everthread.open(…)`, or `async with Everthread.open(…) as et`"


class Closes(Protocol):
    async def close(self) -> None: ...


T = TypeVar("T", bound=Closes)


class Opening(Generic[T]):
    def __init__(self, open: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._open = open
        self._opened: T | None = None
        self._begun = False

    def __await__(self) -> Generator[Any, None, T]:
        self._begun = True
        return self._open().__await__()

    async def __aenter__(self) -> T:
        self._opened = await self
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened:
            await self._opened.close()

    def __del__(self) -> None:
        if not self._begun:
            warnings.warn(f"Everthread.open(…) was never awaited: {WRITE}.", RuntimeWarning, stacklevel=2, source=self)

    if not TYPE_CHECKING:  # a type checker would take it that there is everything

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"The store is not open yet, so there is no {name!r}: {WRITE}.")
