"""Builders: how people write dialogues."""

from __future__ import annotations

import json
from typing import Any

from everthread.core.events.kinds import Assistant, System, ToolCall, ToolResult, User
from everthread.core.parts import Part, Text
from everthread.errors import BadValue


def system(*pieces: str | Part) -> System:
    """Instructions."""
    return System(parts=_parts(pieces))


def user(*pieces: str | Part, origin: str = "") -> User:
    """What the user said: texts and parts. `origin` says who, when it was not the user by hand."""
    return User(parts=_parts(pieces), origin=origin)


def assistant(*pieces: str | Part, model: str = "", interrupted: bool = False) -> Assistant:
    """What the model replied."""
    return Assistant(parts=_parts(pieces), model=model, interrupted=interrupted)


def tool_call(name: str, arguments: str | dict[str, Any] = "{}", *, id: str = "") -> ToolCall:
    """A tool call. Give it an id where a turn calls a tool more than once, and its result the same one."""
    raw = arguments if isinstance(arguments, str) else _spelled(arguments)
    return ToolCall(id=id or f"call_{name}", name=name, arguments=raw)


def tool_result(*pieces: str | Part, id: str = "", name: str = "", error: bool = False) -> ToolResult:
    """What a tool answered, for the call with this id (or, without one, for the call of the tool of this name)."""
    return ToolResult(id=id or f"call_{name}", name=name, parts=_parts(pieces), error=error)


def _spelled(arguments: object) -> str:
    if not isinstance(arguments, dict):
        raise BadValue("arguments", arguments, "the text that the model wrote, or a dict")
    try:
        return json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as problem:
        raise BadValue("arguments", arguments, f"plain JSON ({problem})") from None


def _parts(pieces: tuple[str | Part, ...]) -> tuple[Part, ...]:
    for piece in pieces:
        if not isinstance(piece, str | Part):
            raise BadValue("a piece of a message", piece, "text, or a part such as image(…) makes")
    return tuple(Text(text=piece) if isinstance(piece, str) else piece for piece in pieces)
