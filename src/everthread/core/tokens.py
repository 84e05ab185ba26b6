"""The canonical size of an event in tokens, estimated once when it is appended and never again.

Text is counted with OpenAI's o200k encoding, offline and exactly (but for very long words: see `pieces`); a
message has a few tokens of wrapping; an image is charged by its area and a file by its length, never as the text
of its base64. Only what is sent has a size: metadata has none, nor have the fields of a foreign format that were noted.
What another model makes of it is a factor on this size, applied by whoever builds a request.
`settled` is the size once the event's turn is idle, when a large tool result is sent as a stub.

Beside the events a request has tools; their size is here too, and so is what is exact for one provider only:
OpenAI's older encoding and its charge for images.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from everthread.core.events import Assistant, Event, System, ToolCall, ToolResult, User
from everthread.core.images import dimensions
from everthread.core.parts import NOTES, File, Image, Part, Reasoning, Text
from everthread.core.pieces import pieces
from everthread.core.request import compact, object_of, spelled

if TYPE_CHECKING:
    from splintr import AnyTokenizer

Encoding = Literal["o200k", "cl100k"]
Counter = Callable[[str], int]

BYTES_A_TOKEN = 4  # where nothing is known
BROKEN: dict[str, str] = {}  # why an encoding could not be used in this process
_log = logging.getLogger("everthread.tokens")

WRAPPING = 4  # role and separators of one message
JOINT = 1  # what stands between two parts, where they become one text
CALL_WRAPPING = 12  # id, name and JSON of one tool call or result
LARGE_RESULT = 10_240  # bytes of text from which a tool result becomes a stub
STUB_HEAD, STUB_TAIL = 1_000, 400  # characters that a stub keeps
STUB_NOTE = 60  # tokens of the line that says what was left out and how to open it
PIXELS_A_TOKEN = 750
IMAGE_LEAST = 258  # what Gemini charges for the smallest; OpenAI's least is 255
IMAGE_MOST, IMAGE_UNKNOWN = 1_600, 1_000  # large images are scaled down by the providers
BYTES_A_TOKEN_OF_FILE, BYTES_A_TOKEN_OF_TEXT = 12, 2
TEXT_FILES = {"json", "xml", "yaml", "x-yaml", "toml", "sql", "graphql", "javascript", "x-ndjson", "x-sh", "csv"}
TOOLS_WRAPPING = 9  # the message that the tools are put into
DEEPEST = 64  # levels of a tool's schema that are read; no provider takes as many
COMBINED = ("anyOf", "oneOf", "allOf")
TILES_MOST = 8  # of OpenAI's: 2048 by 768 pixels
SMALL_IMAGE, CROPS_UNKNOWN = 384, 6  # pixels of an image that Google does not crop; crops of one that is 16 by 9
LEAST_CROP, MOST_CROP, MOST_CROPPED = 256, 768, 3_072  # pixels of a crop's side, and of an image that is cropped
# What TypeScript says of any schema, and of one that is an object; whatever else stands in it is told in a comment.
_SAID, _SAID_OF_OBJECT = {"type", "$ref", "$schema"}, {"properties", "required", "additionalProperties"}
_DEFINITIONS = ("$defs", "definitions")
_TOLD = ("properties", "additionalProperties", "required", *COMBINED)  # of which one makes a tool take arguments


def sizes(event: Event, counter: Counter | None = None) -> tuple[int, int]:
    """Tokens of the event in full, and once its turn is idle. Markers are never sent: nothing.

    Without a `counter` these are the canonical sizes; with one, the texts are counted by that."""
    counter = counter or count
    match event:
        case User() | Assistant() | System():
            full = WRAPPING + _parts(event.parts, counter)
        case ToolCall():
            full = CALL_WRAPPING + counter(event.name) + _arguments(event.arguments, counter) + echo_size(event.meta)
        case ToolResult():
            full = CALL_WRAPPING + _parts(event.parts, counter)
            return full, min(full, _stub(event, full, counter))
        case _:
            return 0, 0
    return full, full


def count(text: str, encoding: Encoding = "o200k") -> int:
    """Tokens of a text in one of OpenAI's encodings; at four bytes a token where the tokenizer fails."""
    if not text:
        return 0
    try:
        tokenizer = _tokenizer(encoding)
        return sum([_count(piece, tokenizer) for piece in pieces(text)])
    except BaseException as problem:  # a message is worth more than its size
        if not _is_fault(problem):
            raise
        _broken(encoding, f"{type(problem).__name__}: {problem}")
        return four_bytes(text)


