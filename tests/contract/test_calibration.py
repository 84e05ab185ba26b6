"""Calibrations in the store: counts that only grow, and none is lost when many count at once."""

from __future__ import annotations

import asyncio

import pytest

from everthread import Everthread
from everthread.core.calibration import HIGHEST, LOWEST, factor, twentieths_of
from everthread.errors import BadValue
from everthread.store.open import open_log


async def test_each_model_has_its_own_counts(et: Everthread, someone: str) -> None:
    one, other = f"{someone}:one", f"{someone}:other"
    for model, twentieths in ((one, 20), (one, 21), (one, 20), (other, 20)):
        await et.log.calibrations.add(model, twentieths)
    found = await et.log.calibrations.all()
    assert (found[one], found[other]) == ({20: 2, 21: 1}, {20: 1})


async def test_counts_outlive_the_process_and_give_a_factor(address: str, someone: str) -> None:
    log = await open_log(address)
    for reported in range(1_010, 1_210, 10):
        twentieths = twentieths_of(reported, 1_000)
        assert twentieths is not None
        await log.calibrations.add(someone, twentieths)
    await log.close()
    log = await open_log(address)
    assert factor((await log.calibrations.all())[someone]) == 1.2
    await log.close()


async def test_many_who_count_at_once_lose_none(address: str, someone: str) -> None:
    logs = [await open_log(address) for _ in range(4)]
    await asyncio.gather(*(logs[n % 4].calibrations.add(someone, 20 + n % 3) for n in range(90)))
    assert (await logs[0].calibrations.all())[someone] == {20: 30, 21: 30, 22: 30}
    for log in logs:
        await log.close()


@pytest.mark.parametrize("twentieths", [LOWEST - 1, HIGHEST + 1, 2**40])
async def test_a_ratio_that_cannot_be_is_refused(et: Everthread, someone: str, twentieths: int) -> None:
    with pytest.raises(BadValue, match="twentieths"):
        await et.log.calibrations.add(someone, twentieths)
    assert someone not in await et.log.calibrations.all()


@pytest.mark.parametrize("model", ["", "a\0b", "\ud800"])
async def test_a_model_has_a_printable_name(et: Everthread, model: str) -> None:
    with pytest.raises(BadValue, match="model"):
        await et.log.calibrations.add(model, 20)
