"""Which format a decoded JSON value has, told from what only that format would say.

The answer chooses a reader; it does not promise that the reader will understand everything.
"""

from __future__ import annotations

from typing import Any, Literal

# A tuple, because a type may be any JSON value here and a list has no hash.
_ANTHROPIC = ("tool_use", "tool_result", "thinking", "redacted_thinking", "document")


Format = Literal["everthread", "openai", "anthropic", "chatgpt", "claude"]


def detect(value: object) -> Format | None:
    """For a list of messages, a body with `messages`, a line such as `{id, source, messages}`, or one conversation
    of a data export."""
    match value:
        case list():
            return _of_messages(value)
        case {"everthread": _}:
            return "everthread"
        case {"mapping": dict()}:
            return "chatgpt"
        case {"chat_messages": list()}:
            return "claude"
        case {"messages": list(), "system": str() | list()}:
            return "anthropic"
        case {"messages": list(messages)}:
            return _of_messages(messages)
    return None


def _of_messages(given: list[Any]) -> Format | None:
    messages = [message for message in given if isinstance(message, dict)]
    if any(map(_is_anthropic, messages)):
        return "anthropic"
    return "openai" if any(isinstance(message.get("role"), str) for message in messages) else None


def _is_anthropic(message: dict[str, Any]) -> bool:
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    return any(
        block.get("type") in _ANTHROPIC or (block.get("type") == "image" and "source" in block) for block in blocks
    )
