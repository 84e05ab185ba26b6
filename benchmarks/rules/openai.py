"""What OpenAI's Chat Completions refuses, and the servers that speak its language.

Where they differ the stricter one counts: OpenAI takes any text for a tool call's arguments, but the chat
templates of local models need the JSON object that it should be.
"""

from __future__ import annotations

import re
from typing import Any

from benchmarks.rules.shared import IMAGES, Json, Refusals, json_object
from benchmarks.rules.structured import OPENAI, structured

_REQUEST = (
    "model messages tools tool_choice parallel_tool_calls temperature top_p n stream stream_options stop max_tokens "
    "max_completion_tokens presence_penalty frequency_penalty logit_bias logprobs top_logprobs user seed "
    "response_format service_tier store metadata modalities audio prediction reasoning_effort verbosity "
    "web_search_options prompt_cache_key prompt_cache_retention safety_identifier functions function_call "
    "extra_headers extra_body extra_query timeout"
)
NAME = r"[a-zA-Z0-9_-]{1,64}"
_SPEAKER = r"[^\s<|\\/>]{1,64}"
_MOST_ID = 40
_MOST_MESSAGES = 2_048
_MOST_TOOLS = 128
_MOST_CALLS = 128  # of one message
_MOST_DESCRIPTION = 1_024  # characters
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_FIELDS = {
    "system": "role content name",
    "developer": "role content name",
    "user": "role content name",
    "assistant": "role content name refusal tool_calls audio function_call",
    "tool": "role content tool_call_id name",
}
_PARTS = {"user": ("text", "image_url", "file", "input_audio"), "assistant": ("text", "refusal")}
_MOST_IMAGES, _MOST_IMAGE, _MOST_MEDIA = 500, 20 * 2**20, 50 * 2**20
OURS = re.compile(r"(gpt-|chatgpt-|o\d)")  # a model of OpenAI, whose servers refuse what they do not know
BLIND = re.compile(r"gpt-3\.5.*|gpt-4(-\d{4}|-32k.*)?|o1-mini.*|o3-mini.*")  # takes no images
REASONS = re.compile(r"o\d.*|gpt-5(-.*)?")
_SHAPELESS = re.compile(r"gpt-3\.5.*|gpt-4(-.*)?|o1-mini.*|o1-preview.*")  # knows no schema of the reply
_MOST_STOPS = 4


def openai(request: Json) -> list[str]:
    wrong = Refusals()
    model = str(request.get("model"))
    request = flat(request)
    wrong.fields(request, _REQUEST, "the request")
    settings(wrong, request, model)
    tools(wrong, request, inside="function")
    _stops(wrong, request, model)
    if isinstance(form := request.get("response_format"), dict) and form.get("type") == "json_schema":
        wrong.fields(form, "type json_schema", "response_format")
        shape(wrong, form.get("json_schema"), model, "response_format.json_schema")
    messages = list(wrong.objects(request.get("messages"), "messages"))
    media(wrong, [message for _, message in messages])
    wrong.unless(messages, "messages: at least one message is required")
    wrong.unless(len(messages) <= _MOST_MESSAGES, f"messages: the array is too long ({_MOST_MESSAGES} at most)")
    for where, message in messages:
        role = message.get("role")
        if wrong.unless(role in tuple(_FIELDS), f"{where}: the role {role!r:.40} is unknown"):
            _message(wrong, message, str(role), where, model)
    _pairs(wrong, messages)
    return wrong


def flat(request: Json) -> Json:
    """The SDK puts `extra_body` into the body."""
    return {**{name: value for name, value in request.items() if name != "extra_body"}, **request.get("extra_body", {})}


