"""The worker, with jobs that are nobody's: it does what it is given, and knows nothing of memory."""

from __future__ import annotations

import msgspec
import pytest

from everthread import Everthread, Talk
from everthread.core.branches import Line
from everthread.errors import Outrun
from everthread.jobs.worker import TRIES, Job, Worker
from everthread.store.beside.leases import Lease
from everthread.store.conversations import Conversation
from tests.waiting import PATIENCE


class Found(msgspec.Struct, kw_only=True):
    """A branch on which `left` pieces of work are due."""

    line: Line
    left: int
    failed: bool
    on: bool = True
    apart: bool = False
    wait: float = 0.0
    asks: str = ""


class Work:
    """So much is due on a branch; what was done, and whether under a lease."""

    def __init__(self, talk: Talk, left: int) -> None:
        self._talk, self.left = talk, left
        self.done: list[tuple[str, bool]] = []
        self.fails = self.outrun = False

    async def look(self, conversation: Conversation, branch: int | None, *, failed: bool = False) -> Found:
        return Found(line=await self._talk.line(), left=self.left, failed=failed)

    def job(self, name: str, *, alone: bool = True, stands_in: bool = False) -> Job[Found]:
        async def do(found: Found, lease: Lease | None) -> bool:
            self.done.append((name, lease is not None))
            if self.outrun:
                raise Outrun("brief_updated")
            if self.fails and not stands_in:
                return False
            self.left -= alone
            return True

        def due(found: Found, all: bool) -> bool:
            return found.left > 0 and found.failed == stands_in

        return Job(name=name, due=due, do=do, alone=alone)


@pytest.fixture
async def work(talk: Talk) -> Work:
    return Work(talk, left=2)


def worker_of(et: Everthread, work: Work, *jobs: Job[Found]) -> Worker:
    return Worker(et.log, jobs, look=work.look, busy=lambda: False)


async def test_a_job_is_done_under_a_lease_until_it_is_due_no_more(et: Everthread, talk: Talk, work: Work) -> None:
    worker = worker_of(et, work, work.job("tidy"))
    assert await worker.once(talk.conversation)
    assert work.done == [("tidy", True), ("tidy", True)]
    assert not await worker.once(talk.conversation)


async def test_a_job_that_need_not_be_alone_is_done_once_and_first(et: Everthread, talk: Talk, work: Work) -> None:
    await worker_of(et, work, work.job("tidy"), work.job("sweep", alone=False)).once(talk.conversation)
    assert work.done == [("sweep", False), ("tidy", True), ("tidy", True)]


async def test_of_several_that_are_due_the_first_is_done(et: Everthread, talk: Talk, work: Work) -> None:
    await worker_of(et, work, work.job("first"), work.job("second")).once(talk.conversation)
    assert work.done == [("first", True), ("first", True)]


async def test_where_a_job_fails_another_may_stand_in(et: Everthread, talk: Talk, work: Work) -> None:
    work.fails = True
    await worker_of(et, work, work.job("well"), work.job("poorly", stands_in=True)).once(talk.conversation)
    assert work.done == [("well", True), ("poorly", True), ("poorly", True)]


async def test_whoever_is_outrun_gives_up_after_a_few_times(et: Everthread, talk: Talk, work: Work) -> None:
    work.outrun = True
    assert not await worker_of(et, work, work.job("tidy")).once(talk.conversation)
    assert len(work.done) == TRIES


async def test_what_it_is_reminded_of_is_done_when_it_is_drained(et: Everthread, talk: Talk, work: Work) -> None:
    worker = worker_of(et, work, work.job("tidy"))
    worker.remind(talk.conversation, 1)
    assert await worker.drain(PATIENCE)
    assert work.left == 0
    await worker.close()
