"""The content of an OpenAI Chat Completions message: a string, a list of content parts, null, or empty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from everthread.core.parts import File, Image, Part, Reasoning, Text, file, image
from everthread.providers.blobs import Blob, bytes_of, from_base64, from_data_url, is_data_url, to_base64, to_data_url
from everthread.providers.checks import a_string, an_object, unexpected, unknown
from everthread.providers.leftovers import left, note, noted, overlaid

_PARTS = ("text", "image_url", "input_audio", "file", "refusal")
# The one audio format whose name is not its media type's.
_MPEG = {"mp3": "mpeg"}


def read_content(content: object, where: str) -> tuple[Part, ...]:
    """No parts for null and for empty content alike."""
    if content is None or content == "":
        return ()
    if isinstance(content, str):
        return (Text(text=content),)
    if isinstance(content, list):
        return tuple(_read(given, f"{where}[{index}]") for index, given in enumerate(content))
    raise unexpected(content, "a string, a list of parts or null", where)


def write_content(parts: Sequence[Part], blob: Blob | None) -> str | list[dict[str, Any]]:
    """A string where that says it all. Reasoning is no content: where it has a place, it is a field."""
    content = [part for part in parts if not isinstance(part, Reasoning)]
    match content:
        case []:
            return ""
        case [Text() as only] if not noted(only.meta, "openai"):
            return only.text
        case _:
            return [_write(part, blob) for part in content]


# -- reading -----------------------------------------------------------------------------------------------


def _read(given: object, where: str) -> Part:
    part = an_object(given, where)
    kind = part.get("type")
    match kind:
        case "text":
            fields = left(part, "type", "text")
            return Text(text=a_string(part.get("text"), f"{where}.text"), meta=note("openai", fields=fields))
        case "refusal":
            fields = {"type": "refusal", **left(part, "type", "refusal")}
            return Text(text=a_string(part.get("refusal"), f"{where}.refusal"), meta=note("openai", fields=fields))
        case "image_url":
            return _read_image(part, f"{where}.image_url")
        case "input_audio":
            return _read_audio(part, f"{where}.input_audio")
        case "file":
            return _read_file(part, f"{where}.file")
        case _:
            raise unknown("type", kind, _PARTS, where)


def _read_image(part: dict[str, Any], where: str) -> Image:
    given = part.get("image_url")
    body = {"url": given} if isinstance(given, str) else an_object(given, where)
    url = a_string(body.get("url"), f"{where}.url")
    meta = _note(part, "image_url", left(body, "url"))
    if not is_data_url(url):
        return Image(url=url, meta=meta)
    media_type, data = from_data_url(url, f"{where}.url")
    return replace(image(data, media_type=media_type), meta=meta)


def _read_audio(part: dict[str, Any], where: str) -> File:
    body = an_object(part.get("input_audio"), where)
    data = from_base64(a_string(body.get("data"), f"{where}.data"), f"{where}.data")
    form = a_string(body.get("format"), f"{where}.format")
    meta = _note(part, "input_audio", left(body, "data", "format"))
    return replace(file(data, media_type=f"audio/{_MPEG.get(form, form)}"), meta=meta)


def _read_file(part: dict[str, Any], where: str) -> File:
    """By its data, or by an id that only OpenAI knows and that stays in the note."""
    body = an_object(part.get("file"), where)
    name = a_string(body.get("filename", "") or "", f"{where}.filename")
    meta = _note(part, "file", left(body, "file_data", "filename"))
    if body.get("file_data") is None:
        return File(name=name, meta=meta)
    given = a_string(body["file_data"], f"{where}.file_data")
    if given.startswith(("http://", "https://")):
        return File(url=given, name=name, meta=meta)
    if not is_data_url(given):
        return replace(file(from_base64(given, f"{where}.file_data"), name=name), meta=meta)
    media_type, data = from_data_url(given, f"{where}.file_data")
    return replace(file(data, name=name, media_type=media_type or "application/octet-stream"), meta=meta)


def _note(part: dict[str, Any], body: str, inner: dict[str, Any]) -> dict[str, str]:
    fields = left(part, "type", body)
    return note("openai", fields={**fields, body: inner} if inner else fields)


# -- writing -----------------------------------------------------------------------------------------------


def _write(part: Text | Image | File, blob: Blob | None) -> dict[str, Any]:
    fields = noted(part.meta, "openai")
    match part:
        case Text():
            made = _write_text(part, fields or {})
        case Image():
            made = {"type": "image_url", "image_url": {"url": _url(part, bytes_of(part, blob))}}
        case File():
            made = _write_file(part, bytes_of(part, blob))
        case _:
            assert_never(part)
    return overlaid(made, fields)


def _write_text(part: Text, fields: dict[str, Any]) -> dict[str, Any]:
    kind = "refusal" if fields.get("type") == "refusal" else "text"
    return {"type": kind, kind: part.text}


def _url(part: Image | File, data: bytes | None) -> str:
    return part.url if data is None else to_data_url(data, part.media_type)


def _write_file(part: File, data: bytes | None) -> dict[str, Any]:
    audio = part.media_type.removeprefix("audio/")
    # Chat Completions takes sound only as input_audio, which has no place for a name.
    if data is not None and audio != part.media_type and not part.name:
        form = next((form for form, name in _MPEG.items() if name == audio), audio)
        return {"type": "input_audio", "input_audio": {"data": to_base64(data), "format": form}}
    body = {"file_data": _url(part, data), "filename": part.name}
    return {"type": "file", "file": {name: value for name, value in body.items() if value}}
