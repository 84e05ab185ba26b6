"""Before a turn: the agent, its instructions, settings and tools; which tool calls wait; a past request built again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, NamedTuple

import msgspec

from everthread.agent.personas import Versioned, sections, source
from everthread.agent.runtime import Runtime
from everthread.agent.tool_calls import DrawsOn
from everthread.agent.turn import Prepared
from everthread.context.build import Context
from everthread.context.plan import Asked
from everthread.context.record import as_recorded, differences
from everthread.context.tools import tools_of
from everthread.core.branches import Line
from everthread.core.events import ModelCall, ToolCall
from everthread.core.hashing import hash_of
from everthread.core.logged import Logged
from everthread.core.outcomes import Delegated
from everthread.core.request import CHOICES, Tool
from everthread.core.values import Value
from everthread.errors import BadValue, NotWaiting
from everthread.store.conversations import Conversation
from everthread.tools import Toolbox
from everthread.tools.notes import document_name, notes_tool
from everthread.tools.recall import recall_tools
from everthread.tools.toolbox import listed


class Rebuilt(msgspec.Struct, Value, frozen=True):
    """A past request, built again. `differences` is empty where it is the same, byte for byte."""

    context: Context
    differences: tuple[str, ...]


Instructions = str | Mapping[str, str] | None


@asynccontextmanager
async def prepared(
    runtime: Runtime,
    conversation: Conversation,
    asked: Asked,
    instructions: Instructions = None,
    tools: Iterable[Any] | None = None,
    *,
    lookups: bool | None = None,
    check: bool = False,
    child: Delegated | None = None,
) -> AsyncIterator[Prepared]:
    """What was asked for, and the agent's own where nothing was. `lookups`: whether memory's own tools are offered
    as well; None: they are, unless the others cannot be run here. `check`: refuse bad settings here, before a turn,
    when nothing has happened yet. `child`: with the agent of this child, and without the tools that it may not use.

    MCP servers that were given for this call alone are closed at the end.
    """
    await runtime.log.conversations.mine(conversation)
    await runtime.recollect()
    found = await runtime.agent(conversation.tenant, (child and child.agent) or conversation.agent)
    asked = with_agent(_with_strategy(asked, runtime), found, instructions)
    if check:
        runtime.contexts.check(asked)
    async with _tools(runtime, conversation.tenant, found, tools) as (toolbox, offered, notices):
        if child is not None:
            toolbox, offered = _of_child(child, toolbox, offered)
        own: tuple[Tool, ...] = ()
        if runtime.memory is not None:
            asked = msgspec.structs.replace(asked, notes_of=document_name(conversation))
            if lookups or (lookups is None and (toolbox.names or not offered)):
                toolbox, own = _with_lookups(toolbox, offered)
        _check_choice(asked.tool_choice, [tool.name for tool in (*offered, *own)])
        ready = msgspec.structs.replace(asked, tools=offered, lookups=own)
        yield Prepared(
            asked=ready,
            toolbox=toolbox,
            agent=label(found) if found else "",
            notices=notices,
            draws_on=_draws_on(child, conversation),
            keeps_lease=child is not None,  # until its outcome is told
        )


async def check_child(
    runtime: Runtime,
    conversation: Conversation,
    asked: Asked,
    instructions: Instructions,
    tools: Iterable[Any] | None,
    child: Delegated,
) -> None:
    """Refuse what the turn of a child could not be begun with, before there is anything of it. No server is opened."""
    found = await runtime.agent(conversation.tenant, child.agent or conversation.agent)
    runtime.contexts.check(with_agent(_with_strategy(asked, runtime), found, instructions))
    if tools is not None:
        _of(listed(tools))


def _of_child(child: Delegated, toolbox: Toolbox, offered: tuple[Tool, ...]) -> tuple[Toolbox, tuple[Tool, ...]]:
    """The tools that a child may use, and what of them is offered."""
    offered = tuple([tool for tool in offered if child.may_use(tool.name)])
    return toolbox.only([tool.name for tool in offered]), offered


def _draws_on(child: Delegated | None, conversation: Conversation) -> DrawsOn | None:
    return DrawsOn(child.parent, child.agent or conversation.agent) if child and child.canvas else None


def _with_strategy(asked: Asked, runtime: Runtime) -> Asked:
    """With the application's own strategy, where none was asked for."""
    if asked.strategy is not None or "strategy" in asked.settings:
        return asked
    return msgspec.structs.replace(asked, strategy=runtime.strategy)


def _with_lookups(toolbox: Toolbox, offered: tuple[Tool, ...]) -> tuple[Toolbox, tuple[Tool, ...]]:
    """The tools together with memory's own, and what of these is offered: none that has the name of another."""
    own, taken = memory_tools(), toolbox.names | {tool.name for tool in offered}
    if own.names & taken:
        own = own.only(own.names - taken)  # somebody else's of the same name is meant
    return Toolbox([toolbox, own]), own.offered


def _check_choice(choice: str, names: list[str]) -> None:
    if choice and choice not in (*CHOICES, *names):
        raise BadValue(
            "tool_choice", choice, f"{', '.join(CHOICES)}, or the name of a tool: {', '.join(names) or 'none'}"
        )


@cache
def memory_tools() -> Toolbox:
    """The tools with which a model looks up what it is not sent, and keeps MEMORY.md."""
    return Toolbox([*recall_tools(), notes_tool()])


