"""Starting a `runner` in a process of its own, telling it what to do and waiting for what it tells."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]


class Process:
    """`told`: all that it has told so far; `orders`: the names under which it was told to do something."""

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self._child = child
        self.told: list[dict[str, Any]] = []
        self.orders: list[str] = []
        self._more = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._child.stdout is not None
        async for line in self._child.stdout:
            self.told.append(json.loads(line))
            self._more.set()
        self._more.set()

    def do(self, what: str, name: str, **more: Any) -> None:
        assert self._child.stdin is not None
        self.orders.append(name)
        self._child.stdin.write(json.dumps({"do": what, "name": name, **more}).encode() + b"\n")

    def by(self, name: str) -> list[dict[str, Any]]:
        """What one of those in it has told."""
        return [one for one in self.told if one["name"] == name]

    async def until(self, wanted: Callable[[list[dict[str, Any]]], object]) -> None:
        """Wait until what was told is as wanted."""
        async with asyncio.timeout(PATIENCE):
            while not wanted(self.told):
                self._more.clear()
                assert not self._reading.done(), f"it ended: {self.told[-3:]}"
                await self._more.wait()

    def send_signal(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    async def kill(self) -> None:
        if self._child.returncode is None:
            self._child.send_signal(signal.SIGKILL)
        await self._child.wait()
        await self._reading


@asynccontextmanager
async def process(
    address: str, owner: str, conversation: str, *, model: str, words: int = 20, pace: float = 0.05, lease: float = 30.0
) -> AsyncIterator[Process]:
    """A runner whose model, of this name, gives replies of so many words, one every `pace` seconds."""
    arguments = (address, owner, conversation, model, str(words), str(pace), str(lease))
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.agent.runner", *arguments),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    started = Process(child)
    try:
        await started.until(lambda told: told)
        yield started
    finally:
        await started.kill()
