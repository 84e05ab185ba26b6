"""What a provider's `request.py` offers: its request form, its rules, its quirks.

`render` puts a neutral request into the provider's form; `check` looks at the finished body once more, by the
provider's rules, and says what would be refused. What must be mended to keep a rule is mended in the outgoing
request only, the same way every time, and told in `Rendered.repaired`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from everthread.core.fence import BREAK, DIGITS, RESULT, Fence, ending
from everthread.core.images import dimensions, media_type_of
from everthread.core.parts import File, Image, Part, Text
from everthread.core.request import CHOICES, Answer, Call, Item, MessageItem, ReplyItem, Request, clean, object_of
from everthread.core.tokens import is_text
from everthread.providers.models import Model
from everthread.providers.shapes import Dialect

_BLANK = re.compile(r"[\s\x00-\x1f\x7f\"<>\\^`{|}]")
LONGEST = 200  # characters of an address or a name that a description repeats
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")

PDF, PDF_BEGINS, PDF_WITHIN = "application/pdf", b"%PDF", 1_024  # a PDF begins within this many bytes

# Messages that a provider's rules demand and that nobody wrote.
BEGINS = "(The conversation begins here.)"
GOES_ON = "(Go on.)"
BEGAN = "a first user message was inserted, because the window does not begin with one"
WENT_ON = "a last user message was added, because the window ends with the model's"
STAND_INS = {BEGAN: BEGINS, WENT_ON: GOES_ON}


def with_users_ends(messages: list[dict[str, Any]], say: Callable[[str], dict[str, Any]]) -> list[str]:
    """Make sure that the first message and the last are the user's, as some providers demand. Returns what was
    repaired. `say` makes a user message."""
    repaired: list[str] = []
    if not messages or messages[0]["role"] != "user":
        messages.insert(0, say(BEGINS))
        repaired.append(BEGAN)
    if messages[-1]["role"] != "user":
        messages.append(say(GOES_ON))
        repaired.append(WENT_ON)
    return repaired


NO_SCHEMA = "the model takes no schema"


def left_out(what: str, why: str = "the provider has no field for it") -> str:
    """What to say of an option that is not sent."""
    return f"{what} was left out, because {why}"


def chosen_tool(request: Request, names: Collection[str], left: list[str]) -> str:
    """Which tool is to be called, if a choice was made and there is something to choose from."""
    choice = request.tool_choice
    if choice and (not names or (choice not in CHOICES and choice not in names)):
        left.append(left_out("the choice of a tool", "there is no such tool in the request"))
        return ""
    return choice


def stops(request: Request, most: int, left: list[str]) -> list[str]:
    """The texts that end the reply, as many as the provider takes."""
    if len(request.stop) > most:
        left.append(left_out(f"what ends the reply, beyond {most} texts,", "the provider takes no more"))
    return list(request.stop[:most])


class Rendered(msgspec.Struct):
    """A request in a provider's form, what was repaired in it, and which options were left out. `flat`: tool calls were
    told as text."""

    body: dict[str, Any]
    repaired: list[str] = []
    left: list[str] = []
    flat: bool = False


class Media:
    """The pictures and files of a request: their bytes by their hash, and how many cannot be sent. No description of
    one can pass for a tag of the fence. `hears`: whether the model takes sound."""

    def __init__(self, found: dict[str, bytes | None], fence: Fence | None = None, *, hears: bool = False) -> None:
        self._found = found
        self._fence = fence
        self.hears = hears
        self.shows = False  # whether there is a picture or file in the request
        self.unsent = 0
        self.parted = 0  # texts that were changed because they would have completed the number of the fence

    def bytes_of(self, part: Image | File) -> bytes:
        """The bytes of a part; empty where they are elsewhere, or gone."""
        return (part.data if part.data is not None else self._found.get(part.blob)) or b""

    def tell(self, part: Image | File, why: str = "not sent") -> str:
        """Describe a picture or file that cannot be sent, and count it."""
        self.unsent += 1
        return self.held(describe(part, why))

    def read(self, data: bytes) -> str:
        """The content of a text file."""
        return self.held(data.decode("utf-8", "replace"))

    def held(self, text: str) -> str:
        """The text, changed where it could pass for a tag of the fence."""
        return self._fence.broken(text) if self._fence else text

    def add(self, before: list[dict[str, Any]], pieces: list[dict[str, Any]]) -> None:
        """Append pieces to others. A text that would complete the number of the fence with them is changed."""
        for piece in pieces:
            if before:
                self._part(before, piece)
            before.append(piece)

    def _part(self, before: list[dict[str, Any]], piece: dict[str, Any]) -> None:
        text = piece.get("text", "")
        if self._fence is None or not text or not self._fence.holds(text):  # one of our own tags
            return
        if not self._fence.holds("".join([*self._tail(before), text])):
            self.parted += 1
            piece["text"] = BREAK + text

    def _tail(self, before: list[dict[str, Any]]) -> list[str]:
        """The ends of the last texts, as many as can hold a part of the number."""
        assert self._fence
        found: list[str] = []
        left = DIGITS
        for piece in reversed(before):
            text = piece.get("text", "")
            if left <= 0 or not text or not self._fence.holds(text):
                break
            found.insert(0, ending(text))
            left -= len(found[0])
        return found

    def tags(self) -> tuple[str, str]:
        """What encloses the results of tools in a user message."""
        if self._fence is None:
            return "[What the tools returned beside text:]", "[Its end.]"
        return self._fence.opening(RESULT), self._fence.closing(RESULT)


def dialect_of(form: RequestForm, model: Model, *, tools: bool) -> Dialect:
    """The form's dialect. A provider that is not ours need not have one: then it takes no schema."""
    return form.dialect(model, tools=tools) if hasattr(form, "dialect") else Dialect(refused=NO_SCHEMA)


