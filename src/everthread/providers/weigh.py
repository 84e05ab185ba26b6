"""The size of a finished request: everything in it that a model is told, whatever its form.

An estimate adds up what the log has counted. A request that is more than messages of one text each (joined parts,
respelled arguments, pictures, messages that a provider's rules demand) is weighed here as it is sent. Texts that the
log has counted are not counted again: `known` has their sizes.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from everthread.core.estimates import Measure
from everthread.core.images import dimensions
from everthread.core.request import compact
from everthread.core.tokens import CALL_WRAPPING, WRAPPING, file_size, image_tokens
from everthread.providers.models import Model

_OPAQUE = ("signature", "thoughtSignature", "encrypted_content", "data")
_CALLS = ("tool_use", "function_call", "function")
_RESULTS = ("tool_result", "function_call_output")


def weigh(body: dict[str, Any], model: Model, measure: Measure, known: Mapping[str, int]) -> int:
    """Tokens of the instructions and of all messages. Tools and the schema of the reply do not depend on how the
    history is told, and are counted where it is planned."""
    scales = _Scales(measure, model, known)
    told = _instructions(body.get("config", body))
    own = WRAPPING if told else 0
    messages = body.get("messages") or body.get("input") or body.get("contents") or ()
    return measure.tokens(own + sum(map(scales.size, (*told, *messages)))) + scales.media


def _instructions(config: dict[str, Any]) -> list[Any]:
    told = config.get("system") or config.get("instructions") or config.get("systemInstruction", {}).get("parts") or []
    return [told] if isinstance(told, str) else told


class _Scales:
    """`media`: the sum for pictures and files, in the model's own tokens."""

    def __init__(self, measure: Measure, model: Model, known: Mapping[str, int]) -> None:
        self.media = 0
        self._measure, self._model, self._known = measure, model, known

    def size(self, value: Any) -> int:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return sum(map(self.size, value))
        if not isinstance(value, dict):
            return 0
        if found := _media(value):
            self.media += self._charge(*found)
            return 0
        return self._spoken(value) + sum([len(value[key]) // 4 for key in _OPAQUE if isinstance(value.get(key), str)])

    def _spoken(self, value: dict[str, Any]) -> int:
        if "role" in value:
            return self._message(value)
        if called := _called(value):
            return CALL_WRAPPING + sum(map(self._text, called))
        if value.get("type") in _RESULTS:
            return CALL_WRAPPING + self.size(value.get("content", value.get("output")))
        return self.size(value.get("text") or value.get("thinking") or value.get("summary") or "")

    def _message(self, message: dict[str, Any]) -> int:
        content = message.get("content", message.get("parts"))
        wrapping = CALL_WRAPPING if message["role"] == "tool" else WRAPPING if content else 0
        return wrapping + self.size(content) + self.size(message.get("tool_calls"))

    def _text(self, text: str) -> int:
        found = self._known.get(text)
        return self._measure.anew(text) if found is None else found

    def _charge(self, media_type: str, data: bytes) -> int:
        if not media_type.startswith("image/"):
            return self._measure.tokens(file_size(len(data), media_type))
        model = self._model
        return image_tokens(*dimensions(data), model.image_base, model.image_tile, model.image_crop)


def _called(value: dict[str, Any]) -> tuple[str, str] | None:
    """The name and the arguments of a tool call, in any form; also of Gemini's responses, which have the same shape."""
    if called := value.get("functionCall") or value.get("functionResponse"):
        return called["name"], compact(called["args"] if "args" in called else called["response"])
    if value.get("type") not in _CALLS:
        return None
    called = value.get("function", value)
    return called["name"], called["arguments"] if "arguments" in called else compact(called["input"])


def _media(value: dict[str, Any]) -> tuple[str, bytes] | None:
    """The type and the bytes of a picture or file, in any form; no bytes where only its address is given."""
    for kind, data in _found(value):
        if data.startswith("data:"):
            kind, _, data = data.removeprefix("data:").partition(";base64,")
        return kind, b"" if data.startswith(("http:", "https:")) else base64.b64decode(data)
    return None


def _found(value: dict[str, Any]) -> Iterator[tuple[str, str]]:
    match value:
        case {"type": ("image" | "document") as kind, "source": source}:
            yield source.get("media_type", f"{kind}/"), source.get("data") or source["url"]
        case {"image_url": {"url": str(url)}} | {"image_url": str(url)}:
            yield "image/", url
        case {"file_data": str(data)} | {"file": {"file_data": str(data)}}:
            yield "", data
        case {"input_audio": {"data": str(data)}}:
            yield "audio/", data
        case {"inlineData": {"mimeType": kind, "data": data}} | {"fileData": {"mimeType": kind, "fileUri": data}}:
            yield kind, data
