"""What Google's Gemini API refuses, in the form that its SDK takes."""

from __future__ import annotations

import re
from typing import Any

from benchmarks.rules.shared import Json, Refusals, decoded
from benchmarks.rules.structured import GOOGLE, structured

_MOST_DECLARED = 512  # "At most 512 function declarations can be specified"
_MOST_IMAGES, _MOST_IMAGE, _MOST_INLINE = 900, 7 * 2**20 * 4 // 3, 20 * 2**20  # of several that are told, the least
_NAME = r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"
_DATA = ("text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult")
_PART = f"{' '.join(_DATA)} thought thoughtSignature videoMetadata mediaResolution"
_CONFIG = (
    "systemInstruction temperature topP topK candidateCount maxOutputTokens stopSequences responseLogprobs logprobs "
    "presencePenalty frequencyPenalty seed responseMimeType responseSchema responseJsonSchema routingConfig "
    "modelSelectionConfig safetySettings tools toolConfig labels cachedContent responseModalities mediaResolution "
    "speechConfig audioTimestamp automaticFunctionCalling thinkingConfig imageConfig httpOptions serviceTier"
)
_SCHEMA = (
    "type format title description nullable enum maxItems minItems properties required minProperties maxProperties "
    "minLength maxLength pattern example anyOf propertyOrdering default items minimum maximum additionalProperties "
    "defs ref"
)
_MEDIA = re.compile(
    r"image/(png|jpeg|webp|heic|heif)|application/(pdf|json|rtf|x-javascript|x-python)"
    r"|text/[a-z.+-]+|audio/[a-z0-9.+-]+|video/[a-z0-9.+-]+"
)


def google(request: Json) -> list[str]:
    wrong = Refusals()
    wrong.fields(request, "model contents config", "the request")
    model = str(request.get("model"))
    wrong.text(request.get("model"), "model")
    config = request.get("config") or {}
    if wrong.unless(isinstance(config, dict), "config must be an object"):
        _config(wrong, config)
        _reply(wrong, config, model)
    contents = list(wrong.objects(request.get("contents"), "contents"))
    if wrong.unless(contents, "contents: at least one content is required"):
        _order(wrong, contents)
        for where, content in contents:
            wrong.fields(content, "role parts", where)
            parts = list(wrong.objects(content.get("parts"), f"{where}.parts"))
            wrong.unless(parts, f"{where}.parts must not be empty")
            for place, part in parts:
                _part(wrong, part, str(content.get("role")), place)
        _pairs(wrong, contents)
        _weight(wrong, contents)
        if re.match(r"(models/)?gemini-3", model):
            _signatures(wrong, contents)
    return wrong


def _order(wrong: Refusals, contents: list[tuple[str, Json]]) -> None:
    roles = [content.get("role") for _, content in contents]
    wrong.unless(roles[0] == "user", f"contents must start with user, not {roles[0]!r}")
    wrong.unless(roles[-1] == "user", f"contents must end with user, not {roles[-1]!r}")
    for (where, _), role, before in zip(contents, roles, [None, *roles], strict=False):
        wrong.unless(role in ("user", "model"), f"{where}: the role {role!r:.40} is unknown; use user or model")
        wrong.unless(role != before, f"{where}: the roles user and model must alternate")


def _part(wrong: Refusals, part: Json, role: str, where: str) -> None:
    wrong.fields(part, _PART, where)
    kinds = [name for name in _DATA if part.get(name) is not None]
    if not wrong.unless(len(kinds) == 1, f"{where}: a part must have exactly one kind of data, not {kinds}"):
        return
    kind, body = kinds[0], part[kinds[0]]
    if "thoughtSignature" in part:
        wrong.unless(decoded(part["thoughtSignature"]), f"{where}.thoughtSignature must be base64 that is not empty")
    if kind == "text":
        wrong.text(body, f"{where}.text", blank=True)
    elif wrong.unless(isinstance(body, dict), f"{where}.{kind} must be an object"):
        match kind:
            case "inlineData":
                _inline(wrong, body, where)
            case "fileData":
                wrong.matches(body.get("fileUri"), r"(https?|gs)://\S+", f"{where}.fileData.fileUri")
                wrong.fields(body, "fileUri mimeType displayName", where)
            case "functionCall":
                wrong.unless(role == "model", f"{where}: a functionCall belongs to the role model")
                wrong.matches(body.get("name"), _NAME, f"{where}.functionCall.name")
                wrong.unless(isinstance(body.get("args", {}), dict), f"{where}.functionCall.args must be an object")
                wrong.fields(body, "id name args", where)
            case "functionResponse":
                wrong.unless(role == "user", f"{where}: a functionResponse belongs to the role user")
                wrong.matches(body.get("name"), _NAME, f"{where}.functionResponse.name")
                given = isinstance(body.get("response"), dict)
                wrong.unless(given, f"{where}.functionResponse.response must be an object")
                wrong.fields(body, "id name response parts willContinue scheduling", where)


