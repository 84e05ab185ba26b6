"""The chat service of docs/examples, on a real server: what it promises to those who lose the connection."""

from __future__ import annotations

import json
import os
import runpy
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from everthread import wire
from everthread.core.deltas import Delta, Done, TextDelta
from everthread.core.logged import Logged
from everthread.store.conversations import Conversation
from everthread.store.recall.hits import Hit
from everthread.testing.scripted import script
from tests.waiting import PATIENCE

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "fastapi_chat.py"
REPLY = "Almonds are fine, and so are seeds of any kind."


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("EVERTHREAD_STORE", f"sqlite:///{tmp_path}/chat.db")
    monkeypatch.setenv("EVERTHREAD_MODEL", script("chat", REPLY, pace=0.05))
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(runpy.run_path(str(EXAMPLE))["app"], log_level="warning"))
    running = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    running.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    running.join()


@pytest.fixture
def ana(service: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service, headers={"X-User": "ana"}, timeout=PATIENCE) as client:
        yield client


@pytest.fixture
def chat(ana: httpx.Client) -> str:
    begun = wire.loads(Conversation, ana.post("/conversations").content)
    return f"/conversations/{begun.id}"


def hear(client: httpx.Client, chat: str, *, after: int = 0) -> Iterator[Logged | Delta]:
    with client.stream("GET", f"{chat}/events", headers={"Last-Event-ID": str(after)}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        seq = ""
        for line in answer.iter_lines():
            field, _, value = line.partition(": ")
            if field == "id":
                seq = value
            if field == "data":
                heard = wire.loads(Logged | Delta, value)
                assert seq == (str(heard.seq) if isinstance(heard, Logged) else seq), "only events have an id"
                yield heard


def test_who_comes_back_in_the_middle_of_a_reply_hears_all_of_it(ana: httpx.Client, chat: str) -> None:
    said = wire.loads(Logged, ana.post(f"{chat}/messages", json={"text": "What about nuts?"}).content)
    first = [next(heard) for heard in [hear(ana, chat)] for _ in range(3)]
    assert first[0] == said
    assert all(isinstance(one, TextDelta) for one in first[1:])
    again = list(takewhile(lambda one: not isinstance(one, Done), hear(ana, chat, after=said.seq)))
    reply = next(one for one in again if isinstance(one, Logged) and one.kind == "assistant")
    assert (reply.text, reply.seq) == (REPLY, 2)
    assert REPLY.startswith("".join(one.text for one in again if isinstance(one, TextDelta)))


def test_history_conversations_and_recall_are_values(ana: httpx.Client, chat: str) -> None:
    ana.post(f"{chat}/messages", json={"text": "What about nuts?"})
    next(one for one in hear(ana, chat) if isinstance(one, Logged) and one.kind == "assistant")
    page = wire.loads(list[Logged], ana.get(f"{chat}/messages").content)
    assert [one.text for one in page] == ["What about nuts?", REPLY]
    assert wire.loads(list[Logged], ana.get(f"{chat}/messages", params={"before": 2}).content) == page[:1]
    (mine,) = wire.loads(list[Conversation], ana.get("/conversations").content)
    assert chat.endswith(mine.id)
    hits = wire.loads(list[Hit], ana.get(f"{chat}/recall", params={"query": "almonds"}).content)
    assert hits[0].seq == 2


def test_a_message_with_a_key_is_said_once(ana: httpx.Client, chat: str) -> None:
    twice = [ana.post(f"{chat}/messages?key=k1", json={"text": "Hi"}).json() for _ in range(2)]
    assert twice[0] == twice[1]


def test_somebody_else_finds_nothing_of_it(ana: httpx.Client, chat: str) -> None:
    """Mine is mine."""
    ana.post(f"{chat}/messages", json={"text": "What about nuts?"})
    bob = {"X-User": "bob"}
    for path in ("messages", "events", "recall?query=nuts"):
        assert ana.get(f"/conversations/no-such-thread/{path}").status_code == 404
        answer = ana.get(f"{chat}/{path}", headers=bob)
        assert (answer.status_code, "nuts" in answer.text) == (404, False)
    assert ana.get("/conversations", headers=bob).json() == []
    assert ana.post(f"{chat}/messages", json={"text": " "}).status_code == 422


def test_the_example_shows_itself_at_work() -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    shown = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=True, env=environ)
    assert "event 2 assistant You said: “My son is allergic to walnuts.”" in shown.stdout


def test_openapi_of_the_example_names_the_fields(service: str) -> None:
    schema: dict[str, Any] = json.loads(httpx.get(f"{service}/openapi.json").content)
    page = schema["paths"]["/conversations/{conversation}/messages"]["get"]["responses"]["200"]
    assert page["content"]["application/json"]["schema"]["items"] == {"$ref": "#/components/schemas/Logged"}
    assert "event" in schema["components"]["schemas"]["Logged"]["properties"]
    assert "cursor" in schema["components"]["schemas"]["ListedConversation"]["properties"]
