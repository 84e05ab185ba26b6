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

from typing import Any, NamedTuple

import msgspec

from everthread.core.events import Assistant, Event, System, ToolCall, ToolResult, User
from everthread.core.parts import File, Image, Part, Reasoning, Text
from everthread.errors import BadFormat
from everthread.providers.checks import a_list, a_string, an_object, unexpected, unknown
from everthread.transfer.strands import MOST, Exported, Timed, Tree, ordered

_ROLES = ("system", "user", "assistant", "tool")
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
    given = an_object(conversation, where)
    nodes = {
        id: an_object(node, f"{where}.mapping.{id}")
        for id, node in an_object(given.get("mapping"), f"{where}.mapping").items()
    }
    tree = Tree()
    calls: dict[str | None, _Calls] = {None: ()}
    for id, after in ordered(_parents(nodes, where), lambda id: f"{where}.mapping.{id}.parent"):
        events, calls[id] = _read(nodes[id].get("message"), id, calls[after], f"{where}.mapping.{id}.message")
        tree.add(id, after, events)
    current = _string(given.get("current_node"), f"{where}.current_node")
    if current and current not in nodes:
        raise BadFormat(f"found the node {current!r}, which is not in the mapping", where=f"{where}.current_node")
    return Exported(
        name=_string(given.get("title"), f"{where}.title"),
        began=_time(given.get("create_time"), f"{where}.create_time"),
        strands=tree.strands(),
        current=tree.holding(current) if current else tree.newest(),
    )


def _parents(nodes: dict[str, dict[str, Any]], where: str) -> dict[str, str | None]:
    """Each node's parent, siblings in the order in which their parent names them, before those it does not name."""
    ranks: dict[tuple[str | None, str], int] = {}
    parents: dict[str, str | None] = {}
    for id, node in nodes.items():
        parents[id] = _string(node.get("parent"), f"{where}.mapping.{id}.parent") or None
        place = f"{where}.mapping.{id}.children"
        for rank, child in enumerate(a_list(node.get("children") or [], place)):
            ranks.setdefault((id, a_string(child, f"{place}[{rank}]")), rank)
    in_order = sorted(parents, key=lambda id: ranks.get((parents[id], id), len(nodes)))
    return {id: parents[id] for id in in_order}


# -- messages ----------------------------------------------------------------------------------------------


def _read(given: object, id: str, calls: _Calls, where: str) -> tuple[list[Timed], _Calls]:
    """What a message says, if anything, and the tool calls on its line after it."""
    if given is None:
        return [], calls
    message = an_object(given, where)
    time = _time(message.get("create_time"), f"{where}.create_time")
    author = an_object(message.get("author"), f"{where}.author")
    content = an_object(message.get("content") or {"content_type": "text"}, f"{where}.content")
    kind = content.get("content_type")
    parts = _content(content, f"{where}.content")
    role = author.get("role")
    events: list[Event] = []
    match "system" if kind in _INSTRUCTIONS and role in _ROLES else role:
        case "system":
            events = [System(parts=parts)] if parts else []
        case "user":
            parts += _attached(message, parts, f"{where}.metadata")
            events, calls = ([User(parts=parts)], ()) if parts else ([], calls)
        case "assistant":
            events, calls = _assistant(message, parts, id, calls, where)
        case "tool":
            name = _string(author.get("name"), f"{where}.author.name")
            result = ToolResult(id=id, name=name, parts=parts, error=kind == "system_error")
            events, calls = _tool(result, calls)
        case _:
            raise unknown("role", role, _ROLES, f"{where}.author")
    return [(time, event) for event in events], calls


def _assistant(
    message: dict[str, Any], parts: tuple[Part, ...], id: str, calls: _Calls, where: str
) -> tuple[list[Event], _Calls]:
    recipient = _string(message.get("recipient"), f"{where}.recipient") or "all"
    # What is said to "assistant" is said to itself: no tool has that name.
    to_tool = recipient not in ("all", "assistant") and not any(isinstance(part, Reasoning) for part in parts)
    said = tuple(part for part in parts if not isinstance(part, Text)) if to_tool else parts
    about = an_object(message.get("metadata") or {}, f"{where}.metadata")
    finish = an_object(about.get("finish_details") or {}, f"{where}.metadata.finish_details")
    broke_off = finish.get("type") == "interrupted" or message.get("status") == "in_progress"
    model = _string(about.get("model_slug"), f"{where}.metadata.model_slug")
    events: list[Event] = [Assistant(parts=said, model=model, interrupted=broke_off)] if said else []
    if to_tool:
        arguments = "\n".join(part.text for part in parts if isinstance(part, Text))
        events.append(ToolCall(id=id, name=recipient, arguments=arguments))
        calls = (*calls, _Call(id, recipient))
    return events, calls


def _tool(result: ToolResult, calls: _Calls) -> tuple[list[Event], _Calls]:
    """A tool's message, as the result of the call that it answers; an empty one only where that call still waits."""
    call = _answered(result.name, calls)
    if not result.parts and (call is None or call.answered):
        return [], calls
    settled = tuple(one._replace(answered=True) if one == call else one for one in calls)
    return [msgspec.structs.replace(result, id=call.id) if call else result], settled


