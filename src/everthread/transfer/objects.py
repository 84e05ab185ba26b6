"""Objects of the providers' SDKs, and LangChain's messages, as they are: what they say, and what they report.

They are known by the package that their class is from and by what they hold; no SDK is imported. What is no object of
theirs is left as it is, and what is one but says nothing that a conversation has a place for is refused.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from everthread.core.deltas import Usage
from everthread.core.events import Assistant, Event
from everthread.errors import BadFormat, BadValue
from everthread.providers.anthropic.messages import from_anthropic
from everthread.providers.client import Finish
from everthread.providers.google.contents import from_gemini
from everthread.providers.openai.messages import from_openai
from everthread.providers.openai.responses.items import from_responses
from everthread.transfer.langchain import from_langchain

Fields = dict[str, Any]
_REPLY = "a reply, a message or a content"
_LISTS = (
    "an event, or a reply or message of an SDK, each by itself; a list of messages as JSON becomes events by "
    "`everthread.formats`, as in append(*from_openai(messages))"
)
_UNSAID = ("parsed", "parsed_arguments", "parsed_output", "annotations", "audio")  # what SDKs add to what was said
_ITEMS = ("message", "function_call", "function_call_output", "custom_tool_call", "reasoning")
_FINISHES: dict[str, Finish] = {
    **dict.fromkeys(("end_turn", "stop_sequence", "stop", "completed", "STOP"), "stop"),
    **dict.fromkeys(("tool_use", "tool_calls", "function_call"), "tools"),
    **dict.fromkeys(("max_tokens", "model_context_window_exceeded", "length", "MAX_TOKENS"), "length"),
    **dict.fromkeys(("refusal", "content_filter", "SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST"), "refused"),
    "max_output_tokens": "length",
}


def events_of(given: Any) -> list[Any]:
    """The events of what may be appended: an event itself; or what an object of an SDK says, with its tool calls and
    what its provider wants back. Raises BadFormat and BadValue."""
    reader = _READERS.get(package_of(given))
    if isinstance(given, dict | list | tuple) and not reader:
        raise BadValue("event", given, _LISTS)
    return reader(given) if reader else [given]


def package_of(given: object) -> str:
    """The SDK whose object it is; empty where it is nobody's."""
    for one in type(given).__mro__:
        package = one.__module__.partition(".")[0]
        if package in _READERS and one.__module__ != "google.protobuf":
            return package
    return ""


# -- what is said ------------------------------------------------------------------------------------------


def _anthropic(given: Any) -> list[Event]:
    fields = _fields(given)
    if fields.get("type") != "message" or "content" not in fields:
        raise _unknown(given)
    blocks = [_said(block) for block in fields["content"]]
    message = {"role": fields.get("role", "assistant"), "content": blocks}
    return _by(f"anthropic:{fields.get('model', '')}", from_anthropic([message], where="content"))


def _openai(given: Any) -> list[Event]:
    fields = _fields(given)
    if "choices" in fields:
        (choice,) = _the_only(fields["choices"], "choices")
        if "message" not in choice:
            raise BadFormat("found a piece of a stream: append the whole reply, when it has come", where="choices")
        return _by(f"openai:{fields.get('model', '')}", from_openai([_chat(choice["message"])], where="choices"))
    if fields.get("object") == "response":
        items = [_item(item) for item in fields.get("output") or []]
        return _by(f"openai-responses:{fields.get('model', '')}", from_responses(items, where="output"))
    if fields.get("type") in _ITEMS:
        return from_responses([_item(fields)], where="item")
    if "role" in fields:
        return from_openai([_chat(fields)], where="message")
    raise _unknown(given)


def _google(given: Any) -> list[Event]:
    fields = _plain(_dump(given, by_alias=True))
    if "candidates" in fields or hasattr(given, "candidates"):
        (candidate,) = _the_only(fields.get("candidates"), "candidates")
        ids = "_".join(filter(None, ("call", str(fields.get("responseId", ""))[:24])))
        contents = [{"role": "model", "parts": _joined((candidate.get("content") or {}).get("parts") or [])}]
        return _by(f"google:{fields.get('modelVersion', '')}", from_gemini(contents, where="content", ids=ids))
    if "parts" in fields:
        whole = {**fields, "parts": _joined(fields["parts"])} if fields.get("role") == "model" else fields
        return from_gemini([whole], where="content")
    raise _unknown(given)


def _joined(parts: list[Fields]) -> list[Fields]:
    """The parts of a reply, with the pieces that a text or a thought came in as one."""
    made: list[Fields] = []
    for part in parts:
        last = made[-1] if made else {}
        if "text" in part and "text" in last and part.get("thought") == last.get("thought"):
            made[-1] = {**last, **part, "text": last["text"] + part["text"]}
        else:
            made.append(part)
    return made


def _langchain(given: Any) -> list[Event]:
    return from_langchain([given], where="message")


_READERS: dict[str, Callable[[Any], list[Event]]] = {
    "anthropic": _anthropic,
    "openai": _openai,
    "google": _google,
    "langchain_core": _langchain,
}


def _by(model: str, events: list[Event]) -> list[Event]:
    """The events, with the model that made them; nothing where the reply does not tell it."""
    named = model if model.partition(":")[2] else ""
    return [replace(event, model=named) if isinstance(event, Assistant) else event for event in events]


def _said(block: Fields) -> Fields:
    return {name: value for name, value in block.items() if name not in _UNSAID}


def _chat(message: Fields) -> Fields:
    """A message without what the SDK adds to it."""
    said = _said(message)
    calls = said.get("tool_calls") or []
    for call in calls:
        if isinstance(call.get("function"), dict):
            call["function"] = _said(call["function"])
    return said if calls else {name: value for name, value in said.items() if name != "tool_calls"}


