"""Conversations of a ChatGPT data export (`conversations.json`) to strands of events.

A conversation is a tree of nodes: edits and regenerations are siblings. `parent` makes the tree, the parent's
`children` put siblings in order. What was said is kept, hidden or not; nodes that say nothing (the root, empty
system messages, the placeholders before tool calls) are left out. In our terms:

- an assistant's message to a tool is a tool call, whose id is the node's; a tool's message answers the first
  call of its tool that still waits, or else the newest, since the user last spoke;
- thoughts and their recaps are reasoning; custom instructions and memories are system events, whoever is
  named as their author;
- images, sounds and videos are known by their asset pointer, attached files by their name.

Tolerated, because nothing is lost by it: several roots (each begins a branch), a root whose parent is a
placeholder, `children` that are missing or do not exist, content and times that are null, no `current_node` (the
newest message is current). Refused, because something would be: parents that are not there or lead round in a
circle, a `current_node` that is not there, content of an unknown type without parts, text or result.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from everthread.core.events import Assistant, Event, System, ToolCall, ToolResult, User
from everthread.core.parts import File, Image, Part, Reasoning, Text
from everthread.core.times import moment
from everthread.errors import BadFormat
from everthread.providers.checks import a_string, unexpected, unknown
from everthread.transfer.given import ExportedObject, text_or_null, text_part
from everthread.transfer.strands import MOST, Exported, Timed, Tree, ordered

_Role = Literal["system", "user", "assistant", "tool"]
_ROLES: tuple[_Role, ...] = get_args(_Role)
# The fields besides `parts` that hold what a type of content says, in reading order.
_FIELDS: dict[str, tuple[str, ...]] = {
    "text": (),
    "multimodal_text": (),
    "code": ("text",),
    "execution_output": ("text",),
    "citable_code_output": ("output_str",),
    "computer_output": (),
    "system_error": ("name", "text"),
    "tether_quote": ("title", "url", "text"),
    "tether_browsing_display": ("summary", "result"),
    "sonic_webpage": ("title", "url", "text"),
    "thoughts": (),
    "reasoning_recap": ("content",),
    "user_editable_context": ("user_profile", "user_instructions"),
    "model_editable_context": ("model_set_context",),
}
_GUESSED = ("text", "result")
_INSTRUCTIONS = ("user_editable_context", "model_editable_context")
_REASONING = ("thoughts", "reasoning_recap")
_PARTS = ("image_asset_pointer", "audio_asset_pointer", "audio_transcription", "any with an asset_pointer or text")
_NESTED = ("audio_asset_pointer", "video_container_asset_pointer")


class _Call(NamedTuple):
    """A tool call since the user last spoke."""

    id: str
    name: str
    answered: bool = False


_Calls = tuple[_Call, ...]


def from_chatgpt(conversation: dict[str, Any], *, where: str = "conversation") -> Exported:
    """One conversation of the export's list; `where` is what errors call it."""
    given = ExportedObject.of(conversation, where)
    mapping = given.needed_object("mapping")
    nodes = {id: ExportedObject.of(node, mapping.at(id)) for id, node in mapping.fields.items()}
    tree = Tree()
    calls: dict[str | None, _Calls] = {None: ()}
    for id, after in ordered(_parents(nodes), lambda id: nodes[id].at("parent")):
        events, calls[id] = _read(nodes[id], id, calls[after])
        tree.add(id, after, events)
    current = given.text("current_node")
    if current and current not in nodes:
        raise BadFormat(f"found the node {current!r}, which is not in the mapping", where=given.at("current_node"))
    return Exported(
        name=given.text("title"),
        began=_time(given, "create_time"),
        strands=tree.strands(),
        current=tree.holding(current) if current else tree.newest(),
    )


def _parents(nodes: dict[str, ExportedObject]) -> dict[str, str | None]:
    """Each node's parent, siblings in the order in which their parent names them, before those it does not name."""
    ranks: dict[tuple[str | None, str], int] = {}
    parents: dict[str, str | None] = {}
    for id, node in nodes.items():
        parents[id] = node.text("parent") or None
        for rank, (child, place) in enumerate(node.items("children")):
            ranks.setdefault((id, a_string(child, place)), rank)
    in_order = sorted(parents, key=lambda id: ranks.get((parents[id], id), len(nodes)))
    return {id: parents[id] for id in in_order}


