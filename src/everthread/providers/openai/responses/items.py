"""Items of OpenAI's Responses API to events, and back.

Encrypted reasoning travels whole in its part's `meta`, as the client keeps it, and goes back unmodified. What the
values have no field for (ids, states, annotations, an image's detail) is kept as a note. So
`to_responses(from_responses(items))` gives equal items, but for these normalisations:

- fields that are null are left out, and so is the type of a message that has nothing but role and content;
- a list of one plain input text becomes a string, content that is null or an empty list "";
- data becomes a data: URL in unbroken base64.

Of events from elsewhere, reasoning that is not OpenAI's is left out, and so are pictures and files of the assistant.
Items that OpenAI's own tools make (searches, code, computers) are not understood. There is no place for a result's
`error` and `name`, nor for `origin`, `model`, `interrupted` and `waits_for`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from everthread.core.events import Assistant, Event, System, ToolCall, ToolResult, User
from everthread.core.logged import Logged, unwrapped
from everthread.core.parts import File, Image, Part, Reasoning, Text, file, image
from everthread.providers.blobs import Blob, bytes_of, from_base64, from_data_url, is_data_url, to_data_url
from everthread.providers.checks import a_string, an_object, objects, unexpected, unknown
from everthread.providers.leftovers import left, note, noted, overlaid
from everthread.providers.openai.responses.request import META

_ROLES = ("system", "developer", "user", "assistant")
_INPUT = ("input_text", "input_image", "input_file")
_OUTPUT = {"output_text": "text", "refusal": "refusal"}  # where each keeps its text
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_RESULTS = {"function_call_output": "function_call", "custom_tool_call_output": "custom_tool_call"}
_TYPES = ("message", *_CALLS, *_RESULTS, "reasoning")
_BETWEEN = "\n\n"


def from_responses(given: str | dict[str, Any] | list[dict[str, Any]], *, where: str = "input") -> list[Event]:
    """The events that a request's input or a response's output tells of: a text, items, or a body with `input` and
    `instructions`. `where` is what errors call the list."""
    events: list[Event] = []
    items: object = given
    if isinstance(given, dict):
        items = given.get("input")
        if told := a_string(given.get("instructions") or "", "instructions"):
            events.append(System(parts=(Text(text=told),)))
    if isinstance(items, str):
        return [*events, User(parts=(Text(text=items),))]
    said: list[Part] = []
    for item, here in objects(items, where):
        parts = _spoken(item, here)
        if parts is not None:
            said += parts
            continue
        events += [Assistant(parts=tuple(said))] if said else []
        events.append(_other(item, here))
        said = []
    return [*events, Assistant(parts=tuple(said))] if said else events


def to_responses(events: Iterable[Event | Logged], *, blob: Blob | None = None) -> list[dict[str, Any]]:
    """The items of these events; `blob` gives the bytes of images and files by their hash."""
    items: list[dict[str, Any]] = []
    for event in unwrapped(events):
        match event:
            case System() | User():
                made = {"role": event.kind, "content": _content(event.parts, blob)}
                items.append(overlaid(made, noted(event.meta, META)))
            case Assistant():
                for part in event.parts:
                    _say(part, items)
            case ToolCall():
                items.append(_write_call(event))
            case ToolResult():
                items.append(_write_result(event, blob))
            # markers are not messages
    return items


# -- reading -----------------------------------------------------------------------------------------------


def _spoken(item: dict[str, Any], here: str) -> list[Part] | None:
    """What the assistant said or thought; None for all else."""
    if item.get("type") == "reasoning":
        return [_reasoning(item, here)]
    if item.get("type", "message") == "message" and item.get("role") == "assistant":
        return _said(item, here)
    return None


def _other(item: dict[str, Any], here: str) -> Event:
    kind = item.get("type", "message")
    if kind == "message":
        return _message(item, here)
    if kind in _CALLS:
        return _call(item, str(kind), here)
    if kind in _RESULTS:
        return _result(item, here)
    raise unknown("type", kind, _TYPES, here)


def _message(item: dict[str, Any], here: str) -> System | User:
    role = item.get("role")
    if role not in _ROLES:
        raise unknown("role", role, _ROLES, here)
    parts = _read_content(item.get("content"), f"{here}.content")
    fields = left(item, "role", "content")
    if fields.keys() == {"type"}:
        fields = {}
    if role == "developer":
        fields["role"] = role
    kind = User if role == "user" else System
    return kind(parts=parts, meta=note(META, fields=fields))


def _said(item: dict[str, Any], here: str) -> list[Part]:
    """A part for each of the message's. The first notes the message, the others that they belong to it."""
    content, fields = item.get("content"), left(item, "role", "content")
    if content is None or isinstance(content, str):
        fields = {} if fields.keys() == {"type"} else fields
        noting = {"message": {"fields": fields, "text": {}}} if fields else {}
        return [Text(text=content or "", meta=note(META, phase=_phase(item), **noting))]
    found: list[Part] = []
    for part, place in objects(content, f"{here}.content"):
        kind = part.get("type")
        if kind not in tuple(_OUTPUT):
            raise unknown("type", kind, tuple(_OUTPUT), place)
        field = _OUTPUT[str(kind)]
        begins = {"message": {"fields": fields}} if not found else {"joins": {}}
        about = note(META, fields=left(part, field), phase=_phase(item), **begins)
        found.append(Text(text=a_string(part.get(field), f"{place}.{field}"), meta=about))
    return found or [Text(text="", meta=note(META, phase=_phase(item)))]