class RequestForm(Protocol):
    def dialect(self, model: Model, *, tools: bool) -> Dialect:
        """What the provider takes as the schema of a reply, in a request that has `tools` or not."""

    def render(self, request: Request, model: Model, media: Media) -> Rendered:
        """The provider's request body, ready for its SDK."""

    def check(self, body: dict[str, Any]) -> list[str]:
        """What the provider would refuse: nothing, as a rule."""


class Shown(msgspec.Struct, frozen=True):
    """A picture or file as it can be sent: its bytes and their true type, or its address."""

    data: bytes = b""
    media_type: str = ""
    url: str = ""


def shown(part: Image | File, media: Media) -> Shown:
    """What can be sent of a part; nothing where its bytes are broken, which every provider refuses. The type of a
    picture is read from its bytes: many are declared as another, and then refused."""
    media.shows = True
    data = media.bytes_of(part)
    if not data:
        return Shown(url=part.url if _is_address(part.url) else "", media_type=part.media_type)
    if isinstance(part, Image):
        return Shown(data, media_type_of(data)) if all(dimensions(data)) else Shown()
    return Shown() if _is_broken_pdf(data, part.media_type) else Shown(data, part.media_type)


def _is_broken_pdf(data: bytes, media_type: str) -> bool:
    return media_type.startswith(PDF) and PDF_BEGINS not in data[:PDF_WITHIN]


def _is_address(url: str) -> bool:
    try:
        found = urlsplit(url)
        return found.scheme in ("http", "https") and bool(found.hostname) and url.isascii() and not _BLANK.search(url)
    except ValueError:
        return False


def describe(part: Image | File, why: str = "not sent") -> str:
    """A picture or file in words."""
    if isinstance(part, Image):
        return in_brackets("image", part.media_type, sides(part.width, part.height), part.url, why=why)
    return in_brackets("file", part.name, part.media_type, part.url, why=why)


