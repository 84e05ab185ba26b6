"""OpenAI Chat Completions, and every server that speaks it: results right after their calls, text in them.

Reasoning has no place in a request and is left out. Pictures in a tool's result follow in a user message, because a
tool message takes only text.
"""

from __future__ import annotations

import re
from typing import Any, assert_never

from everthread.core.parts import File, Image, Part, Reasoning, Text
from everthread.core.request import CHOICES, Answer, Call, Item, MessageItem, ReplyItem, Request, Tool, clean
from everthread.core.tokens import is_text
from everthread.providers.base import (
    BEGAN,
    BEGINS,
    IMAGES,
    NO_SCHEMA,
    PDF,
    Media,
    Rendered,
    Shown,
    chosen_tool,
    in_words,
    left_out,
    shown,
    stops,
    told_in_words,
)
from everthread.providers.blobs import to_base64, to_data_url
from everthread.providers.models import Model
from everthread.providers.pictures import PictureForm, SentPicture, keep, of_data_url
from everthread.providers.shapes import LIMITS, Dialect

Message = dict[str, Any]

MOST_STOPS = 4
DIALECT = Dialect(
    limits=frozenset(("pattern", "format", "minItems", "maxItems", *LIMITS["number"])),
    required=True,
    recursive=True,
    depth=10,
    properties=5_000,
    values=1_000,
)
_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def dialect(model: Model, *, tools: bool) -> Dialect:
    if model.provider == "local":  # llama.cpp refuses many a pattern
        return DIALECT._replace(limits=DIALECT.limits - {"pattern"})
    return DIALECT._replace(refused="" if model.takes_schema else NO_SCHEMA)


def render(request: Request, model: Model, media: Media) -> Rendered:
    messages: list[Message] = []
    repaired: list[str] = []
    if request.instructions:
        messages.append({"role": "system", "content": "\n\n".join(request.instructions)})
    for item in request.items:
        messages += _messages(item, media, model)
    if len(messages) == bool(request.instructions):
        messages.append({"role": "user", "content": BEGINS})
        repaired.append(BEGAN)
    repaired += keep(messages, PICTURES, model.limits, media)
    body: dict[str, Any] = {"model": model.name, "messages": messages}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    return Rendered(body, repaired, _options(body, request, model))


def check(body: dict[str, Any]) -> list[str]:
    problems: list[str] = []
    waiting: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            problems += _answered(message["tool_call_id"], waiting)
            continue
        if waiting:
            problems.append(_unanswered(waiting))
        waiting = []
        if calls := message.get("tool_calls"):
            waiting = [call["id"] for call in calls]
            problems += _twice(waiting)
        elif message["content"] is None:
            problems.append("a message has no content")
    return [*problems, _unanswered(waiting)] if waiting else problems


def _answered(id: str, waiting: list[str]) -> list[str]:
    if id not in waiting:
        return ["a result stands where no tool call waits for it"]
    waiting.remove(id)
    return []


def _twice(ids: list[str]) -> list[str]:
    return ["an id of a tool call occurs twice"] if len(set(ids)) < len(ids) else []


def _unanswered(waiting: list[str]) -> str:
    return f"tool calls {waiting} have no result"


def _messages(item: Item, media: Media, model: Model) -> list[Message]:
    if isinstance(item, ReplyItem):
        return _reply(item, media, model.limits.tool_calls)
    if item.role == "system":
        return [{"role": "system", "content": told_in_words(item.parts, media)}]
    return [{"role": "user", "content": _content(item, media)}]


def _content(said: MessageItem, media: Media) -> str | list[Message]:
    if len(said.parts) == 1 and not said.aside and type(only := said.parts[0]) is Text:
        return only.text  # nearly all there are
    if (text := as_one_text(said)) is not None:
        return text
    parts: list[Message] = []
    for part in said.parts:
        media.add(parts, content_part(part, media))
    return [*parts, _text(said.aside)] if said.aside else parts


def as_one_text(said: MessageItem) -> str | None:
    """What was said, with its aside, where it is all text."""
    texts = [part.text for part in said.parts if isinstance(part, Text)]
    if len(texts) < len(said.parts):
        return None
    return "\n\n".join([*texts, said.aside] if said.aside else texts)


def content_part(part: Part, media: Media) -> list[Message]:
    """A part of a user message; none where there is nothing to say."""
    match part:
        case Text():
            return [_text(part.text)] if part.text else []
        case Reasoning():
            return []
        case Image() | File():
            return [_media(part, media) or _text(media.tell(part))]
        case _:
            assert_never(part)


def _media(part: Image | File, media: Media) -> Message | None:
    """None where it cannot be sent."""
    found = shown(part, media)
    return _image(found) if isinstance(part, Image) else _file(part, found.data, media)


def _image(found: Shown) -> Message | None:
    url = to_data_url(found.data, found.media_type) if found.media_type in IMAGES and found.data else found.url
    return {"type": "image_url", "image_url": {"url": url}} if url else None


