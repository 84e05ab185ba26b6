"""The neutral request: what every provider is told, before any of them is told it in its own form.

Events become items. `Said` is one message of the user or of the application; `Step` is what one model call
gave, with the answers to its tool calls. All pairing is settled here, by position: a result belongs to a tool
call of the step that it directly follows, because ids repeat within real conversations. A call without a
result has a placeholder, a result without a call (it came late, or twice) is told as text where it arrived,
and whoever renders a request finds exactly one answer for each call. The log is never touched, and the same
events always give the same items.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

import msgspec

from everthread.core.events import Assistant, Redacted, System, ToolCall, ToolResult, User, stand_in
from everthread.core.logged import Logged
from everthread.core.parts import Part, Reasoning, Text
from everthread.core.tokens import CALL_WRAPPING, STUB_HEAD, STUB_TAIL

# Some providers take an object for arguments: text that spells none travels under this key, told apart by being none.
INVALID = "INVALID_JSON"

_GONE = (Text(text="(redacted)"),)
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ODD = re.compile(r"[^A-Za-z0-9_-]")

_WAITS = {
    "": "No result: this tool call was interrupted.",
    "approval": "No result yet: this tool call waits for approval. If one comes, a later message tells it.",
    "job": "No result yet: this tool call takes longer. If one comes, a later message tells it.",
}


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call with an id that is the only one of its kind in the request. `arguments` spells the object `input`."""

    id: str
    name: str
    arguments: str
    input: dict[str, Any]
    seq: int
    meta: dict[str, str] = {}


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The one result of a call; `seq` is 0 for a placeholder."""

    call: Call
    parts: tuple[Part, ...]
    error: bool = False
    seq: int = 0
    meta: dict[str, str] = {}


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """`aside`: what was so at that moment (time, a pause), told in a marked block after the text."""

    role: str  # user or system
    parts: tuple[Part, ...]
    aside: str = ""
    seq: int = 0


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """`reasons`: whether reasoning in it may go back to the model that made it. `seq`: of its first event."""

    parts: tuple[Part | Call, ...]
    answers: tuple[Answer, ...] = ()
    model: str = ""
    reasons: bool = False
    seq: int = 0


Item = Said | Step


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as the model is told of it: `schema` is the JSON Schema of its arguments."""

    name: str
    description: str = ""
    schema: dict[str, Any] = {}


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one provider request says. `instructions` are texts from what changes least to what
    changes most; `before` is what precedes the window (a recap, a summary)."""

    model: str
    instructions: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()
    items: tuple[Item, ...] = ()
    reply_tokens: int = 4_096
    temperature: float | None = None
    effort: str = ""
    output: dict[str, Any] | None = None
    cache: bool = True
    cache_ttl: str = "5m"
    key: str = ""


class Items:
    """Folds the events of turns into items.

    `repaired` says what was not as a provider would have it, and how often; `added` is the size of what was
    put in for it, as `size` reckons texts.
    """

    def __init__(self, size: Callable[[str], int]) -> None:
        self.repaired: dict[str, int] = {}
        self.added = 0
        self._size = size
        self._ids: set[str] = set()

    def of(self, events: Sequence[Logged], *, full: bool, shortened: dict[int, str] | None = None) -> list[Item]:
        """The items of one turn. `full`: its large results are sent whole; `shortened` are those that are not."""
        items: list[Item] = []
        at, end = 0, len(events)
        while at < end:
            kind = events[at].kind
            if kind == "assistant" or kind == "tool_call":
                spoke, at = _run(events, at, "assistant", "tool_call")
                results, at = _run(events, at, "tool_result")
                items += self._step(spoke, results, full, shortened or {})
            elif kind == "tool_result":
                results, at = _run(events, at, "tool_result")
                items += self._late(results, full, shortened or {})
            else:
                items.append(self._said(events[at]))
                at += 1
        return items

    # -- what was said -------------------------------------------------------------------------------------

    def _said(self, logged: Logged) -> Said:
        event = logged.event
        if not isinstance(event, User | System):
            self._note("redacted messages")
            return Said(role=logged.kind, parts=_GONE, seq=logged.seq)
        parts = event.parts
        if not _tells(parts):
            self._note("messages without content")
            parts = (self._put("(empty message)"),)
        return Said(role=logged.kind, parts=_clean_parts(parts), seq=logged.seq)

    # -- what the model did --------------------------------------------------------------------------------

    def _step(
        self, spoke: Sequence[Logged], results: Sequence[Logged], full: bool, shortened: dict[int, str]
    ) -> Iterator[Item]:
        parts: list[Part | Call] = []
        calls: list[tuple[Call, ToolCall]] = []
        model = ""
        for logged in spoke:
            event = logged.event
            if isinstance(event, Redacted):
                self._note("redacted messages")
                event = stand_in(event)
                if isinstance(event, Assistant):
                    parts += _GONE
            if isinstance(event, Assistant):
                parts += _clean_parts(event.parts)
                model = event.model or model
            elif isinstance(event, ToolCall):
                calls.append((self._call(logged.seq, event), event))
                parts.append(calls[-1][0])
        answers, late = self._answers(calls, results, full, shortened)
        if calls or _tells(parts):
            yield Step(parts=tuple(parts), answers=answers, model=model, seq=spoke[0].seq)
        if late:
            yield from self._late(late, full, shortened)

    def _call(self, seq: int, event: ToolCall) -> Call:
        id = event.id
        if not _ID.fullmatch(id):
            self._note("tool calls with an id that providers refuse")
            id = f"call_{seq}"
        if id in self._ids:
            self._note("tool calls with an id that was used before")
            id = f"{id[:50]}_{seq}"
        self._ids.add(id)
        name = event.name
        if not _ID.fullmatch(name):
            self._note("tool calls with a name that providers refuse")
            name = _ODD.sub("_", name)[:64] or "unknown"
        arguments = clean(event.arguments)
        input = object_of(arguments)
        if input is None:
            self._note("tool calls whose arguments are no JSON object")
            input = {INVALID: arguments}
            arguments = json.dumps(input, ensure_ascii=False)
        elif not input:
            arguments = "{}"
        elif "\\u" in arguments and (spelled := clean(json.dumps(input, ensure_ascii=False))) != arguments:
            arguments, input = spelled, json.loads(spelled)  # a lone surrogate may be spelled in ASCII, too
        return Call(id=id, name=name, arguments=arguments, input=input, seq=seq, meta=event.meta)

    def _answers(
        self,
        calls: list[tuple[Call, ToolCall]],
        results: Sequence[Logged],
        full: bool,
        shortened: dict[int, str],
    ) -> tuple[tuple[Answer, ...], list[Logged]]:
        """One answer for each call, in the calls' order, and the results that answer none of them."""
        if not calls:
            return (), list(results)
        found: dict[int, Logged] = {}
        rest = _match(calls, results, found, blank=False)
        rest = _match(calls, rest, found, blank=True)
        answers = []
        for number, (call, event) in enumerate(calls):
            if result := found.get(number):
                answers.append(_answer(call, result, full, shortened))
            else:
                self._note("tool calls without a result")
                waits = self._put(_WAITS.get(event.waits_for, _WAITS[""]), CALL_WRAPPING)
                answers.append(Answer(call=call, parts=(waits,), error=not event.waits_for))
        return tuple(answers), rest

    def _late(self, results: Sequence[Logged], full: bool, shortened: dict[int, str]) -> Iterator[Said]:
        for logged in results:
            self._note("results told as text, because their tool call is not right before them")
            event = logged.event
            name = (event.name or event.id) if isinstance(event, ToolResult) else ""
            how = " (an error)" if isinstance(event, ToolResult) and event.error else ""
            heading = self._put(clean(f"[A result of an earlier tool call{f' to {name}' if name else ''}{how}:]"))
            yield Said(role="user", parts=(heading, *_result_parts(logged, full, shortened)), seq=logged.seq)

    def _put(self, text: str, wrapping: int = 0) -> Text:
        self.added += self._size(text) + wrapping
        return Text(text=text)

    def _note(self, what: str) -> None:
        self.repaired[what] = self.repaired.get(what, 0) + 1


