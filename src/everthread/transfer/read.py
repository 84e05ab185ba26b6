"""Reading conversations from files: our own lines, message lists of OpenAI and Anthropic, data exports of ChatGPT
and Claude.

Everything is read and checked before anything is written. What cannot be understood is named by line and
reason; what can be, and is merely unusual, is taken as it is.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from everthread.core.branches import Branch
from everthread.core.events import Event, decode, media_of
from everthread.core.ids import is_id, make_id
from everthread.core.logged import microseconds
from everthread.core.parts import digest
from everthread.errors import BadFormat, BadValue
from everthread.formats import detect, from_anthropic, from_chatgpt, from_claude, from_openai
from everthread.formats.detect import Format as Format
from everthread.store.appending import Draft
from everthread.store.conversations import MAIN, Conversation, Owner, check_name
from everthread.store.log import now
from everthread.store.restoring import Whole
from everthread.transfer.exported import whole_of

Progress = Callable[[int], None]  # called with the number of lines read since it was last called


class Numbered(NamedTuple):
    """A JSON value of a file and the line it stands on."""

    where: str
    value: Any


def read_file(
    path: Path, owner: Owner, *, agent: str, format: Format | None = None, progress: Progress = lambda _: None
) -> list[Whole]:
    """All conversations of a file, as the owner's. BadFormat where any of it cannot be understood."""
    values = list(_values(path, progress))
    if not values:
        raise BadFormat("the file is empty", where=str(path))
    found = format or _format(values)
    if found == "everthread":
        return list(_own(values, owner))
    if found is None:
        raise BadFormat(
            "this is neither an Everthread export, nor a list of OpenAI or Anthropic messages, nor a ChatGPT or Claude"
            " data export",
            where=values[0].where,
        )
    return [_foreign(found, body, owner, agent) for body in _bodies(values)]


def _values(path: Path, progress: Progress) -> Iterator[Numbered]:
    """One value a line, or one value that fills the file."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise BadFormat(f"not UTF-8 text ({problem.reason} at byte {problem.start})", where=str(path)) from None
    except OSError as problem:
        raise BadFormat(f"cannot be read ({problem.strerror})", where=str(path)) from None
    lines = text.split("\n")
    if path.suffix != ".jsonl" and (whole := _whole(text)) is not None:
        yield Numbered("line 1", whole)
        return
    for number, line in enumerate(lines, 1):
        progress(1)
        if line.strip():
            yield Numbered(f"line {number}", _json(line, f"line {number}"))


def _whole(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _json(line: str, where: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as problem:
        raise BadFormat(f"not JSON ({problem})", where=where) from None


def _format(values: list[Numbered]) -> Format | None:
    if values[0].value == [] or _is_message(values[0].value):
        return detect([numbered.value for numbered in values]) or "openai"
    for numbered in values:
        if found := detect(numbered.value) or (isinstance(numbered.value, list) and _of_items(numbered.value)):
            return found
    return None


def _of_items(value: list[Any]) -> Format | None:
    return next((found for item in value if (found := detect(item))), None)


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and "role" in value and "messages" not in value


# -- histories of other programs ---------------------------------------------------------------------------


def _bodies(values: list[Numbered]) -> Iterator[Numbered]:
    """The conversations in a file: one a line, one of lines that are messages each, or a list of them."""
    if _is_message(values[0].value):
        yield Numbered(f"{values[0].where} on", [numbered.value for numbered in values])
        return
    for where, value in values:
        if isinstance(value, list) and value and not _is_message(value[0]):
            for index, item in enumerate(value):
                yield Numbered(f"{where}, [{index}]", item)
        else:
            yield Numbered(where, value)


def _foreign(format: Format, body: Numbered, owner: Owner, agent: str) -> Whole:
    where, value = body
    if format in ("chatgpt", "claude"):
        exported = (from_chatgpt if format == "chatgpt" else from_claude)(value, where=where)
        return whole_of(exported, owner, agent=agent, name=_title({"name": exported.name}))
    about = value if isinstance(value, dict) else {}
    if format == "anthropic":
        events = from_anthropic(value, where=f"{where}, messages")
    else:
        messages = about.get("messages") if about else value
        if not isinstance(messages, list):
            raise BadFormat("there is no list of messages", where=where)
        events = from_openai(messages, where=f"{where}, messages")
    began = now()
    conversation = Conversation(
        tenant=owner.tenant,
        id=make_id(began, secrets.randbits(80)),
        user=owner.user,
        agent=agent,
        name=_title(about),
        began=began,
    )
    main = Branch(number=MAIN, name="main", parent=None, at=0, time=began)
    return Whole(conversation=conversation, branches=[(main, [Draft(event=event) for event in events])])


def _title(about: dict[str, Any]) -> str:
    given = about.get("name") or about.get("title") or about.get("id") or ""
    return "".join(c for c in str(given) if c.isprintable())[:200]


# -- our own lines -----------------------------------------------------------------------------------------


class _Reading:
    """One conversation while its lines are read."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        main = Branch(number=MAIN, name="main", parent=None, at=0, time=conversation.began)
        self.branches: dict[int, tuple[Branch, list[Draft]]] = {MAIN: (main, [])}
        self.blobs: dict[str, bytes] = {}

    def finish(self) -> Whole:
        return Whole(conversation=self.conversation, branches=list(self.branches.values()), blobs=self.blobs)


