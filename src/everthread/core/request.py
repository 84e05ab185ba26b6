"""The neutral request: what every provider is told, before any of them is told it in its own form.

A request is made of items. A `MessageItem` is one message of the user or of the application; a `ReplyItem` is what one
model call gave, with exactly one answer for each of its tool calls. How events become items is `context.items`.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, NoReturn

import msgspec

from everthread.core.fence import Fence
from everthread.core.parts import Part
from everthread.core.values import Value

# Some providers take an object for arguments: text that spells none travels under this key, told apart by being none.
INVALID = "INVALID_JSON"
CHOICES = ("auto", "none", "required")  # of tools; beside these, the name of one


class Ways(NamedTuple):
    """What a provider's form has no place for: instructions later on are told `as_user`; pictures and files of a result
    stand `beside` it, where the user speaks. `spelt`: results go as JSON, longer than the log has counted them."""

    as_user: bool = False
    beside: bool = False
    spelt: bool = False


# Thousands of these make a large request, and none can be part of a cycle: kept from the garbage collector.


class Call(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tool call with an id that is the only one of its kind in the request. `arguments` spells a JSON object."""

    id: str
    name: str
    arguments: str
    seq: int
    meta: dict[str, str] = {}


class Answer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The one result of a call; `seq` is 0 for a placeholder."""

    call: Call
    parts: tuple[Part, ...]
    error: bool = False
    seq: int = 0
    meta: dict[str, str] = {}


class MessageItem(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`aside`: what was so at that moment (time, a pause), told in a marked block after the text."""

    role: str  # user or system
    parts: tuple[Part, ...]
    aside: str = ""
    seq: int = 0
    time: int = 0
    session: int = 0


class ReplyItem(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`reasons`: whether reasoning in it may go back to the model that made it. `seq`: of its first event."""

    parts: tuple[Part | Call, ...]
    answers: tuple[Answer, ...] = ()
    model: str = ""
    reasons: bool = False
    seq: int = 0


Item = MessageItem | ReplyItem


class Tool(msgspec.Struct, Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool as the model is told of it: `schema` is the JSON Schema of its arguments."""

    name: str
    description: str = ""
    schema: dict[str, Any] = {}


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one provider request says. `instructions` are texts from what changes least to what
    changes most; the last `changing` of them are others when the cutoff steps."""

    model: str
    instructions: tuple[str, ...] = ()
    changing: int = 0
    tools: tuple[Tool, ...] = ()
    items: tuple[Item, ...] = ()
    reply_tokens: int = 4_096
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    effort: str = ""
    tool_choice: str = ""  # auto, none, required or the name of a tool; empty where nobody chose
    output: dict[str, Any] | None = None  # a schema of the reply that this provider takes
    extra_body: dict[str, Any] = {}  # fields that this package does not know
    cache: bool = True
    cache_ttl: str = "5m"
    key: str = ""
    fence: Fence | None = None


# -- text that any provider takes --------------------------------------------------------------------------


def clean(text: str) -> str:
    """Without lone surrogates, which no request can carry."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def object_of(arguments: str) -> dict[str, Any] | None:
    """The JSON object that a text spells; None where it spells none. Some models write nothing for no arguments."""
    if not arguments or arguments.isspace():
        return {}
    try:
        body = _fast.decode(arguments)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        try:
            body = _exact.decode(arguments)  # lone surrogates are JSON, too
        except (ValueError, RecursionError):
            return None
    return body if isinstance(body, dict) else None


def spelled(arguments: str) -> tuple[str, bool]:
    """Arguments as every provider takes them, the text of a JSON object; and whether they were one."""
    cleaned = clean(arguments)
    found = object_of(cleaned)
    if found is None:
        return json.dumps({INVALID: cleaned}, ensure_ascii=False), False
    if not found:
        return "{}", True
    return (_without_surrogates(cleaned, found) if "\\u" in cleaned else cleaned), True


def _without_surrogates(text: str, value: dict[str, Any]) -> str:
    """The text, or the value written anew where it holds a lone surrogate, which ASCII can spell too."""
    whole = json.dumps(value, ensure_ascii=False)
    again = clean(whole)
    return text if again == whole else again


def compact(value: object) -> str:
    """JSON as a provider spells it for its model, which was sent the value and not the text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    """Python reads 1e999 as infinity, which no JSON can say again."""
    number = float(digits)
    return number if number - number == 0 else _refuse(digits)


_fast = msgspec.json.Decoder()
_exact = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
