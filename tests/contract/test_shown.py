"""Exports to read, and as message lists: nothing that was said is markup, and each form can be read as what it is."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from everthread import Everthread, Talk, assistant, file, image, system, tool_call, tool_result, user
from everthread.core.events import Clear, Event, Mark
from everthread.core.parts import Image, Reasoning, Text
from everthread.formats import from_anthropic, from_openai
from everthread.store.conversations import Conversation
from everthread.transfer.message_lists import ListForm
from everthread.transfer.message_lists import listed as lists
from everthread.transfer.pages import Look, shown
from tests.contract.lives import PNG

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'>[a](javascript:alert(1)) ![b](https://evil.example/b)\0\ud800"


@pytest.fixture
async def et(tmp_path: Path) -> AsyncIterator[Everthread]:
    async with Everthread.open(f"sqlite:///{tmp_path}/a.db", settings={"memory": False}) as opened:
        yield opened


@pytest.fixture
async def told(et: Everthread) -> Talk:
    talk = await et.begin(user="ana<b>", agent="helper", name="Cake <i>", goal="bake & eat")
    await talk.append(
        system(EVIL),
        user(EVIL, image(PNG), file(b"data", name='x"><script>.txt')),
        tool_call("look<", {"a": EVIL.replace("\0", "").replace("\ud800", "")}, id="c"),
        tool_result(EVIL, id="c", name="look", error=True),
        assistant(Reasoning(text=EVIL), Text(text=f"**bold** {EVIL}\n\n| a |\n| ---: |\n| 1 |"), model="m<"),
        user(Image(url="https://evil.example/c.png")),
        Mark(name="<u>"),
        Clear(),
        user("plum"),
        assistant("gone", interrupted=True),
    )
    await talk.redact(9)
    return talk


async def each(*talks: Talk) -> AsyncIterator[Conversation]:
    for one in talks:
        yield one.conversation


async def page(et: Everthread, look: Look, *talks: Talk) -> str:
    return b"".join([piece async for piece in shown(et.log, each(*talks), look, title="T <b>")]).decode()


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


async def test_the_page_has_no_script_and_loads_nothing(et: Everthread, told: Talk) -> None:
    text = await page(et, "html", told)
    tags = Tags(text).found
    names = {tag for tag, _ in tags}
    assert names <= {
        *("html", "meta", "title", "style", "body", "main", "header", "footer", "article", "div", "span", "time", "b"),
        *("h1", "p", "details", "summary", "pre", "img", "a", "strong", "table", "thead", "tbody", "tr", "th", "td"),
    }  # fmt: skip
    for tag, attributes in tags:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], tag
        assert (attributes.get("src") or "data:").startswith("data:image/png;base64," if tag == "img" else "data:")
        assert (attributes.get("href") or "https://").startswith(("data:application/octet-stream", "https://"))
    assert "plum" not in text
    assert "Something was redacted" in text
    assert "<strong>bold</strong>" in text


async def test_its_policy_allows_its_own_style_and_images_alone(et: Everthread, told: Talk) -> None:
    import base64
    import hashlib

    text = await page(et, "html", told)
    (policy,) = re.findall('http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    (style,) = re.findall("<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; img-src data:; style-src 'sha256-{digest}';")
    assert text.index("Content-Security-Policy") < text.index("<title>")


async def test_several_conversations_are_one_page(et: Everthread, told: Talk) -> None:
    other = await et.begin(user="ana", name="Another")
    text = await page(et, "html", told, other)
    assert (text.count("<main>"), text.count("</html>")) == (2, 1)
    assert "Another" in text


async def test_markdown_keeps_results_within_their_fences(et: Everthread) -> None:
    talk = await et.begin(user="ana", name="Cake")
    await talk.append(user("Hi"), tool_call("look", id="c"), tool_result("```\n# no\n````", id="c", name="look"))
    text = await page(et, "markdown", talk)
    assert text.startswith("# Cake\n")
    assert "`````\n```\n# no\n````\n`````\n" in text


@pytest.mark.parametrize("form", ["openai", "anthropic"])
async def test_a_long_list_is_the_same_as_a_short_one(
    et: Everthread, form: ListForm, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = await et.begin(user="ana")
    said: list[Event] = [system("Be kind.")]
    for number in range(9):
        said += [user(f"Q{number}", image(PNG)), tool_call("look", id=f"c{number}")]
        said += [tool_result("found", id=f"c{number}", name="look"), assistant(f"A{number}"), user("And?"), user("So?")]
        said += [assistant("Yes.")]
    await talk.append(*said)
    whole = b"".join([piece async for piece in lists(et.log, each(talk), form)])
    monkeypatch.setattr("everthread.transfer.message_lists.PART", 3)
    parts = [piece async for piece in lists(et.log, each(talk), form)]
    assert json.loads(b"".join(parts)) == json.loads(whole)
    assert len(parts) > 10
    body = json.loads(whole)
    events = from_openai(body["messages"]) if form == "openai" else from_anthropic(body)
    assert sum(event.kind == "tool_result" for event in events) == 9


async def test_an_empty_conversation_is_an_empty_list(et: Everthread) -> None:
    talk = await et.begin(user="ana")
    (line,) = b"".join([piece async for piece in lists(et.log, each(talk), "openai")]).splitlines()
    assert json.loads(line) == {"id": talk.id, "name": talk.conversation.name, "messages": []}
