"""Conversations of a Claude data export (`conversations.json`) to strands of events.

Messages follow one another as they are listed. Newer exports also name each one's parent, with edits and retries
side by side in the same list: then siblings are forks, as they were in the app, and the conversation goes on
where its newest message is, or the `current_leaf_message_uuid` where there is one.

`content` wins over `text`, which repeats it with tools flattened; `text` is read where content says nothing. What
an attachment held is a text that begins with the file's name; a file that was left out of the export is known by
its name. Blocks that say nothing (`token_budget`, `flag`) are left out, and so are messages of nothing else. A
block of an unknown type is read as text where it has a text, title, name, path or url, and refused otherwise.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from everthread.core.events import Assistant, Event, ToolCall, ToolResult, User
from everthread.core.logged import microseconds
from everthread.core.parts import File, Image, Part, Reasoning, Text, image
from everthread.errors import BadFormat
from everthread.providers.blobs import from_base64
from everthread.providers.checks import a_list, a_string, an_object, unexpected, unknown
from everthread.transfer.strands import MOST, Exported, Tree, ordered

_SENDERS = ("human", "assistant")
_SILENT = ("token_budget", "flag", "redacted_thinking")
_BLOCKS = ("text", "thinking", "tool_use", "tool_result", "image", *_SILENT, "any with a text, title, name or url")
_READABLE = ("title", "name", "file_path", "url", "text")

_Messages = dict[str, tuple[dict[str, Any], str]]


def from_claude(conversation: dict[str, Any], *, where: str = "conversation") -> Exported:
    """One conversation of the export's list; `where` is what errors call it."""
    given = an_object(conversation, where)
    messages = _messages(given.get("chat_messages"), f"{where}.chat_messages")
    tree = Tree()
    for id, after in ordered(_parents(messages), lambda id: f"{messages[id][1]}.parent_message_uuid"):
        message, place = messages[id]
        time = _time(message.get("created_at"), f"{place}.created_at")
        tree.add(id, after, [(time, event) for event in _read(message, id, place)])
    current = _string(given.get("current_leaf_message_uuid"), f"{where}.current_leaf_message_uuid")
    if current and current not in messages:
        place = f"{where}.current_leaf_message_uuid"
        raise BadFormat(f"found the message {current!r}, which is not there", where=place)
    return Exported(
        name=_string(given.get("name"), f"{where}.name"),
        began=_time(given.get("created_at"), f"{where}.created_at"),
        strands=tree.strands(),
        current=tree.holding(current) if current else tree.newest(),
    )


def _messages(given: object, where: str) -> _Messages:
    """Each message with its place, by its uuid; by its index where it has none."""
    messages: _Messages = {}
    for index, one in enumerate(a_list(given, where)):
        place = f"{where}[{index}]"
        message = an_object(one, place)
        id = _string(message.get("uuid"), f"{place}.uuid") or f"#{index}"
        if id in messages:
            raise BadFormat(f"found the uuid {id!r} a second time", where=f"{place}.uuid")
        messages[id] = message, place
    return messages


def _parents(messages: _Messages) -> dict[str, str | None]:
    """Whom each message answers: who it says, or the one before it where nobody in the list says so."""
    named = {
        id: _string(message.get("parent_message_uuid"), f"{place}.parent_message_uuid") or None
        for id, (message, place) in messages.items()
    }
    if any(parent in messages for parent in named.values()):
        return named
    return dict(zip(messages, (None, *messages), strict=False))


# -- messages ----------------------------------------------------------------------------------------------


def _read(message: dict[str, Any], id: str, where: str) -> list[Event]:
    sender = message.get("sender")
    if sender not in _SENDERS:
        raise unknown("sender", sender, _SENDERS, where)
    events = _content(message, id, where)
    if not events and (text := _string(message.get("text"), f"{where}.text")):
        events = [_say(sender, [Text(text=text)])]
    if not (files := _files(message, where)):
        return events
    if events and isinstance(last := events[-1], User | Assistant):
        return [*events[:-1], _say(sender, [*last.parts, *files])]
    return [*events, _say(sender, files)]


def _say(sender: str, parts: list[Part]) -> User | Assistant:
    return User(parts=tuple(parts)) if sender == "human" else Assistant(parts=tuple(parts))


def _content(message: dict[str, Any], id: str, where: str) -> list[Event]:
    """An event for each run of blocks between tools, and the tools, in the order in which they came."""
    events: list[Event] = []
    run: list[Part] = []
    waiting: list[ToolCall] = []
    for index, given in enumerate(a_list(message.get("content") or [], f"{where}.content")):
        place = f"{where}.content[{index}]"
        block = an_object(given, place)
        if block.get("type") not in ("tool_use", "tool_result"):
            run += _part(block, place)
            continue
        if run:
            events.append(_say(message["sender"], run))
        run = []
        if block["type"] == "tool_use":
            waiting.append(_call(block, f"{id}:{index}", place))
            events.append(waiting[-1])
        else:
            events.append(_result(block, waiting, place))
    return [*events, _say(message["sender"], run)] if run else events