def _run(events: Sequence[Logged], at: int, *kinds: str) -> tuple[Sequence[Logged], int]:
    begin = at
    while at < len(events) and events[at].kind in kinds:
        at += 1
    return events[begin:at], at


def _match(
    calls: list[tuple[Call, ToolCall]], results: Iterable[Logged], found: dict[int, Logged], *, blank: bool
) -> list[Logged]:
    """Give each result to the first open call with its id; `blank`: where either has none, by position alone."""
    rest = []
    for result in results:
        event = result.event
        id = event.id if isinstance(event, ToolResult) else ""
        for number, (_, call) in enumerate(calls):
            if number not in found and (call.id == id if not blank else not (call.id and id)):
                found[number] = result
                break
        else:
            rest.append(result)
    return rest


def _answer(call: Call, logged: Logged, full: bool, shortened: dict[int, str]) -> Answer:
    event = logged.event
    error, meta = (event.error, event.meta) if isinstance(event, ToolResult) else (False, {})
    parts = _result_parts(logged, full, shortened)
    return Answer(call=call, parts=parts, error=error, seq=logged.seq, meta=meta)


def _result_parts(logged: Logged, full: bool, shortened: dict[int, str]) -> tuple[Part, ...]:
    event = logged.event
    if not isinstance(event, ToolResult):
        return _GONE
    if logged.seq in shortened:
        return (Text(text=shortened[logged.seq]),)
    if not full and logged.settled < logged.tokens:
        others = [part for part in event.parts if not isinstance(part, Text)]
        return (Text(text=stub(logged)), *_clean_parts(others))
    return _clean_parts(event.parts)


# -- stubs -------------------------------------------------------------------------------------------------


def stub(logged: Logged, head: int = STUB_HEAD, tail: int = STUB_TAIL) -> str:
    """What is sent in place of a large result: its head and tail, and how to find the whole."""
    whole = clean(logged.text)
    left = len(whole) - head - tail
    if left <= 0:
        return whole
    note = f"[… {left:,} of {len(whole):,} characters left out; the whole is event {logged.seq} of this conversation …]"
    return "\n".join(piece for piece in (whole[:head], note, whole[len(whole) - tail :]) if piece)


# -- text that any provider takes --------------------------------------------------------------------------


def clean(text: str) -> str:
    """Without lone surrogates, which no request can carry."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _clean_parts(parts: Iterable[Part]) -> tuple[Part, ...]:
    return tuple(
        part
        if not isinstance(part, Text) or part.text.isascii() or (cleaned := clean(part.text)) is part.text
        else Text(text=cleaned, meta=part.meta)
        for part in parts
    )


def _tells(parts: Iterable[Any]) -> bool:
    """Whether there is anything that a provider would take for content: reasoning alone is not."""
    return any(
        bool(part.text) and not part.text.isspace() if isinstance(part, Text) else not isinstance(part, Reasoning)
        for part in parts
    )


def object_of(arguments: str) -> dict[str, Any] | None:
    """The JSON object that a text is; None where it is none. No text at all is how some say: no arguments."""
    if not arguments or arguments.isspace():
        return {}
    try:
        body = _decoder.decode(arguments)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    """Python reads 1e999 as infinity, which no JSON can say again."""
    number = float(digits)
    return number if number - number == 0 else _refuse(digits)


_decoder = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
