"""The loop that runs beside the prompt."""

from __future__ import annotations

import asyncio
import threading

import pytest

from everthread.cli.beside import Beside


class Impatient(Beside):
    """Somebody presses ctrl-C whenever something is waited for, so often."""

    presses = 2

    def __init__(self) -> None:
        super().__init__()
        self.began, self.ended = threading.Event(), threading.Event()
        self.task: asyncio.Task[None] | None = None

    def _attend(self) -> None:
        if self.presses:
            self.presses -= 1
            self.began.wait()
            raise KeyboardInterrupt
        super()._attend()

    async def stubborn(self) -> None:
        self.task = asyncio.current_task()
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.to_thread(self.ended.wait)


async def answer() -> int:
    return 42


def test_whoever_presses_ctrl_c_twice_can_go_on() -> None:
    with Impatient() as beside:
        with pytest.raises(KeyboardInterrupt):
            beside.run(beside.stubborn())
        beside.ended.set()
        assert beside.task
        asyncio.run_coroutine_threadsafe(asyncio.wait({beside.task}), beside._loop).result()
        assert [beside.run(answer()) for _ in range(3)] == [42] * 3
