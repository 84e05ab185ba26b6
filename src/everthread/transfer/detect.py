"""Which format a decoded JSON value has, told from what only that format would say.

The answer chooses a reader; it does not promise that the reader will understand everything.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

# Tuples, because a type may be any JSON value here and a list has no hash.
_ANTHROPIC = ("tool_use", "tool_result", "thinking", "redacted_thinking", "document")
_RESPONSES = ("input_text", "input_image", "input_file", "output_text")
_ITEMS = ("reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output")

Format = Literal["everthread", "openai", "responses", "anthropic", "gemini", "chatgpt", "claude"]
FORMATS: tuple[Format, ...] = get_args(Format)


def detect(value: object) -> Format | None:
    """For a list of messages, a body with `messages`, `input` or `contents`, a line such as `{id, source, messages}`,
    or one conversation of a data export."""
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
        case {"input": list(items)} if _of_messages(items) in ("openai", "responses"):
            return "responses"  # a text as `input` would say nothing: other programs have one, too
        case {"contents": list(contents)} if _of_messages(contents) == "gemini":
            return "gemini"
    return None


def is_message(value: Any) -> bool:
    """Whether it is one message of a list, an item of the Responses API or a content of Gemini's, and no body."""
    if not isinstance(value, dict) or "messages" in value:
        return False
    return "role" in value or _is_item(value) or _is_content(value)


def _of_messages(given: list[Any]) -> Format | None:
    messages = [message for message in given if isinstance(message, dict)]
    if any(map(_is_anthropic, messages)):
        return "anthropic"
    if any(map(_is_of_responses, messages)):
        return "responses"
    if any(map(_is_content, messages)):
        return "gemini"
    return "openai" if any(isinstance(message.get("role"), str) for message in messages) else None


def _is_anthropic(message: dict[str, Any]) -> bool:
    return any(
        block.get("type") in _ANTHROPIC or (block.get("type") == "image" and "source" in block)
        for block in _blocks(message)
    )


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _is_of_responses(message: dict[str, Any]) -> bool:
    return _is_item(message) or any(block.get("type") in _RESPONSES for block in _blocks(message))


def _is_item(message: dict[str, Any]) -> bool:
    return message.get("type") in _ITEMS


def _is_content(message: dict[str, Any]) -> bool:
    return isinstance(message.get("parts"), list) and "content" not in message