# -- messages ----------------------------------------------------------------------------------------------


def _read(node: ExportedObject, id: str, calls: _Calls) -> tuple[list[Timed], _Calls]:
    """What the message of a node says, if anything, and the tool calls on its line after it."""
    if node.get("message") is None:
        return [], calls
    message = node.needed_object("message")
    time = _time(message, "create_time")
    events, calls = _events(message, id, calls)
    return [(time, event) for event in events], calls


def _events(message: ExportedObject, id: str, calls: _Calls) -> tuple[list[Event], _Calls]:
    author = message.needed_object("author")
    content = message.object("content")
    kind, parts = content.get("content_type"), _content(content)
    match _role(author, kind):
        case "system":
            return [System(parts=parts)] if parts else [], calls
        case "user":
            return _user(message, parts, calls)
        case "assistant":
            return _assistant(message, parts, id, calls)
        case "tool":
            result = ToolResult(id=id, name=author.text("name"), parts=parts, error=kind == "system_error")
            return _tool(result, calls)


def _role(author: ExportedObject, kind: object) -> _Role:
    """Who speaks; custom instructions and memories are the system's, whoever is named as their author."""
    role: _Role = author.get("role")
    if role not in _ROLES:
        raise unknown("role", role, _ROLES, author.where)
    return "system" if kind in _INSTRUCTIONS else role


def _user(message: ExportedObject, parts: tuple[Part, ...], calls: _Calls) -> tuple[list[Event], _Calls]:
    said = parts + _attached(message, parts)
    return ([User(parts=said)], ()) if said else ([], calls)


def _assistant(message: ExportedObject, parts: tuple[Part, ...], id: str, calls: _Calls) -> tuple[list[Event], _Calls]:
    tool = _called(message, parts)
    if not tool:
        return _reply(message, parts), calls
    texts = [part.text for part in parts if isinstance(part, Text)]
    call = ToolCall(id=id, name=tool, arguments="\n".join(texts))
    beside = tuple(part for part in parts if not isinstance(part, Text))
    return [*_reply(message, beside), call], (*calls, _Call(id, tool))


def _called(message: ExportedObject, parts: tuple[Part, ...]) -> str:
    """The tool that a message is for, if any."""
    recipient = message.text("recipient")
    # What is said to "assistant" is said to itself: no tool has that name.
    if recipient in ("all", "assistant") or any(isinstance(part, Reasoning) for part in parts):
        return ""
    return recipient


def _reply(message: ExportedObject, parts: tuple[Part, ...]) -> list[Event]:
    about = message.object("metadata")
    finish = about.object("finish_details")
    broke_off = finish.get("type") == "interrupted" or message.get("status") == "in_progress"
    model = about.text("model_slug")
    return [Assistant(parts=parts, model=model, interrupted=broke_off)] if parts else []


def _tool(result: ToolResult, calls: _Calls) -> tuple[list[Event], _Calls]:
    """A tool's message, as the result of the call that it answers; an empty one only where that call still waits."""
    call = _answered(result.name, calls)
    if not result.parts and (call is None or call.answered):
        return [], calls
    if call is None:
        return [result], calls
    return [msgspec.structs.replace(result, id=call.id)], _with_answer(calls, call)


def _with_answer(calls: _Calls, answered: _Call) -> _Calls:
    return tuple(call._replace(answered=True) if call == answered else call for call in calls)


def _answered(name: str, calls: _Calls) -> _Call | None:
    """The call that a tool's message answers. `web.search` may be answered by `web`, and one call many times."""
    same = [call for call in calls if call.name.partition(".")[0] == name.partition(".")[0]]
    waiting = [call for call in same if not call.answered]
    others = [call for call in calls if not call.answered]
    return next(iter((*waiting[:1], *same[-1:], *others[-1:])), None)