def _phase(item: dict[str, Any]) -> str | None:
    """Whether it was a remark on the way or the answer: `render` looks for it in the same note."""
    phase = item.get("phase")
    return phase if isinstance(phase, str) else None


def _reasoning(item: dict[str, Any], here: str) -> Reasoning:
    """The whole item and not a note: it goes back unmodified or not at all."""
    shown = item.get("summary") or item.get("content") or []
    texts = [a_string(part.get("text", ""), f"{place}.text") for part, place in objects(shown, f"{here}.summary")]
    kept = {name: value for name, value in item.items() if value is not None}
    return Reasoning(text=_BETWEEN.join(texts), meta={META: json.dumps(kept, ensure_ascii=False)})


def _call(item: dict[str, Any], kind: str, here: str) -> ToolCall:
    field = _CALLS[kind]
    fields = left(item, "type", "call_id", "name", field)
    if kind != "function_call":
        fields["type"] = kind
    return ToolCall(
        id=a_string(item.get("call_id"), f"{here}.call_id"),
        name=a_string(item.get("name"), f"{here}.name"),
        arguments=a_string(item.get(field), f"{here}.{field}"),
        meta=note(META, fields=fields),
    )


def _result(item: dict[str, Any], here: str) -> ToolResult:
    fields = left(item, "type", "call_id", "output")
    if item["type"] != "function_call_output":
        fields["type"] = item["type"]
    return ToolResult(
        id=a_string(item.get("call_id"), f"{here}.call_id"),
        parts=_read_content(item.get("output"), f"{here}.output"),
        meta=note(META, fields=fields),
    )


def _read_content(content: object, where: str) -> tuple[Part, ...]:
    if content is None or content == "":
        return ()
    if isinstance(content, str):
        return (Text(text=content),)
    if isinstance(content, list):
        return tuple(_read(an_object(given, where), f"{where}[{n}]") for n, given in enumerate(content))
    raise unexpected(content, "a string, a list of parts or null", where)


def _read(part: dict[str, Any], where: str) -> Part:
    match kind := part.get("type"):
        case "input_text":
            fields = left(part, "type", "text")
            return Text(text=a_string(part.get("text"), f"{where}.text"), meta=note(META, fields=fields))
        case "input_image":
            return _read_image(part, where)
        case "input_file":
            return _read_file(part, where)
        case _:
            raise unknown("type", kind, _INPUT, where)


