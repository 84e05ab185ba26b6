"""Requests that OpenAI accepts in both its forms, and others that it refuses, each with a word of the reason."""

from __future__ import annotations

import base64
from typing import Any

from tests.core.pictures import png

Json = dict[str, Any]

PNG, PDF = (base64.b64encode(data).decode() for data in (png(3, 4), b"%PDF-1.4"))
SCHEMA: Json = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}


# -- OpenAI Chat Completions -------------------------------------------------------------------------------


def chat(*messages: Json, model: str = "gpt-4o", **more: Any) -> Json:
    tools = [{"type": "function", "function": {"name": "find", "description": "Finds.", "parameters": SCHEMA}}]
    return {"model": model, "tools": tools, "messages": list(messages), **more}


def takes(schema: Json) -> Json:
    """A request with a tool that takes this."""
    return chat(HI, tools=[{"type": "function", "function": {"name": "f", "parameters": schema}}])


def inside(**schema: Any) -> Json:
    return {"type": "object", "properties": {"x": schema}}


def _shows(data: bytes) -> Json:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(data).decode()}"}}


def asks(*ids: str, name: str = "find", arguments: Any = '{"number": 1}', **more: Any) -> Json:
    body = {"name": name, "arguments": arguments}
    calls = [{"id": id, "type": "function", "function": body} for id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls, **more}


def tells(id: str, content: Any = "found") -> Json:
    return {"role": "tool", "tool_call_id": id, "content": content}


def shown(url: str) -> Json:
    return {"type": "image_url", "image_url": {"url": url}}


def function(name: str) -> Json:
    return {"type": "function", "function": {"name": name, "parameters": SCHEMA}}


HI: Json = {"role": "user", "content": "Hello."}
YES: Json = {"role": "assistant", "content": "Yes."}

CLOSED: Json = {**SCHEMA, "additionalProperties": False}
MAYBE: Json = {"anyOf": [{"type": "integer"}, {"type": "null"}]}


def shaped(schema: Json, *, strict: bool = True, **more: Any) -> Json:
    """A request for a reply that follows a schema."""
    form = {"name": "reply", "schema": schema, "strict": strict}
    return chat(HI, response_format={"type": "json_schema", "json_schema": form}, **more)


ACCEPTED_BY_CHAT: dict[str, Json] = {
    "a strict schema for the reply": shaped({**CLOSED, "properties": {"number": MAYBE}}),
    "a loose schema, not strictly": shaped(SCHEMA, strict=False),
    "where the reply stops": chat(HI, stop=["a", "b"], seed=3, top_p=0.5),
    "a tool that must be called": chat(HI, tool_choice={"type": "function", "function": {"name": "find"}}),
    "what the SDK has no parameter for": chat(HI, extra_body={"service_tier": "flex"}),
    "one message": chat(HI),
    "no alternation": chat({"role": "system", "content": "x"}, YES, YES, HI, {"role": "system", "content": "x"}, HI),
    "tool calls, in another order": chat(
        HI, asks("a", "b"), tells("b", ""), tells("a", [{"type": "text", "text": "x"}]), YES
    ),
    "ids that repeat later": chat(HI, asks("a"), tells("a"), asks("a"), tells("a"), HI),
    "no tools though used": {"model": "gpt-4o", "messages": [HI, asks("a"), tells("a")]},
    "an image and a file": chat(
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "x"},
                shown(f"data:image/png;base64,{PNG}"),
                shown("https://example.org/a.png"),
                {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}},
            ],
        }
    ),
}
_SAID = {"role": "user"}
_MANY = [f"c{number}" for number in range(129)]