def shape(wrong: Refusals, form: Any, model: str, where: str) -> None:
    """What the reply must follow: a schema with a name, of which strict mode takes only a part."""
    wrong.unless(not _SHAPELESS.fullmatch(model), f"{where}: json_schema is not supported with the model {model}")
    if wrong.unless(isinstance(form, dict), f"{where} must be an object"):
        wrong.fields(form, "type name schema strict description", where)
        wrong.matches(form.get("name"), NAME, f"{where}.name")
        if form.get("strict") is True:
            structured(wrong, form.get("schema"), OPENAI, f"{where}.schema")


def _stops(wrong: Refusals, request: Json, model: str) -> None:
    if "stop" in request:
        stops = [request["stop"]] if isinstance(request["stop"], str) else request["stop"]
        right = isinstance(stops, list) and all(isinstance(stop, str) and stop for stop in stops)
        wrong.unless(right and len(stops) <= _MOST_STOPS, f"stop must be text, or up to {_MOST_STOPS} texts")
        wrong.unless(not REASONS.fullmatch(model), f"stop is not supported with the model {model}")
    if "seed" in request:
        wrong.number(request["seed"], -(2**63), 2**63, "seed")


def choice(wrong: Refusals, request: Json, *, inside: str = "") -> None:
    """Which tool is to be called."""
    chosen = request.get("tool_choice", "auto")
    if isinstance(chosen, str):
        wrong.unless(chosen in ("auto", "none", "required"), f"tool_choice {chosen!r:.40} is unknown")
    elif wrong.unless(isinstance(chosen, dict) and chosen.get("type") == "function", "tool_choice must be a function"):
        wrong.fields(chosen, f"type {inside or 'name'}", "tool_choice")
        named = (chosen.get(inside) or {}).get("name") if inside else chosen.get("name")
        known = [(tool.get(inside) or {}).get("name") if inside else tool.get("name") for tool in request["tools"]]
        wrong.unless(named in known, f"tool_choice: {named!r:.40} is not among the tools")


def settings(wrong: Refusals, request: Json, model: str) -> None:
    wrong.text(request.get("model"), "model")
    if "temperature" in request:
        wrong.number(request["temperature"], 0, 2, "temperature")
        plain = request["temperature"] == 1 or not REASONS.fullmatch(model)
        wrong.unless(plain, f"temperature must be 1 with the model {model}")
    if "top_p" in request:
        wrong.number(request["top_p"], 0, 1, "top_p")
        wrong.unless(not REASONS.fullmatch(model), f"top_p is not supported with the model {model}")
    if "max_tokens" in request:
        wrong.unless(not REASONS.fullmatch(model), f"max_tokens is not supported with the model {model}")
    key = request.get("prompt_cache_key", "-")
    wrong.unless(isinstance(key, str) and len(key) <= 64, "prompt_cache_key must be text of at most 64 characters")
    without = [name for name in ("tool_choice", "parallel_tool_calls") if name in request and "tools" not in request]
    wrong.unless(not without, f"{without} may only be given with tools")


def tools(wrong: Refusals, request: Json, *, inside: str = "") -> None:
    """`inside`: the field of a tool that holds its name and schema, where it has one."""
    if "tools" not in request:
        return
    wrong.unless(request["tools"], "tools: an empty list is too short")
    many = len(request["tools"]) if isinstance(request["tools"], list) else 0
    wrong.unless(many <= _MOST_TOOLS, f"tools: array too long, {many} > {_MOST_TOOLS}")
    names = []
    for where, tool in wrong.objects(request["tools"], "tools"):
        if not inside and tool.get("type") != "function":
            continue  # the provider's own
        wrong.unless(tool.get("type") == "function", f"{where}.type must be 'function'")
        body = tool.get(inside) if inside else tool
        if not wrong.unless(isinstance(body, dict), f"{where}.{inside} must be an object"):
            continue
        assert isinstance(body, dict)
        if inside:
            wrong.fields(tool, f"type {inside}", where)
        wrong.fields(body, "name description parameters strict" + (" type" * (not inside)), where)
        names.append(body.get("name"))
        wrong.matches(body.get("name"), NAME, f"{where}: the name")
        description = body.get("description", "")
        wrong.unless(isinstance(description, str), f"{where}: the description must be text")
        short = len(str(description)) <= _MOST_DESCRIPTION
        wrong.unless(short, f"{where}: the description is too long ({_MOST_DESCRIPTION} characters)")
        if body.get("parameters") is not None:
            wrong.schema(body["parameters"], f"{where}.parameters")
            _top(wrong, body["parameters"], f"{where}.parameters")
            _schema(wrong, body["parameters"], f"{where}.parameters")
            if body.get("strict") is True:
                structured(wrong, body["parameters"], OPENAI, f"{where}.parameters")
    wrong.unique(names, "tools: the names")
    choice(wrong, request, inside=inside)


