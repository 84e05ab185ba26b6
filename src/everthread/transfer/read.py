"""Reading conversations from files: our own lines, message lists of OpenAI and Anthropic, data exports of ChatGPT
and Claude.

Everything is read and checked before anything is written. What cannot be understood is named by line and
reason; what can be, and is merely unusual, is taken as it is.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from everthread.core.branches import Branch
from everthread.core.ids import make_id
from everthread.errors import BadFormat
from everthread.providers.anthropic.messages import from_anthropic
from everthread.providers.openai.messages import from_openai
from everthread.store.conversations import MAIN, Conversation, Owner
from everthread.store.log import now
from everthread.store.scripts.append import Draft
from everthread.store.scripts.restore import OwnedDocument, Whole
from everthread.transfer.chatgpt import from_chatgpt
from everthread.transfer.claude import from_claude
from everthread.transfer.detect import Format as Format
from everthread.transfer.detect import detect
from everthread.transfer.exported import whole_of
from everthread.transfer.lines import Numbered, read_lines

Progress = Callable[[int], None]  # called with the number of lines read since it was last called


class Contents(NamedTuple):
    """What a file holds: conversations, and documents such as MEMORY.md."""

    wholes: list[Whole]
    documents: list[OwnedDocument]


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
    """All that a file holds, as the owner's; or, `keep_users`, as that of the users whom our own exports name."""
    values = list(_values(path, progress))
    if not values:
        raise BadFormat("the file is empty", where=str(path))
    found = format or _format(values)
    if found == "everthread":
        read = list(read_lines(values, owner, keep_users=keep_users))
        return Contents(
            [one for one in read if isinstance(one, Whole)], [one for one in read if isinstance(one, OwnedDocument)]
        )
    if found is None:
        raise BadFormat(
            "this is neither an Everthread export, nor a list of OpenAI or Anthropic messages, nor a ChatGPT or Claude"
            " data export",
            where=values[0].where,
        )
    wholes = [_shallow(found, body, owner, agent) for body in _bodies(values)]
    return Contents(wholes if found in ("chatgpt", "claude") else _in_order(wholes), [])


def _values(path: Path, progress: Progress) -> Iterator[Numbered]:
    """One value a line, or one value that fills the file."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise BadFormat(f"not UTF-8 text ({problem.reason} at byte {problem.start})", where=str(path)) from None
    except OSError as problem:
        raise BadFormat(f"cannot be read ({problem.strerror})", where=str(path)) from None
    if path.suffix != ".jsonl":
        try:
            yield Numbered("line 1", _json(text, ""))
            return
        except BadFormat as problem:
            if not _begins_with_a_value(text):
                raise BadFormat(problem.reason, where=problem.where or str(path)) from None
    for number, line in enumerate(text.split("\n"), 1):
        progress(1)
        if line.strip():
            yield Numbered(f"line {number}", _json(line, f"line {number}"))


def _begins_with_a_value(text: str) -> bool:
    """Whether it may be one value a line: the first line is one by itself. An empty file has none, on no line."""
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


def _shallow(format: Format, body: Numbered, owner: Owner, agent: str) -> Whole:
    try:
        return _foreign(format, body, owner, agent)
    except RecursionError:
        raise BadFormat("nested too deeply", where=body.where) from None


def _in_order(wholes: list[Whole]) -> list[Whole]:
    """Message lists say nothing of when they began: the last of a file is the newest."""
    after, ordered = "", []
    for whole in wholes:
        after = make_id(whole.conversation.began, secrets.randbits(80), after=after)
        ordered.append(structs.replace(whole, conversation=structs.replace(whole.conversation, id=after)))
    return ordered


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
        id="",  # in the order of the file, once all are read
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
