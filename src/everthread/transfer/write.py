"""Writing conversations out as lines: once, or for ever as they grow."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from datetime import UTC
from pathlib import Path
from typing import Any

import msgspec

from everthread.core.branches import Branch
from everthread.core.events import Command, media_of
from everthread.core.logged import Logged, moment
from everthread.errors import UnknownConversation
from everthread.store.conversations import MAIN, Conversation, Owner
from everthread.store.log import Log

VERSION = 1
PAGE = 500


class Redacted(Exception):
    """Something that has been written out was redacted since."""


async def export_lines(log: Log, conversation: Conversation, *, follow: bool = False) -> AsyncIterator[bytes]:
    """The lines of a conversation; with `follow`, then those of what comes, on whichever branch, for ever.

    While following, raises Redacted when the lines so far hold what must be forgotten.
    """
    owner = Owner(conversation.tenant, conversation.user)
    about = await log.find(owner, conversation.id)
    yield _line({"everthread": VERSION, "conversation": _about(about)})
    reached: dict[int, int] = {}
    blobs: set[str] = set()
    first_time = True
    async for _ in log.changes(conversation.about, forever=follow):
        for totals in await log.branches(conversation):
            branch = totals.branch
            if branch.number not in reached:
                reached[branch.number] = branch.at
                if branch.number != MAIN:
                    yield _line({"branch": _written(branch)})
            async for event in _own_events(log, conversation, branch, after=reached[branch.number]):
                if not first_time and isinstance(event.event, Command) and event.event.name == "redact":
                    raise Redacted
                for hash in {media.blob for media in media_of(event.event) if media.blob} - blobs:
                    blobs.add(hash)
                    data = await log.blob(await log.line(conversation), hash)
                    yield _line({"blob": {"hash": hash, "data": base64.b64encode(data).decode()}})
                yield event_line(event)
                reached[branch.number] = event.seq
        if (now := await log.find(owner, conversation.id)).current != about.current:
            about = now
            yield _line({"current": now.current})
        first_time = False


async def mirror(log: Log, conversation: Conversation, path: Path) -> None:
    """Keep a file equal to a conversation for ever: it grows with the log, and forgets with it."""
    while True:
        try:
            with path.open("wb", buffering=0) as file:
                async for line in export_lines(log, conversation, follow=True):
                    file.write(line)
        except Redacted:
            continue  # written anew, without what was redacted
        except UnknownConversation:
            path.unlink(missing_ok=True)  # noqa: ASYNC240 — erased, so here as well
            raise


def event_line(event: Logged) -> bytes:
    """An event with its place. What UTF-8 can say is readable; what it cannot is base64 of the stored bytes."""
    place = {
        "seq": event.seq,
        "branch": event.branch,
        "id": event.id,
        "time": timestamp(event.at),
        "session": event.session,
        "tokens": event.tokens,
        "settled": event.settled,
    }
    try:
        event.body.decode("utf-8")
    except UnicodeDecodeError:
        return _line({**place, "body": base64.b64encode(event.body).decode()})
    # The stored form is one line of JSON already: it goes out byte for byte.
    return _line(place)[:-2] + b',"event":' + event.body + b"}\n"


def timestamp(microseconds: int) -> str:
    return moment(microseconds).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def _own_events(log: Log, conversation: Conversation, branch: Branch, *, after: int) -> AsyncIterator[Logged]:
    line = await log.line(conversation, branch.number)
    while page := await log.after(line, after, limit=PAGE):
        for event in page:
            yield event
        after = page[-1].seq


def _about(conversation: Conversation) -> dict[str, Any]:
    kept = ("id", "user", "agent", "name", "goal", "settings", "current")
    return {name: getattr(conversation, name) for name in kept} | {"began": timestamp(conversation.began)}


def _written(branch: Branch) -> dict[str, Any]:
    return msgspec.structs.asdict(branch) | {"time": timestamp(branch.time)}


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
