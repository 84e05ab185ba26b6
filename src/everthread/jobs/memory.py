"""Memory's jobs, as the worker takes them: the most urgent first."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from everthread.agent.runtime import Runtime
from everthread.jobs.worker import Job, Worker
from everthread.memory import brief, name, recap, summary
from everthread.memory.branch import Memory, Unusable
from everthread.memory.due import Due
from everthread.memory.status import MemoryState, look
from everthread.store.beside.leases import Lease

_log = logging.getLogger("everthread.memory")


def memory_worker(runtime: Runtime) -> Worker:
    """A worker that does what memory has to do."""
    return Worker(runtime.log, JOBS, look=partial(look, runtime), busy=lambda: runtime.busy)


class _IsDue(Protocol):
    def __call__(self, memory: Memory, due: Due, *, all: bool) -> bool: ...


def _made(what: str, is_due: _IsDue, make: Callable[[Memory, Due], Awaitable[None]]) -> Job[MemoryState]:
    """The job that makes something to be remembered."""

    async def do(looked: MemoryState, lease: Lease | None) -> bool:
        looked.memory.lease = lease
        try:
            await make(looked.memory, looked.due)
        except Unusable as problem:
            _log.info("Memory of conversation %s waits: %s", looked.line.conversation, problem)
            return False
        return True

    return Job(name=what, due=lambda looked, all: is_due(looked.memory, looked.due, all=all), do=do)


async def _finish_forgetting(looked: MemoryState, _: Lease | None) -> bool:
    """Do what a process that died has left."""
    await looked.memory.log.forgetting.finish_later()
    return True


async def _index(looked: MemoryState, _: Lease | None) -> bool:
    conversation = looked.memory.conversation
    await looked.memory.log.recall.index_these(conversation.owner, looked.unindexed)
    return True


JOBS: tuple[Job[MemoryState], ...] = (
    Job(name="forget", due=lambda looked, _: looked.half_forgotten, do=_finish_forgetting, alone=False),
    Job(name="index", due=lambda looked, _: bool(looked.unindexed), do=_index, alone=False),
    _made("recap", recap.is_due, recap.make),
    _made("summary", summary.is_due, summary.make),
    _made("brief", brief.is_due, brief.make),
    _made("name", name.is_due, name.make),
)