REFUSED_BY_CHAT: dict[str, tuple[str, Json]] = {
    "an open object for the reply": ("additionalProperties", shaped(SCHEMA)),
    "an optional property": ("every key", shaped({**CLOSED, "required": []})),
    "a list for the reply": ("top level", shaped({"type": "array", "items": CLOSED})),
    "a default in the reply": ("not permitted", shaped({**CLOSED, "properties": {"number": {**MAYBE, "default": 1}}})),
    "words beside a reference": (
        "$ref",
        shaped({**CLOSED, "properties": {"number": {"$ref": "#/$defs/N", "title": "x"}}, "$defs": {"N": MAYBE}}),
    ),
    "a schema for an older model": ("not supported", shaped(CLOSED, model="gpt-3.5-turbo")),
    "five stops": ("stop", chat(HI, stop=["a"] * 5)),
    "a stop for a model that reasons": ("stop", chat(HI, stop="a", model="gpt-5")),
    "top_p for a model that reasons": ("top_p", chat(HI, top_p=0.5, model="gpt-5")),
    "a tool that there is not": (
        "not among",
        chat(HI, tool_choice={"type": "function", "function": {"name": "lose"}}),
    ),
    "a body of another's": ("not permitted", chat(HI, extra_body={"top_k": 3})),
    "more than 128 tools": ("array too long", chat(HI, tools=[function(f"f{number}") for number in range(129)])),
    "a choice at the top of a schema": ("top level", takes({**SCHEMA, "anyOf": [{}]})),
    "constants at the top of a schema": ("top level", takes({**SCHEMA, "enum": [{}]})),
    "a schema that is not another": ("top level", takes({**SCHEMA, "not": {}})),
    "a schema of no properties": ("properties", takes({**SCHEMA, "properties": None})),
    "a schema within one of no properties": ("properties", takes(inside(type="object", properties=None))),
    "a schema with a list of properties": ("properties", takes(inside(type="object", properties=[]))),
    "a schema that requires nothing": ("required", takes({**SCHEMA, "required": None})),
    "a schema that requires a number": ("required", takes(inside(type="object", required=[5]))),
    "an unknown type": ("type", takes(inside(type="foo"))),
    "an unknown type among others": ("type", takes(inside(type=["string", "foo"]))),
    "sound for a model that takes none": (
        "not supported",
        chat({"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": PDF, "format": "wav"}}]}),
    ),
    "a picture of no size": ("image", chat({"role": "user", "content": [_shows(png(0, 4))]})),
    "a picture that is cut off": ("image", chat({"role": "user", "content": [_shows(png(3, 4)[:20])]})),
    "no PDF": (
        "PDF",
        chat(
            {
                "role": "user",
                "content": [
                    {"type": "file", "file": {"filename": "a", "file_data": f"data:application/pdf;base64,{PNG}"}}
                ],
            }
        ),
    ),
    "more than 128 tool calls": ("array too long", chat(HI, asks(*_MANY), *map(tells, _MANY))),
    "no messages": ("at least one", chat()),
    "an unknown role": ("role", chat({"role": "model", "content": "x"})),
    "null without tool calls": ("null", chat(HI, {"role": "assistant", "content": None}, HI)),
    "null of the user": ("null", chat({"role": "user", "content": None})),
    "an empty list": ("too short", chat({"role": "user", "content": []})),
    "an empty text part": ("empty", chat({"role": "user", "content": [{"type": "text", "text": ""}]})),
    "no tool calls in the list": ("too short", chat(HI, {**YES, "tool_calls": []}, HI)),
    "a result missing": ("each id", chat(HI, asks("a", "b"), tells("a"), HI)),
    "a result missing at the end": ("each id", chat(HI, asks("a"))),
    "a user between": ("follow", chat(HI, asks("a"), HI, tells("a"))),
    "a result without tool call": ("follow", chat(HI, tells("a"))),
    "a result twice": ("follow", chat(HI, asks("a"), tells("a"), tells("a"))),
    "ids that repeat at once": ("unique", chat(HI, asks("a", "a"), tells("a"), tells("a"))),
    "an empty id": ("characters", chat(HI, asks(""), tells(""))),
    "a long id": ("characters", chat(HI, asks("a" * 41), tells("a" * 41))),
    "arguments as an object": ("arguments", chat(HI, asks("a", arguments={}), tells("a"))),
    "arguments that are no JSON": ("arguments", chat(HI, asks("a", arguments="{'a"), tells("a"))),
    "arguments that are a list": ("arguments", chat(HI, asks("a", arguments="[]"), tells("a"))),
    "arguments with no number": ("arguments", chat(HI, asks("a", arguments='{"a": NaN}'), tells("a"))),
    "an odd tool name": ("pattern", chat(HI, asks("a", name="a.b"), tells("a"))),
    "a long tool name": ("pattern", chat(HI, asks("a", name="f" * 65), tells("a"))),
    "null of a tool": ("null", chat(HI, asks("a"), tells("a", None))),
    "a picture of a tool": ("not permitted", chat(HI, asks("a"), tells("a", [shown(f"data:image/png;base64,{PNG}")]))),
    "a picture of the assistant": ("not permitted", chat(HI, {**YES, "content": [shown("https://x.org/a")]}, HI)),
    "a picture for blind eyes": (
        "not supported",
        chat({**_SAID, "content": [shown("https://x.org/a")]}, model="gpt-4"),
    ),
    "an unsupported image": ("media type", chat({**_SAID, "content": [shown(f"data:image/bmp;base64,{PNG}")]})),
    "an empty image": ("base64", chat({**_SAID, "content": [shown("data:image/png;base64,")]})),
    "an address of nothing": ("URL", chat({**_SAID, "content": [shown("")]})),
    "a file that is no PDF": (
        "media type",
        chat(
            {
                **_SAID,
                "content": [{"type": "file", "file": {"filename": "a", "file_data": "data:text/plain;base64,eA=="}}],
            }
        ),
    ),
    "a block of another's": (
        "not permitted",
        chat({**_SAID, "content": [{"type": "image", "source": {"type": "url", "url": "https://x.org/a"}}]}),
    ),
    "a mark of another's": (
        "not permitted",
        chat({**_SAID, "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]}),
    ),
    "reasoning": ("not permitted", chat(HI, {**YES, "reasoning_content": "x"}, HI)),
    "an empty list of tools": ("too short", chat(HI, tools=[])),
    "a tool without its kind": ("function", chat(HI, tools=[{"name": "f", "parameters": SCHEMA}])),
    "a loose strict schema": (
        "additionalProperties",
        chat(HI, tools=[{"type": "function", "function": {"name": "f", "parameters": SCHEMA, "strict": True}}]),
    ),
    "the old length": ("max_tokens", chat(HI, model="gpt-5", max_tokens=10)),
    "a long cache key": ("prompt_cache_key", chat(HI, prompt_cache_key="k" * 65)),
    "a setting of another's": ("not permitted", chat(HI, system="x")),
    "a speaker with spaces": ("pattern", chat({**HI, "name": "Ana Maria"})),
    "a lone surrogate": ("surrogate", chat({"role": "user", "content": "a\udfff"})),
}


# -- OpenAI Responses --------------------------------------------------------------------------------------


def respond(*items: Json, model: str = "gpt-5", **more: Any) -> Json:
    tools = [{"type": "function", "name": "find", "description": "Finds.", "parameters": SCHEMA}]
    return {"model": model, "input": list(items), "tools": tools, "store": False, **more}


def called(id: str = "a", **more: Any) -> Json:
    return {"type": "function_call", "call_id": id, "name": "find", "arguments": "{}", **more}


def output(id: str = "a", said: Any = "found") -> Json:
    return {"type": "function_call_output", "call_id": id, "output": said}


def item(role: str, *content: Json) -> Json:
    return {"type": "message", "role": role, "content": list(content)}


REASONED: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "eA=="}
TYPED = {"type": "input_text", "text": "x"}
REPLIED = {"type": "output_text", "text": "x"}


