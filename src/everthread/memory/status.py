"""How memory stands on a branch: what is due there, what was spent, and what must be waited for.

It is read at once, and read anew whenever something is to be done: the conversation may have been named, or set
otherwise, since somebody reminded the worker.
"""

from __future__ import annotations

import msgspec

from everthread.agent.runtime import Runtime
from everthread.config import Settings
from everthread.core.branches import Line
from everthread.core.values import Value
from everthread.memory.branch import Memory
from everthread.memory.due import Due, due
from everthread.memory.spending import Spending, error_of, spending
from everthread.store.conversations import Conversation, find
from everthread.store.engine import Script
from everthread.store.recall.index import Unindexed, unindexed
from everthread.store.scripts.branch import line as line_of
from everthread.store.scripts.forget import pending


class Status(msgspec.Struct, Value, frozen=True, kw_only=True):
    """How memory stands on a branch. `behind`: messages that no brief covers yet, without those of a turn under way; no
    summary, under the strategy `importance`; none under `session`, which has neither. `failures` are in a row, `error`
    is the newest of them, and `wait` the seconds until a model is asked again; `calls` and `dollars` are what memory
    took for this user in the last hour."""

    covers: int
    behind: int
    extractive: bool
    on: bool = True
    model: str = ""
    failures: int = 0
    error: str = ""
    wait: float = 0.0
    calls: int = 0
    dollars: float = 0.0


class MemoryState(msgspec.Struct, frozen=True, kw_only=True):
    """A branch as it was found: what to make its memory with, what is due, and what was spent. `model`: the one that
    memory has, whether or not it may be asked now; `wait`: seconds until it may. Also what else there is to do: events
    that the index of recall lacks, and whether something is half-forgotten."""

    memory: Memory
    model: str
    due: Due
    spent: Spending
    wait: float
    unindexed: list[Unindexed]
    half_forgotten: bool

    @property
    def line(self) -> Line:
        return self.memory.line

    @property
    def settings(self) -> Settings:
        return self.memory.settings

    @property
    def on(self) -> bool:
        """Whether anything is to be done at all."""
        return self.settings.memory

    @property
    def apart(self) -> bool:
        """Whether a worker apart is to do it."""
        return self.settings.worker != "here"

    @property
    def asks(self) -> str:
        """The model that is asked; empty where memory is extractive now."""
        return self.memory.model


async def look(
    runtime: Runtime, conversation: Conversation, branch: int | None, *, failed: bool = False, as_is: bool = False
) -> MemoryState:
    """How a branch stands now. `failed`: the model has just failed; what can be told without it serves until the model
    may be asked again. `as_is`: extracts are taken as they are, though a model could do better."""
    now, owner = runtime.log.now, conversation.owner
    await runtime.log.conversations.mine(conversation)
    agent = await runtime.agent(conversation.tenant, conversation.agent)

    def script() -> Script[MemoryState]:
        found = yield from find(owner, conversation.id)
        line = yield from line_of(found.tenant, found.id, branch, known=runtime.log.lines)
        settings = (yield from runtime.resolving(found, line, agent)).settings
        memory = Memory(runtime, found, line, settings)
        spent = yield from spending(found, now)
        model, wait = memory.model, spent.wait(settings, now) if memory.model else 0.0
        memory.model = "" if wait or failed else model
        return MemoryState(
            memory=memory,
            model=model,
            due=(yield from due(line, capable=bool(memory.model) and not as_is)),
            spent=spent,
            wait=wait,
            unindexed=(yield from unindexed(owner, found.id)),
            half_forgotten=bool((yield from pending(1))),
        )

    return await runtime.log.ask(script)


async def status(runtime: Runtime, conversation: Conversation, branch: int | None = None) -> Status:
    looked = await look(runtime, conversation, branch, as_is=True)
    found, spent = looked.due, looked.spent
    version, behind = found.version_under(looked.settings.strategy)
    return Status(
        covers=max(found.head.cleared, version.covers),
        behind=behind,
        extractive=version.extractive,
        on=looked.on,
        model=looked.model,
        failures=spent.failures,
        error=await error_of(runtime.log, conversation, spent),
        wait=looked.wait,
        calls=spent.calls,
        dollars=spent.dollars,
    )


async def memory_of(runtime: Runtime, conversation: Conversation, line: Line) -> Memory:
    """Memory of a branch, with the conversation as it is now."""
    now = await runtime.log.conversations.find(conversation.owner, conversation.id)
    return Memory(runtime, now, line, await runtime.settings_of(now, line))
