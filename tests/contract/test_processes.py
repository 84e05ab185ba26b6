"""Many processes on one branch: no error reaches a caller, no gap, nothing twice."""

from __future__ import annotations

import asyncio
from collections import Counter

from everthread import Everthread
from tests.contract.support import assert_sound, everything, module, run, texts

WRITERS = 8


async def test_eight_writer_processes_on_one_branch(address: str, someone: str) -> None:
    each = 25
    async with Everthread.open(address) as et:
        talk = await et.begin(user=someone)
        done = await asyncio.gather(
            *(run(*module("writers.py", "write", address, someone, talk.id, n, each)) for n in range(WRITERS))
        )
        assert [(process.status, process.err) for process in done] == [(0, "")] * WRITERS
        found = await everything(talk)
        assert [event.seq for event in found] == list(range(1, 2 * WRITERS * each + 1))
        said = [event.text for event in found]
        assert Counter(said[::2]) == Counter(f"{n}/{number}" for n in range(WRITERS) for number in range(each))
        assert said[1::2] == [f"{text} done" for text in said[::2]]  # an append is never torn apart
        for number, process in enumerate(done):  # each heard the number that its event really has
            assert [said[int(seq) - 1] for seq in process.out] == [f"{number}/{n}" for n in range(each)]
        await assert_sound(et, talk)


async def test_eight_processes_that_open_and_close_all_the_time(address: str, someone: str) -> None:
    each = 10
    async with Everthread.open(address) as et:
        talk = await et.begin(user=someone)
    done = await asyncio.gather(
        *(run(*module("writers.py", "churn", address, someone, talk.id, n, each)) for n in range(WRITERS))
    )
    assert [(process.status, process.err) for process in done] == [(0, "")] * WRITERS
    async with Everthread.open(address) as et:
        talk = await et.conversation(user=someone, id=talk.id)
        assert Counter(await texts(talk)) == Counter(f"{n}/{number}" for n in range(WRITERS) for number in range(each))
        await assert_sound(et, talk)