def _count(text: str, tokenizer: AnyTokenizer) -> int:
    try:
        return len(tokenizer.encode_ordinary(text))
    except UnicodeEncodeError:  # lone surrogates: the tokenizer wants clean text
        return len(tokenizer.encode_ordinary(text.encode("utf-8", "replace").decode()))


def four_bytes(text: str) -> int:
    """Tokens of a text where nothing better is known."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_A_TOKEN)


@cache
def _broken(encoding: Encoding, why: str) -> None:
    """Log once that a tokenizer cannot be used, and note why: the context reports it."""
    BROKEN[encoding] = why
    _log.warning("The tokenizer of %s failed (%s): four bytes are taken for a token.", encoding, why)


def _is_fault(problem: BaseException) -> bool:
    """Whether the tokenizer itself failed. A panic in Rust arrives as an exception that is not an `Exception`."""
    return isinstance(problem, Exception) or type(problem).__name__ == "PanicException"


def tools_size(tools: Sequence[Mapping[str, Any]], encoding: Encoding = "o200k") -> int:
    """Tokens of tool definitions (`name`, `description`, `schema`), as OpenAI counts them: as TypeScript."""
    if not tools:
        return 0
    try:
        return _tools_size(msgspec.json.encode(tools), encoding)
    except (TypeError, ValueError, RecursionError):  # not quite JSON, but it still has a size
        return TOOLS_WRAPPING + count("".join(_namespace(tools)), encoding)


def image_tiles(width: int, height: int, base: int, tile: int) -> int:
    """Tokens of an image as OpenAI charges it: `tile` for each tile of 512 by 512 pixels, after scaling it down to
    fit 2048 by 2048 and then to a shortest side of 768. Of unknown dimensions: the most that it can be."""
    if width <= 0 or height <= 0:
        return base + TILES_MOST * tile
    scale, of = 1, 1  # a fraction: a float might be a hair over the edge of a tile
    for side, limit in ((max(width, height), 2048), (min(width, height), 768)):
        if side * scale > limit * of:
            scale, of = limit, side
    across, down = (-(-side * scale // (of * 512)) for side in (width, height))
    return base + across * down * tile


def image_area(width: int, height: int) -> int:
    """Tokens of an image by its area, for models whose charge is not known."""
    area = width * height
    return max(IMAGE_LEAST, min(IMAGE_MOST, -(-area // PIXELS_A_TOKEN))) if area > 0 else IMAGE_UNKNOWN


def image_crops(width: int, height: int, crop: int) -> int:
    """Tokens of an image as Google charges it: `crop` for each square of two thirds of its shorter side, within
    bounds, after scaling it down to fit 3072 by 3072."""
    if width <= 0 or height <= 0:
        return crop * CROPS_UNKNOWN
    if max(width, height) <= SMALL_IMAGE:
        return crop
    scale = max(width, height, MOST_CROPPED)
    width, height = (max(1, side * MOST_CROPPED // scale) for side in (width, height))
    side = max(LEAST_CROP, min(MOST_CROP, min(width, height) * 2 // 3))
    return crop * -(-width // side) * -(-height // side)


def image_tokens(width: int, height: int, base: int, tile: int, crop: int) -> int:
    """Tokens of an image for a model that charges by tiles, by crops, or in no way that is known."""
    if tile:
        return image_tiles(width, height, base, tile)
    return image_crops(width, height, crop) if crop else image_area(width, height)


def _arguments(arguments: str, counter: Counter) -> int:
    """As text or as the object that it spells, whichever is larger: providers are sent one or the other."""
    told, _ = spelled(arguments)
    again = compact(object_of(told))
    return counter(told) if again == told else max(counter(told), counter(again))


def _parts(parts: tuple[Part, ...], counter: Counter) -> int:
    return sum([_part(part, counter) for part in parts]) + JOINT * (len(parts) - 1 if parts else 0)


def _part(part: Part, counter: Counter) -> int:
    match part:
        case Text() | Reasoning():
            return counter(part.text) + echo_size(part.meta)
        case Image():
            sides = dimensions(part.data) if part.data else (part.width, part.height)
            return image_area(*sides)
        case File():
            return counter(part.name) + _file(part, counter)


def _file(file: File, counter: Counter) -> int:
    if file.data is None:
        return file_size(file.size, file.media_type)
    if is_text(file.media_type):  # sent as text, so counted as text
        return counter(file.data.decode("utf-8", "replace"))
    return file_size(len(file.data), file.media_type)


def file_size(size: int, media_type: str) -> int:
    """Tokens of a file by its bytes."""
    return -(-size // (BYTES_A_TOKEN_OF_TEXT if is_text(media_type) else BYTES_A_TOKEN_OF_FILE))


def is_text(media_type: str) -> bool:
    """Whether a file of this type is sent as text: `text/*`, `application/json`, `image/svg+xml` and the like."""
    kind, _, name = media_type.partition(";")[0].strip().lower().partition("/")
    return kind == "text" or name.rpartition("+")[2] in TEXT_FILES


def _stub(event: ToolResult, full: int, counter: Counter) -> int:
    whole = "\n".join(part.text for part in event.parts if isinstance(part, Text))
    if len(whole) < LARGE_RESULT and len(whole.encode("utf-8", "surrogatepass")) < LARGE_RESULT:
        return full
    others = sum(_part(part, counter) + JOINT for part in event.parts if not isinstance(part, Text))
    return CALL_WRAPPING + STUB_NOTE + counter(whole[:STUB_HEAD]) + counter(whole[-STUB_TAIL:]) + others


def echo_size(meta: dict[str, str]) -> int:
    """Tokens of what a provider wants back. What was only noted of a foreign format is never sent: nothing."""
    return sum(len(value) // 4 for value in meta.values() if not value.startswith(NOTES)) if meta else 0


@cache
def _tokenizer(encoding: Encoding) -> AnyTokenizer:
    # Imported here: the vocabulary takes 40 ms to load, and reading a log needs no tokenizer.
    from splintr import Tokenizer

    return Tokenizer.from_pretrained(f"{encoding}_base")


# -- tools as TypeScript -----------------------------------------------------------------------------------


@lru_cache(maxsize=64)  # the same tools are sent again and again
def _tools_size(tools: bytes, encoding: Encoding) -> int:
    return TOOLS_WRAPPING + count("".join(_namespace(msgspec.json.decode(tools))), encoding)


def _namespace(tools: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield "namespace functions {\n\n"
    for tool in tools:
        schema = tool.get("schema")
        yield from _comment({"description": tool.get("description")})
        yield from _comment(schema, *_DEFINITIONS)
        yield f"type {tool.get('name')} = ("
        if isinstance(schema, Mapping) and any(map(schema.get, _TOLD)):
            yield "_: "
            yield from _type(schema, DEEPEST)
        yield ") => any;\n\n"
        yield from _definitions(schema)
    yield "} // namespace functions"


def _definitions(schema: object) -> Iterator[str]:
    """What the schema refers to, once each: a reference itself is `any`, so that none leads round in a circle."""
    for key in _DEFINITIONS:
        named = schema.get(key) if isinstance(schema, Mapping) else None
        for name, definition in named.items() if isinstance(named, Mapping) else ():
            yield from _comment(definition)
            yield f"type {name} = "
            yield from _type(definition, DEEPEST)
            yield ";\n\n"


def _comment(schema: object, *elsewhere: str) -> Iterator[str]:
    """What a schema says that a TypeScript type cannot. `elsewhere`: keys that are told in another place."""
    if not isinstance(schema, Mapping):
        return
    said = _SAID | _said_by_type(schema) | {*elsewhere}
    for key, value in schema.items():
        if value and key not in said:
            yield _remark(key, value)


def _remark(key: str, value: object) -> str:
    if not isinstance(value, str):
        return f"// {key}: {_plainly(value)}\n"
    label = "" if key == "description" else f"{key}: "
    lines = value.replace("\n", "\n// ")
    return f"// {label}{lines}\n"


def _said_by_type(schema: Mapping[str, Any]) -> set[str]:
    """The keys of a schema that `_type` tells of: not of an object what only a list has, nor the other way round."""
    if "$ref" in schema:
        return set()
    if isinstance(schema.get("enum"), list | tuple):
        return {"enum"}
    said, kinds = {*COMBINED}, _kinds(schema)
    if "object" in kinds:
        said |= _SAID_OF_OBJECT if isinstance(schema.get("properties", {}), Mapping) else set()
    if "array" in kinds:
        said.add("prefixItems" if schema.get("prefixItems") else "items")
    return said


def _plainly(value: object) -> str:
    """JSON of anything that is not nested too deeply to be sent."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return "any"


