"""Before a turn: the agent, its instructions, settings and tools; which tool calls wait; a past request built again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from everthread.agents import Versioned, sections, source
from everthread.context.building import Context
from everthread.context.planning import Asked
from everthread.context.recording import differences
from everthread.context.tools import tools_of
from everthread.core.branches import ENDLESS, Line
from everthread.core.events import ModelCall, ToolCall, ToolResult
from everthread.core.logged import Logged
from everthread.core.request import Tool
from everthread.engine.desk import Desk
from everthread.engine.turn import Prepared
from everthread.errors import BadValue, NotWaiting
from everthread.store.conversations import Conversation
from everthread.store.log import Log
from everthread.tools import Toolbox

PAGE, PAGES = 500, 20  # how far back tool calls that wait are looked for


class Rebuilt(msgspec.Struct, frozen=True):
    """A past request, built again. `differences` is empty where it is the same, byte for byte."""

    context: Context
    differences: tuple[str, ...]


async def prepared(
    desk: Desk,
    conversation: Conversation,
    asked: Asked,
    instructions: str | Mapping[str, str] | None,
    tools: Iterable[Any] | None,
    *,
    afresh: bool = False,
) -> Prepared:
    """What was asked for, and the agent's own where nothing was. `afresh`: the agent may have changed since."""
    await desk.recollect()
    found = await desk.agent(conversation.tenant, conversation.agent, afresh=afresh)
    toolbox, offered, notes = await _tools(desk, tools, found)
    given = {"persona": instructions} if isinstance(instructions, str) else dict(instructions or {})
    own = sections(found.agent) if found else {}
    name = f"{found.agent.name} {found.version}" if found else ""
    sources = (source(found.agent),) if found else ()
    ready = msgspec.structs.replace(asked, instructions=own | given or None, tools=offered, sources=sources)
    return Prepared(asked=ready, toolbox=toolbox, agent=name, notes=notes)


Tools = tuple[Toolbox, tuple[Tool, ...], tuple[str, ...]]


async def _tools(desk: Desk, given: Iterable[Any] | None, agent: Versioned | None) -> Tools:
    """A toolbox, what of it is offered, and what is wrong with it."""
    if given is None:
        toolbox = desk.toolbox_of(agent)
        notes = await toolbox.open()
        return toolbox, toolbox.offered, notes
    listed = [given] if isinstance(given, str | Mapping) else list(given)
    if all(isinstance(tool, Tool | Mapping) and not _runs(tool) for tool in listed):
        return Toolbox(), tools_of(listed), ()  # only told of
    toolbox = Toolbox(listed)
    notes = await toolbox.open()
    return toolbox, toolbox.offered, notes


def _runs(tool: Tool | Mapping[str, Any]) -> bool:
    return isinstance(tool, Mapping) and "execute" in tool


# -- tool calls that wait --------------------------------------------------------------------------------------


async def waiting(log: Log, line: Line) -> list[Logged]:
    """The tool calls that wait for approval and have no result yet, oldest first."""
    answered: list[str] = []
    found: list[Logged] = []
    before = ENDLESS
    for _ in range(PAGES):
        page = await log.before(line, before, limit=PAGE, messages=True)
        for logged in reversed(page):
            event = logged.event
            if isinstance(event, ToolResult):
                answered.append(event.id)
            elif isinstance(event, ToolCall):
                if event.id in answered:
                    answered.remove(event.id)
                elif event.waits_for == "approval":
                    found.append(logged)
        if len(page) < PAGE:
            break
        before = page[0].seq
    return found[::-1]


def the_one(found: list[Logged], named: str | int | None) -> Logged:
    """The waiting tool call with this id or seq; the only one there is, where none is named."""
    if not found:
        raise NotWaiting("No tool call waits for approval")
    if named is None:
        if len(found) > 1:
            raise NotWaiting(f"{len(found)} tool calls wait for approval, so name one by its id or seq")
        return found[0]
    for logged in found:
        assert isinstance(logged.event, ToolCall)
        if named in (logged.seq, logged.event.id):
            return logged
    raise NotWaiting(f"The tool call {named!r} does not wait for approval")


# -- a past request --------------------------------------------------------------------------------------------


async def rebuilt(desk: Desk, conversation: Conversation, line: Line, seq: int) -> Rebuilt:
    events = await desk.log.range(line, seq, seq)
    call = events[0].event if events else None
    if not isinstance(call, ModelCall):
        raise BadValue("seq", seq, "the seq of a model_call event")
    asked = Asked(settings={"model": call.model}, at=call.at, factor=call.factor)
    ready = await prepared(desk, conversation, asked, None, None)
    context = await desk.contexts.build(desk.log, line, ready.asked)
    return Rebuilt(context, tuple(differences(call, context, agent=ready.agent)))
