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
    body = value if isinstance(value, dict) else {}
    if "everthread" in body:
        return "everthread"
    if isinstance(body.get("mapping"), dict):
        return "chatgpt"
    if isinstance(body.get("chat_messages"), list):
        return "claude"
    given = body.get("messages") if isinstance(value, dict) else value
    if not isinstance(given, list):
        return None
    messages = [message for message in given if isinstance(message, dict)]
    if isinstance(body.get("system"), str | list) or any(_is_anthropic(message) for message in messages):
        return "anthropic"
    return "openai" if any(isinstance(message.get("role"), str) for message in messages) else None


def _is_anthropic(message: dict[str, Any]) -> bool:
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    return any(
        block.get("type") in _ANTHROPIC or (block.get("type") == "image" and "source" in block) for block in blocks
    )