def media(wrong: Refusals, messages: list[Json]) -> None:
    """Of both APIs; only what is in the request itself counts for its size."""
    contents = [message.get(key) for message in messages for key in ("content", "output")]
    parts = [part for content in contents if isinstance(content, list) for part in content if isinstance(part, dict)]
    images = [_data(part.get("image_url")) for part in parts if part.get("type") in ("image_url", "input_image")]
    files = [_data(part.get("file", part)) for part in parts if part.get("type") in ("file", "input_file")]
    wrong.weight(images, files, _MOST_IMAGES, _MOST_IMAGE, _MOST_MEDIA)


def _data(told: Any) -> str:
    url = told.get("url", told.get("file_data")) if isinstance(told, dict) else told
    return url.partition("base64,")[2] if isinstance(url, str) and url.startswith("data:") else ""


def _top(wrong: Refusals, schema: Any, where: str) -> None:
    """ "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"."""
    found = [key for key in ("oneOf", "anyOf", "allOf", "enum", "not") if isinstance(schema, dict) and key in schema]
    wrong.unless(not found, f"{where}: the schema must not have {found} at the top level")


def _schema(wrong: Refusals, schema: Any, where: str) -> None:
    """ "Invalid schema for function …: In context=('properties', 'x'), array schema missing items"; "'foo' is not valid
    under any of the given schemas"; "None is not of type 'array'"."""
    if not isinstance(schema, dict):
        return
    types = schema.get("type", [])
    types = types if isinstance(types, list) else [types]
    wrong.unless(all(one in _TYPES for one in types), f"{where}: the type {types!r:.60} is not valid")
    required = schema.get("required", [])
    are_names = isinstance(required, list) and all(isinstance(one, str) for one in required)
    wrong.unless(are_names, f"{where}.required must be a list of names")
    wrong.unless(isinstance(schema.get("properties", {}), dict), f"{where}.properties must be an object")
    is_array = "array" in types
    wrong.unless(not is_array or "items" in schema, f"{where}: array schema missing items")
    for key in ("properties", "$defs", "definitions"):
        fields = schema.get(key)
        for name, inner in fields.items() if isinstance(fields, dict) else ():
            _schema(wrong, inner, f"{where}.{key}.{name}")
    for key in ("anyOf", "oneOf", "allOf"):
        for index, inner in enumerate(schema.get(key) or ()):
            _schema(wrong, inner, f"{where}.{key}[{index}]")
    for key in ("items", "additionalProperties", "not"):
        _schema(wrong, schema.get(key), f"{where}.{key}")


def _message(wrong: Refusals, message: Json, role: str, where: str, model: str) -> None:
    more = "" if OURS.match(model) else " reasoning reasoning_content reasoning_details"
    wrong.fields(message, _FIELDS[role] + more * (role == "assistant"), where)
    if message.get("name") is not None:
        wrong.matches(message["name"], _SPEAKER, f"{where}.name")
    content = message.get("content")
    if isinstance(content, list):
        wrong.unless(content, f"{where}.content: an empty list is too short")
        for place, part in wrong.objects(content, f"{where}.content"):
            _part(wrong, part, role, place, model)
    elif content is None:
        said = any(message.get(name) for name in ("tool_calls", "function_call", "refusal", "audio"))
        right = role == "assistant" and said
        wrong.unless(right, f"{where}.content may be null only beside tool_calls")
    else:
        wrong.unless(isinstance(content, str), f"{where}.content must be text or a list")
    if "tool_calls" in message:
        _calls(wrong, message["tool_calls"], f"{where}.tool_calls")
    if role == "tool":
        _id(wrong, message.get("tool_call_id"), f"{where}.tool_call_id")


