"""The content blocks of an Anthropic message, one by one: text, images, documents, thinking, tools."""

from __future__ import annotations

import json
from typing import Any, assert_never

from msgspec.structs import replace

from everthread.core.events import ToolCall, ToolResult
from everthread.core.parts import File, Image, Part, Reasoning, Text, file, image
from everthread.core.request import INVALID, object_of
from everthread.providers.blobs import Blob, bytes_of, from_base64, to_base64
from everthread.providers.checks import a_string, an_object, objects, unexpected, unknown
from everthread.providers.leftovers import left, note, noted, overlaid

THINKING = ("thinking", "redacted_thinking")
_RESULT = ("text", "image", "document")
# Sources that only Anthropic can resolve: they stay in the note.
_THEIRS = ("file", "content")


def read_blocks(content: object, where: str) -> list[tuple[dict[str, Any], str]]:
    """The blocks of a content, a string being one of text, each with its place."""
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [({"type": "text", "text": content}, where)]
    if isinstance(content, list):
        return list(objects(content, where))
    raise unexpected(content, "a string or a list of blocks", where)


def read_part(block: dict[str, Any], where: str, *, understood: tuple[str, ...]) -> Part:
    """`understood`: the types that may stand here, for the error that says so."""
    kind = block.get("type")
    match kind if kind in understood else None:
        case "text":
            fields = left(block, "type", "text", "cache_control")
            return Text(text=a_string(block.get("text"), f"{where}.text"), meta=note("anthropic", fields=fields))
        case "image":
            return _read_image(block, f"{where}.source")
        case "document":
            return _read_document(block, where)
        case "thinking" | "redacted_thinking":
            text = a_string(block.get("thinking", ""), f"{where}.thinking")
            # The whole block and not a note: it goes back unmodified or not at all.
            return Reasoning(text=text, meta={"anthropic": json.dumps(block, ensure_ascii=False)})
        case _:
            raise unknown("type", kind, understood, where)


def write_part(part: Part, blob: Blob | None) -> list[dict[str, Any]]:
    """One block, or none: empty text is refused by Anthropic, and so is another model's reasoning."""
    match part:
        case Text():
            made = {"type": "text", "text": part.text} if part.text else {}
        case Reasoning():
            return _write_thinking(part)
        case Image():
            made = {"type": "image", **_write_image(part, bytes_of(part, blob))}
        case File():
            made = {"type": "document", **_write_document(part, bytes_of(part, blob))}
        case _:
            assert_never(part)
    return [overlaid(made, noted(part.meta, "anthropic"))] if made else []


# -- tools -------------------------------------------------------------------------------------------------


def read_call(block: dict[str, Any], where: str) -> ToolCall:
    given = block.get("input")
    body = {} if given is None else an_object(given, f"{where}.input")
    invalid = body.get(INVALID) if len(body) == 1 else None
    known = isinstance(invalid, str) and object_of(invalid) is None
    return ToolCall(
        id=a_string(block.get("id"), f"{where}.id"),
        name=a_string(block.get("name"), f"{where}.name"),
        arguments=str(invalid) if known else json.dumps(body, ensure_ascii=False),
        meta=note("anthropic", fields=left(block, "type", "id", "name", "input", "cache_control")),
    )


def write_call(call: ToolCall) -> dict[str, Any]:
    body = object_of(call.arguments)
    given = {INVALID: call.arguments} if body is None else body
    made = {"type": "tool_use", "id": call.id, "name": call.name, "input": given}
    # Laid over whole: a noted field is never inside the input.
    return {**made, **(noted(call.meta, "anthropic") or {})}


def read_result(block: dict[str, Any], where: str) -> ToolResult:
    error = block.get("is_error")
    if error is not None and not isinstance(error, bool):
        raise unexpected(error, "a boolean", f"{where}.is_error")
    blocks = read_blocks(block.get("content"), f"{where}.content")
    known = ("type", "tool_use_id", "content", "is_error", "cache_control")
    return ToolResult(
        id=a_string(block.get("tool_use_id"), f"{where}.tool_use_id"),
        parts=tuple(read_part(inner, place, understood=_RESULT) for inner, place in blocks),
        error=bool(error),
        meta=note("anthropic", fields=left(block, *known)),
    )


