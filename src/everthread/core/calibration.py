"""What a model's reported usage teaches about its factor.

For every model call the ratio of the usage to our canonical size is rounded up to whole twentieths, and only how often
each number of twentieths came is kept. The factor is the smallest that 99 of 100 model calls did not exceed, so an
estimate with it is at least the usage in as many. It moves by a whole twentieth (5 %) or not at all.

Small requests teach nothing: what a provider adds to each of them would look like a tokenizer. Nor does a report that
no tokenizer could give. And while there are fewer than a hundred, a single one raises the factor by at most a
twentieth.
"""

from __future__ import annotations

from collections.abc import Mapping

from everthread.core.estimates import TWENTIETHS

# A ratio of 0.5 and one of 4: what is beyond is a fault, not a tokenizer.
LOWEST, HIGHEST = TWENTIETHS // 2, 4 * TWENTIETHS
LEAST = 1_000  # tokens of a request that teaches
MANY = 100  # model calls from which on one in a hundred can be told


def twentieths_of(reported: int, canonical: int) -> int | None:
    """The ratio of reported tokens to the canonical size, in twentieths, rounded up; None where it teaches nothing."""
    if canonical < LEAST:
        return None
    twentieths = -(-reported * TWENTIETHS // canonical)
    return twentieths if LOWEST <= twentieths <= HIGHEST else None


def factor(counts: Mapping[int, int], *, least: int = 20) -> float | None:
    """The factor from how often each number of twentieths came; None while fewer than `least` model calls are known."""
    total = sum(counts.values())
    if total < max(1, least):
        return None
    return (_of_few(counts) if total < MANY else _of_many(counts, total)) / TWENTIETHS


def _of_few(counts: Mapping[int, int]) -> int:
    highest, second, *_ = [one for one in sorted(counts, reverse=True) for _ in range(min(2, counts[one]))]
    return min(highest, second + 1)


def _of_many(counts: Mapping[int, int], total: int) -> int:
    above = total // 100  # of how many model calls it may be too little
    for twentieths in sorted(counts, reverse=True):
        above -= counts[twentieths]
        if above < 0:
            break
    return twentieths
