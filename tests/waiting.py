"""Waiting for what must happen, however slow the machine is: no test says how soon."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

PATIENCE = 120.0  # seconds, only so that what is broken fails instead of hanging
WHOLE = 10 * PATIENCE  # for a program that runs from its start to its end, such as a benchmark


async def until(true: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait for something that tells nobody: a file, the log, another process."""
    async with asyncio.timeout(PATIENCE):
        while not (found if isinstance(found := true(), bool) else await found):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def comes_true(true: Callable[[], bool]) -> bool:
    """The same, where there is no loop."""
    deadline = time.monotonic() + PATIENCE
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    return true()


async def turned(times: int = 200) -> None:
    """Let the loop turn so often that whatever waits for nobody else has come to its end."""
    for _ in range(times):
        await asyncio.sleep(0)