def _shaped(schema: Json) -> Json:
    form = {"type": "json_schema", "name": "reply", "schema": schema, "strict": True}
    return respond(HI, text={"format": form})


ACCEPTED_BY_RESPONSES: dict[str, Json] = {
    "a strict schema for the reply": _shaped(CLOSED),
    "one message": respond(HI),
    "a string": {"model": "gpt-5", "input": "Hello."},
    "reasoning and tool calls": respond(
        item("user", TYPED), REASONED, called("a"), called("b"), output("b"), output("a"), item("assistant", REPLIED)
    ),
    "a picture in a result": respond(
        HI, called(), output(said=[{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}])
    ),
    "instructions and what to include": respond(HI, instructions="x", include=["reasoning.encrypted_content"]),
    "ids where things are stored": respond({**YES, "type": "message", "id": "msg_1"}, HI, store=True),
}
REFUSED_BY_RESPONSES: dict[str, tuple[str, Json]] = {
    "an open object for the reply": ("additionalProperties", _shaped(SCHEMA)),
    "a stop": ("not permitted", respond(HI, stop=["a"])),
    "a seed": ("not permitted", respond(HI, seed=3)),
    "no items": ("at least one", respond()),
    "an unknown item": ("not permitted", respond(HI, {"type": "tool_result"})),
    "a reference": ("not permitted", respond(HI, {"type": "item_reference", "id": "msg_1"})),
    "an unknown role": ("role", respond({"role": "tool", "content": "x"})),
    "output of the user": ("not permitted", respond(item("user", REPLIED))),
    "input of the assistant": ("not permitted", respond(HI, item("assistant", TYPED), HI)),
    "empty content": ("empty", respond(item("user"))),
    "an empty text": ("empty", respond(item("user", {"type": "input_text", "text": ""}))),
    "no output": ("no function_call_output", respond(HI, called(), HI)),
    "output without tool call": ("no function_call was found", respond(HI, output())),
    "output before its tool call": ("no function_call was found", respond(HI, output(), called())),
    "output twice": ("unique", respond(HI, called(), output(), output())),
    "ids that repeat": ("unique", respond(HI, called(), output(), called(), output())),
    "a long id": ("pattern", respond(HI, called("a" * 65), output("a" * 65))),
    "an odd tool name": ("pattern", respond(HI, called(name="a b"), output())),
    "arguments that are no JSON": ("arguments", respond(HI, called(arguments="{"), output())),
    "null output": ("null", respond(HI, called(), output(said=None))),
    "reasoning at the end": ("following", respond(HI, REASONED)),
    "reasoning before the user": ("following", respond(HI, REASONED, HI)),
    "reasoning twice": ("unique", respond(HI, REASONED, YES, REASONED, YES, HI)),
    "reasoning not encrypted": ("store", respond(HI, {**REASONED, "encrypted_content": None}, YES, HI)),
    "reasoning changed": ("summary", respond(HI, {**REASONED, "summary": None}, YES, HI)),
    "reasoning for a plain model": ("not supported", respond(HI, REASONED, YES, HI, model="gpt-4o")),
    "a message's id": ("store", respond({**YES, "type": "message", "id": "msg_1"}, HI)),
    "a tool call's id": ("store", respond(HI, {**called(), "id": "fc_1"}, output())),
    "an unsupported image": (
        "media type",
        respond(item("user", {"type": "input_image", "image_url": f"data:image/tiff;base64,{PNG}"})),
    ),
    "a part of Chat Completions": ("not permitted", respond(item("user", shown("https://x.org/a")))),
    "a tool of Chat Completions": (
        "not permitted",
        respond(HI, tools=[{"type": "function", "function": {"name": "f"}}]),
    ),
    "messages": ("not permitted", respond(HI, messages=[HI])),
    "a short reply": ("max_output_tokens", respond(HI, max_output_tokens=5)),
}