def _read_image(part: dict[str, Any], where: str) -> Image:
    url = a_string(part.get("image_url") or "", f"{where}.image_url")
    meta = note(META, fields=left(part, "type", "image_url"))
    if not is_data_url(url):
        return Image(url=url, meta=meta)
    media_type, data = from_data_url(url, f"{where}.image_url")
    return replace(image(data, media_type=media_type), meta=meta)


def _read_file(part: dict[str, Any], where: str) -> File:
    """By its data, its address, or an id that only OpenAI knows and that stays in the note."""
    name = a_string(part.get("filename") or "", f"{where}.filename")
    meta = note(META, fields=left(part, "type", "filename", "file_data", "file_url"))
    if part.get("file_data") is None:
        return File(url=a_string(part.get("file_url") or "", f"{where}.file_url"), name=name, meta=meta)
    given = a_string(part["file_data"], f"{where}.file_data")
    media_type, data = "", b""
    if is_data_url(given):
        media_type, data = from_data_url(given, f"{where}.file_data")
    else:
        data = from_base64(given, f"{where}.file_data")
    return replace(file(data, name=name, media_type=media_type or "application/octet-stream"), meta=meta)


# -- writing -----------------------------------------------------------------------------------------------


def _say(part: Part, items: list[dict[str, Any]]) -> None:
    """A part of what the assistant said, as an item or into the one before it."""
    if isinstance(part, Reasoning):
        items += _written_reasoning(part)
    elif isinstance(part, Text):
        _say_text(part, items)


def _say_text(part: Text, items: list[dict[str, Any]]) -> None:
    fields, begins = noted(part.meta, META) or {}, noted(part.meta, META, "message")
    kind = "refusal" if fields.get("type") == "refusal" else "output_text"
    content = overlaid({"type": kind, _OUTPUT[kind]: part.text}, fields)
    joins = noted(part.meta, META, "joins") is not None
    if joins and items and items[-1].get("role") == "assistant" and isinstance(items[-1]["content"], list):
        items[-1]["content"].append(content)
    elif begins is None and not joins:
        items.append({"role": "assistant", "content": part.text})
    else:
        said = part.text if begins and "text" in begins else [content]
        items.append(overlaid({"role": "assistant", "content": said}, (begins or {}).get("fields")))


def _written_reasoning(part: Reasoning) -> list[dict[str, Any]]:
    try:
        item = json.loads(part.meta.get(META, "null"))
    except ValueError:
        return []
    return [item] if isinstance(item, dict) and item.get("type") == "reasoning" else []


def _write_call(call: ToolCall) -> dict[str, Any]:
    fields = noted(call.meta, META) or {}
    kind = fields.get("type", "function_call")
    made = {"type": kind, "call_id": call.id, "name": call.name, _CALLS.get(kind, "arguments"): call.arguments}
    return {**made, **fields}


def _write_result(result: ToolResult, blob: Blob | None) -> dict[str, Any]:
    made = {"type": "function_call_output", "call_id": result.id, "output": _content(result.parts, blob)}
    return overlaid(made, noted(result.meta, META))


def _content(parts: tuple[Part, ...], blob: Blob | None) -> str | list[dict[str, Any]]:
    """A string where that says it all."""
    content = [part for part in parts if not isinstance(part, Reasoning)]
    match content:
        case []:
            return ""
        case [Text() as only] if not noted(only.meta, META):
            return only.text
        case _:
            return [_write(part, blob) for part in content]


def _write(part: Text | Image | File, blob: Blob | None) -> dict[str, Any]:
    if isinstance(part, Text):
        made = {"type": "input_text", "text": part.text}
    else:
        data = bytes_of(part, blob)
        where = part.url if data is None else to_data_url(data, part.media_type)
        made = _written_image(where) if isinstance(part, Image) else _written_file(part, where)
    return overlaid(made, noted(part.meta, META))


def _written_image(where: str) -> dict[str, Any]:
    return {"type": "input_image", "image_url": where} if where else {"type": "input_image"}


def _written_file(part: File, where: str) -> dict[str, Any]:
    body = {"file_url" if where == part.url else "file_data": where, "filename": part.name}
    return {"type": "input_file", **{name: value for name, value in body.items() if value}}
