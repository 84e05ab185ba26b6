"""What a model's reported usage teaches about its factor.

For every model call the ratio of the usage to our canonical size is rounded up to a twentieth, its step, and only
how often each step came is kept. The factor is the smallest step that 99 of 100 model calls did not exceed, so an
estimate with it is at least the usage in as many. It moves by whole steps of 5 % or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping

from everthread.core.estimates import STEPS

LOWEST, HIGHEST = STEPS // 2, 4 * STEPS  # a ratio of 0.5 and one of 4: what is beyond is a fault, not a tokenizer


def step_of(reported: int, canonical: int) -> int:
    """The ratio of what the provider reported to the canonical size of the same, in twentieths, rounded up."""
    return min(HIGHEST, max(LOWEST, -(-reported * STEPS // max(1, canonical))))


def factor(steps: Mapping[int, int], *, least: int = 20) -> float | None:
    """The factor from how often each step came; None while fewer than `least` model calls are known."""
    total = sum(steps.values())
    if total < max(1, least):
        return None
    below = 0
    for step in sorted(steps):
        below += steps[step]
        if below * 100 >= total * 99:
            break
    return step / STEPS
