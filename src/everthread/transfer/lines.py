"""Reading Everthread's own lines: each is checked by itself and against those before it, and a fault names its line.

Conversations come in portions, so that none is too long for memory: a portion ends where it is full and another event
comes, so the last one of a conversation has an event, unless there is none at all. What passes here can be restored:
the store can only object that something else is there already.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO, Any, NamedTuple

import msgspec

from everthread.core.branches import ENDLESS, Branch
from everthread.core.events import Event, Redacted, attach, decode, detach, is_kind, media_of
from everthread.core.ids import is_id
from everthread.core.metadata import check_metadata
from everthread.core.parts import blob_hash
from everthread.core.times import microseconds, moment
from everthread.core.tokens import sizes
from everthread.errors import BadFormat, BadValue
from everthread.store.beside.documents import LONGEST_NAME, Document
from everthread.store.conversations import (
    MAIN,
    Conversation,
    Owner,
    check_alias,
    check_name,
    check_settings,
    check_tenant,
)
from everthread.store.log import now
from everthread.store.scripts.append import Draft, weight
from everthread.store.scripts.restore import OwnedDocument, Portion
from everthread.transfer.streams import JsonLine

_LATEST = microseconds(datetime.max.replace(tzinfo=UTC))


EVENTS, BYTES = 1_000, 8 * 1024 * 1024  # of a portion, at least
IDS = 100_000  # of conversations that are remembered, to tell of one that is there twice; the store knows the others


class Keeps(NamedTuple):
    """What is kept of whose a line was: its user, its tenant. Else all is the owner's."""

    users: bool = False
    tenants: bool = False


NOTHING_KEPT = Keeps()


class Record(NamedTuple):
    """A line of a whole store that is neither a conversation nor a document, such as an account."""

    tenant: str
    what: str
    about: dict[str, Any]
    where: str


RECORDS = ("account", "api_key", "provider_key", "schedule", "erased", "calibration")
Read = Portion | OwnedDocument | Record


def read_lines(values: Iterable[JsonLine], owner: Owner, *, keeps: Keeps = NOTHING_KEPT) -> Iterator[Read]:
    """The conversations and documents of an export, as the owner's, or of those whom it names."""
    lines = _Lines(owner, keeps)
    try:
        for where, value in values:
            with _faults_at(where):
                yield from lines.take(_json_object(value), where)
        yield from lines.finish()
    finally:
        lines.close()


class _Lines:
    """The lines of a file as they come: at most one conversation is being read."""

    def __init__(self, owner: Owner, keeps: Keeps) -> None:
        self._owner, self._keeps = owner, keeps
        self._reading: _Reading | None = None
        self._ids: set[str] = set()

    def take(self, line: dict[str, Any], where: str) -> Iterator[Read]:
        whose = _whose(line, self._owner, self._keeps)
        if "everthread" not in line:
            if self._reading is None:
                raise ValueError("the first line must say which conversation it is")
            yield from self._reading.take(line, where)
            return
        yield from self.finish()
        if "document" in line:
            yield _document(line, whose)
        elif what := next((one for one in RECORDS if one in line), ""):
            yield _record(line, what, whose, where)
        else:
            new = _new(line, whose, self._ids)
            self._reading = _Reading(new, where, events=_number("events", line.get("events", 0)))

    def finish(self) -> Iterator[Portion]:
        if self._reading:
            yield self._reading.finish()
        self._reading = None

    def close(self) -> None:
        if self._reading:
            self._reading.close()


@contextmanager
def _faults_at(where: str) -> Iterator[None]:
    """Turn whatever is wrong with a line into a BadFormat that names its place."""
    try:
        yield
    except (KeyError, TypeError, ValueError, BadValue, RecursionError) as problem:
        raise BadFormat(_reason(problem), where=where) from None


def _json_object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("a line is one JSON object")
    return value


