"""Conversations as message lists of OpenAI or Anthropic, one a line, written as a stream.

    {"id": …, "name": …, "messages": […]}                     and "system" for Anthropic

A long one is written some turns at a time: it is divided before a user's message that comes after a reply, where both
forms would begin another message anyhow. What these forms cannot tell is left out, as `to_openai` and `to_anthropic`
say.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from typing import Any, Literal

from everthread.core.events import media_of
from everthread.core.logged import Logged, readable
from everthread.errors import UnknownBlob
from everthread.providers.anthropic.messages import to_anthropic
from everthread.providers.openai.messages import to_openai
from everthread.store.conversations import Conversation
from everthread.store.log import Log

PAGE = 200
PART = 500  # events that are converted together, at least

ListForm = Literal["openai", "anthropic"]


async def listed(
    log: Log, conversations: AsyncIterable[Conversation], form: ListForm, *, branch: str | int | None = None
) -> AsyncIterator[bytes]:
    """A line for each conversation, piece by piece."""
    async for conversation in conversations:
        now = await log.conversations.find(conversation.owner, conversation.id)
        yield f'{{"id":{json.dumps(now.id)},"name":{json.dumps(now.name)}'.encode()
        begun = False
        async for system, messages in _converted(log, conversation, form, branch):
            if not begun:
                yield f',"system":{json.dumps(system)}'.encode() if system else b""
                yield b',"messages":['
            if messages:
                yield (b"," if begun else b"") + ",".join(map(json.dumps, messages)).encode()
            begun = begun or bool(messages)
        yield b"]}\n"


async def _converted(
    log: Log, conversation: Conversation, form: ListForm, branch: str | int | None
) -> AsyncIterator[tuple[Any, list[dict[str, Any]]]]:
    first = True
    async for part in _parts(log, conversation, branch):
        blob = (await _blobs(log, conversation, part)).__getitem__
        if form == "openai":
            yield None, to_openai(part, blob=blob)
        else:
            body = to_anthropic(part, blob=blob)
            yield body.get("system"), body["messages"]
        first = False
    if first:
        yield None, []


async def _parts(log: Log, conversation: Conversation, branch: str | int | None) -> AsyncIterator[list[Logged]]:
    line = await log.line(conversation, branch)
    part, after = list[Logged](), 0
    while page := await log.after(line, after, limit=PAGE, messages=True):
        for one in readable(page):
            if len(part) >= PART and one.kind == "user" and part[-1].kind not in ("user", "tool_result", "system"):
                yield part
                part = []
            part.append(one)
        after = page[-1].seq
    if part:
        yield part


async def _blobs(log: Log, conversation: Conversation, part: list[Logged]) -> dict[str, bytes]:
    line, found = await log.line(conversation), dict[str, bytes]()
    for hash in {*_hashes(part)}:
        try:
            found[hash] = await log.blob(line, hash)
        except UnknownBlob:  # redacted meanwhile
            found[hash] = b""
    return found


def _hashes(part: list[Logged]) -> Iterator[str]:
    return (media.blob for one in part for media in media_of(one.event) if media.blob)