def _attached(message: ExportedObject, shown: tuple[Part, ...]) -> tuple[Part, ...]:
    """The files beside a message, but for those that it shows itself."""
    pointers = [part.url for part in shown if isinstance(part, Image | File)]
    attachments = message.object("metadata").objects("attachments")
    return tuple(_file(one) for one in attachments if not _is_shown(one.text("id"), pointers))


def _is_shown(id: str, pointers: list[str]) -> bool:
    return bool(id) and any(id in pointer for pointer in pointers)


def _file(attachment: ExportedObject) -> File:
    media_type = attachment.get("mime_type") or attachment.get("mimeType")
    return File(
        url=attachment.text("id"),
        name=attachment.text("name"),
        media_type=text_or_null(media_type, attachment.at("mime_type")),
    )


# -- content -----------------------------------------------------------------------------------------------


def _content(content: ExportedObject) -> tuple[Part, ...]:
    said = "\n".join(filter(None, map(content.text, _fields(content))))
    if content.get("content_type") in _REASONING:
        return tuple(Reasoning(text=text) for text in (*_thoughts(content), said) if text)
    parts = [part for one, place in content.items("parts") for part in _part(one, place)]
    screenshot = _part(content.get("screenshot"), content.at("screenshot"))
    return (*parts, *screenshot, *text_part(said))


def _fields(content: ExportedObject) -> tuple[str, ...]:
    """The fields that hold what is said; those of an unknown type are guessed where one of them is there."""
    kind = content.get("content_type") if content.fields else "text"
    if isinstance(kind, str) and kind in _FIELDS:
        return _FIELDS[kind]
    if all(content.get(field) is None for field in ("parts", *_GUESSED)):
        raise unknown("content_type", kind, (*_FIELDS, "any with parts, text or result"), content.where)
    return _GUESSED


def _thoughts(content: ExportedObject) -> Iterator[str]:
    for part, place in content.items("parts"):
        yield a_string(part, place)
    for thought in content.objects("thoughts"):
        yield "\n".join(filter(None, (thought.text("summary"), thought.text("content"))))


def _part(given: object, where: str) -> list[Part]:
    """Text, or what an asset pointer points at. A conversation aloud has its sound, film and frames in one part."""
    if given is None or isinstance(given, str):
        return text_part(given)
    part = ExportedObject.of(given, where)
    if part.get("content_type") == "image_asset_pointer":
        url = part.needed_text("asset_pointer")
        return [Image(url=url, width=_pixels(part, "width"), height=_pixels(part, "height"))]
    if part.get("asset_pointer") is not None:
        return [File(url=part.needed_text("asset_pointer"), media_type=_media_type(part))]
    if part.get("text") is not None:
        return text_part(part.needed_text("text"))
    return _nested(part)


def _nested(part: ExportedObject) -> list[Part]:
    """The parts within a part that has no pointer or text of its own."""
    nested = [(part.get(field), part.at(field)) for field in _NESTED if part.get(field) is not None]
    nested += part.items("frames_asset_pointers")
    if not nested:
        raise unknown("content_type", part.get("content_type"), _PARTS, part.where)
    return [found for one, place in nested for found in _part(one, place)]


def _pixels(part: ExportedObject, field: str) -> int:
    given = part.get(field)
    if given is None:
        return 0
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise unexpected(given, "a whole number of pixels", part.at(field))
    return given


def _media_type(part: ExportedObject) -> str:
    form = part.get("format")
    sound = part.get("content_type") == "audio_asset_pointer"
    return f"audio/{form}" if sound and isinstance(form, str) else ""


def _time(given: ExportedObject, field: str) -> datetime | None:
    time = given.get(field)
    if time is None:
        return None
    if isinstance(time, bool) or not isinstance(time, int | float):
        raise unexpected(time, "a time in seconds or null", given.at(field))
    if not 0 <= time * 1_000_000 < MOST:  # NaN is no time either
        reason = f"found {time} where a time in seconds between 1970 and 9999 is understood"
        raise BadFormat(reason, where=given.at(field))
    return moment(round(time * 1_000_000))
