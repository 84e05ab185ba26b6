"""Starting a turn: its runner has the branch alone, agent and tools are ready, and the turn does what was asked for.

That is one of three things: say something, go on with a turn that was cut short, or settle a tool call that waits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec

from everthread.agent.approval import Left, waiting
from everthread.agent.prepare import Instructions, prepared, the_one
from everthread.agent.reply import Reply
from everthread.agent.runtime import Runtime
from everthread.agent.turn import Accept, Tell, Turn
from everthread.context.plan import Asked
from everthread.core.branches import Line
from everthread.core.deltas import Notice
from everthread.core.events import ToolResult
from everthread.store.beside.leases import Held
from everthread.store.log import Log
from everthread.tools import ToolContext

WAITS = "Another turn of this conversation is under way: this one waits for it, and is not written down yet."

Act = Callable[[Turn], Awaitable[None]]


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn is started with. `wait`: for a turn of the branch that is under way; else TurnBusy is raised."""

    asked: Asked
    instructions: Instructions = None
    tools: Iterable[Any] | None = None
    wait: bool = True
    detached: bool = False


def start(runtime: Runtime, talk: ToolContext, act: Act, given: Given) -> Reply:
    """A turn that does `act`, as soon as somebody listens to its reply, or at once where it is detached."""
    return Reply(partial(_run, runtime, talk, act, given), detached=given.detached)


async def _run(runtime: Runtime, talk: ToolContext, act: Act, given: Given, tell: Tell, accept: Accept) -> None:
    async with (
        runtime.running(talk.conversation.id) as running,
        _branch_alone(runtime, talk, given, tell) as (line, held),
        prepared(runtime, talk.conversation, given.asked, given.instructions, given.tools, afresh=True) as ready,
    ):
        with runtime.live.run(line, held, running) as run:
            await act(Turn(runtime, talk, run, held, ready, tell=tell, accept=accept))


@asynccontextmanager
async def _branch_alone(
    runtime: Runtime, talk: ToolContext, given: Given, tell: Tell
) -> AsyncIterator[tuple[Line, Held]]:
    """The branch, for us alone: the one that is current when it is our turn, not when we began to wait."""
    while True:
        line = await talk.line()
        waits = partial(tell, Notice(text=WAITS))
        async with runtime.queues.turn(runtime.log, line, wait=given.wait, waits=waits) as held:
            if (await talk.line()).branch.number == line.branch.number:
                yield line, held
                return


def settling(log: Log, named: str | int | None, *, approved: bool, why: str = "") -> Act:
    """Let a waiting tool call run, or refuse it: the one with this id or seq, or the only one there is."""

    async def act(turn: Turn) -> None:
        _, closed = await turn.close_left()
        lost = any(isinstance(event, ToolResult) for event in closed)
        upto = (await log.head(turn.line)).seq
        calls = await waiting(log, turn.line)
        found = the_one(calls, named, lost=lost)
        others = tuple(one.seq for one in calls if one.seq != found.seq and one.seq <= upto)
        await turn.settle(found, Left(upto, others), approved=approved, why=why)

    return act
