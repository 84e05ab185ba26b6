"""What is known of archives without opening their files: the list, and whether all of them can be restored."""

from __future__ import annotations

from datetime import datetime

import msgspec

from everthread.core.times import moment
from everthread.core.values import Value
from everthread.store.beside.archives import Archive


class ListedArchive(msgspec.Struct, Value, frozen=True, kw_only=True):
    """An archived conversation in the list. `title`: the first 50 characters of its name, or of what was said first.
    `newest`: when its last message came; None where it has none. `size`: of its file, in bytes."""

    conversation: str
    title: str
    branches: int
    events: int
    messages: int
    tokens: int
    size: int
    encrypted: bool
    archived: datetime
    newest: datetime | None = None


class ArchiveProblem(msgspec.Struct, Value, frozen=True, kw_only=True):
    """What is wrong with an archive, in words. `conversation` is empty for a file that belongs to nothing."""

    archive: str
    conversation: str
    problem: str


class ArchiveProgress(msgspec.Struct, Value, frozen=True, kw_only=True):
    """How far archiving has come: which conversation was tried last, how many were archived and how many were not, and
    why that one was not, where it was not."""

    conversation: str
    archived: int
    failed: int
    problem: str = ""


def listed(one: Archive) -> ListedArchive:
    return ListedArchive(
        conversation=one.conversation,
        title=one.title,
        branches=one.branches,
        events=one.events,
        messages=one.messages,
        tokens=one.tokens,
        size=one.size,
        encrypted=bool(one.key_id),
        archived=moment(one.made),
        newest=moment(one.newest) if one.newest else None,
    )
