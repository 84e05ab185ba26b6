"""Requests that Gemini accepts, and others that it refuses, each with a word of the reason."""

from __future__ import annotations

import base64
from typing import Any

from tests.core.pictures import gif, png

Json = dict[str, Any]

PNG, GIF = (base64.b64encode(data).decode() for data in (png(3, 4), gif(3, 4)))
SCHEMA: Json = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}


def gemini(*contents: Json, model: str = "gemini-2.5-pro", **config: Any) -> Json:
    tools = [{"functionDeclarations": [{"name": "find", "description": "Finds.", "parameters": SCHEMA}]}]
    return {"model": model, "contents": list(contents), "config": {"tools": tools, **config}}


def content(role: str, *parts: Json | str) -> Json:
    return {"role": role, "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def invoked(name: str = "find", args: Any = None, **more: Any) -> Json:
    return {"functionCall": {"name": name, "args": {} if args is None else args}, **more}


def response(name: str = "find", given: Any = None) -> Json:
    return {"functionResponse": {"name": name, "response": {"result": "found"} if given is None else given}}


def declared(**more: Any) -> list[Json]:
    return [{"functionDeclarations": [{"name": "f", "description": "x", **more}]}]


ASKED = content("user", "Hello.")

JSON = {"responseMimeType": "application/json"}
CALLING = {"mode": "ANY", "allowedFunctionNames": ["find"]}

ACCEPTED_BY_GEMINI: dict[str, Json] = {
    "a form for the reply": gemini(ASKED, tools=[], **JSON, responseJsonSchema=SCHEMA),
    "a form beside tools": gemini(ASKED, model="gemini-3-pro-preview", **JSON, responseJsonSchema=SCHEMA),
    "where the reply stops": gemini(ASKED, stopSequences=["END"], seed=3, topP=0.5),
    "a tool that must be called": gemini(ASKED, toolConfig={"functionCallingConfig": CALLING}),
    "one message": gemini(ASKED),
    "instructions": gemini(ASKED, systemInstruction={"parts": [{"text": "x"}]}),
    "tool calls": gemini(
        ASKED, content("model", "x", invoked("a"), invoked("b")), content("user", response("a"), response("b"))
    ),
    "no tools": {"model": "gemini-2.5-pro", "contents": [ASKED]},
    "an image": gemini(content("user", {"inlineData": {"mimeType": "image/png", "data": PNG}}, "x")),
    "a JSON schema": gemini(ASKED, tools=declared(parametersJsonSchema={"type": "object", "$defs": {}})),
    "a signed tool call": gemini(
        ASKED,
        content("model", invoked(thoughtSignature="c2ln"), invoked()),
        content("user", response(), response()),
        model="gemini-3-pro-preview",
    ),
    "no signature in an older turn": gemini(
        ASKED,
        content("model", invoked()),
        content("user", response()),
        content("model", "x"),
        ASKED,
        model="gemini-3-pro-preview",
    ),
}
_GONE = content("model", invoked())
REFUSED_BY_GEMINI: dict[str, tuple[str, Json]] = {
    "a form beside tools, older model": ("unsupported", gemini(ASKED, **JSON)),
    "a word that its schemas do not know": (
        "not permitted",
        gemini(ASKED, tools=[], **JSON, responseJsonSchema={**SCHEMA, "patternProperties": {}}),
    ),
    "six stops": ("5 texts", gemini(ASKED, stopSequences=["a"] * 6)),
    "a tool that there is not": (
        "declared",
        gemini(ASKED, toolConfig={"functionCallingConfig": {**CALLING, "allowedFunctionNames": ["lose"]}}),
    ),
    "more than 512 declarations": (
        "> 512",
        gemini(ASKED, tools=[{"functionDeclarations": [{"name": f"f{number}"} for number in range(513)]}]),
    ),
    "no contents": ("at least one", gemini()),
    "the model first": ("start with user", gemini(content("model", "Hi."), ASKED)),
    "the model last": ("end with user", gemini(ASKED, content("model", "Hi."))),
    "two of one role": ("alternate", gemini(ASKED, ASKED)),
    "an unknown role": ("role", gemini(ASKED, content("assistant", "x"), ASKED)),
    "no parts": ("not be empty", gemini(content("user"))),
    "an empty text": ("empty", gemini(content("user", ""))),
    "an empty part": ("exactly one", gemini(content("user", {}))),
    "two things in a part": ("exactly one", gemini(content("user", {"text": "x", "inlineData": {}}))),
    "no response": ("number of functionResponse", gemini(ASKED, _GONE, ASKED)),
    "too few responses": (
        "number of functionResponse",
        gemini(ASKED, content("model", invoked(), invoked()), content("user", response())),
    ),
    "a response to nothing": ("number of functionResponse", gemini(content("user", response()))),
    "a response too late": (
        "number of functionResponse",
        gemini(ASKED, _GONE, ASKED, content("model", "x"), content("user", response())),
    ),
    "another name": ("name of its functionCall", gemini(ASKED, _GONE, content("user", response("other")))),
    "a tool call of the user": ("role model", gemini(content("user", invoked()))),
    "a response of the model": ("role user", gemini(ASKED, content("model", response()), ASKED)),
    "args as text": ("object", gemini(ASKED, content("model", invoked(args="{}")), content("user", response()))),
    "a response as text": ("object", gemini(ASKED, _GONE, content("user", response(given="found")))),
    "an odd name": ("pattern", gemini(ASKED, content("model", invoked("1a")), content("user", response("1a")))),
    "a long name": ("pattern", gemini(ASKED, content("model", invoked("f" * 65)), content("user", response("f" * 65)))),
    "a GIF": ("media type", gemini(content("user", {"inlineData": {"mimeType": "image/gif", "data": GIF}}))),
    "an empty image": ("base64", gemini(content("user", {"inlineData": {"mimeType": "image/png", "data": ""}}))),
    "bytes": ("JSON", gemini(content("user", {"inlineData": {"mimeType": "image/png", "data": b"x"}}))),
    "no signature in this turn": (
        "missing a thoughtSignature",
        gemini(ASKED, _GONE, content("user", response()), model="gemini-3-pro-preview"),
    ),
    "a signature that is no base64": (
        "base64",
        gemini(ASKED, content("model", {"text": "x", "thoughtSignature": "!"}), ASKED),
    ),
    "empty instructions": ("not be empty", gemini(ASKED, systemInstruction={"parts": []})),
    "instructions elsewhere": ("not permitted", {**gemini(ASKED), "systemInstruction": {"parts": [{"text": "x"}]}}),
    "an empty tool": ("not be empty", gemini(ASKED, tools=[{"functionDeclarations": []}])),
    "a tool without properties": (
        "non-empty",
        gemini(ASKED, tools=declared(parameters={"type": "object", "properties": {}})),
    ),
    "a schema that it does not know": (
        "not permitted",
        gemini(ASKED, tools=declared(parameters={**SCHEMA, "$schema": "x"})),
    ),
    "two tools of one name": ("unique", gemini(ASKED, tools=declared() * 2)),
    "a block of another's": ("not permitted", gemini(content("user", {"text": "x", "type": "text"}))),
}
