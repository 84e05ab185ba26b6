"""Builders: how people write dialogues.

`metadata` is the application's own: a JSON object that is kept with the message, and never sent or counted."""

from __future__ import annotations

import json
from typing import Any

from everthread.core.events.kinds import Assistant, Other, System, ToolCall, ToolResult, User
from everthread.core.metadata import check_metadata
from everthread.core.parts import Part, Text
from everthread.errors import BadValue


def system(*pieces: str | Part, metadata: dict[str, Any] | None = None) -> System:
    """A system message: instructions that are part of the conversation."""
    return System(parts=_parts(pieces), metadata=_metadata(metadata))


def user(*pieces: str | Part, origin: str = "", metadata: dict[str, Any] | None = None) -> User:
    """What the user said: texts and parts. `origin` says who spoke, if not the user in person."""
    return User(parts=_parts(pieces), origin=origin, metadata=_metadata(metadata))


def assistant(
    *pieces: str | Part, model: str = "", interrupted: bool = False, metadata: dict[str, Any] | None = None
) -> Assistant:
    """What the model replied."""
    return Assistant(parts=_parts(pieces), model=model, interrupted=interrupted, metadata=_metadata(metadata))


def tool_call(
    name: str, arguments: str | dict[str, Any] = "{}", *, id: str = "", metadata: dict[str, Any] | None = None
) -> ToolCall:
    """A tool call. Give it an id where a turn calls a tool more than once, and its result the same one."""
    raw = arguments if isinstance(arguments, str) else _spelled(arguments)
    return ToolCall(id=id or f"call_{name}", name=name, arguments=raw, metadata=_metadata(metadata))


def tool_result(
    *pieces: str | Part, id: str = "", name: str = "", error: bool = False, metadata: dict[str, Any] | None = None
) -> ToolResult:
    """What a tool answered, for the call with this id (or, without one, for the call of the tool of this name)."""
    parts, kept = _parts(pieces), _metadata(metadata)
    return ToolResult(id=id or f"call_{name}", name=name, parts=parts, error=error, metadata=kept)


def marker(kind: str, **data: Any) -> Other:
    """An event of a kind of your own, such as "order.placed": kept in its place and found by recall, never sent."""
    return Other(kind=kind, data=data)


def _spelled(arguments: object) -> str:
    if not isinstance(arguments, dict):
        raise BadValue("arguments", arguments, "the text that the model wrote, or a dict")
    try:
        return json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as problem:
        raise BadValue("arguments", arguments, f"plain JSON ({problem})") from None


def _metadata(given: dict[str, Any] | None) -> dict[str, Any]:
    return {} if given is None else check_metadata(given)


def _parts(pieces: tuple[str | Part, ...]) -> tuple[Part, ...]:
    for piece in pieces:
        if not isinstance(piece, str | Part):
            raise BadValue("a piece of a message", piece, "text, or a part such as image(…) makes")
    return tuple(Text(text=piece) if isinstance(piece, str) else piece for piece in pieces)
