"""Reading conversations from files: Everthread's own lines, message lists of OpenAI, Anthropic and Gemini, data exports
of ChatGPT and Claude.

Everything is read and checked before anything is written. What cannot be understood is named by line and
reason; what can be, and is merely unusual, is taken as it is.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from everthread.core.branches import Branch
from everthread.core.events import Event
from everthread.core.ids import make_id
from everthread.core.locks import kept, unlocked
from everthread.core.times import microseconds, moment
from everthread.core.values import Value
from everthread.errors import BadFormat
from everthread.providers.anthropic.messages import from_anthropic
from everthread.providers.google.contents import from_gemini
from everthread.providers.openai.messages import from_openai
from everthread.providers.openai.responses.items import from_responses
from everthread.store.conversations import MAIN, Conversation, Owner
from everthread.store.log import now
from everthread.store.scripts.append import Draft
from everthread.store.scripts.restore import OwnedDocument, Whole
from everthread.transfer.chatgpt import from_chatgpt
from everthread.transfer.claude import from_claude
from everthread.transfer.detect import Format as Format
from everthread.transfer.detect import detect, is_message
from everthread.transfer.exported import whole_of
from everthread.transfer.lines import JsonLine, read_lines
from everthread.transfer.times import times_of

_EXPORTS = {"chatgpt": from_chatgpt, "claude": from_claude}
_UNKNOWN = (
    "this is neither an Everthread export, nor a list of OpenAI or Anthropic messages, Responses items or Gemini"
    " contents, nor a ChatGPT or Claude data export"
)

Progress = Callable[[int], None]  # called with the number of lines read since it was last called


class Imported(msgspec.Struct, Value, frozen=True, kw_only=True):
    """What was imported: the ids of the conversations, how many events and documents, and whose they are now."""

    conversations: tuple[str, ...]
    events: int
    documents: int
    users: tuple[str, ...]


class Contents(NamedTuple):
    """What a file holds: conversations, and documents such as MEMORY.md."""

    wholes: list[Whole]
    documents: list[OwnedDocument]

    @property
    def imported(self) -> Imported:
        """The account of it, once it was imported."""
        users = {*(whole.conversation.user for whole in self.wholes), *(one.owner.user for one in self.documents)}
        return Imported(
            conversations=tuple(whole.conversation.id for whole in self.wholes),
            events=sum(len(drafts) for whole in self.wholes for _, drafts in whole.branches),
            documents=len({(one.owner, one.document.name) for one in self.documents}),
            users=tuple(sorted(users)),
        )

    def unlocked(self) -> Contents:
        """The same, without what is for the operators of a service alone to set: it came from elsewhere."""
        return self._replace(wholes=[_unlocked(whole) for whole in self.wholes])


def _unlocked(whole: Whole) -> Whole:
    conversation = structs.replace(whole.conversation, settings=kept(whole.conversation.settings))
    branches = [
        (branch, [structs.replace(draft, event=unlocked(draft.event)) for draft in drafts])
        for branch, drafts in whole.branches
    ]
    return structs.replace(whole, conversation=conversation, branches=branches)


def read_file(
    path: Path, owner: Owner, *, agent: str, format: Format | None = None, progress: Progress = lambda _: None
) -> list[Whole]:
    """All conversations of a file, as the owner's. BadFormat where any of it cannot be understood."""
    return read_all(path, owner, agent=agent, format=format, progress=progress).wholes


def read_all(
    path: Path,
    owner: Owner,
    *,
    agent: str,
    format: Format | None = None,
    keep_users: bool = False,
    progress: Progress = lambda _: None,
) -> Contents:
    """All that a file holds, as the owner's. `keep_users`: as belonging to those whom an Everthread export names."""
    values = list(_values(path, progress))
    if not values:
        raise BadFormat("the file is empty", where=str(path))
    found = format or _format(values)
    if found is None:
        raise BadFormat(_UNKNOWN, where=values[0].where)
    if found == "everthread":
        return _told_apart(read_lines(values, owner, keep_users=keep_users))
    return Contents(_foreign(found, values, owner, agent), [])


def _told_apart(lines: Iterable[Whole | OwnedDocument]) -> Contents:
    contents = Contents([], [])
    for one in lines:
        if isinstance(one, Whole):
            contents.wholes.append(one)
        else:
            contents.documents.append(one)
    return contents


def _values(path: Path, progress: Progress) -> Iterator[JsonLine]:
    """One value a line, or one value that fills the file."""
    text = _text(path)
    if path.suffix != ".jsonl":
        try:
            yield JsonLine("line 1", _json(text, ""))
            return
        except BadFormat as problem:
            if not _begins_with_a_value(text):
                raise BadFormat(problem.reason, where=problem.where or str(path)) from None
    yield from _lines(text, progress)


