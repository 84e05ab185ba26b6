"""Anthropic Messages: alternating roles, results in the next user message and first in it, four breakpoints.

Thinking goes back unmodified and complete, first in its message, only to the model that made it, and only while the
request still has what it was produced with (`ReplyItem.reasons`).
"""

from __future__ import annotations

from typing import Any

from everthread.core.parts import File, Image, Part, Reasoning, Text
from everthread.core.request import Answer, Call, Item, ReplyItem, Request, Tool
from everthread.core.tokens import is_text
from everthread.providers.base import (
    IMAGES,
    NO_SCHEMA,
    PDF,
    Media,
    Rendered,
    Shown,
    chosen_tool,
    echoed,
    in_words,
    input_of,
    left_out,
    shown,
    with_users_ends,
)
from everthread.providers.blobs import to_base64
from everthread.providers.models import Model
from everthread.providers.pictures import PictureForm, SentPicture, keep
from everthread.providers.shapes import FORMATS, Dialect

Block = dict[str, Any]

THINKING = ("thinking", "redacted_thinking")
BREAKPOINTS = 4
BUDGETS = {"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 24_576}
EFFORTS = {"minimal": "low"}
LEAST_THINKING = 1_024
CHOICES = {"auto": "auto", "none": "none", "required": "any"}
_EMPTY_RESULT = "(no output)"
_DIALECT = Dialect(
    limits=frozenset(("format", "minItems")), formats=FORMATS | {"uri"}, least_items=1, optional=24, unions=16
)


def dialect(model: Model, *, tools: bool) -> Dialect:
    return _DIALECT._replace(refused="" if model.takes_schema else NO_SCHEMA)


def render(request: Request, model: Model, media: Media) -> Rendered:
    made = _Messages(media)
    for item in request.items:
        made.add(item)
    repaired = with_users_ends(made.messages, _user)
    tools, system = _tools(request, made), [_text(text) for text in request.instructions]
    given = {"tools": tools, "system": system, "messages": made.messages}
    body: Block = {"model": model.name, "max_tokens": request.reply_tokens}
    body |= {name: blocks for name, blocks in given.items() if blocks}
    repaired += keep(made.messages, PICTURES, model.limits, media)
    left = _options(body, request, model)
    if request.cache:
        lasting = system[: len(system) - request.changing] or tools
        _mark(request.cache_ttl, [*system[-1:], *lasting[-1:], *made.breakpoints()])
    if tools and not request.tools:
        repaired.append("the tools that the history calls were declared, because none were given")
    return Rendered(body, repaired, left)


class _Messages:
    """Messages as they grow, with the blocks that breakpoints may stand on."""

    def __init__(self, media: Media) -> None:
        self.messages: list[Block] = []
        self.called: dict[str, None] = {}  # the names of the tools, in their order
        self._media = media
        self._said: list[Block] = []  # the last block of each user text
        self._before_reply: Block | None = None
        self._last: Block | None = None
        self._last_is_said = False

    def add(self, item: Item) -> None:
        if isinstance(item, ReplyItem):
            self._reply(item)
            self._last_is_said = False
            return
        blocks = self._content(item.parts)
        if item.aside:
            blocks.append(_text(item.aside))
        self._say("user", blocks)
        if item.seq and item.role == "user":
            self._said.append(blocks[-1])
        self._last_is_said = True

    def _reply(self, reply: ReplyItem) -> None:
        self._before_reply = self._last
        blocks: list[Block] = []
        for part in reply.parts:
            blocks += _some(part.text) if isinstance(part, Text) else self._spoken(part, reply.reasons)
        while blocks and blocks[-1]["type"] in THINKING:  # and nothing followed it
            blocks.pop()
        self._say("assistant", blocks)
        if reply.answers:
            self._say("user", [self._answer(answer) for answer in reply.answers])

    def _spoken(self, part: Reasoning | Image | File | Call, reasons: bool) -> list[Block]:
        if isinstance(part, Call):
            self.called[part.name] = None
            return [{"type": "tool_use", "id": part.id, "name": part.name, "input": input_of(part)}]
        if isinstance(part, Reasoning):
            return _thinking(part) if reasons else []
        return [_text(self._media.tell(part))]

    def _answer(self, answer: Answer) -> Block:
        made: Block = {"type": "tool_result", "tool_use_id": answer.call.id}
        if answer.error:  # an error takes only text
            return {**made, "content": in_words(answer.parts, self._media).strip() or _EMPTY_RESULT, "is_error": True}
        blocks = self._content(answer.parts)
        if len(blocks) == 1 and blocks[0]["type"] == "text":
            made["content"] = blocks[0]["text"]
        else:
            made["content"] = blocks or _EMPTY_RESULT
        return made

    def _content(self, parts: tuple[Part, ...]) -> list[Block]:
        blocks: list[Block] = []
        for part in parts:
            if isinstance(part, Text):
                blocks += _some(part.text)
            elif isinstance(part, Image | File):
                blocks.append(_media(part, self._media))
        if len(blocks) < 2 or not self._media.shows:
            return blocks
        apart: list[Block] = []
        self._media.add(apart, blocks)
        return apart

    def _say(self, role: str, blocks: list[Block]) -> None:
        if not blocks:
            return
        if self.messages and self.messages[-1]["role"] == role:
            self._media.add(self.messages[-1]["content"], blocks)
        else:
            self.messages.append({"role": role, "content": blocks})
        self._last = blocks[-1]

    def breakpoints(self) -> list[Block]:
        """The blocks to mark: where the last model call ended, the newest user text (or the one before, if only the
        newest is new), and the very last block. A hit then never depends on how far back the provider looks."""
        said = self._said[:-1] if self._last_is_said else self._said
        return [block for block in (*said[-1:], self._before_reply, self._last) if block is not None]


def check(body: dict[str, Any]) -> list[str]:
    problems: set[str] = set()
    messages = body["messages"]
    if not messages[0]["role"] == messages[-1]["role"] == "user":
        problems.add("the first and the last message must be the user's")
    waiting: list[str] = []
    every: list[str] = []
    role = ""
    for message in messages:
        if message["role"] == role:
            problems.add("two neighbours have the same role")
        role = message["role"]
        content = message["content"]
        if len(content) == 1 and (text := content[0].get("text")) and not waiting and not text.isspace():
            continue  # as most are
        waiting = _calls(content, waiting, problems)
        every += waiting
    if len(set(every)) != len(every):
        problems.add("an id of a tool call occurs twice")
    return sorted(problems)


def _calls(content: list[Block], waiting: list[str], problems: set[str]) -> list[str]:
    """The ids of a message's calls. Its results must be those that the message before waits for."""
    called: list[str] = []
    answered: list[str] = []
    for place, block in enumerate(content):
        if "text" in block:
            if _is_blank(block["text"]):
                problems.add("a text is empty")
        elif "tool_use_id" in block:
            answered.append(block["tool_use_id"])
            if len(answered) <= place:
                problems.add("something stands before a result")
        elif "input" in block:
            called.append(block["id"])
    if answered != waiting:
        problems.add("tool calls and the results in the next message do not match")
    return called


# -- blocks ------------------------------------------------------------------------------------------------


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _some(text: str) -> list[Block]:
    """A block of text; none of a blank one, which Anthropic refuses."""
    return [{"type": "text", "text": text}] if text and not text.isspace() else []


def _is_blank(text: str) -> bool:
    return not text or text.isspace()


def _user(text: str) -> Block:
    return {"role": "user", "content": [_text(text)]}


def _tools(request: Request, made: _Messages) -> list[Block]:
    """Those of the request; else those that the history calls, which must be declared."""
    return [_tool(tool) for tool in request.tools or [Tool(name=name) for name in made.called]]


def _tool(tool: Tool) -> Block:
    made: Block = {"name": tool.name}
    if tool.description:
        made["description"] = tool.description
    return {**made, "input_schema": tool.schema or {"type": "object"}}


def _thinking(part: Reasoning) -> list[Block]:
    """The block as it was received, if it is one."""
    block = echoed(part.meta, "anthropic") or {}
    match block:
        case {"type": "thinking", "thinking": str(), "signature": str()} | {"type": "redacted_thinking", "data": str()}:
            return [block]
        case _:
            return []


def _media(part: Image | File, media: Media) -> Block:
    found = shown(part, media)
    made = _image(found) if isinstance(part, Image) else _document(part, found, media)
    return made or _text(media.tell(part))


def _image(found: Shown) -> Block | None:
    is_taken = found.media_type in IMAGES if found.data else found.url
    return {"type": "image", "source": _source(found)} if is_taken else None


def _document(part: File, found: Shown, media: Media) -> Block | None:
    if found.data and is_text(found.media_type):
        text = media.read(found.data)
        return _text(media.tell(part, "empty") if _is_blank(text) else text)
    is_taken = found.media_type == PDF if found.data else found.url and found.media_type in ("", PDF)
    return {"type": "document", "source": _source(found)} if is_taken else None


def _source(found: Shown) -> Block:
    if found.data:
        return {"type": "base64", "media_type": found.media_type, "data": to_base64(found.data)}
    return {"type": "url", "url": found.url}


def _sent(block: Block) -> SentPicture | None:
    if block["type"] not in ("image", "document"):
        return None
    source = block["source"]
    return SentPicture(block["type"] == "image", source.get("media_type", ""), source.get("data", ""))


def _picture(media_type: str, data: str) -> Block:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


PICTURES = PictureForm(_sent, _picture, _text)


# -- options and breakpoints -------------------------------------------------------------------------------


def _options(body: Block, request: Request, model: Model) -> list[str]:
    """Add what goes with the messages. Returns what was left out, in words."""
    left: list[str] = []
    if request.output is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": request.output}}
    stops = [stop for stop in request.stop if not _is_blank(stop)]
    if stops:
        body["stop_sequences"] = stops
    if len(stops) < len(request.stop):
        left.append(left_out("a text that ends the reply", "it is blank"))
    if request.seed is not None:
        left.append(left_out("the seed"))
    # Where there are only tools that the past has called, none of them can be asked for.
    told = body.get("tools", ()) if request.tools or request.tool_choice == "none" else ()
    if choice := chosen_tool(request, [tool["name"] for tool in told], left):
        body["tool_choice"] = {"type": CHOICES[choice]} if choice in CHOICES else {"type": "tool", "name": choice}
    # The older models take these; the SDK has no parameters for them any more.
    if extra := _sampling(request, model, left) | request.extra_body:
        body["extra_body"] = extra
    if request.effort and not _think(body, request, model):
        left.append(
            "thinking was not asked for, because this tool loop began without it, a tool must be called, or the reply "
            "is too short"
        )
    return left


def _sampling(request: Request, model: Model, left: list[str]) -> Block:
    """Temperature and top_p, of which the models take one, or none."""
    given = {"temperature": request.temperature, "top_p": request.top_p}
    taken = {name: min(value, 1.0) for name, value in given.items() if value is not None}
    why = "this model does not take it, or not with thinking" if model.adaptive or request.effort else ""
    if len(taken) > 1 and not why:
        del taken["top_p"]
        left.append(left_out("top_p", "this model does not take it beside a temperature"))
    left += [left_out("the temperature" if name == "temperature" else name, why) for name in taken if why]
    return {} if why else taken


def _think(body: Block, request: Request, model: Model) -> bool:
    forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
    if forced or not model.reasons or not _may_think(body["messages"]):
        return False
    if model.adaptive:
        body["thinking"] = {"type": "adaptive"}
        body["output_config"] = {**body.get("output_config", {}), "effort": EFFORTS.get(request.effort, request.effort)}
        return True
    # The limit on the reply holds for thinking too; half of it at least is left for the answer.
    tokens = min(BUDGETS[request.effort], request.reply_tokens // 2)
    if tokens >= LEAST_THINKING:
        body["thinking"] = {"type": "enabled", "budget_tokens": tokens}
    return tokens >= LEAST_THINKING


def _may_think(messages: list[Block]) -> bool:
    """Within a tool loop only if the last reply has its thinking, which another model's has not."""
    if messages[-1]["content"][0]["type"] != "tool_result":
        return True
    return bool(messages[-2]["content"][0]["type"] in THINKING)


def _mark(ttl: str, blocks: list[Block]) -> None:
    """As many as there may be, the last of these first. A prefix is found only where an earlier request marked its end,
    so what outlasts a step needs a mark of its own; the end of what is told of the past has one where one is left."""
    mark = {"type": "ephemeral"} if ttl == "5m" else {"type": "ephemeral", "ttl": ttl}
    distinct = list({id(block): block for block in blocks}.values())
    for block in distinct[-BREAKPOINTS:]:
        if block.get("type") not in THINKING:
            block["cache_control"] = mark
