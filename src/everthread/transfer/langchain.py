"""LangChain's messages to events, and back.

Messages are read as objects, as `messages_to_dict` gives them, or as `model_dump` does, and written as objects of
langchain-core, which is imported only for that. What the values have no field for (ids, metadata, usage, blocks'
extras) is kept as a note. So `to_langchain(from_langchain(messages))` gives equal messages, but for these
normalisations:

- a list of one plain text becomes a string;
- chunks become messages, and messages of role user, assistant or system those of their kind;
- a tool message's artifact, which is for the program alone and may be any object, is left out.

Thinking of Claude's and reasoning items of OpenAI's are kept whole, as our clients keep them, and go back to their
models. Of events from elsewhere there is no place for `origin`, `interrupted` and `waits_for`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from everthread.core.events import Assistant, Event, System, ToolCall, ToolResult, User
from everthread.core.logged import Logged, unwrapped
from everthread.core.request import object_of
from everthread.errors import BadFormat, MissingExtra
from everthread.providers.blobs import Blob
from everthread.providers.checks import a_list, a_string, an_object, unknown
from everthread.providers.leftovers import left, note, noted
from everthread.transfer.langchain_blocks import META, Called, read_content, write_content

_KINDS = ("system", "human", "ai", "tool", "function", "chat")
_ROLES = {"user": "human", "assistant": "ai", "system": "system", "developer": "system"}
_PROVIDERS = {"openai": "openai", "anthropic": "anthropic", "google_genai": "google", "google-genai": "google"}
_CHUNK = "MessageChunk"
_EMPTY: tuple[object, ...] = (None, {}, [], "", False)
Fields = dict[str, Any]


def from_langchain(messages: Iterable[Any], *, where: str = "messages") -> list[Event]:
    """The events that messages tell of; `where` is what errors call the list."""
    events: list[Event] = []
    for index, given in enumerate(messages):
        here = f"{where}[{index}]"
        fields = _fields_of(given, here)
        match kind := _kind(fields, here):
            case "system" | "human":
                parts = read_content(fields.get("content"), f"{here}.content")[0]
                said = System if kind == "system" else User
                events.append(said(parts=parts, meta=_noted_rest(fields)))
            case "ai":
                events += _assistant(fields, here, follows=isinstance(events[-1] if events else None, _ASSISTANTS))
            case _:
                events.append(_result(fields, kind, here))
    return events


def to_langchain(events: Iterable[Event | Logged], *, blob: Blob | None = None) -> list[Any]:
    """The messages of these events, as objects of langchain-core; `blob` gives bytes by their hash."""
    kinds = _classes()
    made: list[tuple[str, Fields]] = []
    for event in unwrapped(events):
        match event:
            case System() | User():
                fields = {"content": write_content(event.parts, blob), **_rest(event.meta)}
                made.append(("system" if isinstance(event, System) else "human", fields))
            case Assistant():
                made.append(("ai", {"content": write_content(event.parts, blob), **_rest(event.meta)}))
            case ToolCall():
                _write_call(event, made)
            case ToolResult():
                made.append(_write_result(event, blob))
            # markers are not messages
    return [kinds[kind](**fields) for kind, fields in made]


_ASSISTANTS = (Assistant, ToolCall)


# -- reading -----------------------------------------------------------------------------------------------


def _fields_of(given: Any, here: str) -> Fields:
    """A message as a dict, from whichever of its forms."""
    dump = getattr(given, "model_dump", None)
    found = an_object(dump() if callable(dump) else given, here)
    return {**an_object(found["data"], f"{here}.data"), "type": found.get("type")} if "data" in found else dict(found)


def _kind(fields: Fields, here: str) -> str:
    kind = str(fields.get("type") or "")
    if kind.endswith(_CHUNK):
        kind = kind.removesuffix(_CHUNK).lower()
    role = fields.get("role") if kind == "chat" else None
    found = _ROLES.get(str(role)) if role is not None else kind
    if found not in ("system", "human", "ai", "tool", "function"):
        raise unknown("type" if role is None else "role", role or kind or None, _KINDS, here)
    return found


def _noted_rest(fields: Fields, *known: str, **entries: Any) -> dict[str, str]:
    """A note of what a message has beside its content, as far as that is JSON."""
    rest = left(fields, "type", "content", "role", "chunk_position", *known)
    told = {name: value for name, value in rest.items() if value not in _EMPTY}
    try:
        return note(META, fields=told, **entries)
    except (TypeError, ValueError) as problem:
        raise BadFormat(f"found what JSON cannot say ({problem})", where="a LangChain message") from None


def _assistant(fields: Fields, here: str, *, follows: bool) -> list[Event]:
    """What was said, where anything was, then the tool calls. `follows`: it comes right after another of the
    assistant's, so that calls alone note that they begin a message."""
    parts, blocks = read_content(fields.get("content"), f"{here}.content")
    calls = [*_calls(fields, "tool_calls", here), *_calls(fields, "invalid_tool_calls", here)]
    calls = [_with_block(call, blocks) for call in calls]
    meta = _noted_rest(fields, "tool_calls", "invalid_tool_calls", "tool_call_chunks")
    if parts or meta or not calls:
        return [Assistant(parts=parts, model=_model(fields), meta=meta), *calls]
    if follows:
        own = json.loads(calls[0].meta.get(META, "{}"))
        calls[0] = replace(calls[0], meta=note(META, **own | {"message": {}}))
    return [*calls]