def with_agent(asked: Asked, found: Versioned | None, instructions: Instructions) -> Asked:
    """What was asked, with the agent's settings, and its instructions where none were given."""
    given = {"persona": instructions} if isinstance(instructions, str) else dict(instructions or {})
    own = sections(found.agent) if found else {}
    sources = (source(found.agent),) if found else ()
    return msgspec.structs.replace(asked, instructions=own | given or None, sources=sources)


def label(found: Versioned) -> str:
    """How a record names an agent."""
    return f"{found.agent.name} {found.version}"


Tools = tuple[Toolbox, tuple[Tool, ...], tuple[str, ...]]


@asynccontextmanager
async def _tools(
    runtime: Runtime, tenant: str, agent: Versioned | None, given: Iterable[Any] | None
) -> AsyncIterator[Tools]:
    """A toolbox, what of it is offered, and what is wrong with it."""
    if given is None:
        toolbox = runtime.toolbox_of(tenant, agent)  # which stays open
        notices = await toolbox.open()
        yield toolbox, toolbox.offered, notices
        return
    toolbox, told_of = _of(listed(given))
    if told_of is not None:
        yield toolbox, told_of, ()
        return
    try:
        notices = await toolbox.open()
        yield toolbox, toolbox.offered, notices
    finally:
        await toolbox.close()


def _of(tools: list[Any]) -> tuple[Toolbox, tuple[Tool, ...] | None]:
    """A toolbox of tools that were given; or the tools, where they are only told of and cannot be run."""
    if all(isinstance(tool, Tool | Mapping) and not _runs(tool) for tool in tools):
        return Toolbox(), tools_of(tools)
    return Toolbox(tools), None


def _runs(tool: Tool | Mapping[str, Any]) -> bool:
    return isinstance(tool, Mapping) and "execute" in tool


# -- tool calls that wait --------------------------------------------------------------------------------------


def the_one(found: list[Logged], named: str | int | None, *, lost: bool = False) -> Logged:
    """The waiting tool call with this id or seq; the only one there is, where none is named. `lost`: one that had
    begun was found cut short."""
    gone = "; one that had begun was cut short, and may have run" if lost else ""
    if not found:
        raise NotWaiting(f"No tool call waits for approval{gone}")
    if named is None:
        if len(found) > 1:
            raise NotWaiting(f"{len(found)} tool calls wait for approval, so name one by its id or seq")
        return found[0]
    meant = [one for one in found if isinstance(one.event, ToolCall) and named in (one.seq, one.event.id)]
    if not meant:
        raise NotWaiting(f"The tool call {named!r} does not wait for approval{gone}")
    if len(meant) > 1:  # a server that counts its ids afresh in every reply
        seqs = ", ".join(str(one.seq) for one in meant)
        raise NotWaiting(
            f"{len(meant)} tool calls with the id {named!r} wait for approval, so name one by its seq: {seqs}"
        )
    return meant[0]


# -- a past request --------------------------------------------------------------------------------------------


class GivenThen(NamedTuple):
    """What was given for a model call alone, given again to build its request."""

    asked: Asked
    instructions: Instructions = None
    tools: list[Any] | None = None


async def rebuilt(runtime: Runtime, conversation: Conversation, line: Line, seq: int, given: GivenThen) -> Rebuilt:
    """A past request, built with memory's own tools as turns are, or without them where the model call was made so."""
    events = await runtime.log.range(line, seq, seq)
    call = events[0].event if events else None
    if not isinstance(call, ModelCall):
        raise BadValue("seq", seq, "the seq of a model_call event")
    then: dict[str, Any] = {"at": call.at, "factor": call.factor, "window": call.window}
    then |= {} if "tool_choice" in call.inputs else {"tool_choice": ""}
    asked = msgspec.structs.replace(given.asked, record=as_recorded(seq, call), **then)
    given = given._replace(asked=asked)
    found = await _built_again(runtime, conversation, line, call, given, lookups=True)
    if hash_of(found.context.inputs["tools"]) == call.inputs.get("tools"):
        return found
    without = await _built_again(runtime, conversation, line, call, given, lookups=False)
    return without if hash_of(without.context.inputs["tools"]) == call.inputs.get("tools") else found


async def _built_again(
    runtime: Runtime, conversation: Conversation, line: Line, call: ModelCall, given: GivenThen, *, lookups: bool
) -> Rebuilt:
    async with prepared(runtime, conversation, *given, lookups=lookups) as ready:
        # The agent as it was; the tools are those of now, or given again, which is all there is of them.
        was = await _version_of(runtime, conversation.tenant, call)
        kept = {name: getattr(ready.asked, name) for name in ("tools", "lookups", "notes_of", "strategy")}
        then = with_agent(given.asked, was, given.instructions) if was else ready.asked
        context = await runtime.contexts.build(runtime.log, line, msgspec.structs.replace(then, **kept))
        return Rebuilt(context, tuple(differences(call, context, agent=label(was) if was else ready.agent)))


async def _version_of(runtime: Runtime, tenant: str, call: ModelCall) -> Versioned | None:
    name, _, version = call.agent.rpartition(" ")
    return await runtime.agents.get(tenant, name, int(version)) if name and version.isdigit() else None
