"""The service described for other programs: OpenAPI 3.1, written from the table of routes, so that it is true.

What a verb takes and gives is described by the same types that read and write it. Types that stand in several places
are described once, under their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from everthread.agent.reply import Reply
from everthread.core.accounts import Caller
from everthread.core.deltas import Delta
from everthread.core.logged import Logged
from everthread.core.told import Told
from everthread.core.value_schemas import schema_of
from everthread.problems import TITLES, TYPE
from everthread.routes import EVENTS, PREFIX, Argument, Route
from everthread.server.files import LINES
from everthread.server.reading import JSON
from everthread.transfer.detect import FORMATS
from everthread.transfer.importing import Imported

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
TEXT = {"type": "string"}
BYTES = {"type": "string", "contentMediaType": "application/octet-stream"}


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """An address that is no verb's: what it takes and gives by media types; `open`: whoever asks; `also`: other answers
    that are no problems."""

    gives: dict[str, Any] = {}
    body: dict[str, Any] = {}
    takes: tuple[dict[str, Any], ...] = ()
    status: int = 200
    open: bool = False
    also: dict[str, str] = {}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties]}


def _in(where: str, name: str, schema: Any = TEXT) -> dict[str, Any]:
    return {"name": name, "in": where, "schema": schema}


_SIGNED_IN = {JSON: _object(caller=schema_of(Caller), csrf=TEXT)}
_STATUS = {JSON: _object(status=TEXT)}
_BY_LINK, _BY_PASSWORD = _object(link=TEXT), _object(user=TEXT, password={**TEXT, "format": "password"})
_IMPORTED = {JSON: schema_of(Imported)}
_RANGES = {"206": "The range that was asked for.", "304": "It has not changed.", "416": "There is no such range."}

BESIDE: dict[str, Beside] = {
    "listen": Beside(
        gives={EVENTS: schema_of(Told)}, takes=(BRANCH, _in("query", "after"), _in("header", "Last-Event-ID"))
    ),
    "upload": Beside(gives={JSON: schema_of(Logged)}, body={"*/*": BYTES}, takes=(BRANCH, _in("query", "name"))),
    "blob": Beside(gives={"*/*": BYTES}, takes=(_in("header", "Range"), _in("header", "If-None-Match")), also=_RANGES),
    "export_one": Beside(gives={LINES: BYTES}),
    "export_all": Beside(gives={LINES: BYTES}),
    "import_all": Beside(
        gives=_IMPORTED,
        body={"*/*": BYTES},
        takes=(_in("query", "agent"), _in("query", "format", {"enum": [*FORMATS]})),
    ),
    "sign_in": Beside(gives=_SIGNED_IN, body={JSON: {"anyOf": [_BY_LINK, _BY_PASSWORD]}}, open=True),
    "who": Beside(gives=_SIGNED_IN),
    "sign_out": Beside(status=204),
    "page": Beside(gives={"*/*": BYTES}, open=True),
    "openapi": Beside(gives={JSON: {"type": "object"}}, open=True),
    "health": Beside(gives=_STATUS, open=True),
    "ready": Beside(gives=_STATUS, open=True, also={"503": "It is about to end."}),
    "metrics": Beside(gives={"text/plain": TEXT}, open=True),
}
PROBLEMS = (400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 501, 502, 503, 504, 507)


def described(routes: Iterable[Route], beside: Iterable[tuple[str, str, Any]], version: str) -> dict[str, Any]:
    """The whole description. `beside`: what the table of routes does not have, by method, path and endpoint."""
    named: dict[str, Any] = {"Problem": PROBLEM}
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = _operation(route, named)
    for method, path, endpoint in beside:
        paths.setdefault(path, {})[method.lower()] = _beside(method, path, endpoint, named)
    components = {"schemas": dict(sorted(named.items())), "securitySchemes": SCHEMES, "responses": _problems()}
    about = "Conversations that never end, over HTTP. Every value has the form that docs/howto/json.md describes."
    info = {"title": "Everthread", "version": version, "description": about}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": components, "security": SECURITY}


def _operation(route: Route, named: dict[str, Any]) -> dict[str, Any]:
    summary, _, more = route.about.partition("\n\n")
    told: dict[str, Any] = {
        "operationId": route.name.replace(".", "_") + ("_of" if _is_of_another(route) else ""),
        "tags": [route.of],
        "summary": " ".join(summary.split()),
        "description": " ".join(f"{more}\n\nNeeds the scope `{route.scope}`.".split()),
        "parameters": _parameters(route, named),
        "responses": {**_responses(route, named), **_refusals()},
    }
    if body := [one for one in route.arguments if one.where == "body"]:
        told["requestBody"] = _body(body, named)
    return told


def _is_of_another(route: Route) -> bool:
    """Whether an administrator does for somebody what others do for themselves: the verb has two addresses."""
    return route.of == "identity" and "{user}" in route.path


def _parameters(route: Route, named: dict[str, Any]) -> list[dict[str, Any]]:
    own = {one.name for one in route.arguments if one.where == "path"}
    given = [name for name in _names_in(route.path) if name not in own]
    found = [{"name": name, "in": "path", "required": True, "schema": TEXT} for name in given]
    found += [_parameter(one, named) for one in route.arguments if one.where != "body"]
    return [*found, BRANCH] if route.of == "talk" else found


def _parameter(one: Argument, named: dict[str, Any]) -> dict[str, Any]:
    schema, content = _schema(one, named), {}
    if "object" in str(schema.get("type", schema)):  # a JSON object, as text
        content = {JSON: {"schema": schema}}
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
    return {"required": bool(required), "content": {JSON: {"schema": schema}}}


def _schema(one: Argument, named: dict[str, Any]) -> dict[str, Any]:
    schema = _named_parts(schema_of(one.type), named)
    plain = isinstance(one.default, str | int | float | bool) and not isinstance(one.default, datetime)
    return {**schema, "default": one.default} if plain and not one.required and "$ref" not in schema else schema


def _responses(route: Route, named: dict[str, Any]) -> dict[str, Any]:
    if route.gives is Reply:
        says = any(one.name == "pieces" for one in route.arguments)
        message = _named_parts(schema_of(Logged if says else Logged | None), named)
        delta = _named_parts(schema_of(Delta), named)
        streamed = {EVENTS: {"schema": delta}}
        said = "The message is on disk, and its turn" if says else "The turn"
        accepted = f"{said} runs: listen to hear it."
        return {
            "202": {"description": accepted, "content": {JSON: {"schema": message}}},
            "200": {"description": "The deltas of the turn, where `Accept` asks for them.", "content": streamed},
        }
    if route.gives in (None, type(None)):
        return {"204": {"description": "It is done."}}
    schema = _named_parts(schema_of(route.gives), named)
    return {"200": {"description": "What the verb gives.", "content": {JSON: {"schema": schema}}}}


def _beside(method: str, path: str, endpoint: Any, named: dict[str, Any]) -> dict[str, Any]:
    """What is no verb of the library."""
    about = BESIDE[endpoint.__name__]
    summary = " ".join((endpoint.__doc__ or "").split())
    in_path = [{"name": name, "in": "path", "required": True, "schema": TEXT} for name in _names_in(path)]
    content = {kind: {"schema": _named_parts(schema, named)} for kind, schema in about.gives.items()}
    told: dict[str, Any] = {
        "operationId": "_".join([method.lower(), *path.strip("/").replace("{", "").replace("}", "").split("/")]),
        "tags": ["service" if about.open else "beside"],
        "summary": summary,
        "parameters": [*in_path, *about.takes],
        "responses": {str(about.status): {"description": summary, **({"content": content} if content else {})}},
    }
    told["responses"] |= {status: {"description": said} for status, said in about.also.items()} | _refusals()
    if about.body:
        body = {kind: {"schema": schema} for kind, schema in about.body.items()}
        told["requestBody"] = {"required": True, "content": body}
    return told | ({"security": []} if about.open else {})


def _names_in(path: str) -> list[str]:
    return re.findall(r"\{(\w+)\}", path)


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
