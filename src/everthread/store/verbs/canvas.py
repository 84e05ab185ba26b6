"""`log.canvas`: what was on the canvas of a line, as a fold of the events that changed it."""

from __future__ import annotations

from everthread.core.branches import ENDLESS, Line
from everthread.core.canvas import Canvas
from everthread.store.engine import Engine
from everthread.store.scripts import canvas
from everthread.store.scripts.canvas import CanvasNow


class Canvases:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def at(self, line: Line, *, before: int = ENDLESS) -> Canvas:
        """The canvas as it was before an event, or as it is."""
        return (await self._engine.read(lambda: canvas.canvas_since(line, before, last=before - 1))).before

    async def now(self, line: Line) -> CanvasNow:
        """The canvas as it is, for whoever is about to change it."""
        return await self._engine.read(lambda: canvas.canvas_now(line))
