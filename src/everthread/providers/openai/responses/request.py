"""OpenAI Responses: a list of items; the provider stores nothing.

Encrypted reasoning goes back verbatim, together with the item that it led to, to the model that made it, as
long as the window has not stepped since (`ReplyItem.reasons`).
"""

from __future__ import annotations

from typing import Any

from everthread.core.parts import File, Image, Part, Reasoning, Text
from everthread.core.request import CHOICES, Answer, Call, Item, MessageItem, ReplyItem, Request, Tool
from everthread.providers.base import (
    BEGAN,
    BEGINS,
    Media,
    Rendered,
    chosen_tool,
    echoed,
    in_words,
    left_out,
    told_in_words,
)
from everthread.providers.models import Model
from everthread.providers.openai.request import as_one_text, content_part, dialect, sampling
from everthread.providers.pictures import PictureForm, SentPicture, keep, of_data_url

__all__ = ["check", "dialect", "render"]

Entry = dict[str, Any]
META = "openai-responses"
LEAST_REPLY = 16
LED_TO = ("reasoning", "function_call")  # what may follow reasoning, beside an assistant message


def render(request: Request, model: Model, media: Media) -> Rendered:
    entries: list[Entry] = []
    repaired: list[str] = []
    known: set[str] = set()  # ids of reasoning that is already in the request
    media.hears = False  # there is no place for sound
    for item in request.items:
        entries += _entries(item, media, known)
    if not entries:
        entries.append({"role": "user", "content": BEGINS})
        repaired.append(BEGAN)
    repaired += keep(entries, PICTURES, model.limits, media)
    body: dict[str, Any] = {"model": model.name}
    if request.instructions:
        body["instructions"] = "\n\n".join(request.instructions)
    body["input"] = entries
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    return Rendered(body, repaired, _options(body, request, model))


def check(body: dict[str, Any]) -> list[str]:
    problems: list[str] = []
    called: list[str] = []
    answered: list[str] = []
    for entry, after in zip(body["input"], [*body["input"][1:], {}], strict=True):
        match entry.get("type"):
            case "function_call":
                called.append(entry["call_id"])
            case "function_call_output":
                answered.append(entry["call_id"])
                if entry["call_id"] not in called:
                    problems.append("a result stands before its tool call")
            case "reasoning" if not _is_led_to(after):
                problems.append("reasoning stands without what it led to")
    if sorted(called) != sorted(answered) or len(set(called)) != len(called):
        problems.append("tool calls and results do not match")
    return problems


def _is_led_to(entry: Entry) -> bool:
    """Whether an entry may follow reasoning."""
    return entry.get("type") in LED_TO or entry.get("role") == "assistant"


def _entries(item: Item, media: Media, known: set[str]) -> list[Entry]:
    if isinstance(item, ReplyItem):
        return _reply(item, media, known)
    if item.role == "system":
        return [{"role": "developer", "content": told_in_words(item.parts, media)}]
    return [{"role": "user", "content": _content(item, media)}]


def _content(said: MessageItem, media: Media) -> str | list[Entry]:
    if (text := as_one_text(said)) is not None:
        return text
    parts = _parts(said.parts, media)
    return [*parts, {"type": "input_text", "text": said.aside}] if said.aside else parts


def _parts(parts: tuple[Part, ...], media: Media) -> list[Entry]:
    made: list[Entry] = []
    for part in parts:
        media.add(made, [_input(piece) for piece in content_part(part, media)])
    return made


def _input(piece: Entry) -> Entry:
    """A content part of Chat Completions as Responses writes it."""
    match piece:
        case {"type": "image_url", "image_url": {"url": url}}:
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        case {"type": "file", "file": file}:
            return {"type": "input_file", **file}
        case _:
            return {"type": "input_text", "text": piece["text"]}


def _sent(piece: Entry) -> SentPicture | None:
    match piece:
        case {"type": "input_image", "image_url": url}:
            return of_data_url(url)
        case {"type": "input_file", "file_data": url}:
            return of_data_url(url, is_image=False)
        case _:
            return None


def _picture(media_type: str, data: str) -> Entry:
    return {"type": "input_image", "image_url": f"data:{media_type};base64,{data}", "detail": "auto"}


def _text(text: str) -> Entry:
    return {"type": "input_text", "text": text}


PICTURES = PictureForm(_sent, _picture, _text)


def _reply(reply: ReplyItem, media: Media, known: set[str]) -> list[Entry]:
    entries: list[Entry] = []
    held: list[Entry] = []  # reasoning that waits for what it led to
    for part in reply.parts:
        if isinstance(part, Reasoning):
            held += _reasoning(part, known) if reply.reasons else []
        elif entry := _spoken(part, media):
            entries += [*held, entry]
            held = []
    return [*entries, *(_output(answer, media) for answer in reply.answers)]


def _spoken(part: Text | Image | File | Call, media: Media) -> Entry | None:
    if isinstance(part, Call):
        return {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": part.arguments}
    text = part.text if isinstance(part, Text) else media.tell(part)
    return {"role": "assistant", "content": text, **_phase(part)} if text else None


def _phase(part: Part) -> Entry:
    """Whether a text was a remark on the way or the answer, where the model said so."""
    phase = (echoed(part.meta, META) or {}).get("phase")
    return {"phase": phase} if isinstance(phase, str) else {}


def _reasoning(part: Reasoning, known: set[str]) -> list[Entry]:
    """The item as it was received, if it can be sent back without the provider having stored it."""
    entry = echoed(part.meta, META) or {}
    match entry:
        case {"type": "reasoning", "id": str(id), "summary": list(), "encrypted_content": str()} if id not in known:
            known.add(id)
            return [entry]
        case _:
            return []


def _output(answer: Answer, media: Media) -> Entry:
    shows = any(isinstance(part, Image | File) for part in answer.parts)
    output = _parts(answer.parts, media) if shows else in_words(answer.parts, media)
    return {"type": "function_call_output", "call_id": answer.call.id, "output": output}


def _tool(tool: Tool) -> Entry:
    schema = tool.schema or {"type": "object", "properties": {}}
    made = {"type": "function", "name": tool.name, "description": tool.description}
    return {**made, "parameters": schema, "strict": False}


def _options(body: dict[str, Any], request: Request, model: Model) -> list[str]:
    """Add what goes with the input. Returns what was left out, in words."""
    body |= {"store": False, "max_output_tokens": max(LEAST_REPLY, request.reply_tokens)}
    if model.reasons:
        body["include"] = ["reasoning.encrypted_content"]
    if request.output is not None:
        body["text"] = {"format": {"type": "json_schema", "name": "reply", "schema": request.output, "strict": True}}
    if request.cache and request.key:
        body["prompt_cache_key"] = request.key
    taken, left = sampling(request, model)
    if "effort" in taken:
        taken["reasoning"] = {"effort": taken.pop("effort")}
    body |= taken
    if choice := chosen_tool(request, [tool.name for tool in request.tools], left):
        body["tool_choice"] = choice if choice in CHOICES else {"type": "function", "name": choice}
    unknown = {"what ends the reply": bool(request.stop), "the seed": request.seed is not None}
    left += [left_out(what) for what, given in unknown.items() if given]
    if request.extra_body:
        body["extra_body"] = request.extra_body
    return left
