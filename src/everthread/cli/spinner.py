"""A sign of life on standard error while nothing comes, for people only. It leaves no trace."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Self

from everthread.cli.shared import console, printable

if TYPE_CHECKING:
    from rich.live import Live

PAUSE = 0.1  # seconds before it is shown, so that what comes at once does not flicker


class Spinner:
    """Turns at the left margin while one waits; hide it before anything is written there."""

    def __init__(self, words: str = "") -> None:
        self._words = words
        self._soon: asyncio.TimerHandle | None = None
        self._live: Live | None = None

    async def __aenter__(self) -> Self:
        self.wait(self._words)
        return self

    async def __aexit__(self, *_problem: object) -> None:
        self.hide()

    def wait(self, words: str = "") -> None:
        """Turn from now on, with these words beside it."""
        self.hide()
        if sys.stderr.isatty():
            self._soon = asyncio.get_running_loop().call_later(PAUSE, self._show, words)

    def hide(self) -> None:
        if self._soon:
            self._soon.cancel()
        if self._live:
            self._live.stop()
        self._soon = self._live = None

    def _show(self, words: str) -> None:
        from rich.live import Live
        from rich.spinner import Spinner as Turning
        from rich.text import Text

        out = console(err=True)
        frames = "dots" if out.encoding.startswith("utf") else "line"
        turning = Turning(frames, text=Text(printable(words)))
        # Not redirected: standard output may be a pipe, and what goes there must get there.
        self._live = Live(
            turning, console=out, transient=True, refresh_per_second=10, redirect_stdout=False, redirect_stderr=False
        )
        self._live.start(refresh=True)
