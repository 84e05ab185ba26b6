"""The canonical size of an event in tokens, estimated once when it is appended and never again.

Text is counted with OpenAI's o200k encoding, exactly and offline; a message has a few tokens of wrapping; an
image is charged by its area and a file by its length, never as the text of its base64. What another model
makes of it is a factor on this size, applied by whoever builds a request. `settled` is the size once the
event's turn is idle, when a large tool result is sent as a stub.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from everthread.core.events import Assistant, Event, System, ToolCall, ToolResult, User
from everthread.core.parts import File, Image, Part, Reasoning, Text

if TYPE_CHECKING:
    from splintr import AnyTokenizer

WRAPPING = 4  # role and separators of one message
CALL_WRAPPING = 12  # id, name and JSON of one tool call or result
LARGE_RESULT = 10_240  # bytes of text from which a tool result becomes a stub
STUB_HEAD, STUB_TAIL = 1_000, 400  # characters that a stub keeps
STUB_NOTE = 60  # tokens of the line that says what was left out and how to open it
PIXELS_A_TOKEN = 750
IMAGE_MOST, IMAGE_UNKNOWN = 1_600, 1_000  # large images are scaled down by the providers
BYTES_A_TOKEN_OF_FILE = 12


def sizes(event: Event) -> tuple[int, int]:
    """Tokens of the event in full, and once its turn is idle. Markers are never sent: nothing."""
    match event:
        case User() | Assistant() | System():
            full = WRAPPING + sum(map(_part, event.parts)) + _echo(event.meta)
        case ToolCall():
            full = CALL_WRAPPING + count(event.name) + count(event.arguments) + _echo(event.meta)
        case ToolResult():
            full = CALL_WRAPPING + sum(map(_part, event.parts)) + _echo(event.meta)
            return full, min(full, _stub(event, full))
        case _:
            return 0, 0
    return full, full


def count(text: str) -> int:
    """Tokens of a text in the o200k encoding."""
    if not text:
        return 0
    try:
        return len(_o200k().encode_ordinary(text))
    except UnicodeEncodeError:  # lone surrogates: the tokenizer wants clean text
        return len(_o200k().encode_ordinary(text.encode("utf-8", "replace").decode()))


def _part(part: Part) -> int:
    match part:
        case Text() | Reasoning():
            return count(part.text) + _echo(part.meta)
        case Image():
            area = part.width * part.height
            return min(IMAGE_MOST, -(-area // PIXELS_A_TOKEN)) if area else IMAGE_UNKNOWN
        case File():
            return count(part.name) + -(-part.size // BYTES_A_TOKEN_OF_FILE)


def _stub(event: ToolResult, full: int) -> int:
    whole = "\n".join(part.text for part in event.parts if isinstance(part, Text))
    if len(whole) < LARGE_RESULT and len(whole.encode("utf-8", "surrogatepass")) < LARGE_RESULT:
        return full
    others = sum(_part(part) for part in event.parts if not isinstance(part, Text))
    return CALL_WRAPPING + STUB_NOTE + count(whole[:STUB_HEAD]) + count(whole[-STUB_TAIL:]) + others


def _echo(meta: dict[str, str]) -> int:
    return sum(len(value) // 4 for value in meta.values()) if meta else 0


@cache
def _o200k() -> AnyTokenizer:
    # Imported here: the vocabulary takes 40 ms to load, and reading a log needs no tokenizer.
    from splintr import Tokenizer

    return Tokenizer.from_pretrained("o200k_base")
