"""OpenAI Chat Completions message lists to events, and back. The items of the Responses API are not read.

What the values have no field for (a developer's role, a name, an image's detail, fields unknown to us) is
kept as a note in `meta`. So `to_openai(from_openai(messages))` gives equal messages, but for these
normalisations:

- fields that are null and an empty `tool_calls` are left out;
- content that is null with nothing beside it, or an empty list, becomes "";
- a list of one plain text becomes a string, an `image_url` that is a string an object;
- arguments given as an object become text, absent ones "{}"; a tool call's absent type becomes "function";
- a tool message without an id gets the one found for it;
- data becomes a data: URL in unbroken base64.

OpenAI has no place for a result's `error`, for `origin`, `model`, `interrupted` and `waits_for`, and for
reasoning outside assistant messages: those are not written. Neither are markers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, assert_never

from msgspec.structs import replace

from everthread.core.events import Assistant, Event, System, ToolCall, ToolResult, User
from everthread.core.logged import Logged, unwrapped
from everthread.core.metadata import check_metadata
from everthread.core.parts import File, Image, Part, Reasoning, Text
from everthread.errors import BadValue
from everthread.providers.blobs import Blob
from everthread.providers.checks import a_list, a_string, an_object, objects, unexpected, unknown
from everthread.providers.leftovers import left, note, noted, overlaid
from everthread.providers.openai.content import read_content, write_content

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
# Where servers put a model's reasoning. The first is the more common, and what is written by default.
_REASONING = ("reasoning_content", "reasoning")
# A tool call's types, and where each keeps the text that the model wrote.
_CALLS = {"function": "arguments", "custom": "input"}


def from_openai(messages: list[dict[str, Any]], *, where: str = "messages") -> list[Event]:
    """The events that a message list tells of; `where` is what errors call the list."""
    events: list[Event] = []
    waiting: list[str] = []  # ids of the latest group of tool calls, less those that have their result
    for message, here in objects(messages, where):
        role, said = message.get("role"), list[Event]()
        match role:
            case "system" | "developer" | "user":
                said = [_system_or_user(message, here)]
            case "assistant":
                said = _assistant(message, here, follows=_is_assistants(events[-1:]))
                waiting = _ids(said) or waiting
            case "tool" | "function":
                said = [_result(message, waiting, here)]
            case _:
                raise unknown("role", role, _ROLES, here)
        events += [_with_metadata(said[0], message.get("metadata")), *said[1:]]
    return events


def to_openai(events: Iterable[Event | Logged], *, blob: Blob | None = None) -> list[dict[str, Any]]:
    """The message list of these events; `blob` gives the bytes of images and files by their hash."""
    messages: list[dict[str, Any]] = []
    for event in unwrapped(events):
        match event:
            case System() | User():
                made = {"role": event.kind, "content": write_content(event.parts, blob)}
                messages.append(overlaid(made, noted(event.meta, "openai")))
            case Assistant():
                messages.append(_write_assistant(event, blob))
            case ToolCall():
                _write_call(event, messages)
            case ToolResult():
                messages.append(_write_result(event, blob))
            # markers are not messages
    return messages


# -- reading -----------------------------------------------------------------------------------------------


def _with_metadata(event: Event, given: object) -> Event:
    """With the object that stands beside the message as `metadata`, to be found by; else it is a field like others."""
    try:
        return replace(event, metadata=check_metadata(given)) if given else event
    except BadValue:
        return event


def _system_or_user(message: dict[str, Any], here: str) -> System | User:
    parts = read_content(message.get("content"), f"{here}.content")
    fields = left(message, "role", "content")
    if message["role"] == "user":
        return User(parts=parts, meta=note("openai", fields=fields))
    if message["role"] == "developer":
        fields["role"] = "developer"
    return System(parts=parts, meta=note("openai", fields=fields))


def _assistant(message: dict[str, Any], here: str, *, follows: bool) -> list[Event]:
    """An Assistant event where anything was said, then the tool calls.

    `follows`: the message comes right after another of the assistant's. Its tool calls are then noted as a
    message of their own, or the writer would take them for that one's.
    """
    content = message.get("content")
    told = _told_beside(message)
    parts = (*_fields(message, told), *read_content(content, f"{here}.content"))
    calls = _calls(message, here)
    fields = left(message, "role", "content", "tool_calls", "function_call", *told)
    if content is not None or parts or not calls:
        if told and content in ("", []):
            fields["content"] = ""
        return [Assistant(parts=parts, meta=note("openai", fields=fields)), *calls]
    if fields or follows:
        own = noted(calls[0].meta, "openai")
        calls[0] = replace(calls[0], meta=note("openai", fields=own, message=fields))
    return [*calls]


def _is_assistants(last: list[Event]) -> bool:
    return any(isinstance(event, Assistant | ToolCall) for event in last)


def _ids(said: list[Event]) -> list[str]:
    return [event.id for event in said if isinstance(event, ToolCall)]


def _told_beside(message: dict[str, Any]) -> list[str]:
    """The fields beside the content that say something."""
    return [name for name in (*_REASONING, "refusal") if message.get(name) and isinstance(message[name], str)]


def _fields(message: dict[str, Any], told: list[str]) -> list[Part]:
    """Parts of what a message says beside its content, noting the field where it is not the usual one."""
    usual = _REASONING[0]
    return [
        Text(text=message[name], meta=note("openai", place={"field": name}))
        if name == "refusal"
        else Reasoning(text=message[name], meta=note("openai", place=None if name == usual else {"field": name}))
        for name in told
    ]


def _calls(message: dict[str, Any], here: str) -> list[ToolCall]:
    given = message.get("tool_calls")
    listed = [] if given is None else a_list(given, f"{here}.tool_calls")
    calls = [_call(call, f"{here}.tool_calls[{index}]") for index, call in enumerate(listed)]
    if message.get("function_call") is not None:
        calls.append(_legacy_call(message["function_call"], f"{here}.function_call"))
    return calls


def _call(given: object, here: str) -> ToolCall:
    call = an_object(given, here)
    kind = call.get("type") or "function"
    if kind not in tuple(_CALLS):
        raise unknown("type", kind, tuple(_CALLS), here)
    body = an_object(call.get(kind), f"{here}.{kind}")
    fields, inner = left(call, "id", "type", kind), left(body, "name", _CALLS[kind])
    if inner:
        fields[kind] = inner
    if kind != "function":
        fields["type"] = kind
    return ToolCall(
        id=_id(call.get("id"), f"{here}.id"),
        name=a_string(body.get("name"), f"{here}.{kind}.name"),
        arguments=_arguments(body.get(_CALLS[kind]), f"{here}.{kind}.{_CALLS[kind]}"),
        meta=note("openai", fields=fields),
    )


def _legacy_call(given: object, here: str) -> ToolCall:
    body = an_object(given, here)
    return ToolCall(
        id="",
        name=a_string(body.get("name"), f"{here}.name"),
        arguments=_arguments(body.get("arguments"), f"{here}.arguments"),
        meta=note("openai", fields={"type": "function_call"}),
    )


def _arguments(given: object, here: str) -> str:
    """The exact text, JSON or not: what the model wrote is what happened."""
    if given is None:
        return "{}"
    if isinstance(given, dict):
        return json.dumps(given, ensure_ascii=False)
    return a_string(given, here, understood="a string or an object")


def _result(message: dict[str, Any], waiting: list[str], here: str) -> ToolResult:
    """Answers the tool call it names; without an id, the first one still waiting."""
    found = _id(message.get("tool_call_id"), f"{here}.tool_call_id")
    if not found and waiting:
        found = waiting.pop(0)
    elif found in waiting:
        waiting.remove(found)
    fields = left(message, "role", "content", "tool_call_id", "name")
    if message["role"] == "function":
        fields["role"] = "function"
    return ToolResult(
        id=found,
        name=_id(message.get("name"), f"{here}.name"),
        parts=read_content(message.get("content"), f"{here}.content"),
        meta=note("openai", fields=fields),
    )


def _id(given: object, here: str) -> str:
    if given is None:
        return ""
    if isinstance(given, str):
        return given
    raise unexpected(given, "a string or null", here)


# -- writing -----------------------------------------------------------------------------------------------


def _write_assistant(event: Assistant, blob: Blob | None) -> dict[str, Any]:
    aside: dict[str, list[str]] = {}
    content: list[Part] = []
    for part in event.parts:
        field, text = _aside(part)
        if text:
            aside.setdefault(field, []).append(text)
        elif not field:
            content.append(part)
    message: dict[str, Any] = {"role": "assistant", "content": write_content(content, blob)}
    if aside and not content:
        message["content"] = None
    message |= {field: "\n\n".join(texts) for field, texts in aside.items()}
    return overlaid(message, noted(event.meta, "openai"))


def _aside(part: Part) -> tuple[str, str]:
    """The field beside the content where a part belongs, and its text there; ("", "") for content."""
    place = noted(part.meta, "openai", "place") or {}
    match part:
        case Reasoning():
            return place.get("field", _REASONING[0]), part.text
        case Text() if place:
            return "refusal", part.text
        case Text() | Image() | File():
            return "", ""
        case _:
            assert_never(part)


def _write_call(call: ToolCall, messages: list[dict[str, Any]]) -> None:
    """Into the assistant's message before it, unless it is noted to begin one of its own."""
    own = noted(call.meta, "openai", "message")
    fields = noted(call.meta, "openai") or {}
    kind = fields.get("type", "function")
    if own is not None or not _has_room(messages, kind):
        messages.append(overlaid({"role": "assistant", "content": None}, own))
    if kind == "function_call":
        messages[-1]["function_call"] = {"name": call.name, "arguments": call.arguments}
        return
    made = {"id": call.id} if call.id else {}
    body = {"name": call.name, _CALLS.get(kind, "arguments"): call.arguments}
    messages[-1].setdefault("tool_calls", []).append(overlaid({**made, "type": kind, kind: body}, fields))


def _has_room(messages: list[dict[str, Any]], kind: str) -> bool:
    """Whether a tool call can go into the last message: the assistant's, with room for one only of the legacy kind."""
    if not messages or messages[-1]["role"] != "assistant":
        return False
    return kind != "function_call" or kind not in messages[-1]


def _write_result(result: ToolResult, blob: Blob | None) -> dict[str, Any]:
    fields = noted(result.meta, "openai") or {}
    made: dict[str, Any] = {"role": "tool", "content": write_content(result.parts, blob)}
    # A legacy function message answers by name: an id would make it neither one thing nor the other.
    if result.id and fields.get("role") != "function":
        made["tool_call_id"] = result.id
    if result.name:
        made["name"] = result.name
    return overlaid(made, fields)
