"""Reasoning that can be known again: each made-up block is sealed with its model and the hash of its text.

What providers hand out signed goes back unmodified to the model that gave it, or not at all. A signature that
says what it signs shows whether a request keeps to that.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator
from typing import Any

# What Google documents for tool calls that come from elsewhere and so have no signature.
_NOBODYS = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")


def seal(model: str, said: str) -> str:
    return base64.b64encode(f"{model} {_hash(said)}".encode()).decode()


def thinking(model: str, said: str) -> str:
    """Anthropic's block, as its text stands in `meta`."""
    return json.dumps({"type": "thinking", "thinking": said, "signature": seal(model, said)})


def redacted_thinking(model: str) -> str:
    return json.dumps({"type": "redacted_thinking", "data": seal(model, "")})


def reasoning_item(model: str, said: str, id: str) -> str:
    """The item of OpenAI's Responses API; an empty text has no summary."""
    summary = [{"type": "summary_text", "text": said}] if said else []
    return json.dumps({"type": "reasoning", "id": id, "summary": summary, "encrypted_content": seal(model, said)})


def thought_signature(model: str) -> str:
    """What Google puts beside a tool call."""
    return json.dumps({"thoughtSignature": seal(model, "")})


def broken(model: str, request: dict[str, Any]) -> list[str]:
    """What a request for `model` says with another's seal, or with a seal that no longer fits."""
    return [problem for said, given in _sealed(request) if (problem := _problem(model, said, given))]


def _problem(model: str, said: str, given: object) -> str:
    if given in _NOBODYS:
        return ""
    try:
        by, _, hash = base64.b64decode(str(given), validate=True).decode().partition(" ")
    except (binascii.Error, ValueError):
        return f"reasoning with a signature that nobody gave: {given!r:.60}"
    if hash != _hash(said):
        return f"reasoning of {by} was altered: {said!r:.60}"
    same = by == model if model.startswith("anthropic:") else by.partition(":")[0] == model.partition(":")[0]
    return "" if same or not by else f"reasoning of {by} in a request for {model}"


def _sealed(request: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Texts and signatures, of any form of request."""
    for message in request.get("messages") or request.get("contents") or request.get("input") or ():
        if message.get("type") == "reasoning":
            yield "".join(part["text"] for part in message["summary"]), message.get("encrypted_content")
        blocks = message.get("content", message.get("parts"))
        for block in blocks if isinstance(blocks, list) else ():
            if block.get("type") == "thinking":
                yield block["thinking"], block["signature"]
            elif block.get("type") == "redacted_thinking":
                yield "", block["data"]
            elif "thoughtSignature" in block:
                yield "", block["thoughtSignature"]


def _hash(said: str) -> str:
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]
