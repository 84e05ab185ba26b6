"""Reading Everthread's own lines: each is checked by itself and against those before it, and a fault names its line.

What passes here can be restored: the store can only object that a conversation is there already.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

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
from everthread.store.conversations import MAIN, Conversation, Owner, check_alias, check_name, check_settings
from everthread.store.log import now
from everthread.store.scripts.append import Draft
from everthread.store.scripts.restore import OwnedDocument, Whole

_LATEST = microseconds(datetime.max.replace(tzinfo=UTC))


class JsonLine(NamedTuple):
    """A JSON value of a file and the line it stands on."""

    where: str
    value: Any


def read_lines(
    values: Iterable[JsonLine], owner: Owner, *, keep_users: bool = False
) -> Iterator[Whole | OwnedDocument]:
    """The conversations and documents of an export, as the owner's. `keep_users`: of the users whom it names."""
    readings: list[_Reading] = []
    ids: set[str] = set()
    for where, value in values:
        with _faults_at(where):
            line = _json_object(value)
            whose = _whose(line, owner, keep_users)
            if "document" in line:
                yield _document(line, whose)
            elif "everthread" in line:
                readings.append(
                    _Reading(_new(line, whose, ids), where, events=_number("events", line.get("events", 0)))
                )
            elif readings:
                readings[-1].take(line, where)
            else:
                raise ValueError("the first line must say which conversation it is")
    for reading in readings:
        yield reading.finish()


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
        self._branches: dict[int, tuple[Branch, list[Draft]]] = {MAIN: (main, [])}
        self._introduced: dict[int, str] = {}  # on which line each branch was
        self._pointed = where  # the line that said which branch is the current one
        self._blobs: dict[str, bytes] = {}

    def finish(self) -> Whole:
        for number, where in self._introduced.items():
            if not self._branches[number][1]:
                raise BadFormat(f"branch {number} has no events", where=where)
        if self.conversation.current not in self._branches:
            reason = f"the current branch is {self.conversation.current}, which the file does not hold"
            raise BadFormat(reason, where=self._pointed)
        held = sum(len(drafts) for _, drafts in self._branches.values())
        if held < self._promised:
            reason = f"it is cut off: of {self._promised} events of {self.conversation.id}, {held} are there"
            raise BadFormat(reason, where=self._pointed)
        return Whole(conversation=self.conversation, branches=list(self._branches.values()), blobs=self._blobs)

    def take(self, value: dict[str, Any], where: str) -> None:
        if "event" in value or "body" in value:
            self._take_event(value)
        elif "branch" in value:
            self._take_branch(_object("branch", value["branch"]), where)
        elif "blob" in value:
            self._take_blob(_object("blob", value["blob"]))
        elif "conversation" in value:
            self._take_changes(_object("conversation", value["conversation"]), where)
        else:
            raise ValueError("neither an event, a branch, a blob nor what the conversation says of itself")

    def _take_event(self, value: dict[str, Any]) -> None:
        number = _number("branch", value.get("branch", MAIN))
        if number not in self._branches:
            raise ValueError(f"branch {number} has not been introduced")
        branch, drafts = self._branches[number]
        seq = branch.at + len(drafts) + 1
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
        drafts.append(draft)

    def _check_media(self, event: Event) -> None:
        for media in media_of(event):
            if media.data is None and media.blob and media.blob not in self._blobs:
                raise ValueError(f"it shows the image or file {media.blob[:12]}…, which the file does not hold")

    def _sizes(self, event: Event, value: dict[str, Any]) -> tuple[int, int] | None:
        """The sizes of a tombstone, which only the file knows, or of a message with media; else None: counted later."""
        given = _sizes(value) if "tokens" in value or "settled" in value else None
        if isinstance(event, Redacted):
            return given
        if not media_of(event):
            return None  # counted when it is appended
        return sizes(attach(event, self._blobs))

    def _take_branch(self, about: dict[str, Any], where: str) -> None:
        number, parent = _number("number", about["number"]), _number("parent", about["parent"])
        if number in self._branches or parent not in self._branches or number < parent:
            raise ValueError(f"branch {number} is there twice, or comes before its parent {parent}")
        name, at = _name("name", about["name"]), _number("at", about["at"])
        self._check_fork(name, parent, at)
        branch = Branch(number=number, name=name, parent=parent, at=at, time=moment(_time_of(about, "time")))
        self._branches[number] = (branch, [])
        self._introduced[number] = where

    def _check_fork(self, name: str, parent: int, at: int) -> None:
        if any(name == branch.name for branch, _ in self._branches.values()):
            raise ValueError(f"there already is a branch {name!r}")
        base, events = self._branches[parent]
        if at and not base.at < at <= base.at + len(events):
            raise ValueError(f"at is {at}, but branch {parent} has no such event before this line")

    def _take_blob(self, about: dict[str, Any]) -> None:
        data = base64.b64decode(about["data"], validate=True)
        if blob_hash(data) != about["hash"]:
            raise ValueError("the image or file does not match its hash")
        self._blobs[about["hash"]] = data

    def _take_changes(self, about: dict[str, Any], where: str) -> None:
        self.conversation = msgspec.structs.replace(self.conversation, **_says(about))
        if "current" in about:
            self._pointed = where


def _whose(value: dict[str, Any], owner: Owner, keep_users: bool) -> Owner:
    """The user whom a line names, where it names one and users are kept; else the owner."""
    if not keep_users:
        return owner
    about = value.get("document", value.get("conversation"))
    named = about.get("user") if isinstance(about, dict) else None
    return owner if named is None else Owner(owner.tenant, _name("user", named))


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
    if conversation.id in ids:
        raise ValueError(f"conversation {conversation.id} is there twice")
    ids.add(conversation.id)
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
