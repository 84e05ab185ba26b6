"""A sample of `everthread bench validity`: whatever the history holds, the provider accepts the request.

None is refused, none is over its budget in silence, the user's newest message is whole, reasoning is the model's own,
and each comes out the same again. The benchmark asks for twenty thousand; here it is a few hundred, always the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random

import pytest

from benchmarks.histories import bad_history, real_histories
from benchmarks.validity import FAILURES, OTHERS, Asking, Tally
from everthread import Everthread
from everthread.store.scripts.append import Draft

REQUESTS = 300
SHIPPED, EVERY = 6, 12  # conversations that ship with the tests; of the others, one in so many is taken


@pytest.mark.parametrize("seed", [11, 12])
async def test_requests_from_bad_histories_are_valid(et: Everthread, seed: int) -> None:
    tally = Tally()
    for number in itertools.count():
        await Asking(et, tally, f"bad-{number}", seed).run(bad_history(Random(f"{seed} {number}")))
        if tally.requests >= REQUESTS:
            break
    assert tally.examples == []
    assert sum(map(tally.sum, FAILURES)) == 0
    assert all(tally.sum(what) > 0 for what in OTHERS if what != "beyond the model")


async def test_requests_from_real_histories_are_valid(et: Everthread) -> None:
    """Those that ship with the tests and, where EVERTHREAD_DATA names their folder, recorded ones."""
    tally = Tally()
    for name, drafts in _real():
        await Asking(et, tally, name, 11).run(drafts)
    assert tally.examples == []
    assert sum(map(tally.sum, FAILURES)) == 0
    assert tally.requests > 50


def _real() -> Iterator[tuple[str, list[Draft]]]:
    for place, history in enumerate(real_histories()):
        if place < SHIPPED or place % EVERY == 0:
            yield history