class _Reading:
    """One conversation while its lines are read."""

    def __init__(self, conversation: Conversation, where: str, *, events: int) -> None:
        self.conversation = conversation
        self._promised = events
        main = Branch(number=MAIN, name="main", parent=None, at=0, time=conversation.began)
        self._branches: dict[int, Branch] = {MAIN: main}
        self._names = {"main"}
        self._last = {MAIN: 0}  # the newest seq of each branch
        self._introduced: dict[int, str] = {}  # on which line each branch was
        self._pointed = where  # the line that said which branch is the current one
        self._blobs = Shelf()
        self._begin_portion()

    def _begin_portion(self) -> None:
        self._pieces: dict[int, tuple[Branch, int, list[Draft]]] = {}
        self._shown: set[str] = set()
        self._receipts: list[dict[str, str | int]] = []
        self._count = self._weight = 0

    def finish(self) -> Portion:
        for number, where in self._introduced.items():
            if self._last[number] == self._branches[number].at:
                raise BadFormat(f"branch {number} has no events", where=where)
        if self.conversation.current not in self._branches:
            reason = f"the current branch is {self.conversation.current}, which the file does not hold"
            raise BadFormat(reason, where=self._pointed)
        held = sum(last - self._branches[number].at for number, last in self._last.items())
        if held < self._promised:
            reason = f"it is cut off: of {self._promised} events of {self.conversation.id}, {held} are there"
            raise BadFormat(reason, where=self._pointed)
        portion = self._portion(last=True)
        self.close()
        return portion

    def close(self) -> None:
        self._blobs.close()

    def _portion(self, *, last: bool) -> Portion:
        """What has come since the last one. The branch without events is main, of an empty conversation."""
        pieces = [self._pieces[number] for number in sorted(self._pieces)] or [(self._branches[MAIN], 1, [])]
        blobs = {hash: self._blobs[hash] for hash in self._shown}
        made = Portion(conversation=self.conversation, pieces=pieces, blobs=blobs, last=last, receipts=self._receipts)
        self._begin_portion()
        return made

    def take(self, value: dict[str, Any], where: str) -> Iterator[Portion]:
        if "event" in value or "body" in value:
            if self._count >= EVENTS or self._weight >= BYTES:
                yield self._portion(last=False)
            self._take_event(value)
        elif "branch" in value:
            self._take_branch(_object("branch", value["branch"]), where)
        elif "blob" in value:
            self._take_blob(_object("blob", value["blob"]))
        elif "receipt" in value:
            self._receipts.append(_receipt(_object("receipt", value["receipt"])))
        elif "conversation" in value:
            self._take_changes(_object("conversation", value["conversation"]), where)
        else:
            raise ValueError("neither an event, a branch, a blob nor what the conversation says of itself")

    def _take_event(self, value: dict[str, Any]) -> None:
        number = _number("branch", value.get("branch", MAIN))
        if number not in self._branches:
            raise ValueError(f"branch {number} has not been introduced")
        branch, seq = self._branches[number], self._last[number] + 1
        if _number("seq", value.get("seq", seq)) != seq:
            raise ValueError(f"seq {value['seq']} where {seq} should follow")
        event = _event(value)
        self._check_media(event)
        draft = Draft(
            event=event,
            id=_id(value["id"]) if value.get("id", "") != "" else "",
            time=_time(value["time"]) if "time" in value else None,
            sizes=self._sizes(event, value),
            session=_number("session", value["session"]) if "session" in value else None,
        )
        self._pieces.setdefault(number, (branch, seq, []))[2].append(draft)
        self._last[number] = seq
        self._count += 1
        self._weight += weight(event)

    def _check_media(self, event: Event) -> None:
        for media in media_of(event):
            if media.data is not None or not media.blob:
                continue
            if media.blob not in self._blobs:
                raise ValueError(f"it shows the image or file {media.blob[:12]}…, which the file does not hold")
            if media.blob not in self._shown:
                self._shown.add(media.blob)
                self._weight += self._blobs.size(media.blob)

    def _sizes(self, event: Event, value: dict[str, Any]) -> tuple[int, int] | None:
        """The sizes of a tombstone, which only the file knows, or of a message with media; else None: counted later."""
        given = _sizes(value) if "tokens" in value or "settled" in value else None
        if isinstance(event, Redacted):
            return given
        if not media_of(event):
            return None  # counted when it is appended
        shown = {media.blob for media in media_of(event) if media.data is None and media.blob}
        return sizes(attach(event, {hash: self._blobs[hash] for hash in shown}))

    def _take_branch(self, about: dict[str, Any], where: str) -> None:
        number, parent = _number("number", about["number"]), _number("parent", about["parent"])
        if number in self._branches or parent not in self._branches or number < parent:
            raise ValueError(f"branch {number} is there twice, or comes before its parent {parent}")
        name, at = _name("name", about["name"]), _number("at", about["at"])
        self._check_fork(name, parent, at)
        branch = Branch(number=number, name=name, parent=parent, at=at, time=moment(_time_of(about, "time")))
        self._branches[number], self._last[number] = branch, at
        self._names.add(name)
        self._introduced[number] = where

    def _check_fork(self, name: str, parent: int, at: int) -> None:
        if name in self._names:
            raise ValueError(f"there already is a branch {name!r}")
        if at and not self._branches[parent].at < at <= self._last[parent]:
            raise ValueError(f"at is {at}, but branch {parent} has no such event before this line")

    def _take_blob(self, about: dict[str, Any]) -> None:
        data = base64.b64decode(about["data"], validate=True)
        if blob_hash(data) != about["hash"]:
            raise ValueError("the image or file does not match its hash")
        self._blobs.add(about["hash"], data)

    def _take_changes(self, about: dict[str, Any], where: str) -> None:
        self.conversation = msgspec.structs.replace(self.conversation, **_says(about))
        if "current" in about:
            self._pointed = where


