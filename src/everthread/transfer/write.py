"""Writing conversations out as lines: once, or for ever as they grow.

What is redacted while it is written must not stay in what was written: where a redaction is read of an event whose
content went out before, the export ends with Outdated, and whoever keeps the lines begins anew.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from everthread.core.branches import ENDLESS, Branch
from everthread.core.events import Command, Redacted, media_of
from everthread.core.logged import Logged
from everthread.core.times import moment
from everthread.errors import Outdated, UnknownBlob, UnknownConversation
from everthread.store.conversations import MAIN, NEWEST, BranchTotals, Conversation, Owner
from everthread.store.log import Log
from everthread.store.private_files import private_file

VERSION = 1
PAGE = 500
LOOKS = 10  # at most; an export ends sooner, once nothing new has come


async def export_lines(
    log: Log, conversation: Conversation, *, follow: bool = False, tenant: bool = False, receipts: bool = False
) -> AsyncIterator[bytes]:
    """The lines of a conversation; with `follow`, then those of what comes, on whichever branch, for ever. `tenant`:
    they say whose tenant's it is; `receipts`: with what is kept of appends with a key.

    While following, gives an empty line, b"", each time it has caught up. Raises Outdated when the lines so far
    hold what must be forgotten, and UnknownConversation when all of them do.
    """
    written = Written(log, await log.conversations.mine(conversation), tenant=tenant)
    if follow:
        async for _ in log.changes(conversation.about):
            async for line in written.news():
                yield line
            yield b""
    for _ in range(LOOKS):
        came = False
        async for line in written.news():
            came = True
            yield line
        if not came:
            break
    for one in await log.imports.receipts(conversation) if receipts else ():
        if one["last"] <= written.at.reached.get(one["branch"], 0):
            yield _line({"receipt": one})


async def document_lines(log: Log, owner: Owner, *, tenant: bool = False) -> AsyncIterator[bytes]:
    """The lines of all that is kept for a user beside conversations, such as MEMORY.md, with all versions. `tenant`:
    they say whose tenant's it is."""
    whose = {"tenant": owner.tenant} if tenant else {}
    for newest in await log.documents.all(owner, limit=ENDLESS):
        for one in reversed(await log.documents.versions(owner, newest.name, limit=newest.version)):
            about = {"user": owner.user, **msgspec.structs.asdict(one), "time": timestamp(moment(one.time))}
            yield _line({"everthread": VERSION, **whose, "document": about})


async def all_lines(log: Log, owner: Owner) -> AsyncIterator[bytes]:
    """The lines of all that is a user's: documents, then conversations, begun last first. Raises Outdated."""
    async for line in document_lines(log, owner):
        yield line
    before = NEWEST
    while page := await log.conversations.page(owner, before=before, limit=PAGE):
        for conversation in page:
            async for line in export_lines(log, conversation):
                yield line
        before = page[-1].id


async def mirror(log: Log, conversation: Conversation, path: Path) -> None:
    """Keep a file equal to a conversation for ever: it grows with the log, and forgets with it.

    A file that is there already stays as it is until the new one is complete.
    """
    while True:
        try:
            await _mirror(log, conversation, path)
        except Outdated:
            continue  # written anew, without what was redacted
        except UnknownConversation:
            path.unlink(missing_ok=True)  # noqa: ASYNC240 — erased, so here as well
            raise


async def _mirror(log: Log, conversation: Conversation, path: Path) -> None:
    part, in_place = part_of(path), False
    try:
        with private_file(part) as file:
            async for line in export_lines(log, conversation, follow=True):
                file.write(line)
                if line:
                    continue
                file.flush()
                if not in_place:
                    part.replace(path)
                    in_place = True
    finally:
        if not in_place:
            part.unlink(missing_ok=True)


def part_of(path: Path) -> Path:
    """Where a file is written until it is complete and takes its place."""
    return path.with_name(path.name + ".part")


class WrittenUpTo(msgspec.Struct, kw_only=True):
    """How far a conversation has been written out: what the lines so far say of it, the newest seq and id of each
    branch, how many events there are, and the images and files that are among them."""

    says: dict[str, Any] = {}
    reached: dict[int, int] = {}
    ids: dict[int, str] = {}
    events: int = 0
    blobs: set[str] = set()


