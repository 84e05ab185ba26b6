"""What OpenAI's Responses API refuses."""

from __future__ import annotations

from typing import Any

from benchmarks.rules.openai import BLIND, NAME, REASONS, flat, media, settings, shape, tools
from benchmarks.rules.shared import IMAGES, Json, Refusals, json_object

_REQUEST = (
    "model input instructions tools tool_choice parallel_tool_calls store include reasoning text max_output_tokens "
    "temperature top_p stream stream_options previous_response_id conversation truncation metadata user "
    "safety_identifier prompt_cache_key prompt_cache_retention service_tier background max_tool_calls top_logprobs "
    "prompt context_management extra_headers extra_body extra_query timeout"
)
_FIELDS = {
    "message": "type role content status id phase",
    "function_call": "type call_id name arguments status id",
    "function_call_output": "type call_id output status id",
    "reasoning": "type id summary content encrypted_content status",
    "compaction": "type id encrypted_content",
}
_ENCRYPTED = "reasoning.encrypted_content"
_INPUT = ("input_text", "input_image", "input_file")
_OUTPUT = ("output_text", "refusal")
_FILES = ("application/pdf", "text/plain", "text/csv", "text/markdown", "text/html", "application/json")
_CALL_ID = r"(?s).{1,64}"


def openai_responses(request: Json) -> list[str]:
    wrong = Refusals()
    model = str(request.get("model"))
    request = flat(request)
    wrong.fields(request, _REQUEST, "the request")
    settings(wrong, request, model)
    if isinstance(form := (request.get("text") or {}).get("format"), dict) and form.get("type") == "json_schema":
        shape(wrong, form, model, "text.format")
    tools(wrong, request)
    wrong.unless(isinstance(request.get("instructions", ""), str | None), "instructions must be text")
    if request.get("max_output_tokens") is not None:
        wrong.number(request["max_output_tokens"], 16, 10**7, "max_output_tokens")
    encrypted = _ENCRYPTED in (request.get("include") or ())
    wrong.unless(REASONS.fullmatch(model) or not encrypted, f"include: {_ENCRYPTED} is not supported with {model}")
    if isinstance(request.get("input"), str):
        wrong.text(request["input"], "input", blank=True)
        return wrong
    items = list(wrong.objects(request.get("input"), "input"))
    wrong.unless(items, "input: at least one item is required")
    media(wrong, [item for _, item in items])
    for where, item in items:
        kind = item.get("type", "message")
        if wrong.unless(kind in tuple(_FIELDS), f"{where}: an item of type {kind!r:.40} is not permitted"):
            wrong.fields(item, _FIELDS[kind], where)
            _item(wrong, item, kind, where, model)
        if request.get("store") is False and item.get("id") is not None:
            carried = kind in ("reasoning", "compaction") and item.get("encrypted_content")
            wrong.unless(carried, f"{where}: an item with an id is not found when store is false")
    ids = [item["id"] for _, item in items if item.get("id") is not None]
    wrong.unique(ids, "input: item ids")
    _pairs(wrong, items)
    _followed(wrong, items)
    return wrong


def _item(wrong: Refusals, item: Json, kind: str, where: str, model: str) -> None:
    match kind:
        case "message":
            role = item.get("role")
            roles = ("user", "assistant", "system", "developer")
            if wrong.unless(role in roles, f"{where}: the role {role!r:.40} is unknown"):
                allowed = _OUTPUT if role == "assistant" else _INPUT
                _content(wrong, item.get("content"), allowed, f"{where}.content", model)
        case "function_call":
            wrong.matches(item.get("call_id"), _CALL_ID, f"{where}.call_id")
            wrong.matches(item.get("name"), NAME, f"{where}.name")
            wrong.unless(json_object(item.get("arguments")), f"{where}.arguments must be a JSON object as text")
        case "function_call_output":
            wrong.matches(item.get("call_id"), _CALL_ID, f"{where}.call_id")
            _content(wrong, item.get("output"), _INPUT, f"{where}.output", model)
        case "reasoning":
            wrong.unless(REASONS.fullmatch(model), f"{where}: reasoning items are not supported by {model}")
            for place, part in wrong.objects(item.get("summary"), f"{where}.summary"):
                wrong.unless(part.get("type") == "summary_text", f"{place}.type must be 'summary_text'")
            encrypted = item.get("encrypted_content")
            wrong.unless(encrypted is None or isinstance(encrypted, str), f"{where}.encrypted_content must be text")
        case "compaction":
            wrong.text(item.get("encrypted_content"), f"{where}.encrypted_content")


def _content(wrong: Refusals, content: Any, allowed: tuple[str, ...], where: str, model: str) -> None:
    if isinstance(content, str):
        return
    wrong.unless(content, f"{where} must not be null or an empty list")
    for place, part in wrong.objects(content or [], where):
        kind = part.get("type")
        if not wrong.unless(kind in allowed, f"{place}: a part of type {kind!r:.40} is not permitted here"):
            continue
        sees = kind not in ("input_image", "input_file") or not BLIND.fullmatch(model)
        wrong.unless(sees, f"{place}: a part of type {kind} is not supported by the model {model}")
        match kind:
            case "input_text" | "output_text":
                wrong.fields(part, "type text annotations logprobs", place)
                wrong.text(part.get("text"), f"{place}.text", blank=True)
            case "refusal":
                wrong.text(part.get("refusal"), f"{place}.refusal", blank=True)
            case "input_image" if not part.get("file_id"):
                wrong.fields(part, "type image_url detail file_id", place)
                wrong.data_url(part.get("image_url"), IMAGES, place)
            case "input_file" if not part.get("file_id"):
                wrong.fields(part, "type file_data file_url filename file_id", place)
                if "file_url" in part:
                    wrong.matches(part["file_url"], r"https?://\S+", f"{place}.file_url")
                else:
                    wrong.data_url(part.get("file_data"), _FILES, place, web=False)
                    wrong.text(part.get("filename"), f"{place}.filename")


def _pairs(wrong: Refusals, items: list[tuple[str, Json]]) -> None:
    called: list[Any] = []
    answered: list[Any] = []
    for where, item in items:
        match item.get("type"):
            case "function_call":
                called.append(item.get("call_id"))
            case "function_call_output":
                id = item.get("call_id")
                wrong.unless(id in called, f"{where}: no function_call was found before this function_call_output")
                answered.append(id)
    missing = [id for id in called if id not in answered]
    wrong.unless(not missing, f"input: no function_call_output found for function_call {missing}")
    wrong.unique(called, "input: function_call call_ids")
    wrong.unique(answered, "input: function_call_output call_ids")


def _followed(wrong: Refusals, items: list[tuple[str, Json]]) -> None:
    """A reasoning item and what the assistant did next stay together."""
    for (where, item), (_, after) in zip(items, [*items[1:], ("", Json())], strict=False):
        if item.get("type") == "reasoning":
            own = after.get("type") in ("reasoning", "function_call") or after.get("role") == "assistant"
            wrong.unless(own, f"{where}: reasoning without the following item that it requires")
