"""Requests that Anthropic accepts, and others that it refuses, each with a word of the reason."""

from __future__ import annotations

import base64
from typing import Any

from tests.core.pictures import gif, png

Json = dict[str, Any]

PNG, GIF, PDF = (base64.b64encode(data).decode() for data in (png(3, 4), gif(3, 4), b"%PDF-1.4"))
SCHEMA: Json = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}


def claude(*messages: Json, model: str = "claude-sonnet-4-6", **more: Any) -> Json:
    tools = [{"name": "find", "description": "Finds.", "input_schema": SCHEMA}]
    return {"model": model, "max_tokens": 100, "tools": tools, "messages": list(messages), **more}


def says(role: str, *blocks: Json | str) -> Json:
    return {"role": role, "content": [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]}


def use(id: str = "a", **more: Any) -> Json:
    return {"type": "tool_use", "id": id, "name": "find", "input": {"number": 1}, **more}


def result(id: str = "a", **more: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": id, "content": "found", **more}


def picture(data: str = PNG, media_type: str = "image/png") -> Json:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def of_sides(width: int, height: int, more: int = 0) -> Json:
    """A picture of this size in pixels, with this many bytes more than it needs."""
    return picture(base64.b64encode(png(width, height) + bytes(more)).decode())


HELLO = says("user", "Hello.")
THOUGHT: Json = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
MARK: Json = {"cache_control": {"type": "ephemeral"}}
HOUR: Json = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def text(said: str = "x", **more: Any) -> Json:
    return {"type": "text", "text": said, **more}


def shaped(schema: Json, **more: Any) -> Json:
    return claude(HELLO, output_config={"format": {"type": "json_schema", "schema": schema}}, **more)


CLOSED: Json = {**SCHEMA, "additionalProperties": False}
OPTIONAL: Json = {**CLOSED, "required": []}


ACCEPTED_BY_CLAUDE: dict[str, Json] = {
    "a picture just within its limits": claude(says("user", of_sides(8_000, 8_000, 3_900_000))),
    "twenty pictures of 8,000 pixels": claude(says("user", *[of_sides(8_000, 3)] * 20)),
    "a hundred of 2,000": claude(says("user", *[of_sides(2_000, 3)] * 100)),
    "one message": claude({"role": "user", "content": "Hello."}),
    "a tool loop": claude(HELLO, says("assistant", THOUGHT, "I look.", use()), says("user", result(), "And?")),
    "parallel tool calls": claude(
        HELLO, says("assistant", use("a"), use("b")), says("user", result("b"), result("a", is_error=True))
    ),
    "neighbours of one role": claude(HELLO, HELLO, says("assistant", "Yes."), says("assistant", "Yes."), HELLO),
    "an image in a result": claude(HELLO, says("assistant", use()), says("user", result(content=[picture(), text()]))),
    "a result of nothing": claude(HELLO, says("assistant", use()), says("user", result(content=""))),
    "four marks, the longer first": claude(
        says("user", text(**HOUR), text(**MARK), text(**MARK)), system=[text(**HOUR)]
    ),
    "a system message where it is taken": claude(HELLO, says("system", "Now."), model="claude-opus-4-8"),
    "documents and addresses": claude(
        says(
            "user",
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}, "title": "t"},
            {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        )
    ),
    "a closed object for the reply": shaped(CLOSED),
    "an optional property of the reply": shaped(OPTIONAL),
    "a tool that must be called": claude(HELLO, tool_choice={"type": "tool", "name": "find"}),
    "where the reply stops": claude(HELLO, stop_sequences=["END"], top_p=0.5),
    "thinking switched on": claude(HELLO, thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=2000),
}
_LOOP = (HELLO, says("assistant", use()))
_WHOLE: Json = {"type": "integer"}
_ITSELF: Json = {
    **CLOSED,
    "properties": {"number": {"$ref": "#/$defs/N"}},
    "$defs": {"N": {**OPTIONAL, "properties": {"number": {"$ref": "#/$defs/N"}}}},
}
REFUSED_BY_CLAUDE: dict[str, tuple[str, Json]] = {
    "a picture of more than 5 MB": ("exceeds 5 MB", claude(says("user", of_sides(3, 3, 4_000_000)))),
    "a picture that is too wide": ("8000 pixels", claude(says("user", of_sides(8_001, 3)))),
    "one that is too high, in a result": (
        "8000 pixels",
        claude(HELLO, says("assistant", use()), says("user", result(content=[of_sides(3, 8_001)]))),
    ),
    "one that is too wide among many": ("2000 pixels", claude(says("user", of_sides(2_001, 3), *[picture()] * 20))),
    "more than a hundred pictures": ("too many images", claude(says("user", *[picture()] * 101))),
    "more than 32 MB of them": ("too_large", claude(says("user", *[of_sides(3, 3, 3_800_000)] * 7))),
    "no messages": ("at least one", claude()),
    "the assistant first": ("first message", claude(says("assistant", "Hi."), HELLO)),
    "the assistant last": ("prefill", claude(HELLO, says("assistant", "Hi."))),
    "an unknown role": ("role", claude(HELLO, says("tool", "x"), HELLO)),
    "a system message, older model": ("system", claude(HELLO, says("system", "Now."), HELLO)),
    "a system message first": (
        "follow",
        claude(HELLO, says("assistant", "x"), says("system", "x"), model="claude-opus-5"),
    ),
    "empty content": ("non-empty", claude(says("user"))),
    "null content": ("list", claude({"role": "user", "content": None})),
    "an empty string": ("empty", claude({"role": "user", "content": ""})),
    "an empty text block": ("empty", claude(says("user", "x", ""))),
    "white space alone": ("white space", claude(says("user", " \n\t"))),
    "empty instructions": ("empty", claude(HELLO, system=[text("")])),
    "a tool call without result": ("without a tool_result", claude(*_LOOP, says("user", "Well?"))),
    "a result too late": ("without a tool_result", claude(*_LOOP, HELLO, says("user", result()))),
    "a tool call at the end": ("without a tool_result", claude(*_LOOP)),
    "a result without tool call": (
        "without its tool_use",
        claude(HELLO, says("assistant", "x"), says("user", result())),
    ),
    "a result at the beginning": ("without its tool_use", claude(says("user", result()))),
    "two results for one": ("single", claude(*_LOOP, says("user", result(), result()))),
    "text before the result": ("before anything else", claude(*_LOOP, says("user", "So:", result()))),
    "ids that repeat": (
        "unique",
        claude(*_LOOP, says("user", result()), says("assistant", use()), says("user", result())),
    ),
    "an id with a dot": ("pattern", claude(HELLO, says("assistant", use("a.b")), says("user", result("a.b")))),
    "an empty id": ("pattern", claude(HELLO, says("assistant", use("")), says("user", result("")))),
    "an odd tool name": ("pattern", claude(HELLO, says("assistant", use(name="find it")), says("user", result()))),
    "a long tool name": ("pattern", claude(HELLO, says("assistant", use(name="f" * 129)), says("user", result()))),
    "input as text": ("object", claude(HELLO, says("assistant", use(input="{}")), says("user", result()))),
    "no tools though used": ("define tools", claude(*_LOOP, says("user", result()), tools=[])),
    "a failure without words": ("is_error", claude(*_LOOP, says("user", result(content="", is_error=True)))),
    "a failure with a picture": ("is_error", claude(*_LOOP, says("user", result(content=[picture()], is_error=True)))),
    "an empty text in a result": ("empty", claude(*_LOOP, says("user", result(content=[text("")])))),
    "a tool call of the user": ("not permitted", claude(says("user", use()), says("user", result()))),
    "a picture of the assistant": ("not permitted", claude(HELLO, says("assistant", picture()), HELLO)),
    "a field of another's": ("not permitted", claude(says("user", text(name="ana")))),
    "a field of the message": ("not permitted", claude({**HELLO, "name": "ana"})),
    "a setting of another's": ("not permitted", claude(HELLO, max_completion_tokens=3)),
    "no length of reply": ("max_tokens", claude(HELLO, max_tokens=None)),
    "too hot": ("temperature", claude(HELLO, temperature=1.5)),
    "an unsupported image": ("media type", claude(says("user", picture(media_type="image/tiff")))),
    "an empty image": ("base64", claude(says("user", picture("")))),
    "no base64": ("base64", claude(says("user", picture("é")))),
    "a mislabelled image": ("match", claude(says("user", picture(GIF)))),
    "an image without source": ("object", claude(says("user", {"type": "image"}))),
    "five marks": ("at most 4", claude(says("user", *[text(**MARK)] * 4), system=[text(**MARK)])),
    "a long mark after a short": ("after one", claude(says("user", text(**HOUR)), system=[text(**MARK)])),
    "a mark on thinking": ("cache_control", claude(HELLO, says("assistant", {**THOUGHT, **MARK}, "x"), HELLO)),
    "thinking alone": ("final block", claude(HELLO, says("assistant", THOUGHT), HELLO)),
    "thinking unsigned": ("signature", claude(HELLO, says("assistant", {**THOUGHT, "signature": ""}, "x"), HELLO)),
    "thinking of the user": ("not permitted", claude(says("user", THOUGHT, "x"))),
    "thinking changed": ("not permitted", claude(HELLO, says("assistant", {**THOUGHT, "text": "x"}, "x"), HELLO)),
    "a loop without its thinking": (
        "begin with thinking",
        claude(*_LOOP, says("user", result()), thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=2000),
    ),
    "a schema of no object": ("object", claude(HELLO, tools=[{"name": "f", "input_schema": {"type": "string"}}])),
    "two tools of one name": ("unique", claude(HELLO, tools=[{"name": "f", "input_schema": SCHEMA}] * 2)),
    "an open object for the reply": ("additionalProperties", shaped(SCHEMA)),
    "a map for the reply": ("additionalProperties", shaped({**CLOSED, "additionalProperties": {"type": "string"}})),
    "no object for the reply": ("object", shaped({"type": "string"})),
    "a limit in the reply": ("not permitted", shaped({**CLOSED, "properties": {"number": {**_WHOLE, "maximum": 3}}})),
    "a reply that holds itself": ("recursive", shaped(_ITSELF)),
    "a schema for an older model": ("not supported", shaped(CLOSED, model="claude-3-7-sonnet")),
    "a tool that there is not": ("no tool", claude(HELLO, tool_choice={"type": "tool", "name": "lose"})),
    "a choice of another's": ("tool_choice", claude(HELLO, tool_choice="required")),
    "a tool forced on a thinker": (
        "forces",
        claude(
            HELLO, tool_choice={"type": "any"}, thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=2000
        ),
    ),
    "a stop of nothing": ("non-whitespace", claude(HELLO, stop_sequences=["\n\n"])),
    "two ways to choose words": ("both", claude(HELLO, temperature=0.5, top_p=0.5)),
    "a temperature for a newer model": ("not supported", claude(HELLO, temperature=0.5, model="claude-opus-5")),
    "a seed": ("not permitted", claude(HELLO, seed=3)),
    "a lone surrogate": ("surrogate", claude(says("user", "\ud800"))),
    "no number": ("JSON", claude(HELLO, temperature=float("nan"))),
    "another model": ("asked for", claude(HELLO, model="claude-3")),
}