def write_result(result: ToolResult, blob: Blob | None) -> dict[str, Any]:
    content = collapsed([block for part in result.parts for block in write_part(part, blob)])
    made: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.id}
    if content:
        made["content"] = content
    if result.error:
        made["is_error"] = True
    return overlaid(made, noted(result.meta, "anthropic"))


def collapsed(blocks: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """A plain string, where there is only one text."""
    match blocks:
        case []:
            return ""
        case [{"type": "text", "text": str(only), **more}] if not more:
            return only
        case _:
            return blocks


# -- images and documents ----------------------------------------------------------------------------------


def _read_image(block: dict[str, Any], where: str) -> Image:
    source = an_object(block.get("source"), where)
    fields = left(block, "type", "source", "cache_control")
    kind = source.get("type")
    match kind:
        case "base64":
            data = from_base64(a_string(source.get("data"), f"{where}.data"), f"{where}.data")
            found = image(data, media_type=_media_type(source, "", where))
        case "url":
            found = Image(url=a_string(source.get("url"), f"{where}.url"))
        case "file":
            found, fields = Image(), {**fields, "source": source}
        case _:
            raise unknown("type", kind, ("base64", "url", "file"), where)
    return replace(found, meta=note("anthropic", fields=fields))


def _read_document(block: dict[str, Any], place: str) -> File:
    where = f"{place}.source"
    source = an_object(block.get("source"), where)
    name = a_string(block.get("title") or "", f"{place}.title")
    fields = left(block, "type", "source", "title", "cache_control")
    kind = source.get("type")
    match kind:
        case "text":
            data = a_string(source.get("data"), f"{where}.data").encode("utf-8", "surrogatepass")
            found = file(data, name=name, media_type=_media_type(source, "text/plain", where))
        case "base64":
            data = from_base64(a_string(source.get("data"), f"{where}.data"), f"{where}.data")
            found = file(data, name=name, media_type=_media_type(source, "application/pdf", where))
        case "url":
            found = File(url=a_string(source.get("url"), f"{where}.url"), name=name)
        case "file" | "content":
            found, fields = File(name=name), {**fields, "source": source}
        case _:
            raise unknown("type", kind, ("base64", "text", "url", *_THEIRS), where)
    return replace(found, meta=note("anthropic", fields=fields))


def _media_type(source: dict[str, Any], usual: str, where: str) -> str:
    return a_string(source.get("media_type", usual), f"{where}.media_type")


def _write_image(part: Image, data: bytes | None) -> dict[str, Any]:
    return _elsewhere(part) if data is None else _base64(data, part.media_type)


def _write_document(part: File, data: bytes | None) -> dict[str, Any]:
    source = _elsewhere(part) if data is None else _plain_text(part, data) or _base64(data, part.media_type)
    return {**source, "title": part.name} if part.name else source


def _plain_text(part: File, data: bytes) -> dict[str, Any] | None:
    if part.media_type != "text/plain":
        return None
    try:
        text = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    return {"source": {"type": "text", "media_type": "text/plain", "data": text}}


def _base64(data: bytes, media_type: str) -> dict[str, Any]:
    return {"source": {"type": "base64", "media_type": media_type, "data": to_base64(data)}}


def _elsewhere(part: Image | File) -> dict[str, Any]:
    return {"source": {"type": "url", "url": part.url}} if part.url else {}


def _write_thinking(part: Reasoning) -> list[dict[str, Any]]:
    try:
        block = json.loads(part.meta.get("anthropic", "null"))
    except ValueError:
        return []
    return [block] if isinstance(block, dict) and block.get("type") in THINKING else []
