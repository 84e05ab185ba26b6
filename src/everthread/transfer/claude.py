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
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import chain, groupby
from typing import Any

from everthread.core.events import Assistant, Event, ToolCall, ToolResult, User
from everthread.core.parts import File, Image, Part, Reasoning, Text, image
from everthread.core.times import microseconds, moment
from everthread.errors import BadFormat
from everthread.providers.blobs import from_base64
from everthread.providers.checks import a_list, a_string, unexpected, unknown
from everthread.transfer.given import ExportedObject, text_or_null, text_part
from everthread.transfer.strands import MOST, Exported, Tree, ordered

_SENDERS = ("human", "assistant")
_SILENT = ("token_budget", "flag", "redacted_thinking")
_BLOCKS = ("text", "thinking", "tool_use", "tool_result", "image", *_SILENT, "any with a text, title, name or url")
_READABLE = ("title", "name", "file_path", "url", "text")


def from_claude(conversation: dict[str, Any], *, where: str = "conversation") -> Exported:
    """One conversation of the export's list; `where` is what errors call it."""
    given = ExportedObject.of(conversation, where)
    messages = _messages(given.get("chat_messages"), given.at("chat_messages"))
    tree = Tree()
    for id, after in ordered(_parents(messages), lambda id: messages[id].at("parent_message_uuid")):
        message = messages[id]
        time = _time(message, "created_at")
        tree.add(id, after, [(time, event) for event in _read(message, id)])
    current = given.text("current_leaf_message_uuid")
    if current and current not in messages:
        place = given.at("current_leaf_message_uuid")
        raise BadFormat(f"found the message {current!r}, which is not there", where=place)
    return Exported(
        name=given.text("name"),
        began=_time(given, "created_at"),
        strands=tree.strands(),
        current=tree.holding(current) if current else tree.newest(),
    )


def _messages(listed: object, where: str) -> dict[str, ExportedObject]:
    """Each message by its uuid; by its index where it has none."""
    messages: dict[str, ExportedObject] = {}
    for index, one in enumerate(a_list(listed, where)):
        message = ExportedObject.of(one, f"{where}[{index}]")
        id = message.text("uuid") or f"#{index}"
        if id in messages:
            raise BadFormat(f"found the uuid {id!r} a second time", where=message.at("uuid"))
        messages[id] = message
    return messages


def _parents(messages: dict[str, ExportedObject]) -> dict[str, str | None]:
    """What each message answers: the parent it names, or the one before it where no message names one in the list."""
    named = {id: message.text("parent_message_uuid") or None for id, message in messages.items()}
    if any(parent in messages for parent in named.values()):
        return named
    return dict(zip(messages, (None, *messages), strict=False))


# -- messages ----------------------------------------------------------------------------------------------


def _read(message: ExportedObject, id: str) -> list[Event]:
    sender = message.get("sender")
    if sender not in _SENDERS:
        raise unknown("sender", sender, _SENDERS, message.where)
    events = _content(message, id)
    if not events and (text := message.text("text")):
        events = [_say(sender, [Text(text=text)])]
    files = _files(message)
    return _with_files(events, sender, files) if files else events


def _with_files(events: list[Event], sender: str, files: list[Part]) -> list[Event]:
    """The files join what was said last; where nothing was, they become a message of their own."""
    if events and isinstance(last := events[-1], User | Assistant):
        return [*events[:-1], _say(sender, [*last.parts, *files])]
    return [*events, _say(sender, files)]


def _say(sender: str, parts: list[Part]) -> User | Assistant:
    return User(parts=tuple(parts)) if sender == "human" else Assistant(parts=tuple(parts))


def _content(message: ExportedObject, id: str) -> list[Event]:
    """An event for each run of blocks between tools, and the tools, in the order in which they came."""
    events: list[Event] = []
    waiting: list[ToolCall] = []
    blocks = enumerate(message.objects("content"))
    for is_tool, run in groupby(blocks, lambda block: block[1].get("type") in ("tool_use", "tool_result")):
        if is_tool:
            events += [_tool(block, f"{id}:{index}", waiting) for index, block in run]
        elif parts := _parts(block for _, block in run):
            events.append(_say(message.get("sender"), parts))
    return events


