"""Clients that are not ours, on a connection that breaks in the middle of a reply: nothing is lost, and nothing is told
twice."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from everthread.core.accounts import operator
from everthread.testing import scripted
from tests.server.browser import browsing
from tests.server.lossy import Lossy, lossy
from tests.server.serving import Person, Served
from tests.waiting import PATIENCE

WORDS = " ".join(f"word{number}" for number in range(60))
CUTS = 3


async def test_httpx(served: Served) -> None:
    """The client library that most programs have, with `Last-Event-ID` by hand."""
    ana, id = await _reply_begins(served)
    items: list[Any] = []
    last = ""
    async with lossy(served.port) as line, asyncio.timeout(PATIENCE):
        while not _is_over(items):
            headers = ana.bearer | ({"last-event-id": last} if last else {})
            url = f"http://127.0.0.1:{line.port}/api/conversations/{id}/listen"
            try:
                async with (
                    httpx.AsyncClient(timeout=PATIENCE) as http,
                    http.stream("GET", url, headers=headers) as stream,
                ):
                    async for text in stream.aiter_lines():
                        last = _heard(text, items, last)
                        _cut_sometimes(line, items)
                        if _is_over(items):
                            break
            except httpx.TransportError:
                pass
        assert line.taken > CUTS
    _told_once(items)


async def test_websockets(served: Served) -> None:
    ana, id = await _reply_begins(served)
    items: list[Any] = []
    place = "0"
    async with lossy(served.port) as line, asyncio.timeout(PATIENCE):
        while not _is_over(items):
            url = f"ws://127.0.0.1:{line.port}/api/conversations/{id}/live?after={place}"
            try:
                async with connect(url, additional_headers=ana.bearer) as socket:
                    assert json.loads(await socket.recv())["kind"] == "opened"
                    while not _is_over(items):
                        told = json.loads(await socket.recv())
                        place = told["place"]
                        items.append(told["item"])
                        _cut_sometimes(line, items)
            except (ConnectionClosed, OSError, EOFError):
                pass
        assert line.taken > CUTS
    _told_once(items)


async def test_curl(served: Served) -> None:
    """`curl -N`, as people try it at a prompt."""
    program = shutil.which("curl")
    assert program, "there is no curl: apt install curl"
    ana, id = await _reply_begins(served)
    items: list[Any] = []
    last = ""
    async with lossy(served.port) as line, asyncio.timeout(PATIENCE):
        while not _is_over(items):
            again = ["-H", f"Last-Event-ID: {last}"] if last else []
            url = f"http://127.0.0.1:{line.port}/api/conversations/{id}/listen"
            asked = ["-sN", *again, "-H", f"Authorization: Bearer {ana.key}", url]
            process = await asyncio.create_subprocess_exec(
                program, *asked, stdout=asyncio.subprocess.PIPE, limit=1 << 20
            )
            assert process.stdout
            async for text in process.stdout:
                last = _heard(text.decode().rstrip("\n"), items, last)
                _cut_sometimes(line, items)
                if _is_over(items):
                    break
            if process.returncode is None and _is_over(items):
                process.kill()
            await process.communicate()
        assert line.taken > CUTS
    _told_once(items)


# -- a browser -------------------------------------------------------------------------------------------------

EVENT_SOURCE = """
window.items = []; window.opened = 0;
const source = new EventSource('/api/conversations/%s/listen');
source.addEventListener('open', () => window.opened++);
source.addEventListener('told', event => window.items.push(JSON.parse(event.data).item));
"""
SOCKET = """
window.items = []; window.opened = 0; window.place = '0';
const go = () => {
  const socket = new WebSocket(`ws://${location.host}/api/conversations/%s/live?after=${window.place}`);
  socket.onopen = () => window.opened++;
  socket.onclose = () => setTimeout(go, 10);
  socket.onmessage = event => {
    const told = JSON.parse(event.data);
    if (told.kind == 'told') { window.items.push(told.item); window.place = told.place; }
  };
};
go();
"""
SIGN_IN = """
fetch('/api/sign-in', {method: 'POST', headers: {'content-type': 'application/json'},
  body: JSON.stringify({link: '%s'})}).then(answer => answer.status)
"""


@pytest.mark.browser
@pytest.mark.parametrize("script", [EVENT_SOURCE, SOCKET], ids=["EventSource", "WebSocket"])
async def test_a_browser(served: Served, tmp_path: Path, script: str) -> None:
    """Its own EventSource, which comes back by itself, and its WebSocket: signed in by a link, with the cookie."""
    scripted.script("served", WORDS, pace=0.2)
    ana = served.people["ana"]
    id = await served.begin(ana)
    async with lossy(served.port) as line, browsing(tmp_path / "profile") as page:
        await page.goto(f"http://127.0.0.1:{line.port}/")
        link = await served.service.door.identity.link(operator(ana.tenant), "ana")
        assert await page.run(SIGN_IN % link) == 200
        await page.run(script % id)
        await page.until("window.opened == 1")
        await _say(served, ana, id)
        await page.until("window.items.length > 5")
        line.cut()
        await page.until("window.opened >= 2")
        await page.until("window.items.some(item => item.kind == 'done')")
        _told_once(await page.run("window.items"))
        assert await page.run("document.cookie") == ""  # no script can read it


# -- what was heard ----------------------------------------------------------------------------------------------


async def _reply_begins(served: Served) -> tuple[Person, str]:
    scripted.script("served", WORDS, pace=0.02)
    ana = served.people["ana"]
    id = await served.begin(ana)
    await _say(served, ana, id)
    return ana, id


async def _say(served: Served, ana: Person, id: str) -> None:
    said = await served.http.post(f"/api/conversations/{id}/say", json={"pieces": ["Go on."]}, headers=ana.bearer)
    assert said.status_code == 202


def _heard(line: str, items: list[Any], last: str) -> str:
    """Take a line of a stream: what was told, and the id to go on from."""
    name, _, value = line.partition(": ")
    if name == "data" and value.startswith('{"place"'):
        items.append(json.loads(value)["item"])
        return str(json.loads(value)["place"])
    return last


def _cut_sometimes(line: Lossy, items: list[Any]) -> None:
    if line.taken <= CUTS and len(items) >= 6 * line.taken:
        line.cut()


def _is_over(items: list[Any]) -> bool:
    return any(item["kind"] == "done" for item in items)


def _told_once(items: list[Any]) -> None:
    """The log's events each once and in order; of the reply's words none twice, and none left out before it was
    whole."""
    events = [item for item in items if "event" in item]
    assert [one["kind"] for one in events] == ["user", "assistant", "model_call"]
    assert [one["seq"] for one in events] == [1, 2, 3]
    assert events[1]["text"] == WORDS
    told = "".join(item["text"] for item in items if item["kind"] == "text" and "event" not in item)
    assert told
    assert WORDS.startswith(told)
    assert sum(item["kind"] == "done" for item in items) == 1
