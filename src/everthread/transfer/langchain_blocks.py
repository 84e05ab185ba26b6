"""The content of a LangChain message: a string, or a list of strings and blocks.

Blocks are LangChain's own (text, image, file, reasoning), OpenAI's `image_url`, and those that providers' integrations
leave as they came: thinking, reasoning items, and the blocks that repeat a tool call. The last are noted with the call.
Whatever a block says beyond what a part has a field for is kept as a note.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from msgspec.structs import replace

from everthread.core.parts import File, Image, Part, Reasoning, Text, file, image
from everthread.providers.anthropic.blocks import THINKING, read_part
from everthread.providers.blobs import Blob, bytes_of, from_base64, from_data_url, is_data_url, to_base64, to_data_url
from everthread.providers.checks import a_list, a_string, an_object, unexpected, unknown
from everthread.providers.leftovers import left, note, noted, overlaid
from everthread.providers.openai.responses.request import META as RESPONSES

META = "langchain"
_CALLS = {"tool_use": "id", "tool_call": "id", "function_call": "call_id", "invalid_tool_call": "id"}
_KNOWN = ("text", "image_url", "image", "file", "reasoning", *THINKING, *_CALLS)
_MEDIA = ("type", "base64", "url", "mime_type")
Block = dict[str, Any]


class Called(NamedTuple):
    """A block that repeats a tool call, and where it stands."""

    id: str
    at: int
    block: Block


def read_content(content: object, where: str) -> tuple[tuple[Part, ...], list[Called]]:
    """The parts of a content, and the blocks that repeat tool calls."""
    if content is None or content == "":
        return (), []
    if isinstance(content, str):
        return (Text(text=content),), []
    if not isinstance(content, list):
        raise unexpected(content, "a string or a list of blocks", where)
    parts: list[Part] = []
    called: list[Called] = []
    for at, given in enumerate(a_list(content, where)):
        place = f"{where}[{at}]"
        if isinstance(given, str):
            parts.append(Text(text=given, meta=note(META, bare={})))
            continue
        block = an_object(given, place)
        if (kind := block.get("type")) in _CALLS:
            called.append(Called(a_string(block.get(_CALLS[str(kind)]) or "", place), at, block))
        else:
            parts.append(_read(block, place))
    return tuple(parts), called


def write_content(parts: tuple[Part, ...], blob: Blob | None) -> str | list[Any]:
    """A string where that says it all."""
    match parts:
        case ():
            return ""
        case (Text() as only,) if META not in only.meta:
            return only.text
        case _:
            return [written for part in parts for written in _write(part, blob)]


# -- reading -----------------------------------------------------------------------------------------------


def _read(block: Block, where: str) -> Part:
    match kind := block.get("type"):
        case "text":
            meta = note(META, fields=left(block, "type", "text"))
            return Text(text=a_string(block.get("text"), f"{where}.text"), meta=meta)
        case "image_url":
            return _read_url(block, f"{where}.image_url")
        case "image" | "file":
            return _read_media(block, where)
        case "reasoning":
            return _read_reasoning(block, where)
        case "thinking" | "redacted_thinking":
            return read_part(block, where, understood=THINKING)
        case _:
            raise unknown("type", kind, _KNOWN, where)


def _read_url(block: Block, where: str) -> Image:
    given = block.get("image_url")
    url = a_string(given.get("url") if isinstance(given, dict) else given, where)
    kept = {**left(block, "type", "image_url"), "type": "image_url"}
    inner = left(given, "url") if isinstance(given, dict) else {}
    meta = note(META, fields=kept, url={"is": "text" if isinstance(given, str) else "object", "with": inner})
    if not is_data_url(url):
        return Image(url=url, meta=meta)
    media_type, data = from_data_url(url, where)
    return replace(image(data, media_type=media_type), meta=meta)


def _read_media(block: Block, where: str) -> Part:
    """LangChain's own block. What only a provider can resolve (an id, a form of its own) stays in the note."""
    media_type = a_string(block.get("mime_type") or "", f"{where}.mime_type")
    meta, is_image = note(META, fields=left(block, *_MEDIA)), block["type"] == "image"
    if block.get("base64") is not None:
        data = from_base64(a_string(block["base64"], f"{where}.base64"), f"{where}.base64")
        found = image(data, media_type=media_type) if is_image else file(data, media_type=media_type)
        return replace(found, meta=meta)
    url = a_string(block.get("url") or "", f"{where}.url")
    return (Image if is_image else File)(url=url, media_type=media_type, meta=meta)


def _read_reasoning(block: Block, where: str) -> Reasoning:
    """An item of OpenAI's Responses goes back to it whole; LangChain's own block is a text and a note."""
    if isinstance(block.get("summary"), list):
        texts = [a_string(an_object(one, where).get("text") or "", where) for one in block["summary"]]
        return Reasoning(text="\n\n".join(texts), meta={RESPONSES: json.dumps(block, ensure_ascii=False)})
    text = a_string(block.get("reasoning") or "", f"{where}.reasoning")
    return Reasoning(text=text, meta=note(META, fields=left(block, "type", "reasoning")))


# -- writing -----------------------------------------------------------------------------------------------


def _write(part: Part, blob: Blob | None) -> list[Any]:
    fields = noted(part.meta, META)
    if isinstance(part, Text):
        if noted(part.meta, META, "bare") is not None:
            return [part.text]
        return [overlaid({"type": "text", "text": part.text}, fields)]
    if isinstance(part, Reasoning):
        return [_whole(part) or overlaid({"type": "reasoning", "reasoning": part.text}, fields)]
    data = bytes_of(part, blob)
    if url := noted(part.meta, META, "url"):
        where = part.url if data is None else to_data_url(data, part.media_type)
        return [{**(fields or {}), "image_url": where if url["is"] == "text" else {"url": where, **url["with"]}}]
    return [overlaid(_written(part, data), fields)]


def _written(part: Image | File, data: bytes | None) -> Block:
    kind = {"mime_type": part.media_type} if part.media_type else {}
    name = {"filename": part.name} if isinstance(part, File) and part.name else {}
    where = {"base64": to_base64(data)} if data is not None else {"url": part.url} if part.url else {}
    return {"type": "image" if isinstance(part, Image) else "file", **where, **kind, **name}


def _whole(part: Reasoning) -> Block | None:
    """What a provider wants back as it came."""
    for provider in ("anthropic", RESPONSES):
        try:
            found = json.loads(part.meta.get(provider, "null"))
        except ValueError:
            continue
        if isinstance(found, dict) and found.get("type") in ("reasoning", *THINKING):
            return found
    return None
