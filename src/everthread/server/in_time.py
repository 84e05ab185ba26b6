"""Waiting no longer than some seconds, for what seldom waits at all.

`asyncio.timeout` sets a timer each time, and takes it back. A page that is read at once needs none: the clock runs only
from the moment that there is something to wait for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def in_time(work: Coroutine[Any, Any, T], seconds: float) -> T:
    """What it comes to. TimeoutError: it had to wait for longer than this."""
    steps = work.__await__()
    try:
        waits_for = next(steps)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    async with asyncio.timeout(seconds):
        return await _gone_on(steps, waits_for)


@coroutine
def _gone_on(steps: Generator[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
    """The rest of what has begun, from the first thing that it waits for."""
    try:
        while True:
            try:
                given = yield waits_for
            except BaseException as problem:  # noqa: BLE001 -- it is for the work to see
                waits_for = steps.throw(problem)
            else:
                waits_for = steps.send(given)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
