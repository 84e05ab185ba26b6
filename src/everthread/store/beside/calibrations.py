"""Calibrations: how often the usage of each model stood in which proportion to our own size (`core.calibration`).

Counts that only grow, of models and not of anybody: they hold nothing of what was said, and are every tenant's. One
too many, when the answer to a commit was lost, does no harm.
"""

from __future__ import annotations

from everthread.core.calibration import HIGHEST, LOWEST
from everthread.errors import BadValue
from everthread.store.conversations import check_name
from everthread.store.engine import Ask, Outcome, Script, Tell


def calibrate(model: str, twentieths: int) -> Script[Outcome[None]]:
    """Add a model call whose usage was this many twentieths of its canonical size."""
    check_name("model", model, most=400)
    if not LOWEST <= twentieths <= HIGHEST:
        raise BadValue("twentieths", twentieths, f"from {LOWEST} to {HIGHEST}")
    yield from ()
    return Outcome(None, [Tell("calibrate", [{"model": model, "step": twentieths}])])


def calibrations() -> Script[dict[str, dict[int, int]]]:
    found: dict[str, dict[int, int]] = {}
    for model, twentieths, count in (yield Ask("calibrations", {})):
        found.setdefault(model, {})[twentieths] = count
    return found
