"""The service described for other programs: OpenAPI 3.1, written from the table of routes, so that it is true.

What a verb takes and gives is described by the same types that read and write it. Types that stand in several places
are described once, under their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from everthread.agent.reply import Reply
from everthread.core.deltas import Delta
from everthread.core.logged import Logged
from everthread.core.told import Told
from everthread.core.value_schemas import schema_of
from everthread.problems import TITLES, TYPE
from everthread.routes import TALK, Argument, Route
from everthread.server.sse import EVENTS

PREFIX = "/api"
BRANCH = {
    "name": "branch",
    "in": "query",
    "schema": {"type": "string"},
    "description": "A branch by name or number; the current one where none is named.",
}
SECURITY: list[dict[str, Any]] = [{"key": []}, {"cookie": []}]
SCHEMES = {
    "key": {"type": "http", "scheme": "bearer", "description": "An API key, such as evk_…"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "everthread", "description": "The sign-in of a browser"},
}
PROBLEM = {
    "title": "Problem",
    "type": "object",
    "description": "What went wrong (RFC 9457). `type` names the error, `detail` says what happened and what to do.",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail"],
}
PROBLEMS = (400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 501, 502, 503, 504, 507)


def described(routes: Iterable[Route], version: str) -> dict[str, Any]:
    """The whole description."""
    named: dict[str, Any] = {"Problem": PROBLEM}
    _named_parts(schema_of(Told), named)
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = _operation(route, named)
    paths[f"{PREFIX}{TALK}/listen"] = {"get": _listening(named)}
    components = {"schemas": dict(sorted(named.items())), "securitySchemes": SCHEMES, "responses": _problems()}
    about = "Conversations that never end, over HTTP. Every value has the form that docs/howto/json.md describes."
    info = {"title": "Everthread", "version": version, "description": about}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": components, "security": SECURITY}


def _operation(route: Route, named: dict[str, Any]) -> dict[str, Any]:
    summary, _, more = route.about.partition("\n\n")
    told: dict[str, Any] = {
        "operationId": route.name.replace(".", "_"),
        "tags": [route.of],
        "summary": " ".join(summary.split()),
        "description": " ".join(f"{more}\n\nNeeds the scope `{route.scope}`.".split()),
        "parameters": _parameters(route, named),
        "responses": {**_responses(route, named), **_refusals()},
    }
    if body := [one for one in route.arguments if one.where == "body"]:
        told["requestBody"] = _body(body, named)
    return told


def _parameters(route: Route, named: dict[str, Any]) -> list[dict[str, Any]]:
    own = {one.name for one in route.arguments if one.where == "path"}
    given = re.findall(r"\{(\w+)\}", route.path)
    found = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in given
        if name not in own
    ]
    found += [_parameter(one, named) for one in route.arguments if one.where != "body"]
    return [*found, BRANCH] if route.of == "talk" else found


def _parameter(one: Argument, named: dict[str, Any]) -> dict[str, Any]:
    schema, content = _schema(one, named), {}
    if "object" in str(schema.get("type", schema)):  # a JSON object, as text
        content = {"application/json": {"schema": schema}}
    told = {"name": one.name, "in": one.where, "required": one.where == "path" or one.required}
    return told | ({"content": content} if content else {"schema": schema})


def _body(arguments: list[Argument], named: dict[str, Any]) -> dict[str, Any]:
    required = [one.name for one in arguments if one.required]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {one.name: _schema(one, named) for one in arguments},
        "additionalProperties": False,
    }
    if required:
        schema["required"] = required
    return {"required": bool(required), "content": {"application/json": {"schema": schema}}}


def _schema(one: Argument, named: dict[str, Any]) -> dict[str, Any]:
    schema = _named_parts(schema_of(one.type), named)
    plain = isinstance(one.default, str | int | float | bool) and not isinstance(one.default, datetime)
    return {**schema, "default": one.default} if plain and not one.required and "$ref" not in schema else schema


def _responses(route: Route, named: dict[str, Any]) -> dict[str, Any]:
    if route.gives is Reply:
        message = _named_parts(schema_of(Logged), named)
        delta = _named_parts(schema_of(Delta), named)
        streamed = {EVENTS: {"schema": delta}}
        accepted = "The message is on disk, and its turn runs: listen to hear it."
        return {
            "202": {"description": accepted, "content": {"application/json": {"schema": message}}},
            "200": {"description": "The deltas of the turn, where `Accept` asks for them.", "content": streamed},
        }
    if route.gives in (None, type(None)):
        return {"204": {"description": "It is done."}}
    schema = _named_parts(schema_of(route.gives), named)
    return {"200": {"description": "What the verb gives.", "content": {"application/json": {"schema": schema}}}}


def _listening(named: dict[str, Any]) -> dict[str, Any]:
    after = {"name": "after", "in": "query", "schema": {"type": "string", "default": "0"}}
    last = {"name": "Last-Event-ID", "in": "header", "schema": {"type": "string"}}
    conversation = {"name": "conversation", "in": "path", "required": True, "schema": {"type": "string"}}
    stream = {EVENTS: {"schema": {"$ref": "#/components/schemas/Told"}}}
    return {
        "operationId": "talk_listen",
        "tags": ["talk"],
        "summary": "Events and deltas as they come: without gap, and nothing twice.",
        "description": "Events named `snapshot`, `told`, `problem` and `reconnect`. Needs the scope `read`.",
        "parameters": [conversation, BRANCH, after, last],
        "responses": {"200": {"description": "A stream that lasts.", "content": stream}, **_refusals()},
    }


def _problems() -> dict[str, Any]:
    content = {TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {f"problem{status}": {"description": TITLES[status], "content": content} for status in PROBLEMS}


def _refusals() -> dict[str, Any]:
    return {str(status): {"$ref": f"#/components/responses/problem{status}"} for status in PROBLEMS}


def _named_parts(schema: Any, named: dict[str, Any]) -> Any:
    """The schema with those that have a title described once, under it."""
    if isinstance(schema, list):
        return [_named_parts(one, named) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: _named_parts(one, named) for key, one in schema.items()}
    title = inner.get("title")
    if not isinstance(title, str) or inner.get("type") != "object":
        return inner
    if named.setdefault(title, inner) != inner:
        title = next(f"{title}{n}" for n in range(2, 100) if named.setdefault(f"{title}{n}", inner) == inner)
    return {"$ref": f"#/components/schemas/{title}"}
