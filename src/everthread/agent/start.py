"""Starting a turn: take the branch for it alone, get its agent and tools ready, and do what was asked for.

That is one of three things: say something, go on with a turn that was cut short, or settle a tool call that waits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec

from everthread.agent.approval import StillWaiting, check_approved_nowhere, is_cut_short, waiting
from everthread.agent.outcomes import settle_left, telling_parent
from everthread.agent.personas import kept_as
from everthread.agent.prepare import Instructions, prepared, the_one
from everthread.agent.reply import Reply
from everthread.agent.runtime import Runtime
from everthread.agent.turn import Accept, TellDelta, TurnRunner
from everthread.context.plan import Asked
from everthread.core.branches import Line, Target
from everthread.core.deltas import Notice
from everthread.store.beside.leases import Held
from everthread.store.log import Log
from everthread.store.scripts.read import Standing, standing
from everthread.tools import ToolContext

WAITS = "Another turn of this conversation is under way: this one waits for it, and is not written down yet."

TurnAct = Callable[[TurnRunner], Awaitable[None]]


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn is started with. `wait`: whether to wait for a turn that is under way on the branch; else TurnBusy is
    raised. `detached`: whether it begins at once, and goes on when its caller has gone."""

    asked: Asked
    instructions: Instructions = None
    tools: Iterable[Any] | None = None
    wait: bool = True
    detached: bool = False


def start(runtime: Runtime, talk: ToolContext, target: Target, act: TurnAct, given: Given) -> Reply:
    """A turn that does `act`, as soon as somebody listens to its reply, or at once where it is detached."""
    run = partial(_run, runtime, talk, target, act, given)
    return Reply(run, detached=given.detached, output=given.asked.output)


async def _run(
    runtime: Runtime, talk: ToolContext, target: Target, act: TurnAct, given: Given, tell: TellDelta, accept: Accept
) -> None:
    conversation = talk.conversation
    async with runtime.running(conversation) as running:
        await runtime.agents.bring(conversation.tenant)
        await settle_left(runtime, talk)
        async with (
            _branch_alone(runtime, talk, target, given, tell) as (line, held, standing),
            telling_parent(runtime, conversation, line) as child,
            prepared(
                runtime, conversation, given.asked, given.instructions, given.tools, check=True, child=child
            ) as ready,
        ):
            with runtime.live.run(line, held, running) as run, runtime.children.taking(line, child) as figures:
                await act(TurnRunner(runtime, talk, run, standing, ready, figures, tell=tell, accept=accept))


@asynccontextmanager
async def _branch_alone(
    runtime: Runtime, talk: ToolContext, target: Target, given: Given, tell: TellDelta
) -> AsyncIterator[tuple[Line, Held, Standing]]:
    """The branch, for this turn alone: the one that is current once we hold the lease, not when we began to wait. The
    agent's document is read then, too, because it may have changed meanwhile."""
    conversation, waits = talk.conversation, partial(tell, Notice(text=WAITS))
    ask = partial(standing, target, kept_as(conversation.tenant, conversation.agent))
    while True:
        line = await talk.line()
        async with runtime.queues.turn(runtime.log, line, wait=given.wait, waits=waits, ask=ask) as (held, found):
            if found.branch == line.branch.number:
                runtime.know(conversation.tenant, conversation.agent, found.document)
                yield line, held, found
                return


def settling(log: Log, named: str | int | None, *, approved: bool, why: str = "", arguments: str = "") -> TurnAct:
    """Let a waiting tool call run, or refuse it: the one with this id or seq, or the only one there is. `arguments`:
    those with which it runs, as JSON, where they are not the model's."""

    async def act(turn: TurnRunner) -> None:
        closed = await turn.close_left()
        lost = any(map(is_cut_short, closed))
        upto = turn.head.seq
        calls = await waiting(log, turn.line)
        found = the_one(calls, named, lost=lost)
        if approved:
            await check_approved_nowhere(log, turn.line, found)
        others = tuple(one.seq for one in calls if one.seq != found.seq and one.seq <= upto)
        await turn.settle(found, StillWaiting(upto, others), approved=approved, why=why, arguments=arguments)

    return act
