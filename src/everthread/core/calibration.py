"""What a model's reported usage teaches about its factor.

For every model call the ratio of the usage to our canonical size is rounded up to a twentieth, its step, and only
how often each step came is kept. The factor is the smallest step that 99 of 100 model calls did not exceed, so an
estimate with it is at least the usage in as many. It moves by whole steps of 5 % or not at all.

Small requests teach nothing: what a provider adds to each of them would look like a tokenizer. Nor does a report that
no tokenizer could give. And while there are fewer than a hundred, a single one raises the factor by a step at most.
"""

from __future__ import annotations

from collections.abc import Mapping

from everthread.core.estimates import STEPS

LOWEST, HIGHEST = STEPS // 2, 4 * STEPS  # a ratio of 0.5 and one of 4: what is beyond is a fault, not a tokenizer
LEAST = 1_000  # tokens of a request that teaches
MANY = 100  # model calls from which on one in a hundred can be told


def step_of(reported: int, canonical: int) -> int | None:
    """The ratio of reported tokens to the canonical size, in twentieths, rounded up; None where it teaches nothing."""
    if canonical < LEAST:
        return None
    step = -(-reported * STEPS // canonical)
    return step if LOWEST <= step <= HIGHEST else None


def factor(steps: Mapping[int, int], *, least: int = 20) -> float | None:
    """The factor from how often each step came; None while fewer than `least` model calls are known."""
    total = sum(steps.values())
    if total < max(1, least):
        return None
    return (_of_few(steps) if total < MANY else _of_many(steps, total)) / STEPS


def _of_few(steps: Mapping[int, int]) -> int:
    highest, second, *_ = [step for step in sorted(steps, reverse=True) for _ in range(min(2, steps[step]))]
    return min(highest, second + 1)


def _of_many(steps: Mapping[int, int], total: int) -> int:
    above = total // 100  # of how many model calls it may be too little
    for step in sorted(steps, reverse=True):
        above -= steps[step]
        if above < 0:
            break
    return step