def _file(part: File, data: bytes, media: Media) -> Message | None:
    if not data:
        return None
    if part.media_type == PDF:
        file = {"filename": media.held(clean(part.name)) or "file.pdf", "file_data": to_data_url(data, part.media_type)}
        return {"type": "file", "file": file}
    if media.hears and part.media_type in _SOUNDS:
        return {"type": "input_audio", "input_audio": {"data": to_base64(data), "format": _SOUNDS[part.media_type]}}
    return _text(media.read(data)) if is_text(part.media_type) else None


def _sent(piece: Message) -> SentPicture | None:
    match piece:
        case {"type": "image_url", "image_url": {"url": url}}:
            return of_data_url(url)
        case {"type": "file", "file": {"file_data": url}}:
            return of_data_url(url, is_image=False)
        case {"type": "input_audio", "input_audio": {"data": data, "format": form}}:
            return SentPicture(False, f"audio/{form}", data)
        case _:
            return None


def _picture(media_type: str, data: str) -> Message:
    return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}


def _text(text: str) -> Message:
    return {"type": "text", "text": text}


PICTURES = PictureForm(_sent, _picture, _text)


def _reply(reply: ReplyItem, media: Media, most: int) -> list[Message]:
    """`most`: how many tool calls one message may have; the rest go into further messages."""
    if len(reply.parts) == 1 and type(only := reply.parts[0]) is Text:
        return _assistant(only.text)  # nearly all there are
    calls = [part for part in reply.parts if isinstance(part, Call)]
    said = in_words(reply.parts, media)
    return _calling(reply, calls, said, media, most or len(calls)) if calls else _assistant(said)


def _assistant(said: str) -> list[Message]:
    return [{"role": "assistant", "content": said}] if said else []


def _calling(reply: ReplyItem, calls: list[Call], said: str, media: Media, most: int) -> list[Message]:
    """Messages with the calls, the first also with what was said; after each, the results of its calls."""
    messages: list[Message] = []
    beside: list[Message] = []
    for first in range(0, len(calls), most):
        told = [_call(call) for call in calls[first : first + most]]
        messages.append({"role": "assistant", "content": said or None, "tool_calls": told})
        said = ""
        for answer in reply.answers[first : first + most]:
            messages.append(_answer(answer, media))
            _show(beside, answer, media)
    return [*messages, _beside(beside, media)] if beside else messages


def _show(beside: list[Message], answer: Answer, media: Media) -> None:
    """Add the pictures and files of a result."""
    for part in answer.parts:
        if not isinstance(part, Text):
            media.add(beside, content_part(part, media))


def _beside(shown: list[Message], media: Media) -> Message:
    """A user message with the pictures and files of results, which no tool message takes."""
    opening, closing = (_text(tag) for tag in media.tags())
    return {"role": "user", "content": [opening, *shown, closing]}


def _call(call: Call) -> Message:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _answer(answer: Answer, media: Media) -> Message:
    told = in_words(tuple(part for part in answer.parts if isinstance(part, Text)), media)  # the rest follows
    return {"role": "tool", "tool_call_id": answer.call.id, "content": told}


def _tool(tool: Tool) -> Message:
    schema = tool.schema or {"type": "object", "properties": {}}
    function = {"name": tool.name, "description": tool.description, "parameters": schema}
    return {"type": "function", "function": function}


def _options(body: dict[str, Any], request: Request, model: Model) -> list[str]:
    """Add what goes with the messages. Returns what was left out, in words."""
    # Servers that merely speak this API know the older name only, and nothing of routing to a cache.
    body["max_completion_tokens" if model.known else "max_tokens"] = request.reply_tokens
    if request.output is not None:
        schema = {"name": "reply", "schema": request.output, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.cache and request.key and model.known:
        body["prompt_cache_key"] = request.key
    taken, left = sampling(request, model)
    if "effort" in taken:
        taken["reasoning_effort"] = taken.pop("effort")
    body |= taken
    if choice := chosen_tool(request, [tool.name for tool in request.tools], left):
        body["tool_choice"] = choice if choice in CHOICES else {"type": "function", "function": {"name": choice}}
    if request.stop and model.reasons:
        left.append(left_out("what ends the reply", "this model does not take it"))
    elif request.stop:
        body["stop"] = stops(request, MOST_STOPS, left)
    if request.seed is not None:
        body["seed"] = request.seed
    if request.extra_body:
        body["extra_body"] = request.extra_body
    return left


def sampling(request: Request, model: Model) -> tuple[dict[str, Any], list[str]]:
    """Temperature, top_p and effort, as far as the model takes them, and what was left out, in words. Models that
    reason take no temperature and no top_p, others no effort; an unknown model gets all."""
    given = {"temperature": request.temperature, "top_p": request.top_p}
    taken: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    left: list[str] = []
    if model.reasons:
        names = {"temperature": "the temperature"}
        left = [left_out(names.get(name, name), "this model does not take it") for name in taken]
        taken = {}
    if request.effort and model.known and not model.reasons:
        left.append("the effort was left out, because this model does not reason")
    elif request.effort:
        taken["effort"] = _effort(request.effort, model)
    return taken, left


def _effort(wanted: str, model: Model) -> str:
    """The older models that reason know no less than low."""
    return "low" if wanted == "minimal" and re.match(r"o\d", model.name) else wanted
