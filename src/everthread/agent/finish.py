"""Work that is not left half-way.

A write that was begun lands, whether or not whoever asked for it is cancelled meanwhile. So a cancellation waits until
it has: only then does one know what the log says, and can go on from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def finished(work: Awaitable[T]) -> T:
    """What the work gives. A cancellation is passed on when the work has ended."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # looked at, though nobody is left to be told
        raise


async def finished_or_failed(work: Awaitable[T]) -> T:
    """The same, but where the work has failed that is raised, which tells more than a cancellation."""
    task = asyncio.ensure_future(work)
    try:
        return await finished(task)
    except asyncio.CancelledError:
        task.result()
        raise
