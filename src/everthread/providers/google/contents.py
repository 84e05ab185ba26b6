"""Gemini's contents to events, and back.

Only the conversation is read: `contents` and the system instruction, by the API's names (`functionCall`) or the SDK's
(`function_call`), with data as base64 or bytes. A thought signature stays with the part that it came with. So
`to_gemini(from_gemini(body))` gives an equal body, but for these normalisations:

- names are the API's, data and signatures unbroken base64; fields that are null are left out;
- neighbours of the same role become one content, and of the user's parts responses come first; other roles than model
  and user become user;
- a function call without an id gets one here, which is not written again.

Of events from elsewhere, arguments are written as the object that they spell, and those that spell none as
{"INVALID_JSON": text}; reasoning of other models is left out; instructions after the first message are told by the
user, and pictures and files of a result stand after it. There is no place for `origin`, `model`, `interrupted`,
`waits_for`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, assert_never

from msgspec.structs import replace

from everthread.core.events import Assistant, Event, System, ToolCall, ToolResult, User
from everthread.core.logged import Logged, unwrapped
from everthread.core.parts import File, Image, Part, Reasoning, Text, file, image
from everthread.core.request import INVALID, object_of
from everthread.providers.blobs import Blob, bytes_of, from_base64, to_base64
from everthread.providers.checks import a_list, a_string, an_object, objects, unknown
from everthread.providers.google.request import SIGNATURE, GoogleObject
from everthread.providers.leftovers import left, note, noted, overlaid

META = "google"
_BODIES = ("inlineData", "fileData", "functionCall", "functionResponse")
_PARTS = ("text", *_BODIES)
_TOLD = ("output", "result", "error")  # under which a function's text is told; the first is what is written by default


def from_gemini(
    given: str | dict[str, Any] | list[dict[str, Any]], *, where: str = "contents", ids: str = "call"
) -> list[Event]:
    """The events that contents tell of: a text, contents, or a body with `contents` and a system instruction. `where`
    is what errors call the list; `ids`: how the ids begin that are made for calls without one."""
    if isinstance(given, str):
        return [User(parts=(Text(text=given),))]
    body: dict[str, Any] = _camel(given) if isinstance(given, dict) else {"contents": given}
    told = body.get("systemInstruction", _camel(body.get("config") or {}).get("systemInstruction"))
    reading = _Reading(ids)
    events: list[Event] = [System(parts=reading.parts(told, "systemInstruction"))] if told else []
    contents = body.get("contents")
    if isinstance(contents, str):
        return [*events, User(parts=(Text(text=contents),))]
    for content, here in objects(contents, where):
        events += reading.content(content, here)
    return events


def to_gemini(events: Iterable[Event | Logged], *, blob: Blob | None = None) -> dict[str, Any]:
    """A body with `contents`, and `systemInstruction` where there are any; `blob` gives bytes by their hash."""
    system: list[GoogleObject] = []
    contents: list[GoogleObject] = []
    for event in unwrapped(events):
        match event:
            case System() if not contents:
                system += _pieces(event.parts, blob)
            case System() | User():
                _say("user", _pieces(event.parts, blob), contents)
            case Assistant():
                _say("model", _pieces(event.parts, blob), contents)
            case ToolCall():
                _say("model", [_write_call(event)], contents)
            case ToolResult():
                _say("user", _write_result(event, blob), contents)
            # markers are not messages
    for content in contents:
        # A stable sort: responses to the front, as Gemini wants them, and else the order as it was.
        content["parts"].sort(key=lambda part: "functionResponse" not in part)
    return {"systemInstruction": {"parts": system}, "contents": contents} if system else {"contents": contents}


# -- reading -----------------------------------------------------------------------------------------------


class _Reading:
    """`waiting`: calls that have no response yet, by id and name."""

    def __init__(self, ids: str) -> None:
        self._ids, self._calls = ids, 0
        self._waiting: list[tuple[str, str]] = []

    def content(self, given: GoogleObject, here: str) -> list[Event]:
        pieces = self._listed(_camel(given).get("parts"), f"{here}.parts")
        return self._model(pieces) if given.get("role") == "model" else self._user(pieces)

    def parts(self, given: object, where: str) -> tuple[Part, ...]:
        """A system instruction: a text, a content or a list of parts."""
        if isinstance(given, str):
            return (Text(text=given),)
        listed = _camel(given).get("parts") if isinstance(given, dict) else given
        return tuple(_read_part(piece, place) for piece, place in self._listed(listed, f"{where}.parts"))

    def _listed(self, given: object, where: str) -> list[tuple[GoogleObject, str]]:
        found = a_list([] if given is None else given, where)
        told = [{"text": one} if isinstance(one, str) else one for one in found]
        return [(_named(piece), place) for piece, place in objects(told, where)]

    def _user(self, pieces: list[tuple[GoogleObject, str]]) -> list[Event]:
        results: list[Event] = [self._result(piece, at) for piece, at in pieces if "functionResponse" in piece]
        rest = tuple(_read_part(piece, at) for piece, at in pieces if "functionResponse" not in piece)
        return [*results, User(parts=rest)] if rest or not results else results

    def _model(self, pieces: list[tuple[GoogleObject, str]]) -> list[Event]:
        """An event for each run of parts between calls, in the order in which they came."""
        events: list[Event] = []
        run: list[Part] = []
        for piece, place in pieces:
            if "functionCall" not in piece:
                run.append(_read_part(piece, place))
                continue
            events += [Assistant(parts=tuple(run))] if run else []
            events.append(self._call(piece, place))
            run = []
        return [*events, Assistant(parts=tuple(run))] if run or not events else events

    def _call(self, piece: GoogleObject, where: str) -> ToolCall:
        body = an_object(piece["functionCall"], f"{where}.functionCall")
        self._calls += 1
        given = a_string(body.get("id") or "", f"{where}.functionCall.id")
        made = given or f"{self._ids}_{self._calls}"
        name = a_string(body.get("name"), f"{where}.functionCall.name")
        self._waiting.append((made, name))
        fields = left(piece, "functionCall", SIGNATURE)
        inner = left(body, "id", "name", "args")
        if inner:
            fields["functionCall"] = inner
        signature = piece.get(SIGNATURE)
        about = {SIGNATURE: a_string(signature, f"{where}.{SIGNATURE}")} if signature else {}
        meta = note(META, fields=fields, made=None if given else {"id": made}, **about)
        return ToolCall(id=made, name=name, arguments=_arguments(body.get("args"), where), meta=meta)

    def _result(self, piece: GoogleObject, where: str) -> ToolResult:
        body = an_object(piece["functionResponse"], f"{where}.functionResponse")
        name = a_string(body.get("name") or "", f"{where}.functionResponse.name")
        given = a_string(body.get("id") or "", f"{where}.functionResponse.id")
        found = self._answered(given, name)
        fields = left(piece, "functionResponse")
        if inner := left(body, "id", "name", "response"):
            fields["functionResponse"] = inner
        response = an_object(body.get("response") or {}, f"{where}.functionResponse.response")
        text, key = _told(response)
        about: dict[str, Any] = {"made": None if given else {"id": found}}
        about["told"] = None if key == _TOLD[0] else {"as": key}
        parts = (Text(text=text),) if text or key != _TOLD[0] else ()
        return ToolResult(
            id=found, name=name, parts=parts, error=key == "error", meta=note(META, fields=fields, **about)
        )

    def _answered(self, given: str, name: str) -> str:
        """The id of the call that a response answers: by its id, else by its name, else the first that waits."""
        for fits in (lambda one: one[0] == given, lambda one: not given and one[1] == name):
            for waiting in filter(fits, tuple(self._waiting)):
                self._waiting.remove(waiting)
                return waiting[0]
        return given


def _told(response: dict[str, Any]) -> tuple[str, str]:
    """The text of a response, and the key that it stands under; "json" where it is more than a text."""
    if len(response) == 1:
        ((key, value),) = response.items()
        if key in _TOLD and isinstance(value, str):
            return value, key
    return json.dumps(response, ensure_ascii=False), "json"


def _arguments(given: object, where: str) -> str:
    body = {} if given is None else an_object(given, f"{where}.functionCall.args")
    invalid = body.get(INVALID) if len(body) == 1 else None
    if isinstance(invalid, str) and object_of(invalid) is None:
        return invalid
    return json.dumps(body, ensure_ascii=False)


def _read_part(piece: GoogleObject, where: str) -> Part:
    if "inlineData" in piece:
        return _read_data(piece, where)
    if "fileData" in piece:
        body = an_object(piece["fileData"], f"{where}.fileData")
        url = a_string(body.get("fileUri"), f"{where}.fileData.fileUri")
        media_type = a_string(body.get("mimeType") or "", f"{where}.fileData.mimeType")
        meta = _note(piece, "fileData", left(body, "fileUri", "mimeType"))
        kind = Image if media_type.startswith("image/") else File
        return kind(url=url, media_type=media_type, meta=meta)
    if "text" not in piece:
        raise unknown("part", next(iter(piece), None), _PARTS, where)
    text = a_string(piece["text"], f"{where}.text")
    if piece.get("thought"):
        return Reasoning(text=text, meta=note(META, fields=left(piece, "text", "thought"), thought={}))
    return Text(text=text, meta=note(META, fields=left(piece, "text", "thought")))


def _read_data(piece: GoogleObject, where: str) -> Part:
    body = an_object(piece["inlineData"], f"{where}.inlineData")
    media_type = a_string(body.get("mimeType") or "", f"{where}.inlineData.mimeType")
    data = from_base64(a_string(body.get("data"), f"{where}.inlineData.data"), f"{where}.inlineData.data")
    meta = _note(piece, "inlineData", left(body, "mimeType", "data", "displayName"))
    if media_type.startswith("image/"):
        return replace(image(data, media_type=media_type), meta=meta)
    name = a_string(body.get("displayName") or "", f"{where}.inlineData.displayName")
    return replace(file(data, name=name, media_type=media_type), meta=meta)


def _note(piece: GoogleObject, body: str, inner: GoogleObject) -> dict[str, str]:
    fields = left(piece, body)
    return note(META, fields={**fields, body: inner} if inner else fields)


def _named(piece: GoogleObject) -> GoogleObject:
    """A part by the API's names, with its bytes as base64. A call's arguments and a response are left as they are."""
    made = _camel(piece)
    for body in _BODIES:
        if isinstance(made.get(body), dict):
            made[body] = _camel(made[body])
    return {name: value for name, value in made.items() if value is not None}


def _camel(given: GoogleObject) -> GoogleObject:
    named = {re.sub(r"_([a-z])", lambda found: found[1].upper(), name): value for name, value in given.items()}
    return {name: to_base64(value) if isinstance(value, bytes) else value for name, value in named.items()}


# -- writing -----------------------------------------------------------------------------------------------


def _say(role: str, pieces: list[GoogleObject], contents: list[GoogleObject]) -> None:
    if contents and contents[-1]["role"] == role:
        contents[-1]["parts"] += pieces
    else:
        contents.append({"role": role, "parts": pieces})


def _pieces(parts: tuple[Part, ...], blob: Blob | None) -> list[GoogleObject]:
    return [piece for part in parts for piece in _write(part, blob)]


def _write(part: Part, blob: Blob | None) -> list[GoogleObject]:
    match part:
        case Text():
            made: GoogleObject = {"text": part.text}
        case Reasoning():
            if noted(part.meta, META, "thought") is None:
                return []
            made = {"text": part.text, "thought": True}
        case Image() | File():
            made = _written(part, bytes_of(part, blob))
        case _:
            assert_never(part)
    return [overlaid(made, noted(part.meta, META))]


def _written(part: Image | File, data: bytes | None) -> GoogleObject:
    kind = {"mimeType": part.media_type} if part.media_type else {}
    if data is None:
        return {"fileData": {**kind, "fileUri": part.url}}
    name = {"displayName": part.name} if isinstance(part, File) and part.name else {}
    return {"inlineData": {**kind, "data": to_base64(data), **name}}


def _write_call(call: ToolCall) -> GoogleObject:
    body = object_of(call.arguments)
    made: GoogleObject = {
        "functionCall": {"name": call.name, "args": {INVALID: call.arguments} if body is None else body}
    }
    if noted(call.meta, META, "made") != {"id": call.id} and call.id:
        made["functionCall"]["id"] = call.id
    if signature := _entry(call.meta, SIGNATURE):
        made[SIGNATURE] = signature
    return overlaid(made, noted(call.meta, META))


def _entry(meta: dict[str, str], name: str) -> str:
    try:
        kept = json.loads(meta.get(META, "null"))
    except ValueError:
        return ""
    found = kept.get(name) if isinstance(kept, dict) else None
    return found if isinstance(found, str) else ""


def _write_result(result: ToolResult, blob: Blob | None) -> list[GoogleObject]:
    text = "\n\n".join(part.text for part in result.parts if isinstance(part, Text))
    key = (noted(result.meta, META, "told") or {}).get("as", "error" if result.error else _TOLD[0])
    response = object_of(text) if key == "json" else {key: text}
    body: GoogleObject = {"name": result.name, "response": {_TOLD[0]: text} if response is None else response}
    if noted(result.meta, META, "made") != {"id": result.id} and result.id:
        body["id"] = result.id
    beside = [_written(part, bytes_of(part, blob)) for part in result.parts if isinstance(part, Image | File)]
    return [overlaid({"functionResponse": body}, noted(result.meta, META)), *beside]
