"""Delegating: a child is begun on a branch of its own, and runs in the background until its task is done.

The branch comes first, with the command that says whose child it is, and the settings that are its own. Then, under the
lease of that branch, its beginning is written on the parent's branch, and the task is said: from then on whoever sees
the beginning sees a child that runs, or one whose process is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from everthread.agent.approval import unanswered
from everthread.agent.family import begun_on, running
from everthread.agent.lease import apart
from everthread.agent.prepare import check_child
from everthread.agent.runtime import Runtime
from everthread.agent.start import Given, start
from everthread.agent.turn import TurnRunner
from everthread.core.branches import Line
from everthread.core.events import TOMBSTONE, Event, SettingsChanged, ToolCall, User, text_of
from everthread.core.happenings import FlowStarted
from everthread.core.logged import Logged, readable
from everthread.core.outcomes import Delegated, started_key, title
from everthread.core.request import object_of
from everthread.errors import TooDeep, TooManyChildren
from everthread.store.conversations import Conversation
from everthread.store.log import Log
from everthread.tools import ToolContext
from everthread.tools.context import call_that_runs

DEPTH = 2  # how deep children may be nested, unless told otherwise
AT_ONCE = 8  # and how many of a conversation run at once


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A task, and what a child is begun with. `fresh`: with nothing of what was said before. `awaited`: a tool of the
    parent's waits for the outcome, and tells it."""

    task: User
    agent: str = ""
    name: str = ""
    settings: dict[str, Any] = {}
    fresh: bool = False
    canvas: bool = False
    depth: int = DEPTH
    at_once: int = AT_ONCE
    awaited: bool = False


async def begin(runtime: Runtime, talk: ToolContext, order: Order, given: Given) -> Line:
    """Begin a child of the branch that a talk is on, and return its own once its task is in the log. TooMany: it would
    be a turn more than its user may have at once."""
    conversation = talk.conversation
    if order.agent:
        await runtime.agents.must_be(conversation.tenant, order.agent)
    async with runtime.children.beginning(conversation.id):
        line = await talk.line()
        said = await _allowed(runtime, conversation, line, order)
        await check_child(runtime, conversation, given.asked, given.instructions, given.tools, said)
        over = await runtime.admit(conversation)
        try:
            return await _grown(runtime, talk, line, said, order, given, over)
        except BaseException:
            over()
            raise


async def _grown(
    runtime: Runtime,
    talk: ToolContext,
    line: Line,
    said: Delegated,
    order: Order,
    given: Given,
    over: Callable[[], None],
) -> Line:
    """The branch of a child that may begin, once its task is in the log. `over`: to be called when its turn is."""
    log = runtime.log
    at, calls = await _fork_point(log, line)
    own: list[Event] = [said.command, *([SettingsChanged(values=order.settings)] if order.settings else [])]
    grown = await log.fork(line, at=0 if order.fresh else at, name=order.name, word="child", markers=own)
    runtime.children.know(grown, said)
    quotes = [[line.conversation, one.branch, one.seq] for one in calls if _asks_for(one, order.task)]
    if (call := call_that_runs()) and [*call] not in quotes:
        quotes.append([*call])
    started = _started(grown, said, order, quotes)

    async def act(turn: TurnRunner) -> None:
        await log.append(line.target, [started], key=started_key(grown.branch.number))
        await turn.say(order.task)

    own_talk = await talk.on(grown.branch.number)
    if order.awaited:
        runtime.children.wait_for(grown)
    try:
        with apart():
            reply = start(runtime, own_talk, grown.target, act, given)
        if reply._task is not None:
            reply._task.add_done_callback(lambda _: over())
        message = await reply.accepted()
    except BaseException:
        runtime.children.leave(grown)
        raise
    if any(one.body.startswith(TOMBSTONE) for one in await log.kept(line, started_key(grown.branch.number))):
        await log.forgetting.redact(grown, message.seq)  # its beginning was, before there was another copy
    return grown


async def _allowed(runtime: Runtime, conversation: Conversation, line: Line, order: Order) -> Delegated:
    """What a child may be begun with. TooDeep, TooManyChildren."""
    parent = await begun_on(runtime.log, line)
    depth, deepest = 1, order.depth
    if parent is not None:
        depth, deepest = parent.said.depth + 1, min(parent.said.deepest, order.depth)
    if depth > deepest:
        raise TooDeep(deepest)
    if len(await running(runtime, conversation)) >= order.at_once:
        raise TooManyChildren(order.at_once)
    canvas = order.canvas and (parent is None or parent.said.canvas)
    return Delegated(parent=line.branch.number, depth=depth, deepest=deepest, agent=order.agent, canvas=canvas)


def _started(grown: Line, said: Delegated, order: Order, quotes: list[list[Any]]) -> FlowStarted:
    data = {"branch": grown.branch.number, "agent": said.agent, "depth": said.depth}
    return FlowStarted(
        name=title(text_of(order.task)), data=data | {"canvas": said.canvas, "fresh": order.fresh, "quotes": quotes}
    )


async def _fork_point(log: Log, line: Line) -> tuple[int, list[Logged]]:
    """Where a child leaves its parent's line: at the newest event, or where the model was asked when it called the
    tools that still run, which are given as well. A child must not find them cut short."""
    head = await log.head(line)
    if not head.pending or head.state not in ("open", "waiting"):
        return head.seq, []
    turn = readable(await log.range(line, head.turn_first, head.seq))
    calls = unanswered(turn)
    if not calls:
        return head.seq, []
    before = [one for one in turn if one.seq < calls[0].seq]
    while before and before[-1].kind in ("assistant", "tool_call"):
        before.pop()
    return before[-1].seq if before else head.turn_first - 1, calls


def _asks_for(call: Logged, task: User) -> bool:
    """Whether a tool call is the one that asks for this task."""
    event = call.event
    given = object_of(event.arguments) if isinstance(event, ToolCall) else None
    return text_of(task) in (given or {}).values()