def _fields(schema: Mapping[str, Any], depth: int) -> Iterator[str]:
    required = _required(schema)
    indent = "  " * (DEEPEST - depth)
    for name, field in _properties(schema, required).items():
        for comment in _comment(field):
            yield indent + comment
        yield f"{indent}{name}: " if name in required else f"{indent}{name}?: "
        yield from _type(field, depth - 1)
        yield ",\n"


def _required(schema: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The names of the fields that must be there, in their order, each with a schema that says nothing."""
    listed = schema.get("required")
    names = listed if isinstance(listed, list | tuple) else ()
    return {name: {} for name in names if isinstance(name, str)}


def _properties(schema: Mapping[str, Any], required: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The fields of an object. A required field is listed even where the schema gives it no type."""
    described, others = schema.get("properties"), schema.get("additionalProperties")
    fields: dict[str, Any] = dict(described) if isinstance(described, Mapping) else {}
    fields |= {name: nothing for name, nothing in required.items() if name not in fields}
    return fields | ({"[key: string]": others} if isinstance(others, Mapping) and others else {})


def _type(schema: object, depth: int) -> Iterator[str]:
    if depth <= 0:
        yield _plainly(schema)
    elif not isinstance(schema, Mapping) or "$ref" in schema:
        yield "any"
    elif isinstance(values := schema.get("enum"), list | tuple):
        yield " | ".join(map(_plainly, values))
    else:
        yield from _parts_of_type(schema, depth)


def _parts_of_type(schema: Mapping[str, Any], depth: int) -> Iterator[str]:
    """What kinds of value it allows, and all that they are combined with."""
    combined = [schema[key] for key in COMBINED if schema.get(key)]
    kinds = _kinds(schema) or ([] if combined else ["any"])
    for place, kind in enumerate(kinds):
        yield " | " if place else ""
        yield from _kind(schema, kind, depth)
    for place, options in enumerate(combined):
        yield " & " if place or kinds else ""
        yield from _either(options, depth)


def _kinds(schema: Mapping[str, Any]) -> Sequence[str]:
    match schema.get("type"):
        case str(kind):
            return [kind]
        case list(kinds) | tuple(kinds):
            # Each once: a list that names `object` twice, level upon level, would double the work at every one.
            return list(dict.fromkeys(map(str, kinds)))
    return ["object"] if "properties" in schema else ["array"] if "items" in schema else []


def _either(options: object, depth: int) -> Iterator[str]:
    for place, option in enumerate(options if isinstance(options, list | tuple) else [options]):
        yield " | " if place else ""
        yield from _comment(option)
        yield from _type(option, depth - 1)


def _kind(schema: Mapping[str, Any], kind: str, depth: int) -> Iterator[str]:
    match kind:
        case "object" if isinstance(schema.get("properties"), Mapping) or schema.get("required"):
            yield "{\n"
            yield from _fields(schema, depth)
            yield "}"
        case "object" if isinstance(others := schema.get("additionalProperties"), Mapping):
            yield "{ [key: string]: "
            yield from _either(others, depth)
            yield " }"
        case "array":
            yield from _either(schema.get("prefixItems") or schema.get("items"), depth)
            yield "[]"
        case "integer":
            yield "number"
        case _:
            yield kind
