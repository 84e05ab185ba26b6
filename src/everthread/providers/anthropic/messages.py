"""Anthropic Messages requests to events, and back.

Only the conversation is read: `system` and `messages`; a request's model, tools and settings are not, nor are
fields of a message besides `role` and `content`. `thinking` blocks travel whole in their part's `meta` and go
back unmodified. `to_anthropic(from_anthropic(body))` gives an equal body, but for these normalisations:

- `cache_control` is dropped;
- neighbours of the same role become one message, and in a user's message tool results come first;
- a list of one plain text becomes a string, null content and an empty list "";
- empty text blocks, an empty `system`, a tool result's empty content and `is_error: false` are left out;
- base64 is unbroken.

Of events from elsewhere, arguments are written as the object that they spell, blank ones as {}, and those
that spell none as {"INVALID_JSON": text}, which is read back as that text; reasoning of other models is left
out; instructions before the first message become `system`, later ones a message of role system. Anthropic
has no place for a result's `name`, nor for `origin`, `model`, `interrupted` and `waits_for`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from everthread.core.events import Assistant, Event, System, ToolCall, ToolResult, User
from everthread.core.logged import Logged, unwrapped
from everthread.core.parts import Part
from everthread.providers.anthropic.blocks import (
    THINKING,
    collapsed,
    read_blocks,
    read_call,
    read_part,
    read_result,
    write_call,
    write_part,
    write_result,
)
from everthread.providers.blobs import Blob
from everthread.providers.checks import objects, unknown

_ROLES = ("user", "assistant", "system")
_SYSTEM = ("text",)
_USER = ("text", "image", "document", "tool_result")
_ASSISTANT = ("text", "image", "document", *THINKING, "tool_use")


def from_anthropic(body: dict[str, Any] | list[dict[str, Any]], *, where: str = "messages") -> list[Event]:
    """The events that a request body or its message list tells of; `where` is what errors call the list."""
    events: list[Event] = []
    messages: object = body
    if isinstance(body, dict):
        messages = body.get("messages")
        instructions = _system(body.get("system"), where.removesuffix("messages") + "system")
        events += [instructions] if instructions.parts else []
    for message, here in objects(messages, where):
        role, content = message.get("role"), message.get("content")
        match role:
            case "user":
                events += _user(content, f"{here}.content")
            case "assistant":
                events += _assistant(content, f"{here}.content")
            case "system":
                events.append(_system(content, f"{here}.content"))
            case _:
                raise unknown("role", role, _ROLES, here)
    return events


def to_anthropic(events: Iterable[Event | Logged], *, blob: Blob | None = None) -> dict[str, Any]:
    """A body with `messages`, and `system` where there are instructions; `blob` gives bytes by their hash."""
    system: list[dict[str, Any]] = []
    messages: list[dict[str, Any]] = []
    for event in unwrapped(events):
        match event:
            case System() if not messages:
                system += _blocks(event.parts, blob)
            case System() | User() | Assistant():
                _say(event.kind, _blocks(event.parts, blob), messages)
            case ToolCall():
                _say("assistant", [write_call(event)], messages)
            case ToolResult():
                _say("user", [write_result(event, blob)], messages)
            # markers are not messages
    for message in messages:
        # A stable sort: results to the front, as Anthropic wants them, and else the order as it was.
        message["content"].sort(key=lambda block: block["type"] != "tool_result")
        message["content"] = collapsed(message["content"])
    return {"system": collapsed(system), "messages": messages} if system else {"messages": messages}


# -- reading -----------------------------------------------------------------------------------------------


def _system(content: object, where: str) -> System:
    blocks = read_blocks(content, where)
    return System(parts=tuple(read_part(block, place, understood=_SYSTEM) for block, place in blocks))


def _user(content: object, where: str) -> list[Event]:
    """Tool results first, then one event with everything else that the user sent."""
    results: list[Event] = []
    rest: list[Part] = []
    for block, place in read_blocks(content, where):
        if block.get("type") == "tool_result":
            results.append(read_result(block, place))
        else:
            rest.append(read_part(block, place, understood=_USER))
    return [*results, User(parts=tuple(rest))] if rest or not results else results


def _assistant(content: object, where: str) -> list[Event]:
    """An event for each run of blocks between tool calls, in the order in which they came."""
    events: list[Event] = []
    run: list[Part] = []
    for block, place in read_blocks(content, where):
        if block.get("type") != "tool_use":
            run.append(read_part(block, place, understood=_ASSISTANT))
            continue
        if run:
            events.append(Assistant(parts=tuple(run)))
        events.append(read_call(block, place))
        run = []
    return [*events, Assistant(parts=tuple(run))] if run or not events else events


# -- writing -----------------------------------------------------------------------------------------------


def _blocks(parts: tuple[Part, ...], blob: Blob | None) -> list[dict[str, Any]]:
    return [block for part in parts for block in write_part(part, blob)]


def _say(role: str, blocks: list[dict[str, Any]], messages: list[dict[str, Any]]) -> None:
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += blocks
    else:
        messages.append({"role": role, "content": blocks})