def _part(wrong: Refusals, part: Json, role: str, where: str, model: str) -> None:
    kind = part.get("type")
    allowed = _PARTS.get(role, ("text",))
    if not wrong.unless(kind in allowed, f"{where}: a part of type {kind!r:.40} is not permitted for the role {role}"):
        return
    sees = kind in ("text", "refusal") or not BLIND.fullmatch(model)
    wrong.unless(sees, f"{where}: a part of type {kind} is not supported by the model {model}")
    hears = kind != "input_audio" or "audio" in model
    wrong.unless(hears, f"{where}: a part of type {kind} is not supported by the model {model}")
    body = part.get(str(kind))
    if kind in ("text", "refusal"):
        wrong.fields(part, f"type {kind}", where)
        wrong.text(body, f"{where}.{kind}", blank=True)
    elif wrong.unless(isinstance(body, dict), f"{where}.{kind} must be an object"):
        assert isinstance(body, dict)
        wrong.fields(part, f"type {kind}", where)
        if kind == "image_url":
            wrong.fields(body, "url detail", where)
            wrong.data_url(body.get("url"), IMAGES, where)
            wrong.unless(body.get("detail", "auto") in ("auto", "low", "high"), f"{where}: the detail is unknown")
        elif kind == "file" and not body.get("file_id"):
            wrong.fields(body, "file_data filename file_id", where)
            wrong.data_url(body.get("file_data"), ("application/pdf",), where, web=False)
            wrong.text(body.get("filename"), f"{where}.filename")


def _calls(wrong: Refusals, calls: Any, where: str) -> None:
    wrong.unless(calls, f"{where}: an empty list is too short")
    many = len(calls) if isinstance(calls, list) else 0
    wrong.unless(many <= _MOST_CALLS, f"{where}: array too long, {many} > {_MOST_CALLS}")
    ids = []
    for place, call in wrong.objects(calls, where):
        wrong.fields(call, "id type function custom", place)
        _id(wrong, call.get("id"), f"{place}.id")
        ids.append(call.get("id"))
        body = call.get("function")
        right = call.get("type") == "function" and isinstance(body, dict)
        if wrong.unless(right, f"{place} must be of type 'function', with a function"):
            assert isinstance(body, dict)
            wrong.fields(body, "name arguments", f"{place}.function")
            wrong.matches(body.get("name"), NAME, f"{place}.function.name")
            wrong.unless(
                json_object(body.get("arguments")), f"{place}.function.arguments must be a JSON object as text"
            )
    wrong.unique(ids, f"{where}: ids")


def _id(wrong: Refusals, id: object, where: str) -> None:
    right = isinstance(id, str) and 0 < len(id) <= _MOST_ID
    wrong.unless(right, f"{where} must be text of 1 to {_MOST_ID} characters")


def _pairs(wrong: Refusals, messages: list[tuple[str, Json]]) -> None:
    """Each tool call's result among the tool messages that follow at once, and none elsewhere."""
    waiting: list[Any] = []
    for where, message in [*messages, ("the end", Json())]:
        if message.get("role") == "tool":
            id = message.get("tool_call_id")
            if wrong.unless(id in waiting, f"{where}: a tool message must follow the tool_calls that it answers"):
                waiting.remove(id)
            continue
        wrong.unless(
            not waiting, f"before {where}: tool_calls must be followed by tool messages for each id: {waiting}"
        )
        calls = message.get("tool_calls")
        waiting = [call.get("id") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