def in_brackets(what: str, *about: str, why: str) -> str:
    """The description of something that is missing: what it is, what is known of it, and why it is missing."""
    known = ", ".join(_briefly(word) for word in about if word)
    return clean(f"[{what}{f': {known}' if known else ''}; {why}]")


def sides(width: int, height: int) -> str:
    """The size of a picture in words; nothing where it is not known."""
    return f"{width}×{height}" if width else ""


def _briefly(word: str) -> str:
    """A data URL holds a whole picture; its beginning is enough."""
    return word if len(word) <= LONGEST else f"{word[: LONGEST - 1]}…"


def in_words(parts: tuple[Part | Call, ...] | tuple[Part, ...], media: Media) -> str:
    """One text: the texts, and descriptions of pictures and files."""
    told = []
    for part in parts:
        if isinstance(part, Text):
            told.append(part.text)
        elif isinstance(part, Image | File):
            told.append(media.tell(part))
    return "\n\n".join([text for text in told if text])


def input_of(call: Call) -> dict[str, Any]:
    """A call's arguments as an object. It is a new one each time, because whoever gets a request may change it."""
    return object_of(call.arguments) or {}


def echoed(meta: dict[str, str], provider: str) -> dict[str, Any] | None:
    """What a provider wants back, exactly as it was received; None where there is nothing that can be sent."""
    if provider not in meta:
        return None
    try:
        found = json.loads(meta[provider])
        meta[provider].encode()
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def without_media(request: Request, media: Media) -> Request:
    """The same request with pictures and files described in words, for a model that takes only text."""
    return msgspec.structs.replace(request, items=tuple([_told_item(item, media) for item in request.items]))


def _told_item(item: Item, media: Media) -> Item:
    if isinstance(item, MessageItem):
        return msgspec.structs.replace(item, parts=_told_parts(item.parts, media))
    told = [msgspec.structs.replace(answer, parts=_told_parts(answer.parts, media)) for answer in item.answers]
    return msgspec.structs.replace(item, answers=tuple(told))


def told_in_words(parts: tuple[Part, ...], media: Media) -> str:
    """Parts as one text, for messages that take only text."""
    return in_words(_told_parts(parts, media), media)


def _told_parts(parts: tuple[Part, ...], media: Media) -> tuple[Part, ...]:
    return tuple(_in_text(part, media) if isinstance(part, Image | File) else part for part in parts)


def _in_text(part: Image | File, media: Media) -> Text:
    """The content of a text file; a description of anything else."""
    data = media.bytes_of(part)
    if isinstance(part, File) and data and is_text(part.media_type):
        return Text(text=clean(media.held(f"[file: {part.name or 'unnamed'}]\n{data.decode('utf-8', 'replace')}")))
    return Text(text=media.tell(part))


def flattened(request: Request, media: Media) -> Request:
    """The same request with every tool call and result told as text, which any provider accepts.

    This is the last resort, for a finished request that does not pass its check.
    """
    items: list[Item] = []
    for item in request.items:
        if isinstance(item, ReplyItem) and item.answers:
            items.append(ReplyItem(parts=tuple(map(_flat, item.parts)), model=item.model, seq=item.seq))
            items += [_told(answer, media) for answer in item.answers]
        else:
            items.append(item)
    told = (request.fence.told,) if request.fence and request.fence.told not in request.instructions else ()
    return msgspec.structs.replace(request, items=tuple(items), instructions=(*request.instructions, *told))


def _flat(part: Part | Call) -> Part:
    return Text(text=f"[tool call {part.name}: {part.arguments}]") if isinstance(part, Call) else part


def _told(answer: Answer, media: Media) -> MessageItem:
    """An answer as a message of its own."""
    return MessageItem(role="user", parts=_flat_answer(answer, media), seq=answer.seq)


def _flat_answer(answer: Answer, media: Media) -> tuple[Text, ...]:
    opening, closing = media.tags()
    told = f"[result of {answer.call.name}: {in_words(answer.parts, media)}]"
    return Text(text=opening), Text(text=told), Text(text=closing)
