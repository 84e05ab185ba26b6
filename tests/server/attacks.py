"""For every address of the service: what its owner sends there, so that only who asks can be the reason of a refusal.

`OWN` has a row for each route that the application has. A route without one fails the tests of isolation: whoever adds
a route says here how it is asked, and so has it attacked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from starlette.routing import Route, WebSocketRoute

from everthread.server.app import routes_of
from everthread.server.service import Service

WORD = "quagmire-7731"  # stands in everything that is Ana's


class Theirs(NamedTuple):
    """What Ana has, by the names that stand in the addresses."""

    conversation: str
    id: str  # of a schedule
    branch: str  # of a child
    key: str  # the id of a key of hers
    hash: str  # of a picture

    def path(self, path: str) -> str:
        path = path.replace("/keys/{id}", f"/keys/{self.key}")
        path = path.replace("/archives/{id}", f"/archives/{self.conversation}")
        for name in ("conversation", "id", "branch", "hash"):
            path = path.replace(f"{{{name}}}", getattr(self, name))
        others = {"name": "helper", "user": "ana", "provider": "openai", "file": "script.js"}
        for name, value in others.items():
            path = path.replace(f"{{{name}}}", value)
        return path


CALL = {"kind": "tool_call", "id": "c1", "name": "recall_context", "arguments": '{"query": "x"}'}
MESSAGE = {"kind": "user", "parts": [{"type": "text", "text": "hello"}]}
TALK = "/api/conversations/{conversation}"

# For whom: what is one conversation's; what is the caller's own, whoever it is; what is an administrator's; what is
# everybody's.
ABOUT: dict[str, dict[str, Any]] = {
    f"GET {TALK}": {},
    f"GET {TALK}/before": {"limit": 5},
    f"GET {TALK}/after": {"seq": 0},
    f"GET {TALK}/tail": {},
    f"GET {TALK}/range": {"first": 1, "last": 2},
    f"GET {TALK}/markers": {"kind": "mark"},
    f"GET {TALK}/turns": {},
    f"GET {TALK}/sessions": {},
    f"GET {TALK}/totals": {},
    f"GET {TALK}/usage": {},
    f"GET {TALK}/spent": {},
    f"POST {TALK}/recall": {"query": WORD},
    f"POST {TALK}/say": {"pieces": ["Hello."]},
    f"POST {TALK}/resume": {},
    f"POST {TALK}/approve": {},
    f"POST {TALK}/refuse": {},
    f"POST {TALK}/stop": {},
    f"GET {TALK}/waiting": {},
    f"POST {TALK}/events": {"events": [MESSAGE]},
    f"POST {TALK}/pin": {"seq": 1},
    f"POST {TALK}/unpin": {"seq": 1},
    f"POST {TALK}/clear": {},
    f"POST {TALK}/marks": {"name": "here"},
    f"POST {TALK}/configure": {"budget": 50_000},
    f"PUT {TALK}/name": {"name": f"Named {WORD}"},
    f"PUT {TALK}/goal": {"goal": f"To {WORD}"},
    f"PUT {TALK}/metadata": {"metadata": {"word": WORD}},
    f"GET {TALK}/settings": {},
    f"PUT {TALK}/settings": {"settings": {"instructions": WORD}},
    f"GET {TALK}/branch": {},
    f"GET {TALK}/branches": {},
    f"POST {TALK}/fork": {"at": 1},
    f"POST {TALK}/rewind": {"to": 1},
    f"POST {TALK}/switch": {"branch": "main"},
    f"POST {TALK}/context": {},
    f"POST {TALK}/steps": {},
    f"POST {TALK}/count": {},
    f"POST {TALK}/rebuild": {},
    f"GET {TALK}/canvas": {},
    f"POST {TALK}/canvas": {"changes": [{"do": "mode", "mode": "split"}]},
    f"GET {TALK}/brief": {},
    f"GET {TALK}/remembered": {},
    f"GET {TALK}/memory": {},
    f"POST {TALK}/remember": {},
    f"POST {TALK}/correct": {"brief": WORD},
    f"POST {TALK}/look-up": {"call": CALL},
    f"GET {TALK}/notes": {},
    f"PUT {TALK}/notes": {"text": WORD},
    f"GET {TALK}/schedules": {},
    f"POST {TALK}/schedules": {"text": WORD, "cron": "0 8 * * *"},
    f"PATCH {TALK}/schedules/{{id}}": {"text": f"{WORD} again"},
    f"POST {TALK}/schedules/{{id}}/pause": {},
    f"POST {TALK}/schedules/{{id}}/resume": {},
    f"DELETE {TALK}/schedules/{{id}}": {},
    f"GET {TALK}/children": {},
    f"POST {TALK}/children": {"task": "Count to three."},
    f"GET {TALK}/children/{{branch}}": {},
    f"GET {TALK}/children/{{branch}}/outcome": {},
    f"POST {TALK}/children/{{branch}}/stop": {},
    f"POST {TALK}/blobs": {"a file": "of any bytes"},
    f"GET {TALK}/blobs/{{hash}}": {},
    f"GET {TALK}/export": {},
    "POST /api/archives/{id}": {},
    "POST /api/archives/{id}/restore": {},
    f"POST {TALK}/redact": {"seq": 1},
    f"DELETE {TALK}/notes": {},
    f"DELETE {TALK}": {},
    f"GET {TALK}/listen": {},
}
OWN: dict[str, dict[str, Any]] = {
    "GET /api/conversations": {},
    "POST /api/conversations": {"name": "Another"},
    "POST /api/conversation": {},
    "GET /api/totals": {},
    "GET /api/usage": {},
    "GET /api/schedules": {},
    "GET /api/archives": {"query": WORD},
    "GET /api/default-model": {},
    "GET /api/agents": {},
    "GET /api/agents/{name}": {},
    "GET /api/agents/{name}/versions": {},
    "GET /api/me": {},
    "PUT /api/password": {"password": "another long password"},
    "GET /api/keys": {},
    "POST /api/keys": {"label": "mine"},
    "DELETE /api/keys/{id}": {},
    "GET /api/sign-in": {},
    "DELETE /api/sign-in": {},
    "POST /api/sign-out-everywhere": {},
    "GET /api/export": {},
    "POST /api/import": {},
    "POST /api/forget-me": {},
}
OFFICE: dict[str, dict[str, Any]] = {
    "POST /api/agents": {"agent": {"name": "helper", "instructions": "Help."}},
    "GET /api/users": {},
    "POST /api/users/{user}/invite": {},
    "POST /api/users/{user}/link": {},
    "POST /api/users/{user}/enter": {"why": "ticket 17"},
    "POST /api/users/{user}/disable": {},
    "POST /api/users/{user}/enable": {},
    "PUT /api/users/{user}/role": {"role": "user"},
    "POST /api/users/{user}/sign-out": {},
    "DELETE /api/users/{user}": {},
    "GET /api/audit": {},
    "GET /api/provider-keys": {},
    "PUT /api/provider-keys/{provider}": {"key": "sk-of-a-tenant-1234567890"},
    "DELETE /api/provider-keys/{provider}": {},
}
OPEN: dict[str, dict[str, Any]] = {
    "POST /api/sign-in": {"link": "evl_nothing"},
    "GET /": {},
    "GET /page/{file}": {},
    "GET /openapi.json": {},
    "GET /health": {},
    "GET /ready": {},
    "GET /metrics": {},
}
SOCKETS = ("/api/live", f"{TALK}/live")


def known() -> set[str]:
    return {*ABOUT, *OWN, *OFFICE, *OPEN, *(f"SOCKET {path}" for path in SOCKETS)}


def served_by(service: Service) -> set[str]:
    """Every address of the application, with its methods."""
    found = set()
    for route in routes_of(service):
        if isinstance(route, WebSocketRoute):
            found.add(f"SOCKET {route.path}")
        else:
            assert isinstance(route, Route), f"{route} is of a kind that nobody here knows how to attack"
            found |= {f"{method} {route.path}" for method in (route.methods or ()) if method != "HEAD"}
    return found