class Written:
    """What of a conversation has been written out so far. `at`: from where it goes on."""

    def __init__(
        self, log: Log, conversation: Conversation, *, tenant: bool = False, at: WrittenUpTo | None = None
    ) -> None:
        self._log = log
        self._conversation = conversation
        self._whose = {"tenant": conversation.tenant} if tenant else {}
        self.at = at or WrittenUpTo()
        self._tombstones: set[tuple[int, int]] = set()

    async def news(self) -> AsyncIterator[bytes]:
        """The lines of what came since the last time."""
        # Looked at before the branches are, so that the current one is always among them.
        owner = self._conversation.owner
        now = await self._log.conversations.find(owner, self._conversation.id)
        says = _says(now)
        if not self.at.says:
            self.at.says = says
            events = (await self._log.conversations.totals(now)).events
            yield _line({"everthread": VERSION, **self._whose, "conversation": _about(now), "events": events})
        for totals in await self._log.conversations.branches(now):
            async for line in self._branch(totals):
                yield line
        if says != self.at.says:
            self.at.says = says
            yield _line({"conversation": says})

    async def _branch(self, totals: BranchTotals) -> AsyncIterator[bytes]:
        branch, reached = totals.branch, self.at.reached
        if branch.number not in reached:
            reached[branch.number] = branch.at
            if branch.number != MAIN:
                yield _line({"branch": _introduced(branch)})
        if totals.last <= reached[branch.number]:
            return
        async for event in _own_events(self._log, self._conversation, branch, reached[branch.number]):
            await self._note_redaction(event)
            async for line in self._new_blobs(event):
                yield line
            yield event_line(event)
            reached[branch.number], self.at.ids[branch.number] = event.seq, event.id
            self.at.events += 1

    async def _note_redaction(self, event: Logged) -> None:
        """Raises Outdated where the event says that another was redacted whose content has been written."""
        match event.event:
            case Redacted():
                self._tombstones.add((event.branch, event.seq))
            case Command(name="redact", arguments={"seq": int(seq), "branch": int(number)}):
                if seq <= self.at.reached.get(number, 0) and await self._is_forgotten(number, seq):
                    raise Outdated

    async def _new_blobs(self, event: Logged) -> AsyncIterator[bytes]:
        """The lines of the images and files that this event is the first to show."""
        for hash in {media.blob for media in media_of(event.event) if media.blob} - self.at.blobs:
            yield _line({"blob": {"hash": hash, "data": await self._blob(event, hash)}})
            self.at.blobs.add(hash)

    async def _blob(self, event: Logged, hash: str) -> str:
        line = await self._log.line(self._conversation, event.branch)
        try:
            return base64.b64encode(await self._log.blob(line, hash)).decode()
        except UnknownBlob:
            if await self._is_forgotten(event.branch, event.seq):
                raise Outdated from None
            raise

    async def _is_forgotten(self, branch: int, seq: int) -> bool:
        """Whether an event is redacted now that was not when it was read. That a command says so is not enough:
        anybody may append one."""
        line = await self._log.line(self._conversation, branch)
        found = await self._log.range(line, seq, seq)
        return any(isinstance(e.event, Redacted) and (e.branch, e.seq) not in self._tombstones for e in found)


def event_line(event: Logged) -> bytes:
    """An event with its place. What UTF-8 can say is readable; what it cannot is base64 of the stored bytes."""
    place = {
        "seq": event.seq,
        "branch": event.branch,
        "id": event.id,
        "time": timestamp(event.time),
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


def timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def _own_events(log: Log, conversation: Conversation, branch: Branch, after: int) -> AsyncIterator[Logged]:
    line = await log.line(conversation, branch.number)
    while page := await log.after(line, after, limit=PAGE):
        for event in page:
            yield event
        after = page[-1].seq


def _about(conversation: Conversation) -> dict[str, Any]:
    fixed = {name: getattr(conversation, name) for name in ("id", "user", "agent")}
    fixed |= {"alias": conversation.alias} if conversation.alias else {}
    return fixed | _says(conversation) | {"began": timestamp(conversation.began)}


def _says(conversation: Conversation) -> dict[str, Any]:
    """What may change about a conversation."""
    return {name: getattr(conversation, name) for name in ("name", "goal", "settings", "metadata", "current")}


def _introduced(branch: Branch) -> dict[str, Any]:
    return msgspec.structs.asdict(branch) | {"time": timestamp(branch.time)}


def _line(value: dict[str, Any]) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate: readable or not, it must go out
        return json.dumps(value, separators=(",", ":")).encode() + b"\n"
