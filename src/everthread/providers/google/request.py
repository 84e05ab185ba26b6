"""Google Gemini: contents that alternate and begin and end with the user's, as many responses as calls.

The body is what `client.models.generate_content(**body)` takes. Thought signatures go back on the call that
they came with.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from everthread.core.parts import File, Image, Part, Text
from everthread.core.request import Answer, Call, Item, ReplyItem, Request, Tool
from everthread.core.tokens import is_text
from everthread.providers.base import (
    NO_SCHEMA,
    Media,
    Rendered,
    Shown,
    chosen_tool,
    echoed,
    in_words,
    input_of,
    left_out,
    shown,
    stops,
    with_users_ends,
)
from everthread.providers.blobs import to_base64
from everthread.providers.models import Model
from everthread.providers.pictures import PictureForm, SentPicture, keep
from everthread.providers.shapes import Dialect

GoogleObject = dict[str, Any]  # of their JSON: a content, a part, a call

SIGNATURE = "thoughtSignature"
# For calls of another model, which have no signature; Google documents this value.
UNSIGNED = "skip_thought_signature_validator"
PICTURES = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")
_FILES = ("application/pdf", "audio/", "video/")
BUDGETS = {"minimal": 512, "low": 1_024, "medium": 8_192, "high": 24_576}
MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
MOST_STOPS = 5
_DIALECT = Dialect(
    limits=frozenset(("format", "minimum", "maximum", "minItems", "maxItems")),
    formats=frozenset(("date-time", "date", "time")),
    closed=False,
    recursive=True,
)


def dialect(model: Model, *, tools: bool) -> Dialect:
    """Before Gemini 3, tools and a schema exclude each other."""
    excluded = "the model does not take a schema beside tools" if tools and not _is_newer(model) else ""
    return _DIALECT._replace(refused=excluded if model.takes_schema else NO_SCHEMA)


def render(request: Request, model: Model, media: Media) -> Rendered:
    contents: list[GoogleObject] = []
    signs = _is_newer(model)
    for item in request.items:
        for role, parts in _contents(item, media, signs=signs):
            _say(contents, role, parts, media)
    repaired = with_users_ends(contents, _user)
    repaired += keep(contents, SHOWS, model.limits, media)
    left = [left_out("the effort", "this model does not reason")] if request.effort and not model.reasons else []
    config = _config(request, model, left) | _choice(request, left)
    return Rendered({"model": model.name, "contents": contents, "config": config}, repaired, left)


def check(body: dict[str, Any]) -> list[str]:
    problems: list[str] = []
    contents = body["contents"]
    if not contents[0]["role"] == contents[-1]["role"] == "user":
        problems.append("the first and the last content must be the user's")
    if any(one["role"] == other["role"] for one, other in pairwise(contents)):
        problems.append("two neighbours have the same role")
    waiting: list[str] = []
    for content in contents:
        answered = _names(content, "functionResponse")
        if answered != waiting:
            problems.append(f"function calls {waiting} are answered by {answered}")
        waiting = _names(content, "functionCall")
        if not content["parts"]:
            problems.append("a content has no parts")
    return problems


def _names(content: GoogleObject, kind: str) -> list[str]:
    return [part[kind]["name"] for part in content["parts"] if kind in part]


def _say(contents: list[GoogleObject], role: str, parts: list[GoogleObject], media: Media) -> None:
    if not parts:
        return
    if contents and contents[-1]["role"] == role:
        media.add(contents[-1]["parts"], parts)
    else:
        contents.append({"role": role, "parts": parts})


def _contents(item: Item, media: Media, *, signs: bool) -> list[tuple[str, list[GoogleObject]]]:
    if isinstance(item, ReplyItem):
        return [("model", _reply(item, media, signs=signs)), ("user", _answers(item, media))]
    parts: list[GoogleObject] = []
    for part in item.parts:
        media.add(parts, _heard(part, media))
    if item.aside:
        parts.append({"text": item.aside})
    return [("user", parts)]


def _reply(reply: ReplyItem, media: Media, *, signs: bool) -> list[GoogleObject]:
    said = [piece for part in reply.parts for piece in _spoken(part, media)]
    first = next((piece for piece in said if "functionCall" in piece), None)
    if signs and first:
        first.setdefault(SIGNATURE, UNSIGNED)
    return said


def _answers(reply: ReplyItem, media: Media) -> list[GoogleObject]:
    """The responses, followed by the pictures and files of all of them."""
    if not reply.answers:
        return []
    answers = [_response(answer, media) for answer in reply.answers]
    parts = [part for answer in reply.answers for part in answer.parts]
    beside = [_media(part, media) for part in parts if isinstance(part, Image | File)]
    if beside:
        opening, closing = media.tags()
        answers.append({"text": opening})
        media.add(answers, [*beside, {"text": closing}])
    return answers


def _spoken(part: Part | Call, media: Media) -> list[GoogleObject]:
    if isinstance(part, Call):
        made: GoogleObject = {"functionCall": {"name": _name(part.name), "args": input_of(part)}}
        signed = echoed(part.meta, "google")
        if signed and isinstance(signed.get(SIGNATURE), str):
            made[SIGNATURE] = signed[SIGNATURE]
        return [made]
    if isinstance(part, Text):
        return [{"text": part.text}] if part.text else []
    return [{"text": media.tell(part)}] if isinstance(part, Image | File) else []


def _name(name: str) -> str:
    """Gemini wants a letter or an underscore first."""
    return name if name[0].isalpha() or name[0] == "_" else f"_{name}"[:64]


def _heard(part: Part, media: Media) -> list[GoogleObject]:
    if isinstance(part, Text):
        return [{"text": part.text}] if part.text else []
    return [_media(part, media)] if isinstance(part, Image | File) else []


def _response(answer: Answer, media: Media) -> GoogleObject:
    key = "error" if answer.error else "output"
    told = in_words(tuple(part for part in answer.parts if isinstance(part, Text)), media)  # the rest follows
    return {"functionResponse": {"name": _name(answer.call.name), "response": {key: told}}}


def _media(part: Image | File, media: Media) -> GoogleObject:
    found = shown(part, media)
    is_taken = found.media_type in PICTURES if isinstance(part, Image) else found.media_type.startswith(_FILES)
    if is_taken:
        return _taken(found) or {"text": media.tell(part)}
    is_plain = found.data and is_text(found.media_type)
    return {"text": media.read(found.data) if is_plain else media.tell(part)}


def _taken(found: Shown) -> GoogleObject | None:
    """A picture or file of a type that Gemini takes; None where there is neither data nor an address."""
    if found.data:
        return {"inlineData": {"mimeType": found.media_type, "data": to_base64(found.data)}}
    return {"fileData": {"mimeType": found.media_type, "fileUri": found.url}} if found.url else None


def _sent(piece: GoogleObject) -> SentPicture | None:
    match piece:
        case {"inlineData": {"mimeType": media_type, "data": data}}:
            return SentPicture(media_type.startswith("image/"), media_type, data)
        case {"fileData": {"mimeType": media_type}}:
            return SentPicture(media_type.startswith("image/"), media_type)
        case _:
            return None


def _picture(media_type: str, data: str) -> GoogleObject:
    return {"inlineData": {"mimeType": media_type, "data": data}}


def _text(text: str) -> GoogleObject:
    return {"text": text}


def _user(text: str) -> GoogleObject:
    return {"role": "user", "parts": [{"text": text}]}


SHOWS = PictureForm(_sent, _picture, _text)


def _is_newer(model: Model) -> bool:
    """Gemini 3 and later: they sign their calls, and think by levels."""
    return bool(re.match(r"gemini-([3-9]|[1-9]\d)", model.name.rpartition("/")[2]))


def _config(request: Request, model: Model, left: list[str]) -> GoogleObject:
    config: GoogleObject = {}
    if request.instructions:
        config["systemInstruction"] = {"parts": [{"text": text} for text in request.instructions]}
    if request.tools:
        config["tools"] = [{"functionDeclarations": [_declared(tool) for tool in request.tools]}]
    config["maxOutputTokens"] = request.reply_tokens
    return config | _options(request, model, left)


def _options(request: Request, model: Model, left: list[str]) -> GoogleObject:
    given = {"temperature": request.temperature, "topP": request.top_p, "seed": request.seed}
    options: GoogleObject = {name: value for name, value in given.items() if value is not None}
    if request.stop:
        options["stopSequences"] = stops(request, MOST_STOPS, left)
    if request.extra_body:
        options["httpOptions"] = {"extraBody": request.extra_body}
    if request.effort and model.reasons:
        options["thinkingConfig"] = {**_thinking(request, model), "includeThoughts": True}
    if request.output is not None:
        options |= {"responseMimeType": "application/json", "responseJsonSchema": request.output}
    return options


def _choice(request: Request, left: list[str]) -> GoogleObject:
    """Which function is to be called."""
    choice = chosen_tool(request, [tool.name for tool in request.tools], left)
    if not choice:
        return {}
    named = {} if choice in MODES else {"allowedFunctionNames": [_name(choice)]}
    return {"toolConfig": {"functionCallingConfig": {"mode": MODES.get(choice, "ANY"), **named}}}


def _declared(tool: Tool) -> GoogleObject:
    schema = tool.schema or {"type": "object"}
    return {"name": _name(tool.name), "description": tool.description, "parametersJsonSchema": schema}


def _thinking(request: Request, model: Model) -> GoogleObject:
    if _is_newer(model):
        return {"thinkingLevel": request.effort}
    # The limit on the reply holds for thinking too; half of it at least is left for the answer.
    return {"thinkingBudget": min(BUDGETS[request.effort], request.reply_tokens // 2)}
