"""The example programs without await do what they say: a script, a notebook, a chat with Flask."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import runpy
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from werkzeug.serving import make_server

from everthread.sync import Everthread
from everthread.testing.scripted import script
from tests.waiting import PATIENCE, WHOLE, comes_true

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
REPLY = "Porto is lovely in May."


def test_the_script_goes_on_when_it_is_run_again(tmp_path: Path) -> None:
    said = [
        subprocess.run(
            [sys.executable, EXAMPLES / "script.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            timeout=WHOLE,
        ).stdout.splitlines()
        for _ in range(2)
    ]
    assert said[0][0] == said[1][0] == "A plum cake, Without walnuts, of course."
    assert said[0][1] != said[1][1]
    assert "9 are kept" in said[1][1]


def test_the_cells_of_the_notebook_run_where_a_loop_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = json.loads((EXAMPLES / "notebook.ipynb").read_text("utf-8"))["cells"]

    async def kernel() -> dict[str, Any]:
        names: dict[str, Any] = {}
        for source in ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"):
            waiting = eval(compile(source, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
            if inspect.isawaitable(waiting):
                await waiting
        return names

    assert asyncio.run(kernel())["reply"].text == "Then take the train along the Douro."


# -- Flask ---------------------------------------------------------------------------------------------------


@pytest.fixture
def app(et: Everthread, monkeypatch: pytest.MonkeyPatch) -> Flask:
    monkeypatch.setenv("SECRET_KEY", "for tests")
    created: Flask = runpy.run_path(str(EXAMPLES / "flask_chat.py"))["create_app"](et)
    return created


def test_a_chat_with_flasks_test_client(app: Flask) -> None:
    script("sync", REPLY)
    browser = app.test_client()
    assert b"EventSource" in browser.get("/").data
    assert browser.post("/messages", json={"text": "Where should I go?"}).get_json() == {"seq": 1}
    told = browser.get("/events").response
    heard = _heard(str(line) for line in iter(lambda: next(told).decode(), ""))  # type: ignore[call-overload]
    assert ("message", {"role": "assistant", "text": REPLY}) in heard
    assert browser.post("/messages", json={"text": " "}).status_code == 400
    assert browser.post("/stop").get_json() == {"stopped": False}


def test_another_browser_hears_nothing_of_it(app: Flask, et: Everthread) -> None:
    script("sync", REPLY)
    mine, other = app.test_client(), app.test_client()
    for browser in (mine, other):
        browser.get("/")
    mine.post("/messages", json={"text": "A secret"})
    with mine.session_transaction() as ours, other.session_transaction() as theirs:
        assert et.conversation(user=ours["user"]).tail()[0].text == "A secret"
        assert et.conversation(user=theirs["user"]).tail() == []


@pytest.fixture
def server(app: Flask) -> Iterator[int]:
    """The port of a real server, with a thread for each connection."""
    served = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    yield served.server_port
    served.shutdown()
    thread.join()
    served.server_close()


def test_a_tab_joins_in_the_middle_and_hears_the_reply_from_its_first_word(server: int) -> None:
    script("sync", REPLY + " word" * 200, pace=0.01)
    cookie = _got(server, "GET", "/").getheader("Set-Cookie", "").split(";")[0]
    assert _got(server, "POST", "/messages", cookie, {"text": "Where should I go?"}).status == 202
    first = _got(server, "GET", "/events", cookie)
    assert first.readline()
    _closed(first)  # the tab is gone, the turn goes on
    busy = _got(server, "POST", "/messages", cookie, {"text": "And then?"})
    assert busy.status == 409
    second = _got(server, "GET", "/events?after=1", cookie)
    heard = _heard(line.decode() for line in second)
    _closed(second)
    pieces = "".join(data["text"] for event, data in heard if event == "delta")
    assert pieces.startswith("Porto is lovely")
    assert heard[-1] == ("done", {"state": "idle"})


def test_a_tab_that_is_gone_is_let_go(server: int, app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    events: Any = app.view_functions["events"]
    monkeypatch.setitem(events.__globals__, "PULSE", 0.02)
    cookie = _got(server, "GET", "/").getheader("Set-Cookie", "").split(";")[0]
    before = threading.active_count()
    tab = _got(server, "GET", "/events", cookie)
    assert tab.readline()
    _closed(tab)
    assert comes_true(lambda: threading.active_count() <= before)


def test_a_turn_is_stopped_over_the_wire(server: int) -> None:
    script("sync", "word " * 100_000, pace=0.01)
    cookie = _got(server, "GET", "/").getheader("Set-Cookie", "").split(";")[0]
    _got(server, "POST", "/messages", cookie, {"text": "Go on for ever."})
    assert json.loads(_got(server, "POST", "/stop", cookie).read()) == {"stopped": True}


def _got(port: int, verb: str, path: str, cookie: str = "", body: object = None) -> HTTPResponse:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    headers = {"Cookie": cookie, "Content-Type": "application/json"}
    connection.request(verb, path, json.dumps(body) if body else None, headers)
    answer = connection.getresponse()
    answer.socket = connection.sock  # type: ignore[attr-defined]
    return answer


def _closed(answer: Any) -> None:
    if answer.socket is not None:
        answer.socket.shutdown(socket.SHUT_RDWR)
    answer.close()


def _heard(lines: Iterator[str]) -> list[tuple[str, Any]]:
    """The events of a stream, up to the end of the turn."""
    heard: list[tuple[str, Any]] = []
    event = ""
    for line in (one for text in lines for one in text.splitlines()):
        if line.startswith("event: "):
            event = line.removeprefix("event: ")
        elif line.startswith("data: "):
            heard.append((event, json.loads(line.removeprefix("data: "))))
            if event == "done":
                break
    return heard
