"""Conversations as people read them: one HTML page that needs nothing else, or Markdown. Both are written as a stream.

The page has no script and loads nothing: its style is in it, and so are its images; its content security policy allows
just these. Whatever was said is text to it, and never markup: replies are read as Markdown, without HTML and without
images from elsewhere. It prints, and follows the reader's light or dark.

What is told is the current branch of each conversation, or another by name: messages, tool calls and what they gave; of
the markers those that a reader would miss. It cannot be imported again; JSON Lines can.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import AsyncIterable, AsyncIterator
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from everthread.core.events import (
    AgentKilled,
    Assistant,
    Clear,
    Fork,
    Mark,
    Redacted,
    Rewind,
    SessionStarted,
    System,
    ToolCall,
    ToolResult,
    User,
)
from everthread.core.images import media_type_of
from everthread.core.logged import Logged, readable
from everthread.core.parts import File, Image, Part, Reasoning, Text
from everthread.errors import UnknownBlob
from everthread.store.conversations import Conversation
from everthread.store.log import Log

PAGE = 200
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")

Look = Literal["html", "markdown"]


async def shown(
    log: Log, conversations: AsyncIterable[Conversation], look: Look, *, title: str, branch: str | int | None = None
) -> AsyncIterator[bytes]:
    """Conversations as a page of HTML, or as Markdown; piece by piece."""
    writer: _Html | _Markdown = _Html(title) if look == "html" else _Markdown()
    yield writer.begin().encode()
    async for conversation in conversations:
        async for text in _conversation(log, conversation, writer, branch):
            yield text.encode("utf-8", "replace")
    yield writer.end().encode()


class Shown(NamedTuple):
    """An event, and the bytes of what it shows."""

    logged: Logged
    blobs: dict[str, bytes]


async def _conversation(
    log: Log, conversation: Conversation, writer: _Html | _Markdown, branch: str | int | None
) -> AsyncIterator[str]:
    line = await log.line(conversation, branch)
    now = await log.conversations.find(conversation.owner, conversation.id)
    yield writer.open(now, line.branch.name)
    after = 0
    while page := await log.after(line, after, limit=PAGE):
        for one in readable(page):
            parts = getattr(one.event, "parts", ())
            yield writer.event(Shown(one, {media.blob: await _blob(log, line, media.blob) for media in _media(parts)}))
        after = page[-1].seq
    yield writer.close()


def _media(parts: tuple[Part, ...]) -> list[Image | File]:
    return [part for part in parts if isinstance(part, Image | File) and part.blob]


async def _blob(log: Log, line: Any, hash: str) -> bytes:
    try:
        return await log.blob(line, hash)
    except UnknownBlob:  # redacted meanwhile
        return b""


def _note(event: object) -> str:
    """What a reader is told of a marker; nothing of most."""
    match event:
        case Clear():
            return "From here on the model starts afresh."
        case Mark(name=name):
            return f"Mark: {name}"
        case Rewind(to=to):
            return f"Went back to event {to}."
        case Fork(at=at):
            return f"A branch begins after event {at}."
        case SessionStarted():
            return "After a pause"
        case AgentKilled(reason=reason):
            return f"The reply ended early: {reason}" if reason else "The reply ended early."
    return ""


def _clean(text: str) -> str:
    """Without what no page can show."""
    return _CONTROLS.sub("\ufffd", text)


# -- HTML --------------------------------------------------------------------------------------------------------


class _Html:
    def __init__(self, title: str) -> None:
        self._title, self._day, self._names = title, "", ("", "")

    def begin(self) -> str:
        style = _style()
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
        return (
            '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="referrer" content="no-referrer">\n<meta name="generator" content="Everthread">\n'
            f"<title>{_escaped(self._title)}</title>\n<style>{style}</style>\n<body>\n"
        )

    def end(self) -> str:
        return "<footer>Exported by Everthread</footer>\n</body>\n</html>\n"

    def open(self, one: Conversation, branch: str) -> str:
        self._day, self._names = "", (one.user, one.agent)
        facts = [f"{one.user} and {one.agent}", f"begun {one.began:%d %B %Y}".replace(" 0", " ")]
        facts += [f"branch {branch}"] if branch != "main" else []
        goal = f"<p>{_escaped(one.goal)}</p>\n" if one.goal else ""
        name = _escaped(one.name or "Untitled")
        return f'<main>\n<header>\n<h1 dir="auto">{name}</h1>\n<p>{_escaped(" · ".join(facts))}</p>\n{goal}</header>\n'

    def close(self) -> str:
        return "</main>\n"

    def event(self, shown: Shown) -> str:
        event, time = shown.logged.event, shown.logged.time
        body = self._body(shown)
        if not body:
            return ""
        day = f"{time:%A, %d %B %Y}".replace(" 0", " ")
        before = f'<p class="day">{day}</p>\n' if day != self._day and not isinstance(event, SessionStarted) else ""
        self._day = day if before else self._day
        return before + body

    def _body(self, shown: Shown) -> str:
        event = shown.logged.event
        match event:
            case User():
                said = self._parts(event.parts, shown, _plain)
                return self._said("user", event.origin or self._names[0], "", shown, said)
            case Assistant():
                more = '<p class="gone">The reply broke off here.</p>' if event.interrupted else ""
                said = self._parts(event.parts, shown, _rendered) + more
                return self._said("assistant", self._names[1], event.model, shown, said)
            case System():
                return _folded("Instructions", self._parts(event.parts, shown, _plain))
            case ToolCall():
                return _folded(f"Tool call <b>{_escaped(event.name)}</b>", _preformatted(event.arguments))
            case ToolResult():
                said = self._parts(event.parts, shown, _preformatted) or '<p class="gone">Nothing</p>'
                what = "Failure" if event.error else "Result"
                return _folded(f"{what} of <b>{_escaped(event.name or 'a tool')}</b>", said, bad=event.error)
            case Redacted():
                return '<p class="note">Something was redacted here.</p>\n'
        note = _note(event)
        return f'<p class="note">{_escaped(note)}</p>\n' if note else ""

    def _said(self, kind: str, who: str, model: str, shown: Shown, said: str) -> str:
        time = shown.logged.time
        stamp = f'<time datetime="{time.isoformat()}">{time:%H:%M}</time>'
        by = f"<span>{_escaped(model)}</span>" if model else ""
        told = f'<p class="who"><b>{_escaped(who)}</b>{by}{stamp}</p>'
        body = f'{told}<div class="said" dir="auto">{said}</div>'
        return f'<article class="{kind}" id="e{shown.logged.seq}">{body}</article>\n'

    def _parts(self, parts: tuple[Part, ...], shown: Shown, text: Any) -> str:
        return "".join(self._part(part, shown, text) for part in parts)

    def _part(self, part: Part, shown: Shown, text: Any) -> str:
        match part:
            case Text():
                return str(text(part.text))
            case Reasoning():
                return _folded("Reasoning", _rendered(part.text)) if part.text else ""
            case Image() | File() if part.blob:
                return _inlined(part, shown.blobs.get(part.blob, b""))
            case Image() | File():
                what = "An image" if isinstance(part, Image) else "A file"
                return f'<p class="gone">{what} elsewhere: {_escaped(part.url or "unknown")}</p>'


@cache
def _style() -> str:
    return files("everthread.transfer").joinpath("page.css").read_text("utf-8").strip()


def _escaped(text: str) -> str:
    return html.escape(_clean(text))


def _plain(text: str) -> str:
    return _escaped(text)


def _preformatted(text: str) -> str:
    return f"<pre>{_escaped(text)}</pre>"


def _rendered(text: str) -> str:
    try:
        return str(_markdown().render(_clean(text)))
    except RecursionError:
        return _preformatted(text)


@cache
def _markdown() -> Any:
    """A reader of Markdown that takes no HTML, loads no image, and lets no link name a script."""
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")

    def link(self: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
        tokens[index].attrSet("rel", "noopener noreferrer nofollow")
        return str(self.renderToken(tokens, index, options, env))

    def cell(self: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
        """How a cell is aligned, as a class: the policy of the page lets no element have a style of its own."""
        if "style" in tokens[index].attrs:
            tokens[index].attrs = {"class": str(tokens[index].attrs["style"]).rpartition(":")[2]}
        return str(self.renderToken(tokens, index, options, env))

    reader.add_render_rule("link_open", link)
    for name in ("td_open", "th_open"):
        reader.add_render_rule(name, cell)
    return reader


def _folded(told: str, body: str, *, bad: bool = False) -> str:
    return f"<details{' class=bad' if bad else ''}><summary>{told}</summary>{body}</details>\n"


def _inlined(part: Image | File, data: bytes) -> str:
    if not data:
        return '<p class="gone">An image or file that is no longer there</p>'
    kind, written = media_type_of(data), base64.b64encode(data).decode()
    if kind.startswith("image/"):
        return f'<img src="data:{kind};base64,{written}" alt="Image" loading="lazy">'
    name = _escaped(getattr(part, "name", "") or "file")
    source = f"data:application/octet-stream;base64,{written}"
    return f'<p><a download="{name}" href="{source}">{name}</a> ({_size(len(data))})</p>'


def _size(count: int) -> str:
    return f"{count:,} bytes" if count < 10_000 else f"{count // 1024:,} KB"


# -- Markdown ----------------------------------------------------------------------------------------------------


class _Markdown:
    def __init__(self) -> None:
        self._names = ("", "")

    def begin(self) -> str:
        return ""

    def end(self) -> str:
        return ""

    def open(self, one: Conversation, branch: str) -> str:
        self._names = (one.user, one.agent)
        facts = [f"{one.user} and {one.agent}", f"begun {one.began:%Y-%m-%d %H:%M} UTC"]
        facts += [f"branch {branch}"] if branch != "main" else []
        goal = f"{_line(one.goal)}\n\n" if one.goal else ""
        return f"# {_line(one.name or 'Untitled')}\n\n{_line(' · '.join(facts))}\n\n{goal}"

    def close(self) -> str:
        return "\n"

    def event(self, shown: Shown) -> str:
        event, time = shown.logged.event, f"{shown.logged.time:%Y-%m-%d %H:%M}"
        match event:
            case User():
                return f"## {_line(event.origin or self._names[0])} · {time}\n\n{self._parts(event.parts, shown)}"
            case Assistant():
                more = "*The reply broke off here.*\n\n" if event.interrupted else ""
                return f"## {_line(self._names[1])} · {time}\n\n{self._parts(event.parts, shown)}{more}"
            case System():
                return f"## Instructions · {time}\n\n{self._parts(event.parts, shown)}"
            case ToolCall():
                return f"**Tool call** {_code(event.name)}\n\n{_fenced(event.arguments)}"
            case ToolResult():
                what = "Failure" if event.error else "Result"
                return f"**{what}** {_code(event.name or 'tool')}\n\n{self._parts(event.parts, shown, fenced=True)}"
            case Redacted():
                return "*Something was redacted here.*\n\n"
        note = _note(event)
        return f"*{_line(note)}*\n\n" if note else ""

    def _parts(self, parts: tuple[Part, ...], shown: Shown, *, fenced: bool = False) -> str:
        told = []
        for part in parts:
            match part:
                case Text():
                    told.append(_fenced(part.text) if fenced else f"{_clean(part.text).rstrip()}\n\n")
                case Reasoning() if part.text:
                    quoted = "\n".join(f"> {line}" for line in _clean(part.text).split("\n"))
                    told.append(f"{quoted}\n\n")
                case Image() | File() if part.blob:
                    size = _size(len(shown.blobs.get(part.blob, b"")))
                    told.append(f"*{_line(getattr(part, 'name', '') or 'Image')}, {size}, is left out here.*\n\n")
                case Image() | File():
                    told.append(f"*Elsewhere: {_line(part.url)}*\n\n")
        return "".join(told)


def _line(text: str) -> str:
    return " ".join(_clean(text).split())


def _code(text: str) -> str:
    return f"`{_line(text).replace('`', ' ')}`"


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{_clean(text)}\n{fence}\n\n"