def _tool(block: ExportedObject, otherwise: str, waiting: list[ToolCall]) -> ToolCall | ToolResult:
    """A call, which waits for its result from then on, or a result; `otherwise` is the id of a call without one."""
    if block.get("type") == "tool_result":
        return _result(block, waiting)
    waiting.append(_call(block, otherwise))
    return waiting[-1]


def _call(block: ExportedObject, otherwise: str) -> ToolCall:
    given = block.get("input")
    arguments = given if isinstance(given, str) else json.dumps({} if given is None else given, ensure_ascii=False)
    return ToolCall(id=block.text("id") or otherwise, name=block.needed_text("name"), arguments=arguments)


def _result(block: ExportedObject, waiting: list[ToolCall]) -> ToolResult:
    """Answers the tool call it names; without an id the first that waits, of the same name if there is one."""
    id, name = block.text("tool_use_id"), block.text("name")
    answered = [call for call in waiting if call.id == id] if id else sorted(waiting, key=lambda c: c.name != name)
    if answered:
        waiting.remove(answered[0])
        id = answered[0].id
    error = block.get("is_error")
    if error is not None and not isinstance(error, bool):
        raise unexpected(error, "a boolean or null", block.at("is_error"))
    return ToolResult(id=id, name=name, parts=_result_parts(block), error=bool(error))


def _result_parts(block: ExportedObject) -> tuple[Part, ...]:
    content = block.get("content")
    if content is None or isinstance(content, str):
        return tuple(text_part(content))
    if not isinstance(content, list):
        raise unexpected(content, "a string, a list of blocks or null", block.at("content"))
    return tuple(_parts(block.objects("content")))


# -- blocks and files --------------------------------------------------------------------------------------


def _parts(blocks: Iterable[ExportedObject]) -> list[Part]:
    return [part for block in blocks for part in _part(block)]


def _part(block: ExportedObject) -> list[Part]:
    """What a block says, or nothing."""
    match block.get("type"):
        case "text":
            return text_part(block.text("text"))
        case "thinking":
            return text_part(block.text("thinking"), Reasoning)
        case "image":
            return [_image(block)]
        case kind:
            return [] if kind in _SILENT else [_readable(block, kind)]


def _readable(block: ExportedObject, kind: object) -> Text:
    """What can be read of a block of an unknown type."""
    found = [block.get(field) for field in _READABLE]
    said = [text for text in found if isinstance(text, str) and text]
    if not said:
        raise unknown("type", kind, _BLOCKS, block.where)
    return Text(text="\n".join(said))


def _image(block: ExportedObject) -> Image:
    """By its bytes, its url, or an id that only Claude knows."""
    source = block.object("source")
    if source.get("data") is not None:
        data = from_base64(source.needed_text("data"), source.at("data"))
        return image(data, media_type=source.text("media_type"))
    url = source.get("url") or block.get("url") or block.get("file_uuid")
    return Image(url=text_or_null(url, block.where))


def _files(message: ExportedObject) -> list[Part]:
    """Attachments with what was read from them, then the files of which only the name is known."""
    parts: list[Part] = []
    read: set[str] = set()
    for about in chain(message.objects("attachments"), message.objects("files")):
        name = about.text("file_name")
        if content := about.text("extracted_content"):
            parts.append(Text(text=f"{name}\n\n{content}" if name else content))
            read.add(name)
        elif name not in read:
            parts.append(File(name=name, url=about.text("file_uuid")))
    return parts


def _time(given: ExportedObject, field: str) -> datetime | None:
    if given.get(field) is None:
        return None
    text = a_string(given.get(field), given.at(field), understood="a time such as 2024-05-01T10:00:00Z")
    try:
        time = datetime.fromisoformat(text)
        found = microseconds(time if time.tzinfo else time.replace(tzinfo=UTC))
    except ValueError:
        found = -1
    if not 0 <= found < MOST:
        reason = f"found {text[:60]!r} where a time such as 2024-05-01T10:00:00Z is understood"
        raise BadFormat(reason, where=given.at(field))
    return moment(found)
