"""`log.calibrations`: how often the usage of each model stood in which proportion to our own size."""

from __future__ import annotations

from everthread.store.beside import calibrations
from everthread.store.engine import Engine


class Calibrations:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def add(self, model: str, twentieths: int) -> None:
        """Add a model call whose usage was this many twentieths of its canonical size (`core.calibration`)."""
        await self._engine.write(lambda: calibrations.calibrate(model, twentieths), about="calibrations", durable=False)

    async def all(self) -> dict[str, dict[int, int]]:
        """By model, how often each number of twentieths came."""
        return await self._engine.read(calibrations.calibrations)
