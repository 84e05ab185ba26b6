"""Reading a request of any provider's form as lines, so that one table of expectations serves all of them.

user: Both, please.                what was said, by its role; texts that a blank line parts are lines of their own
call find {"number": 1}            a tool call, with its arguments as JSON
result find: found                 its result, under the name that was called; `failed` instead of `result` for an error
thinking: …                        reasoning, by its text
user: <image/png>                  a picture or file, by its type; <url> where only its address is sent
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from everthread.context.build import Context

Json = dict[str, Any]

CLAUDE = "anthropic:claude-sonnet-4-6"
BOUND = "anthropic:claude-fable-5-1"  # its thinking is bound to all that came before it
CHAT = "openai:gpt-4o"
RESPONSES = "openai-responses:gpt-5"
GEMINI = "google:gemini-2.5-pro"
GEMINI_3 = "google:gemini-3-pro-preview"
FORMS = (CLAUDE, CHAT, RESPONSES, GEMINI)

BEGINS = "user: (The conversation begins here.)"
GOES_ON = "user: (Go on.)"
_NUMBER = re.compile(r"(?<=[- ])\d{18}\b")


def transcript(context: Context) -> list[str]:
    """The messages of a request, in order. The instructions are not among them: see `instructions`. The number of the
    fence is told as N."""
    return [_NUMBER.sub("N", line) for line in _lines(context)]


def _lines(context: Context) -> list[str]:
    request = context.request
    match context.model.partition(":")[0]:
        case "anthropic":
            return list(_claude(request["messages"]))
        case "openai":
            return list(_chat(request["messages"]))
        case "openai-responses":
            return list(_responses(request["input"]))
        case _:
            return list(_gemini(request["contents"]))


def instructions(request: Json) -> str:
    """What stands before the messages, as one text; the number of the fence as N."""
    return _NUMBER.sub("N", _instructions(request))


def _instructions(request: Json) -> str:
    if "contents" in request:
        return "\n\n".join(part["text"] for part in request["config"].get("systemInstruction", {}).get("parts", ()))
    if "input" in request:
        return str(request.get("instructions", ""))
    if isinstance(request.get("system"), list):
        return "\n\n".join(block["text"] for block in request["system"])
    first = request["messages"][0]
    return str(first["content"]) if first["role"] == "system" else ""


def blocks(request: Json) -> list[str]:
    """The smallest pieces of the messages, each as text, without marks for the cache: for comparing beginnings."""
    found = []
    for message in request.get("messages") or request.get("input") or request["contents"]:
        inside = message.get("content", message.get("parts"))
        for piece in inside if isinstance(inside, list) else [message]:
            plain = {name: value for name, value in piece.items() if name != "cache_control"}
            found.append(f"{message.get('role', '')} {json.dumps(plain)}")
    return found


def whole(request: Json) -> str:
    """All of it as one text, to look for something anywhere."""
    return json.dumps(request, ensure_ascii=False)


# -- the four forms ----------------------------------------------------------------------------------------


def _claude(messages: list[Json]) -> Iterator[str]:
    names: dict[str, str] = {}
    for message in messages:
        for block in message["content"]:
            match block["type"]:
                case "tool_use":
                    names[block["id"]] = block["name"]
                    yield _call(block["name"], block["input"])
                case "tool_result":
                    name, failed = names[block["tool_use_id"]], block.get("is_error", False)
                    yield from _result(name, block["content"], failed=failed)
                case "thinking":
                    yield f"thinking: {block['thinking']}"
                case "redacted_thinking":
                    yield "thinking: (redacted)"
                case _:
                    yield from _said(message["role"], _piece(block))


def _chat(messages: list[Json]) -> Iterator[str]:
    names: dict[str, str] = {}
    begin = 1 if messages[0]["role"] == "system" else 0
    for message in messages[begin:]:
        content = message["content"]
        if message["role"] == "tool":
            yield from _result(names[message["tool_call_id"]], content)
            continue
        for piece in content if isinstance(content, list) else [content] if content else ():
            yield from _said(message["role"], piece if isinstance(piece, str) else _piece(piece))
        for call in message.get("tool_calls", ()):
            names[call["id"]] = call["function"]["name"]
            yield _call(call["function"]["name"], json.loads(call["function"]["arguments"]))


def _responses(items: list[Json]) -> Iterator[str]:
    names: dict[str, str] = {}
    for item in items:
        match item.get("type"):
            case "function_call":
                names[item["call_id"]] = item["name"]
                yield _call(item["name"], json.loads(item["arguments"]))
            case "function_call_output":
                yield from _result(names[item["call_id"]], item["output"])
            case "reasoning":
                yield f"thinking: {''.join(part['text'] for part in item['summary'])}"
            case _:
                content = item["content"]
                for piece in content if isinstance(content, list) else [content]:
                    yield from _said(item["role"], piece if isinstance(piece, str) else _piece(piece))


def _gemini(contents: list[Json]) -> Iterator[str]:
    for content in contents:
        role = "assistant" if content["role"] == "model" else content["role"]
        for part in content["parts"]:
            if "functionCall" in part:
                yield _call(part["functionCall"]["name"], part["functionCall"]["args"])
            elif "functionResponse" in part:
                ((key, said),) = part["functionResponse"]["response"].items()
                yield from _result(part["functionResponse"]["name"], said, failed=key == "error")
            else:
                yield from _said(role, _piece(part))


def _call(name: str, arguments: Json) -> str:
    return f"call {name} {json.dumps(arguments, ensure_ascii=False)}"


def _result(name: str, content: Any, *, failed: bool = False) -> Iterator[str]:
    pieces = content if isinstance(content, list) else [content]
    for piece in pieces:
        yield f"{'failed' if failed else 'result'} {name}: {piece if isinstance(piece, str) else _piece(piece)}"


def _said(role: str, text: str) -> Iterator[str]:
    for line in text.split("\n\n"):
        yield f"{role}: {line}"


def _piece(piece: Json) -> str:
    """Text, or what kind of picture or file it is."""
    match piece:
        case {"text": str(text)}:
            return text
        case {"source": {"media_type": media_type}}:
            return f"<{media_type}>"
        case {"inlineData": {"mimeType": media_type}}:
            return f"<{media_type}>"
        case {"image_url": {"url": str(url)}} | {"image_url": str(url)} | {"file": {"file_data": str(url)}}:
            return f"<{url[5:].partition(';')[0]}>" if url.startswith("data:") else "<url>"
        case {"file_data": str(url)}:
            return f"<{url[5:].partition(';')[0]}>"
        case {"source": {"type": "url"}} | {"fileData": _}:
            return "<url>"
        case {"type": "input_audio"}:
            return "<audio>"
    raise ValueError(f"neither text nor media: {piece}")