def _own(values: list[Numbered], owner: Owner) -> Iterator[Whole]:
    reading: _Reading | None = None
    for where, value in values:
        if not isinstance(value, dict):
            raise BadFormat("a line is one JSON object", where=where)
        try:
            if "everthread" in value:
                if reading:
                    yield reading.finish()
                reading = _Reading(_conversation(value, owner, where))
            elif reading is None:
                raise BadFormat("the first line must say which conversation it is", where=where)
            else:
                _take(reading, value, where)
        except (KeyError, TypeError, ValueError, BadValue) as problem:
            raise BadFormat(_reason(problem), where=where) from None
    if reading:
        yield reading.finish()


def _conversation(value: dict[str, Any], owner: Owner, where: str) -> Conversation:
    if value["everthread"] != 1:
        raise BadFormat(f"version {value['everthread']!r} of the format is not known here", where=where)
    about = value["conversation"]
    if not is_id(about["id"]):
        raise BadFormat(f"{about['id']!r} is not an id", where=where)
    return Conversation(
        tenant=owner.tenant,
        id=about["id"],
        user=owner.user,
        agent=check_name("agent", about["agent"]),
        name=check_name("name", about.get("name", ""), empty=True),
        goal=check_name("goal", about.get("goal", ""), most=2_000, empty=True),
        settings=dict(about.get("settings", {})),
        current=int(about.get("current", MAIN)),
        began=_time(about["began"]) if "began" in about else now(),
    )


def _take(reading: _Reading, value: dict[str, Any], where: str) -> None:
    if "event" in value or "body" in value:
        _take_event(reading, value, where)
    elif "branch" in value:
        _take_branch(reading, value["branch"], where)
    elif "blob" in value:
        _take_blob(reading, value["blob"], where)
    elif "current" in value:
        reading.conversation = msgspec.structs.replace(reading.conversation, current=int(value["current"]))
    else:
        raise BadFormat("neither an event, a branch, a blob nor a current branch", where=where)


def _take_event(reading: _Reading, value: dict[str, Any], where: str) -> None:
    number = value.get("branch", MAIN)
    if number not in reading.branches:
        raise BadFormat(f"branch {number!r} has not been introduced", where=where)
    branch, drafts = reading.branches[number]
    seq = branch.at + len(drafts) + 1
    if value.get("seq", seq) != seq:
        raise BadFormat(f"seq {value['seq']!r} where {seq} should follow", where=where)
    id = value.get("id", "")
    if id and not is_id(id):
        raise BadFormat(f"{id!r} is not an id", where=where)
    event = _event(value)
    for media in media_of(event):
        if media.blob and media.blob not in reading.blobs:
            raise BadFormat(f"it shows the image or file {media.blob[:12]}…, which the file does not hold", where=where)
    sized = "tokens" in value and "settled" in value
    drafts.append(
        Draft(
            event=event,
            id=id,
            time=_time(value["time"]) if "time" in value else None,
            sizes=(int(value["tokens"]), int(value["settled"])) if sized else None,
            session=int(value["session"]) if "session" in value else None,
        )
    )


def _event(value: dict[str, Any]) -> Event:
    if "body" in value:
        return decode(base64.b64decode(value["body"], validate=True))
    return decode(json.dumps(value["event"], ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _take_branch(reading: _Reading, about: dict[str, Any], where: str) -> None:
    number, parent = int(about["number"]), about["parent"]
    if number in reading.branches or parent not in reading.branches:
        raise BadFormat(f"branch {number} is there twice, or comes before its parent {parent!r}", where=where)
    branch = Branch(
        number=number,
        name=check_name("name", about["name"]),
        parent=int(parent),
        at=int(about["at"]),
        time=_time(about["time"]) if "time" in about else now(),
    )
    reading.branches[number] = (branch, [])


def _take_blob(reading: _Reading, about: dict[str, Any], where: str) -> None:
    data = base64.b64decode(about["data"], validate=True)
    if digest(data) != about["hash"]:
        raise BadFormat("the image or file does not match its hash", where=where)
    reading.blobs[about["hash"]] = data


def _time(text: str) -> int:
    given = datetime.fromisoformat(text)
    return microseconds(given if given.tzinfo else given.replace(tzinfo=UTC))


def _reason(problem: Exception) -> str:
    match problem:
        case KeyError():
            return f"{problem.args[0]!r} is missing"
        case binascii.Error():
            return f"not base64 ({problem})"
        case _:
            return str(problem).rstrip(".")
