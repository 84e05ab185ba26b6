"""A sign of life on standard error while nothing comes, for people only. It leaves no trace."""

from __future__ import annotations

import asyncio
import sys
from itertools import cycle
from typing import Self

FRAMES, PLAIN_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\"
PAUSE = 0.1  # seconds before the first frame too, so that what comes at once does not flicker
CLEAR_LINE = "\r\x1b[K"


class Spinner:
    """Turns while `waiting` is true, at the left margin: who writes there hides it first."""

    def __init__(self, words: str = "") -> None:
        self.words = words
        self.waiting = True
        self._drawn = False
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if sys.stderr.isatty():
            self._task = asyncio.create_task(self._turn())
        return self

    async def __aexit__(self, *_problem: object) -> None:
        if self._task:
            self._task.cancel()
        self.hide()

    def hide(self) -> None:
        self.waiting = False
        if self._drawn:
            self._drawn = False
            _write(CLEAR_LINE)

    async def _turn(self) -> None:
        for frame in cycle(FRAMES if sys.stderr.encoding.lower().startswith("utf") else PLAIN_FRAMES):
            await asyncio.sleep(PAUSE)
            if self.waiting:
                _write(f"{CLEAR_LINE}{frame} {self.words}")
                self._drawn = True


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