def _item(item: Fields) -> Fields:
    """An item without its id and state, which say nothing where the provider stores nothing; a message as one text."""
    if item.get("type") != "message":
        kept = item if item.get("type") == "reasoning" else {**item, "id": None, "status": None}
        return {name: value for name, value in _said(kept).items() if value is not None}
    content = item.get("content") or []
    texts = (
        [content] if isinstance(content, str) else [part.get("text") or part.get("refusal") or "" for part in content]
    )
    phase = {"phase": item["phase"]} if item.get("phase") else {}
    return {"role": item.get("role", "assistant"), "content": "".join(texts), **phase}


# -- what is reported --------------------------------------------------------------------------------------


def usage_of(given: Any) -> Usage:
    """The usage that a provider's reply reports, from the reply or from its usage; a `Usage` as it is."""
    if isinstance(given, Usage):
        return given
    fields = _plain(_dump(given, by_alias=False)) if hasattr(given, "model_dump") else given
    if not isinstance(fields, dict):
        raise BadValue("usage", given, "a Usage, a reply of a provider's SDK, or its usage")
    told = next((fields[name] for name in ("usage", "usage_metadata") if fields.get(name)), fields)
    for read in (_langchains, _anthropics, _chats, _responses, _geminis):
        if found := read(told):
            return found
    raise BadValue("usage", given, "one that reports tokens: with a stream, ask the provider to include its usage")


def finish_of(given: Any) -> str:
    """How a reply ended, where it says so."""
    fields = _plain(_dump(given, by_alias=False)) if hasattr(given, "model_dump") else {}
    choice: Fields = next(iter(fields.get("choices") or fields.get("candidates") or ()), {})
    cut = (fields.get("incomplete_details") or {}).get("reason")
    reason = fields.get("stop_reason") or choice.get("finish_reason") or cut or fields.get("status")
    return _FINISHES.get(str(reason), "other") if reason else ""


def _langchains(told: Fields) -> Usage | None:
    if "input_token_details" not in told and "output_token_details" not in told:
        return None
    before, after = told.get("input_token_details") or {}, told.get("output_token_details") or {}
    return Usage(
        input=_number(told, "input_tokens"),
        output=_number(told, "output_tokens"),
        cache_read=_number(before, "cache_read"),
        cache_write=_number(before, "cache_creation"),
        reasoning=_number(after, "reasoning"),
    )


def _anthropics(told: Fields) -> Usage | None:
    if "cache_read_input_tokens" not in told and not ("input_tokens" in told and "total_tokens" not in told):
        return None
    read, written = _number(told, "cache_read_input_tokens"), _number(told, "cache_creation_input_tokens")
    return Usage(
        input=_number(told, "input_tokens") + read + written,
        output=_number(told, "output_tokens"),
        cache_read=read,
        cache_write=written,
        reasoning=_number(told.get("output_tokens_details") or {}, "thinking_tokens"),
    )


def _chats(told: Fields) -> Usage | None:
    return _openais(told, "prompt", "completion") if "prompt_tokens" in told else None


def _responses(told: Fields) -> Usage | None:
    return _openais(told, "input", "output") if "input_tokens" in told else None


def _openais(told: Fields, asked: str, answered: str) -> Usage:
    before, after = told.get(f"{asked}_tokens_details") or {}, told.get(f"{answered}_tokens_details") or {}
    return Usage(
        input=_number(told, f"{asked}_tokens"),
        output=_number(told, f"{answered}_tokens"),
        cache_read=_number(before, "cached_tokens"),
        cache_write=_number(before, "cache_write_tokens"),
        reasoning=_number(after, "reasoning_tokens"),
    )


def _geminis(told: Fields) -> Usage | None:
    if "prompt_token_count" not in told:
        return None
    thought = _number(told, "thoughts_token_count")
    return Usage(
        input=_number(told, "prompt_token_count") + _number(told, "tool_use_prompt_token_count"),
        output=_number(told, "candidates_token_count") + thought,
        cache_read=_number(told, "cached_content_token_count"),
        reasoning=thought,
    )


def _number(told: Fields, name: str) -> int:
    found = told.get(name) or 0
    if not isinstance(found, int) or found < 0:
        raise BadValue(f"{name} of the usage", found, "a number of tokens")
    return found


# -- what they hold ----------------------------------------------------------------------------------------


def _dump(given: Any, *, by_alias: bool) -> Fields:
    dumped: Fields = given.model_dump(exclude_none=True, by_alias=by_alias, warnings=False)
    return dumped


def _fields(given: Any) -> Fields:
    dump = getattr(given, "model_dump", None)
    if not callable(dump):
        raise _unknown(given)
    fields: Fields = _plain(_dump(given, by_alias=True))
    return fields


def _plain(value: Any) -> Any:
    """As JSON has it: bytes as base64, words of an enumeration as text."""
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value.value) if hasattr(value, "value") and hasattr(value, "name") else value


def _the_only(found: Any, what: str) -> list[Fields]:
    """The one choice of a reply: of several the caller must take one."""
    if not found:
        raise BadFormat("found no reply: the provider gave none, or withheld it", where=what)
    if len(found) > 1:
        raise BadFormat(f"found {len(found)} replies: append the message of the one that counts", where=what)
    return list(found)


def _unknown(given: object) -> BadValue:
    kind = type(given)
    return BadValue("what is appended", f"{kind.__module__}.{kind.__qualname__}", f"an event, or {_REPLY} of an SDK")