def _model(fields: Fields) -> str:
    """As provider:name, where the metadata of the reply tell both."""
    about = fields.get("response_metadata") or {}
    name = about.get("model_name") or about.get("model") or ""
    provider = _PROVIDERS.get(str(about.get("model_provider", "")))
    return f"{provider}:{name}" if provider and name else str(name)


def _calls(fields: Fields, field: str, here: str) -> list[ToolCall]:
    found: list[ToolCall] = []
    for index, given in enumerate(a_list(fields.get(field) or [], f"{here}.{field}")):
        place = f"{here}.{field}[{index}]"
        call = an_object(given, place)
        args = call.get("args")
        text = args if isinstance(args, str) else json.dumps(args or {}, ensure_ascii=False)
        more = left(call, "name", "args", "id", "type")
        invalid = {"error": call.get("error")} if field == "invalid_tool_calls" else None
        more.pop("error", None)
        found.append(
            ToolCall(
                id=a_string(call.get("id") or "", f"{place}.id"),
                name=a_string(call.get("name") or "", f"{place}.name"),
                arguments=text,
                meta=note(META, fields=more, invalid=invalid),
            )
        )
    return found


def _with_block(call: ToolCall, blocks: Sequence[Called]) -> ToolCall:
    """The call, with the content block that repeats it, if there is one."""
    for block in blocks:
        if call.id and block.id == call.id:
            own = json.loads(call.meta.get(META, "{}"))
            return replace(call, meta=note(META, **own | {"block": {"at": block.at, "is": block.block}}))
    return call


def _result(fields: Fields, kind: str, here: str) -> ToolResult:
    meta = _noted_rest(fields, "tool_call_id", "name", "status", "artifact", told={} if kind == "function" else None)
    return ToolResult(
        id=a_string(fields.get("tool_call_id") or "", f"{here}.tool_call_id"),
        name=a_string(fields.get("name") or "", f"{here}.name"),
        parts=read_content(fields.get("content"), f"{here}.content")[0],
        error=fields.get("status") == "error",
        meta=meta,
    )


# -- writing -----------------------------------------------------------------------------------------------


def _classes() -> dict[str, Any]:
    try:
        from langchain_core import messages
    except ModuleNotFoundError:
        raise MissingExtra("langchain") from None
    return {
        "system": messages.SystemMessage,
        "human": messages.HumanMessage,
        "ai": messages.AIMessage,
        "tool": messages.ToolMessage,
        "function": messages.FunctionMessage,
    }


def _rest(meta: dict[str, str]) -> Fields:
    return noted(meta, META) or {}


def _write_call(call: ToolCall, made: list[tuple[str, Fields]]) -> None:
    """Into the assistant's message before it, unless it is noted to begin one of its own."""
    if not made or made[-1][0] != "ai" or noted(call.meta, META, "message") is not None:
        made.append(("ai", {"content": ""}))
    fields, body, invalid = made[-1][1], object_of(call.arguments), noted(call.meta, META, "invalid")
    named = {"name": call.name or None, "id": call.id or None, **_rest(call.meta)}
    if body is None or invalid is not None:
        wrong = {"args": call.arguments, "error": (invalid or {}).get("error"), "type": "invalid_tool_call"}
        fields.setdefault("invalid_tool_calls", []).append({**named, **wrong})
    else:
        right = {"name": call.name, "args": body, "type": "tool_call"}
        fields.setdefault("tool_calls", []).append({**named, **right})
    if block := noted(call.meta, META, "block"):
        _repeat(block, fields)


def _repeat(block: Fields, fields: Fields) -> None:
    """Put back the content block that repeats a call."""
    content = fields["content"]
    listed = ([{"type": "text", "text": content}] if content else []) if isinstance(content, str) else content
    listed.insert(int(block["at"]), block["is"])
    fields["content"] = listed


def _write_result(result: ToolResult, blob: Blob | None) -> tuple[str, Fields]:
    fields: Fields = {"content": write_content(result.parts, blob), **_rest(result.meta)}
    if noted(result.meta, META, "told") is not None:
        return "function", {**fields, "name": result.name}
    named = {"name": result.name} if result.name else {}
    status = {"status": "error"} if result.error else {}
    return "tool", {**fields, **named, **status, "tool_call_id": result.id}