def _answered(name: str, calls: _Calls) -> _Call | None:
    """The call that a tool's message answers. `web.search` may be answered by `web`, and one call many times."""
    same = [call for call in calls if call.name.partition(".")[0] == name.partition(".")[0]]
    waiting = [call for call in same if not call.answered]
    others = [call for call in calls if not call.answered]
    return next(iter((*waiting[:1], *same[-1:], *others[-1:])), None)


def _attached(message: dict[str, Any], shown: tuple[Part, ...], where: str) -> tuple[Part, ...]:
    """The files beside a message, but for those that it shows itself."""
    about = an_object(message.get("metadata") or {}, where)
    pointers = [part.url for part in shown if isinstance(part, Image | File)]
    files: list[Part] = []
    for index, given in enumerate(a_list(about.get("attachments") or [], f"{where}.attachments")):
        place = f"{where}.attachments[{index}]"
        attachment = an_object(given, place)
        id = _string(attachment.get("id"), f"{place}.id")
        if not id or not any(id in pointer for pointer in pointers):
            name = _string(attachment.get("name"), f"{place}.name")
            media_type = _string(attachment.get("mime_type") or attachment.get("mimeType"), f"{place}.mime_type")
            files.append(File(url=id, name=name, media_type=media_type))
    return tuple(files)


# -- content -----------------------------------------------------------------------------------------------


def _content(content: dict[str, Any], where: str) -> tuple[Part, ...]:
    kind = content.get("content_type")
    known = isinstance(kind, str) and kind in _FIELDS
    fields = _FIELDS[str(kind)] if known else _GUESSED
    if not known and all(content.get(field) is None for field in ("parts", *fields)):
        raise unknown("content_type", kind, (*_FIELDS, "any with parts, text or result"), where)
    texts = [_string(content.get(field), f"{where}.{field}") for field in fields]
    said = "\n".join(text for text in texts if text)
    if kind in _REASONING:
        thoughts = [*_thoughts(content, where), *([said] if said else [])]
        return tuple(Reasoning(text=text) for text in thoughts)
    given = [*a_list(content.get("parts") or [], f"{where}.parts")]
    parts = [part for index, one in enumerate(given) for part in _part(one, f"{where}.parts[{index}]")]
    if content.get("screenshot") is not None:
        parts += _part(content["screenshot"], f"{where}.screenshot")
    return (*parts, Text(text=said)) if said else tuple(parts)


def _thoughts(content: dict[str, Any], where: str) -> list[str]:
    texts = [
        a_string(part, f"{where}.parts[{index}]")
        for index, part in enumerate(a_list(content.get("parts") or [], f"{where}.parts"))
    ]
    for index, given in enumerate(a_list(content.get("thoughts") or [], f"{where}.thoughts")):
        place = f"{where}.thoughts[{index}]"
        thought = an_object(given, place)
        both = [_string(thought.get(field), f"{place}.{field}") for field in ("summary", "content")]
        texts.append("\n".join(text for text in both if text))
    return [text for text in texts if text]


def _part(given: object, where: str) -> list[Part]:
    """Text, or what an asset pointer points at. A conversation aloud has its sound, film and frames in one part."""
    if given is None or isinstance(given, str):
        return [Text(text=given)] if given else []
    part = an_object(given, where)
    kind = part.get("content_type")
    if kind == "image_asset_pointer":
        url = a_string(part.get("asset_pointer"), f"{where}.asset_pointer")
        return [Image(url=url, width=_pixels(part, "width", where), height=_pixels(part, "height", where))]
    if part.get("asset_pointer") is not None:
        return [File(url=a_string(part["asset_pointer"], f"{where}.asset_pointer"), media_type=_media_type(part))]
    if part.get("text") is not None:
        text = a_string(part["text"], f"{where}.text")
        return [Text(text=text)] if text else []
    frames = a_list(part.get("frames_asset_pointers") or [], f"{where}.frames_asset_pointers")
    nested = [(part[field], f"{where}.{field}") for field in _NESTED if part.get(field) is not None]
    nested += [(frame, f"{where}.frames_asset_pointers[{index}]") for index, frame in enumerate(frames)]
    if not nested:
        raise unknown("content_type", kind, _PARTS, where)
    return [found for one, place in nested for found in _part(one, place)]


def _pixels(part: dict[str, Any], field: str, where: str) -> int:
    given = part.get(field)
    if given is None:
        return 0
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise unexpected(given, "a whole number of pixels", f"{where}.{field}")
    return given


def _media_type(part: dict[str, Any]) -> str:
    form = part.get("format")
    sound = part.get("content_type") == "audio_asset_pointer"
    return f"audio/{form}" if sound and isinstance(form, str) else ""


def _string(given: object, where: str) -> str:
    return "" if given is None else a_string(given, where, understood="a string or null")


def _time(given: object, where: str) -> int | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise unexpected(given, "a time in seconds or null", where)
    if not 0 <= given * 1_000_000 < MOST:  # NaN is no time either
        raise BadFormat(f"found {given} where a time in seconds between 1970 and 9999 is understood", where=where)
    return round(given * 1_000_000)