def _lines(text: str, progress: Progress) -> Iterator[JsonLine]:
    for number, line in enumerate(text.split("\n"), 1):
        progress(1)
        if line.strip():
            yield JsonLine(f"line {number}", _json(line, f"line {number}"))


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise BadFormat(f"not UTF-8 text ({problem.reason} at byte {problem.start})", where=str(path)) from None
    except OSError as problem:
        raise BadFormat(f"cannot be read ({problem.strerror})", where=str(path)) from None


def _begins_with_a_value(text: str) -> bool:
    """Whether the file may hold one value a line: the first line that is not empty is a value by itself."""
    first = next((line for line in text.split("\n") if line.strip()), "null")
    try:
        _json(first, "")
    except BadFormat:
        return False
    return True


def _json(text: str, where: str) -> Any:
    """The value of a text; without a `where`, a fault is placed on its line of the text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as problem:
        reason = f"not JSON ({problem.msg} at column {problem.colno})"
        raise BadFormat(reason, where=where or f"line {problem.lineno}") from None
    except ValueError as problem:  # a number of 5,000 digits
        raise BadFormat(f"not JSON ({problem})", where=where) from None
    except RecursionError:
        raise BadFormat("nested too deeply", where=where) from None


def _format(values: list[JsonLine]) -> Format | None:
    """The format of the first value that has one."""
    first = values[0].value
    if first == [] or is_message(first):
        return detect([numbered.value for numbered in values]) or "openai"
    return next(filter(None, (_format_of(numbered.value) for numbered in values)), None)


def _format_of(value: object) -> Format | None:
    """The format of a conversation, or of a list of them."""
    items = value if isinstance(value, list) else []
    return next(filter(None, map(detect, (value, *items))), None)


# -- histories of other programs ---------------------------------------------------------------------------


def _foreign(format: Format, values: list[JsonLine], owner: Owner, agent: str) -> list[Whole]:
    if format in _EXPORTS:
        return [_exported(format, body, owner, agent) for body in _bodies(values)]
    return _in_order([_of_messages(format, body, owner, agent) for body in _bodies(values)])


def _bodies(values: list[JsonLine]) -> Iterator[JsonLine]:
    """The conversations in a file: one a line, one of lines that are messages each, or a list of them."""
    if is_message(values[0].value):
        yield JsonLine(f"{values[0].where} on", [numbered.value for numbered in values])
        return
    for where, value in values:
        if _is_list_of_conversations(value):
            yield from (JsonLine(f"{where}, [{index}]", item) for index, item in enumerate(value))
        else:
            yield JsonLine(where, value)


def _is_list_of_conversations(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and not is_message(value[0])


def _exported(format: Format, body: JsonLine, owner: Owner, agent: str) -> Whole:
    with _shallow(body.where):
        exported = _EXPORTS[format](body.value, where=body.where)
    return whole_of(exported, owner, agent=agent, name=_title({"name": exported.name}))


def _of_messages(format: Format, body: JsonLine, owner: Owner, agent: str) -> Whole:
    with _shallow(body.where):
        events = _events(format, body)
    times = times_of(events, now=now())
    began = moment(now() if not times or times[0] is None else times[0])
    conversation = Conversation(
        tenant=owner.tenant,
        id="",  # in the order of the file, once all are read
        user=owner.user,
        agent=agent,
        name=_title(body.value if isinstance(body.value, dict) else {}),
        began=began,
    )
    main = Branch(number=MAIN, name="main", parent=None, at=0, time=began)
    drafts = [Draft(event=event, time=time) for event, time in zip(events, times, strict=True)]
    return Whole(conversation=conversation, branches=[(main, drafts)])


def _events(format: Format, body: JsonLine) -> list[Event]:
    where = f"{body.where}, messages"
    match format:
        case "anthropic":
            return from_anthropic(body.value, where=where)
        case "responses":
            return from_responses(body.value, where=f"{body.where}, input")
        case "gemini":
            return from_gemini(body.value, where=f"{body.where}, contents")
    messages = body.value.get("messages") if isinstance(body.value, dict) else body.value
    if not isinstance(messages, list):
        raise BadFormat("there is no list of messages", where=body.where)
    return from_openai(messages, where=where)


@contextmanager
def _shallow(where: str) -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise BadFormat("nested too deeply", where=where) from None


def _in_order(wholes: list[Whole]) -> list[Whole]:
    """Message lists seldom say when they began: the last of a file is the newest."""
    after, ordered = "", []
    for whole in wholes:
        after = make_id(microseconds(whole.conversation.began), secrets.randbits(80), after=after)
        ordered.append(structs.replace(whole, conversation=structs.replace(whole.conversation, id=after)))
    return ordered


def _title(about: dict[str, Any]) -> str:
    given = about.get("name") or about.get("title") or about.get("id") or ""
    return "".join(c for c in str(given) if c.isprintable())[:200]