def _call(block: dict[str, Any], otherwise: str, where: str) -> ToolCall:
    given = block.get("input")
    arguments = given if isinstance(given, str) else json.dumps({} if given is None else given, ensure_ascii=False)
    return ToolCall(
        id=_string(block.get("id"), f"{where}.id") or otherwise,
        name=a_string(block.get("name"), f"{where}.name"),
        arguments=arguments,
    )


def _result(block: dict[str, Any], waiting: list[ToolCall], where: str) -> ToolResult:
    """Answers the tool call it names; without an id the first that waits, of the same name if there is one."""
    id = _string(block.get("tool_use_id"), f"{where}.tool_use_id")
    name = _string(block.get("name"), f"{where}.name")
    answered = [call for call in waiting if call.id == id] if id else sorted(waiting, key=lambda c: c.name != name)
    if answered:
        waiting.remove(answered[0])
        id = answered[0].id
    error = block.get("is_error")
    if error is not None and not isinstance(error, bool):
        raise unexpected(error, "a boolean or null", f"{where}.is_error")
    return ToolResult(id=id, name=name, parts=_result_parts(block, f"{where}.content"), error=bool(error))


def _result_parts(block: dict[str, Any], where: str) -> tuple[Part, ...]:
    content = block.get("content")
    if content is None or isinstance(content, str):
        return (Text(text=content),) if content else ()
    if not isinstance(content, list):
        raise unexpected(content, "a string, a list of blocks or null", where)
    places = [f"{where}[{index}]" for index in range(len(content))]
    return tuple(
        part for one, place in zip(content, places, strict=True) for part in _part(an_object(one, place), place)
    )


# -- blocks and files --------------------------------------------------------------------------------------


def _part(block: dict[str, Any], where: str) -> list[Part]:
    """What a block says, or nothing."""
    kind = block.get("type")
    match kind:
        case "text":
            text = _string(block.get("text"), f"{where}.text")
            return [Text(text=text)] if text else []
        case "thinking":
            thought = _string(block.get("thinking"), f"{where}.thinking")
            return [Reasoning(text=thought)] if thought else []
        case "image":
            return [_image(block, where)]
        case _ if kind in _SILENT:
            return []
        case _:
            found = [block.get(field) for field in _READABLE]
            said = [text for text in found if isinstance(text, str) and text]
            if not said:
                raise unknown("type", kind, _BLOCKS, where)
            return [Text(text="\n".join(said))]


def _image(block: dict[str, Any], where: str) -> Image:
    """By its bytes, its url, or an id that only Claude knows."""
    source = an_object(block.get("source") or {}, f"{where}.source")
    if source.get("data") is not None:
        data = from_base64(a_string(source["data"], f"{where}.source.data"), f"{where}.source.data")
        return image(data, media_type=_string(source.get("media_type"), f"{where}.source.media_type"))
    url = source.get("url") or block.get("url") or block.get("file_uuid")
    return Image(url=_string(url, where))


def _files(message: dict[str, Any], where: str) -> list[Part]:
    """Attachments with what was read from them, then the files of which only the name is known."""
    parts: list[Part] = []
    read: set[str] = set()
    for field in ("attachments", "files"):
        for index, given in enumerate(a_list(message.get(field) or [], f"{where}.{field}")):
            place = f"{where}.{field}[{index}]"
            about = an_object(given, place)
            name = _string(about.get("file_name"), f"{place}.file_name")
            content = _string(about.get("extracted_content"), f"{place}.extracted_content")
            if content:
                parts.append(Text(text=f"{name}\n\n{content}" if name else content))
                read.add(name)
            elif name not in read:
                parts.append(File(name=name, url=_string(about.get("file_uuid"), f"{place}.file_uuid")))
    return parts


def _string(given: object, where: str) -> str:
    return "" if given is None else a_string(given, where, understood="a string or null")


def _time(given: object, where: str) -> int | None:
    if given is None:
        return None
    text = a_string(given, where, understood="a time such as 2024-05-01T10:00:00Z")
    try:
        time = datetime.fromisoformat(text)
        found = microseconds(time if time.tzinfo else time.replace(tzinfo=UTC))
    except ValueError:
        found = -1
    if not 0 <= found < MOST:
        raise BadFormat(f"found {text[:60]!r} where a time such as 2024-05-01T10:00:00Z is understood", where=where)
    return found