def _inline(wrong: Refusals, body: Json, where: str) -> None:
    wrong.fields(body, "mimeType data displayName", where)
    media_type = str(body.get("mimeType"))
    allowed = (media_type,) if _MEDIA.fullmatch(media_type) else ()
    wrong.media(body.get("data"), body.get("mimeType"), allowed, f"{where}.inlineData")


def _weight(wrong: Refusals, contents: list[tuple[str, Json]]) -> None:
    inline = [part["inlineData"] for _, content in contents for part in _found(content, "inlineData")]
    sent = [(str(body.get("mimeType")), str(body.get("data"))) for body in inline]
    images = [data for media_type, data in sent if media_type.startswith("image/")]
    others = [data for media_type, data in sent if not media_type.startswith("image/")]
    wrong.weight(images, others, _MOST_IMAGES, _MOST_IMAGE, _MOST_INLINE)


def _found(content: Json, kind: str) -> list[Json]:
    parts = content.get("parts")
    whole = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return [part for part in whole if isinstance(part.get(kind), dict)]


def _pairs(wrong: Refusals, contents: list[tuple[str, Json]]) -> None:
    """As many responses as there were calls, of the same names in the same order, in the content after them."""
    for (where, content), (_, after) in zip([("", Json()), *contents], [*contents, ("", Json())], strict=True):
        calls = [part["functionCall"] for part in _found(content, "functionCall")]
        responses = [part["functionResponse"] for part in _found(after, "functionResponse")]
        same = len(calls) == len(responses)
        wrong.unless(
            same,
            f"after {where or 'the beginning'}: the number of functionResponse parts ({len(responses)}) must equal "
            f"that of the functionCall parts ({len(calls)}) before them",
        )
        for call, response in zip(calls, responses, strict=False):
            named = call.get("name") == response.get("name")
            wrong.unless(named, f"after {where}: a functionResponse must have the name of its functionCall")
            wrong.unless(call.get("id") == response.get("id"), f"after {where}: the ids of call and response differ")


def _signatures(wrong: Refusals, contents: list[tuple[str, Json]]) -> None:
    """In the current turn, the first functionCall of each step carries a thought signature."""
    for where, content in reversed(contents):
        calls = _found(content, "functionCall")
        if content.get("role") == "user" and len(_found(content, "functionResponse")) < len(content.get("parts") or ()):
            return  # the user's words: here the turn began
        signed = not calls or "thoughtSignature" in calls[0]
        wrong.unless(signed, f"{where}: the first functionCall is missing a thoughtSignature")


# -- the configuration -------------------------------------------------------------------------------------


def _config(wrong: Refusals, config: Json) -> None:
    wrong.fields(config, _CONFIG, "config")
    if "temperature" in config:
        wrong.number(config["temperature"], 0, 2, "config.temperature")
    if "maxOutputTokens" in config:
        wrong.number(config["maxOutputTokens"], 1, 10**7, "config.maxOutputTokens")
    system = config.get("systemInstruction")
    if isinstance(system, str):
        wrong.text(system, "config.systemInstruction", blank=True)
    elif system is not None:
        parts = system.get("parts") if isinstance(system, dict) else system
        for where, part in wrong.objects(parts, "config.systemInstruction.parts"):
            wrong.text(part.get("text"), f"{where}.text", blank=True)
        wrong.unless(parts, "config.systemInstruction.parts must not be empty")
    names: list[Any] = []
    for where, tool in wrong.objects(config.get("tools", []), "config.tools"):
        wrong.unless(any(value for value in tool.values()), f"{where}: a tool must not be empty")
        for place, declaration in wrong.objects(tool.get("functionDeclarations", []), f"{where}.functionDeclarations"):
            names.append(declaration.get("name"))
            _declaration(wrong, declaration, place)
    wrong.unless(len(names) <= _MOST_DECLARED, f"config.tools: {len(names)} function declarations > {_MOST_DECLARED}")
    wrong.unique(names, "config.tools: the names of function declarations")