class Shelf:
    """The images and files of one conversation, in a file without a name rather than in memory."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[int, int]] = {}
        self._file: IO[bytes] | None = None

    def add(self, hash: str, data: bytes) -> None:
        if hash in self._places:
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 -- open for as long as the conversation is read
        self._places[hash] = (self._file.seek(0, io.SEEK_END), len(data))
        self._file.write(data)

    def __contains__(self, hash: str) -> bool:
        return hash in self._places

    def __getitem__(self, hash: str) -> bytes:
        place, size = self._places[hash]
        assert self._file is not None
        self._file.seek(place)
        return self._file.read(size)

    def size(self, hash: str) -> int:
        return self._places[hash][1]

    def close(self) -> None:
        if self._file:
            self._file.close()


def _whose(value: dict[str, Any], owner: Owner, keeps: Keeps) -> Owner:
    """The tenant and the user whom a line names, where it names them and they are kept; else the owner."""
    about = value.get("document", value.get("conversation"))
    named = about.get("user") if isinstance(about, dict) and keeps.users else None
    tenant = value.get("tenant") if keeps.tenants else None
    return Owner(
        owner.tenant if tenant is None else check_tenant(_name("tenant", tenant)),
        owner.user if named is None else _name("user", named, empty="document" in value and keeps.tenants),
    )


def _record(value: dict[str, Any], what: str, owner: Owner, where: str) -> Record:
    _check_version(value)
    return Record(owner.tenant, what, _object(what, value[what]), where)


def _receipt(about: dict[str, Any]) -> dict[str, str | int]:
    if not isinstance(about["key"], str) or not isinstance(about["hash"], str):
        raise ValueError("a receipt has a key and a hash, which are texts")
    return {name: about[name] for name in ("key", "hash")} | {
        name: _number(name, about[name]) for name in ("branch", "first", "last")
    }


def _document(value: dict[str, Any], owner: Owner) -> OwnedDocument:
    _check_version(value)
    about = _object("document", value["document"])
    version = _number("version", about["version"])
    if not version or not isinstance(about["body"], str):
        raise ValueError("a document has a version from 1 on, and a body of text")
    name = _name("name", about["name"], most=LONGEST_NAME)
    return OwnedDocument(owner, Document(name=name, version=version, body=about["body"], time=_time_of(about, "time")))


def _check_version(value: dict[str, Any]) -> None:
    if _number("everthread", value["everthread"]) != 1:
        raise ValueError(f"version {value['everthread']} of the format is not known here")


def _new(value: dict[str, Any], owner: Owner, ids: set[str]) -> Conversation:
    """The conversation that a line begins; `ids` are those of the ones before it."""
    conversation = _conversation(value, owner)
    if (one := f"{conversation.tenant}/{conversation.id}") in ids:
        raise ValueError(f"conversation {conversation.id} is there twice")
    if len(ids) < IDS:
        ids.add(one)
    return conversation


def _conversation(value: dict[str, Any], owner: Owner) -> Conversation:
    _check_version(value)
    about = _object("conversation", value["conversation"])
    return Conversation(
        tenant=owner.tenant,
        id=_id(about["id"]),
        user=owner.user,
        agent=_name("agent", about["agent"]),
        began=moment(_time_of(about, "began")),
        alias=check_alias(_name("alias", about["alias"])) if about.get("alias", "") != "" else "",
        **_says(about),
    )


def _says(about: dict[str, Any]) -> dict[str, Any]:
    """What may change about a conversation, as far as it is said."""
    says: dict[str, Any] = {}
    if "name" in about:
        says["name"] = _name("name", about["name"], empty=True)
    if "goal" in about:
        says["goal"] = _name("goal", about["goal"], most=2_000, empty=True)
    if "settings" in about:
        says["settings"] = check_settings(_object("settings", about["settings"]))
    if "metadata" in about:
        says["metadata"] = check_metadata(about["metadata"])
    if "current" in about:
        says["current"] = _number("current", about["current"])
    return says


def _event(value: dict[str, Any]) -> Event:
    if "body" in value:
        event = decode(base64.b64decode(value["body"], validate=True))
    else:
        event = decode(json.dumps(value["event"], ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if isinstance(event, Redacted) and not is_kind(event.was):
        raise BadValue("was", event.was, "the name of a kind")
    detach(event)  # BadValue where bytes and hash of an image or file do not go together
    return event


def _sizes(value: dict[str, Any]) -> tuple[int, int]:
    tokens, settled = _number("tokens", value["tokens"]), _number("settled", value["settled"])
    if settled > tokens:
        raise BadValue("settled", settled, f"at most tokens, {tokens}")
    return tokens, settled


def _number(name: str, value: object) -> int:
    if type(value) is not int or not 0 <= value <= ENDLESS:  # True is an int, but not a number
        raise BadValue(name, value, f"a whole number from 0 to {ENDLESS}")
    return value


def _name(what: str, value: object, *, most: int = 200, empty: bool = False) -> str:
    if not isinstance(value, str):
        raise BadValue(what, value, "text")
    return check_name(what, value, most=most, empty=empty)


def _id(value: object) -> str:
    if not isinstance(value, str) or not is_id(value):
        raise ValueError(f"{value!r} is not an id")
    return value


def _object(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadValue(name, value, "an object")
    return value


def _time_of(about: dict[str, Any], field: str) -> int:
    """When something happened; now, where the file does not say."""
    return _time(about[field]) if field in about else now()


def _time(text: object) -> int:
    if not isinstance(text, str):
        raise BadValue("time", text, "text such as 2026-01-31T09:00:00Z")
    given = datetime.fromisoformat(text)
    time = microseconds(given if given.tzinfo else given.replace(tzinfo=UTC))
    if not 0 <= time <= _LATEST:
        raise BadValue("time", text, "between 1970 and 9999")
    return time


def _reason(problem: Exception) -> str:
    match problem:
        case KeyError():
            return f"{problem.args[0]!r} is missing"
        case binascii.Error():
            return f"not base64 ({problem})"
        case RecursionError():
            return "nested too deeply"
        case _:
            return str(problem).rstrip(".")
