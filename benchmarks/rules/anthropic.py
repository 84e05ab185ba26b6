"""What Anthropic's Messages API refuses.

Neighbours of the same role are merged by the provider and so are accepted; but a tool result is looked for in
the very next message only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from benchmarks.rules.pictures import sides
from benchmarks.rules.shared import IMAGES, Json, Refusals, decoded
from benchmarks.rules.structured import ANTHROPIC, structured

_REQUEST = (
    "model max_tokens messages system tools tool_choice temperature top_p top_k stop_sequences stream metadata "
    "thinking service_tier container context_management mcp_servers output_config output_format cache_control betas "
    "inference_geo speed extra_headers extra_body extra_query timeout"
)
_ID = r"[a-zA-Z0-9_-]+"
_NAME = r"[a-zA-Z0-9_-]{1,128}"
_PROPERTY = r"[a-zA-Z0-9_.-]{1,64}"
_FIELDS = {
    "text": "type text cache_control citations",
    "image": "type source cache_control",
    "document": "type source title context citations cache_control",
    "tool_use": "type id name input cache_control caller",
    "tool_result": "type tool_use_id content is_error cache_control",
    "thinking": "type thinking signature",
    "redacted_thinking": "type data",
}
_THINKING = ("thinking", "redacted_thinking")
_NEWER = re.compile(r"opus-4-[78]|(fable|mythos|opus|sonnet|haiku)-5")  # which choose how to sample and to think
_SHAPELESS = re.compile(r"claude-3|claude-(opus|sonnet)-4(-0|-2025|$)")  # which know no schema of the reply
# Of pictures: "image exceeds 5 MB maximum" (of the base64), "dimensions exceed max allowed size: 8000 pixels", the same
# "for many-image requests: 2000 pixels", "too many images and documents: 104 + 1 > 100".
_MOST_BYTES, _MOST_PIXELS, _MANY, _MOST_PIXELS_OF_MANY, _MOST_MEDIA = 5 * 2**20, 8_000, 20, 2_000, 100
_MOST_REQUEST = 32 * 2**20  # bytes of all of it
_ALLOWED = {
    "user": ("text", "image", "document", "tool_result"),
    "assistant": ("text", "tool_use", *_THINKING),
    "system": ("text",),
    "tool_result": ("text", "image", "document"),
}


def anthropic(request: Json) -> list[str]:
    wrong = Refusals()
    # The SDK puts what it has no parameter for into the body.
    request = {
        **{name: value for name, value in request.items() if name != "extra_body"},
        **request.get("extra_body", {}),
    }
    wrong.fields(request, _REQUEST, "the request")
    wrong.number(request.get("max_tokens"), 1, 10**7, "max_tokens")
    _sampling(wrong, request)
    _form(wrong, request)
    if isinstance(request.get("system", ""), list):
        for where, block in wrong.objects(request["system"], "system"):
            _block(wrong, block, "system", where)
    else:
        wrong.unless(isinstance(request.get("system", ""), str), "system must be text or a list of blocks")
    _tools(wrong, request)
    messages = list(wrong.objects(request.get("messages"), "messages"))
    if wrong.unless(messages, "messages: at least one message is required"):
        _order(wrong, messages, str(request.get("model")))
        for where, message in messages:
            _message(wrong, message, where)
        _pairs(wrong, messages, bool(request.get("tools")))
        _thinking(wrong, request, messages)
    _cache(wrong, request)
    _media(wrong, request)
    return wrong


def _sampling(wrong: Refusals, request: Json) -> None:
    given = [name for name in ("temperature", "top_p", "top_k") if name in request]
    model = str(request.get("model"))
    wrong.unless(not given or not _NEWER.search(model), f"{given} is not supported by {model}")
    for name in ("temperature", "top_p"):
        if name in request:
            wrong.number(request[name], 0, 1, name)
    both = "temperature" in request and "top_p" in request
    wrong.unless(not both, "temperature and top_p cannot both be specified for this model")
    stops = request.get("stop_sequences", [])
    if wrong.unless(isinstance(stops, list), "stop_sequences must be a list"):
        for stop in stops:
            wrong.unless(isinstance(stop, str) and stop.strip(), "stop_sequences: each must contain non-whitespace")


def _form(wrong: Refusals, request: Json) -> None:
    """Of the reply."""
    config = request.get("output_config", {})
    if not wrong.unless(isinstance(config, dict), "output_config must be an object"):
        return
    wrong.fields(config, "effort format", "output_config")
    if "format" in config:
        form, model = config["format"], str(request.get("model"))
        wrong.unless(not _SHAPELESS.search(model), f"output_config.format is not supported by {model}")
        right = isinstance(form, dict) and form.get("type") == "json_schema" and form.keys() == {"type", "schema"}
        if wrong.unless(right, "output_config.format must be of type json_schema, with a schema"):
            structured(wrong, form["schema"], ANTHROPIC, "output_config.format.schema")


def _media(wrong: Refusals, request: Json) -> None:
    """What is limited for all pictures and documents of a request together."""
    shown = [(where, block) for where, block in _cacheable(request) if block.get("type") in ("image", "document")]
    pictures = [(where, block["source"]) for where, block in shown if block["type"] == "image" and _inside(block)]
    images = sum(block["type"] == "image" for _, block in shown)
    wrong.unless(len(shown) <= _MOST_MEDIA, f"too many images and documents: {len(shown)} > {_MOST_MEDIA}")
    most = _MOST_PIXELS_OF_MANY if images > _MANY else _MOST_PIXELS
    for where, source in pictures:
        wrong.unless(len(source["data"]) <= _MOST_BYTES, f"{where}: image exceeds 5 MB maximum: {len(source['data'])}")
        larger = max(sides(decoded(source["data"]) or b""))
        wrong.unless(larger <= most, f"{where}: image dimensions exceed max allowed size: {larger} > {most} pixels")
    whole = len(json.dumps(request, ensure_ascii=False).encode("utf-8", "replace"))
    wrong.unless(whole <= _MOST_REQUEST, f"request_too_large: {whole} bytes > {_MOST_REQUEST}")


def _inside(block: Json) -> bool:
    source = block.get("source")
    return isinstance(source, dict) and isinstance(source.get("data"), str)


def _order(wrong: Refusals, messages: list[tuple[str, Json]], model: str) -> None:
    roles = [message.get("role") for _, message in messages]
    wrong.unless(roles[0] == "user", f"messages: the first message must be the user's, not {roles[0]!r}")
    wrong.unless(roles[-1] != "assistant", "messages: a trailing assistant message (prefill) is not supported")
    for before, role, (where, _) in zip([None, *roles], roles, messages, strict=False):
        wrong.unless(role in ("user", "assistant", "system"), f"{where}: the role {role!r:.40} is unknown")
        if role == "system":
            wrong.unless(_takes_system(model), f"{where}: the role system is not taken in messages by {model}")
            wrong.unless(before == "user", f"{where}: a system message must follow one of the user")


def _takes_system(model: str) -> bool:
    """From Opus 4.8 on."""
    found = re.match(r"claude-[a-z]+-(\d+)(?:-(\d{1,2})(?!\d))?", model)
    return bool(found) and (int(found[1]), int(found[2] or 0)) >= (4, 8)  # type: ignore[index]


def _message(wrong: Refusals, message: Json, where: str) -> None:
    wrong.fields(message, "role content", where)
    content = message.get("content")
    if isinstance(content, str):
        wrong.text(content, f"{where}.content")
        return
    blocks = list(wrong.objects(content, f"{where}.content"))
    wrong.unless(blocks, f"{where}: a message must have non-empty content")
    for place, block in blocks:
        _block(wrong, block, str(message.get("role")), place)
    kinds = [block.get("type") for _, block in blocks]
    wrong.unless(not kinds or kinds[-1] not in _THINKING, f"{where}: the final block cannot be thinking")


def _block(wrong: Refusals, block: Json, role: str, where: str) -> None:
    kind = block.get("type")
    if not wrong.unless(kind in _ALLOWED.get(role, ()), f"{where}: a block of type {kind!r:.40} is not permitted here"):
        return
    wrong.fields(block, _FIELDS[str(kind)], where)
    match kind:
        case "text":
            wrong.text(block.get("text"), f"{where}.text")
        case "image" | "document":
            _source(wrong, block.get("source"), str(kind), f"{where}.source")
        case "tool_use":
            wrong.matches(block.get("id"), _ID, f"{where}.id")
            wrong.matches(block.get("name"), _NAME, f"{where}.name")
            wrong.unless(isinstance(block.get("input"), dict), f"{where}.input must be an object")
        case "tool_result":
            _result(wrong, block, where)
        case "thinking":
            wrong.unless(isinstance(block.get("thinking"), str), f"{where}.thinking must be text")
            wrong.text(block.get("signature"), f"{where}.signature")
        case "redacted_thinking":
            wrong.text(block.get("data"), f"{where}.data")


def _result(wrong: Refusals, block: Json, where: str) -> None:
    wrong.matches(block.get("tool_use_id"), _ID, f"{where}.tool_use_id")
    error, content = block.get("is_error", False), block.get("content", "")
    wrong.unless(isinstance(error, bool), f"{where}.is_error must be true or false")
    if isinstance(content, list):
        for place, inner in wrong.objects(content, f"{where}.content"):
            _block(wrong, inner, "tool_result", place)
            wrong.unless(not error or inner.get("type") == "text", f"{place}: content must be text if is_error is true")
    else:
        wrong.unless(isinstance(content, str), f"{where}.content must be text or a list of blocks")
    wrong.unless(content or not error, f"{where}: content cannot be empty if is_error is true")


def _source(wrong: Refusals, source: Any, kind: str, where: str) -> None:
    if not wrong.unless(isinstance(source, dict), f"{where} must be an object"):
        return
    data, media_type = source.get("data"), source.get("media_type")
    match source.get("type"):
        case "base64":
            wrong.fields(source, "type media_type data", where)
            wrong.media(data, media_type, IMAGES if kind == "image" else ("application/pdf",), where)
        case "url":
            wrong.fields(source, "type url", where)
            wrong.matches(source.get("url"), r"https?://\S+", f"{where}.url")
        case "file":
            wrong.text(source.get("file_id"), f"{where}.file_id")
        case "text" if kind == "document":
            wrong.fields(source, "type media_type data", where)
            wrong.unless(media_type == "text/plain", f"{where}: the media type must be text/plain")
            wrong.text(data, f"{where}.data")
        case other:
            wrong.append(f"{where}: a source of type {other!r:.40} is not permitted here")


# -- tools and their results -------------------------------------------------------------------------------


def _tools(wrong: Refusals, request: Json) -> None:
    if "tools" not in request:
        wrong.unless("tool_choice" not in request, "tool_choice may only be given with tools")
        return
    names = []
    for where, tool in wrong.objects(request["tools"], "tools"):
        names.append(tool.get("name"))
        if tool.get("type", "custom") != "custom":
            continue  # the provider's own
        wrong.matches(tool.get("name"), _NAME, f"{where}.name")
        wrong.unless(isinstance(tool.get("description", ""), str), f"{where}.description must be text")
        schema = tool.get("input_schema")
        wrong.schema(schema, f"{where}.input_schema")
        if isinstance(schema, dict):
            choice = [name for name in ("oneOf", "allOf", "anyOf") if name in schema]
            wrong.unless(not choice, f"{where}.input_schema: {choice} is not supported at the top level")
            for name in schema.get("properties") or ():
                wrong.matches(name, _PROPERTY, f"{where}.input_schema.properties:")
    wrong.unique(names, "tools: the names")
    if "tool_choice" in request:
        _choice(wrong, request["tool_choice"], names)


def _choice(wrong: Refusals, choice: Any, names: list[Any]) -> None:
    right = isinstance(choice, dict) and choice.get("type") in ("auto", "any", "none", "tool")
    if wrong.unless(right, "tool_choice must be of type auto, any, none or tool"):
        one = choice["type"] == "tool"
        wrong.fields(choice, "type disable_parallel_tool_use" + " name" * one, "tool_choice")
        wrong.unless(not one or choice.get("name") in names, f"tool_choice: {choice.get('name')!r:.40} is no tool")


def _blocks(message: Json, *kinds: str) -> list[Json]:
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    return [block for block in blocks if block.get("type") in kinds]


def _pairs(wrong: Refusals, messages: list[tuple[str, Json]], tools: bool) -> None:
    ids: list[Any] = []
    for (where, message), (_, following) in zip(messages, [*messages[1:], ("", Json())], strict=True):
        asked = [block.get("id") for block in _blocks(message, "tool_use")]
        given = [block.get("tool_use_id") for block in _blocks(following, "tool_result")]
        ids += asked
        missing = [id for id in asked if id not in given]
        wrong.unless(not missing, f"{where}: tool_use without a tool_result in the next message: {missing}")
        orphans = [id for id in given if id not in asked]
        wrong.unless(not orphans, f"after {where}: tool_result without its tool_use in the message before: {orphans}")
        wrong.unique(given, f"after {where}: each tool_use must have a single tool_result; ids")
    wrong.unless(not _blocks(messages[0][1], "tool_result"), "messages[0]: tool_result without its tool_use before")
    wrong.unique(ids, "messages: tool_use ids")
    wrong.unless(tools or not ids, "tools: requests with tool_use blocks must define tools")
    for where, message in messages:
        blocks = [block.get("type") for block in _blocks(message, *_FIELDS)]
        results = blocks.count("tool_result")
        first = blocks[:results].count("tool_result") == results
        wrong.unless(first, f"{where}: tool_result blocks must come before anything else")


# -- thinking and the cache --------------------------------------------------------------------------------


def _thinking(wrong: Refusals, request: Json, messages: list[tuple[str, Json]]) -> None:
    setting = request.get("thinking") or {}
    if setting.get("type") not in ("enabled", "adaptive"):
        return
    newer = _NEWER.search(str(request.get("model")))
    wrong.unless(setting["type"] == "adaptive" or not newer, "thinking.type must be adaptive with this model")
    if setting["type"] == "enabled":
        most = int(request.get("max_tokens") or 0) - 1
        wrong.number(setting.get("budget_tokens"), 1024, most, "thinking.budget_tokens")
    wrong.unless(request.get("temperature", 1) == 1, "temperature may only be 1 with thinking")
    wrong.unless(0.95 <= request.get("top_p", 1) <= 1, "top_p must be at least 0.95 with thinking")
    forced = (request.get("tool_choice") or {}).get("type") in ("any", "tool")
    wrong.unless(not forced, "Thinking may not be enabled when tool_choice forces tool use")
    last = [message for _, message in messages if message.get("role") == "assistant"][-1:]
    if last and _blocks(messages[-1][1], "tool_result"):
        blocks = _blocks(last[0], *_FIELDS)
        begins = blocks and blocks[0].get("type") in _THINKING
        wrong.unless(begins, "messages: with thinking, the assistant message of a tool loop must begin with thinking")


def _cache(wrong: Refusals, request: Json) -> None:
    marks = []
    for where, block in _cacheable(request):
        mark = block.get("cache_control")
        if mark is None:
            continue
        wrong.unless(block.get("type") not in _THINKING, f"{where}: cache_control is not permitted on thinking")
        right = isinstance(mark, dict) and mark.get("type") == "ephemeral" and mark.keys() <= {"type", "ttl"}
        if wrong.unless(right, f"{where}.cache_control must be of type ephemeral"):
            marks.append(mark.get("ttl", "5m"))
    wrong.unless(len(marks) <= 4, f"at most 4 blocks with cache_control may be given, found {len(marks)}")
    wrong.unless(set(marks) <= {"5m", "1h"}, "cache_control.ttl must be 5m or 1h")
    wrong.unless(marks == sorted(marks), "cache_control: a ttl of 1h must not come after one of 5m")


def _cacheable(request: Json) -> Iterator[tuple[str, Json]]:
    """All that may carry a mark, in the order in which the provider reads it."""
    places: list[tuple[str, Any]] = [("tools", request.get("tools")), ("system", request.get("system"))]
    messages = request.get("messages")
    for index, message in enumerate(messages if isinstance(messages, list) else []):
        places.append((f"messages[{index}].content", message.get("content") if isinstance(message, dict) else None))
    for where, blocks in places:
        for index, block in enumerate(blocks if isinstance(blocks, list) else []):
            if isinstance(block, dict):
                yield from _cacheable({"system": block.get("content")})
                yield f"{where}[{index}]", block