def _reply(wrong: Refusals, config: Json, model: str) -> None:
    """What is asked of the reply: how words are chosen, where it ends, and its form."""
    if "topP" in config:
        wrong.number(config["topP"], 0, 1, "config.topP")
    if "seed" in config:
        wrong.number(config["seed"], -(2**31), 2**31 - 1, "config.seed")
    stops = config.get("stopSequences", [])
    right = isinstance(stops, list) and all(isinstance(stop, str) and stop for stop in stops) and len(stops) <= 5
    wrong.unless(right, "config.stopSequences must be up to 5 texts")
    names = [one.get("name") for tool in config.get("tools", ()) for one in tool.get("functionDeclarations", ())]
    calling = (config.get("toolConfig") or {}).get("functionCallingConfig") or {}
    mode, allowed = calling.get("mode", "AUTO"), calling.get("allowedFunctionNames", [])
    wrong.unless(mode in ("AUTO", "ANY", "NONE"), f"config.toolConfig: the mode {mode!r:.40} is unknown")
    wrong.unless(
        not calling or names, "config.toolConfig: Function calling config is set without function_declarations"
    )
    wrong.unless(not allowed or mode == "ANY", "config.toolConfig: allowedFunctionNames only with the mode ANY")
    wrong.unless(set(allowed) <= set(names), "config.toolConfig: allowedFunctionNames must be declared")
    json = config.get("responseMimeType") == "application/json"
    newer = re.match(r"(models/)?gemini-([3-9]|[1-9]\d)", model)
    wrong.unless(
        not (json and names) or newer, "Function calling with a response mime type: 'application/json' is unsupported"
    )
    if "responseJsonSchema" in config:
        wrong.unless(json, "config.responseJsonSchema needs the responseMimeType application/json")
        structured(wrong, config["responseJsonSchema"], GOOGLE, "config.responseJsonSchema")


def _declaration(wrong: Refusals, declaration: Json, where: str) -> None:
    wrong.fields(
        declaration, "name description parameters parametersJsonSchema response responseJsonSchema behavior", where
    )
    wrong.matches(declaration.get("name"), _NAME, f"{where}.name")
    wrong.unless(isinstance(declaration.get("description", ""), str), f"{where}.description must be text")
    both = "parameters" in declaration and "parametersJsonSchema" in declaration
    wrong.unless(not both, f"{where}: parameters and parametersJsonSchema exclude each other")
    if "parametersJsonSchema" in declaration:
        wrong.schema(declaration["parametersJsonSchema"], f"{where}.parametersJsonSchema")
    if "parameters" in declaration:
        schema = declaration["parameters"]
        right = isinstance(schema, dict) and str(schema.get("type")).upper() == "OBJECT"
        if wrong.unless(right, f"{where}.parameters: the schema's type must be OBJECT"):
            wrong.unless(schema.get("properties"), f"{where}.parameters.properties should be non-empty for type OBJECT")
            _schema(wrong, schema, f"{where}.parameters")


def _schema(wrong: Refusals, schema: Any, where: str) -> None:
    """Gemini's own kind of schema, which knows less than JSON Schema."""
    if not wrong.unless(isinstance(schema, dict), f"{where} must be a schema"):
        return
    wrong.fields(schema, _SCHEMA, where)
    wrong.unless(isinstance(schema.get("type", ""), str), f"{where}.type must be one name")
    for name, inner in (schema.get("properties") or {}).items():
        _schema(wrong, inner, f"{where}.properties.{name}")
    if "items" in schema:
        _schema(wrong, schema["items"], f"{where}.items")
    for index, inner in enumerate(schema.get("anyOf") or ()):
        _schema(wrong, inner, f"{where}.anyOf[{index}]")
