"""From the events of a turn to the items of a request.

All pairing is settled here, by position: a result belongs to a tool call of the reply that it directly follows,
because ids repeat within real conversations. A call without a result has a placeholder, and a result without
a call (it came late, or twice) is told as text where it arrived. The log is never touched, and the same events
always give the same items.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence

from everthread.core.events import Assistant, Event, Redacted, System, ToolCall, ToolResult, User, stand_in
from everthread.core.fence import BREAK, INSTRUCTIONS, RESULT, Fence
from everthread.core.logged import Logged
from everthread.core.parts import Part, Reasoning, Text
from everthread.core.request import Answer, Call, Item, MessageItem, ReplyItem, Ways, clean, compact, object_of, spelled
from everthread.core.sections import quoted
from everthread.core.tokens import CALL_WRAPPING, STUB_HEAD, STUB_TAIL

_SAID = (User, System)
_GONE = (Text(text="(redacted)"),)
_ID = re.compile(r"[A-Za-z0-9_-]{1,40}").fullmatch  # what every provider takes
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch
_ODD = re.compile(r"[^A-Za-z0-9_-]")

BROKEN_UP = "texts with the number of the fence, which was broken up"
_WAITS = {
    "": "No result: this tool call was interrupted.",
    "approval": "No result yet: this tool call waits for approval. If one comes, a later message tells it",
    "job": "No result yet: this tool call takes longer. If one comes, a later message tells it",
}


QUOTES = {"recall_context": "recall", "open_event": "event"}  # tools that quote what was said, and what they quote


class Items:
    """Folds the events of turns into items.

    `repaired` says what was not as a provider would have it, and how often; `added` is the size of what was
    put in for it, as `size` reckons texts. `plain` stays true while there is nothing but text in any part, and `simple`
    while all is sent as it was counted when it was appended; `called` are the names of the tools that were called, and
    `ids` the ids of the calls. `fences` are the seqs of what is told on the user's side though the user did not say it,
    and was not announced.
    """

    def __init__(
        self,
        size: Callable[[str], int],
        shortened: dict[int, str] | None = None,
        *,
        fence: Fence,
        ways: Ways,
    ) -> None:
        self.repaired: dict[str, int] = {}
        self.added = 0
        self.plain = True
        self.simple = True
        self.called: set[str] = set()
        self.ids: set[str] = set()
        self.fresh: list[Call] = []  # the calls of the turn that was folded last
        self._names: dict[str, str] = {}  # of the tools that were called, by the ids that the log has
        self.fences: list[int] = []
        self._announced: set[str] = set()  # ids of calls whose results may come late
        self._size = size
        self._shortened = shortened or {}
        self._fence, self.ways = fence, ways

    def of(self, events: Sequence[Logged], *, full: bool) -> list[Item]:
        """The items of one turn. `full`: its large results are sent whole, unless they were shortened."""
        self.fresh = []
        items: list[Item] = []
        spoke: list[Logged] = []
        results: list[Logged] = []
        for logged in events:
            kind = logged.kind
            if kind == "tool_result":
                results.append(logged)
                continue
            if results:
                self._reply(items, spoke, results, full)
                spoke, results = [], []
            if kind == "assistant" or kind == "tool_call":
                spoke.append(logged)
                continue
            if spoke:
                self._reply(items, spoke, results, full)
                spoke = []
            items.append(self._said(logged))
        if spoke or results:
            self._reply(items, spoke, results, full)
        return items

    def admit(self, calls: dict[str, str]) -> bool:
        """Let in a turn that was folded before, with the ids and names of its calls; not if an id was used by now."""
        if not calls:
            return True
        if not self.ids.isdisjoint(calls):
            return False
        self.ids.update(calls)
        self.called.update(calls.values())
        self._names.update(calls)
        return True

    # -- what was said -------------------------------------------------------------------------------------

    def _said(self, logged: Logged) -> MessageItem:
        event = logged.event
        if logged.kind == "system":
            self.simple = False  # some forms have a fence for it
        if isinstance(event, _SAID):
            parts = self._parts(self._shown(logged.seq, event.parts))
            if not _tells(parts):
                self._note("messages without content")
                parts = (self._put("(empty message)"),)
        else:
            self._note("redacted messages")
            parts = _GONE
        if logged.kind == "system" and self.ways.as_user:
            parts = self._fenced(logged.seq, INSTRUCTIONS, parts)
        return MessageItem(role=logged.kind, parts=parts, seq=logged.seq, time=logged.micros, session=logged.session)

    def _shown(self, seq: int, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """The parts of a message, its text shortened where it had to be."""
        if seq not in self._shortened:
            return parts
        self.simple = False
        return (Text(text=self._shortened[seq]), *[part for part in parts if not isinstance(part, Text)])

    # -- what the model did --------------------------------------------------------------------------------

    def _reply(self, items: list[Item], spoke: list[Logged], results: list[Logged], full: bool) -> None:
        if len(spoke) == 1 and len(results) < 2 and (simple := self._simple(spoke[0], results, full)):
            items.append(simple)
            return
        parts, calls, model = self._spoken(spoke)
        answers: tuple[Answer, ...] = ()
        if calls:
            answers, results = self._answers(calls, results, full)
        if not spoke:
            pass  # results alone
        elif not calls and not _tells(parts):
            self._note("replies without content, left out")
        else:
            self.simple = self.simple and sum(isinstance(part, Text) for part in parts) < 2
            items.append(ReplyItem(parts=tuple(parts), answers=answers, model=model, seq=spoke[0].seq))
        items += [self._late(result, full) for result in results]

    def _spoken(self, spoke: list[Logged]) -> tuple[list[Part | Call], list[tuple[Call, ToolCall]], str]:
        """What a reply says, its calls, and the model that said it last."""
        parts: list[Part | Call] = []
        calls: list[tuple[Call, ToolCall]] = []
        model = ""
        for logged in spoke:
            event = logged.event
            if isinstance(event, Redacted):
                event = self._redacted(event, parts)
            if isinstance(event, ToolCall):
                call = self._call(logged.seq, event)
                calls.append((call, event))
                parts.append(call)
            elif isinstance(event, Assistant):
                if event.model != model:  # reasoning goes back with what its own model said, or not at all
                    parts = [part for part in parts if not isinstance(part, Reasoning)]
                parts += self._parts(event.parts)
                model = event.model
        if self._joins(parts):
            parts = [parts[0], *[_parted(part) if type(part) is Text else part for part in parts[1:]]]
        return parts, calls, model

    def _simple(self, spoke: Logged, results: list[Logged], full: bool) -> ReplyItem | None:
        """One text, or one call with its result: nearly all there are, so they are made straight away."""
        event = spoke.event
        if isinstance(event, Assistant) and not results:
            parts = self._parts(event.parts)
            return ReplyItem(parts=parts, model=event.model, seq=spoke.seq) if _tells(parts) else None
        if not results or not isinstance(event, ToolCall):
            return None
        result = results[0].event
        if not isinstance(result, ToolResult) or event.id != result.id:
            return None
        call = self._call(spoke.seq, event)
        return ReplyItem(parts=(call,), answers=(self._answer(call, results[0], full),), seq=spoke.seq)

    def _redacted(self, event: Redacted, parts: list[Part | Call]) -> Event:
        self._note("redacted messages")
        played = stand_in(event)
        if isinstance(played, Assistant):
            parts += _GONE
        return played

    def _call(self, seq: int, event: ToolCall) -> Call:
        id, name, arguments = event.id, event.name, event.arguments
        if not _ID(id) or self._fence.number in id:
            self._note("tool calls with an id that providers refuse")
            id = f"call_{seq}"
        if id in self.ids:
            self._note("tool calls with an id that was used before")
            id = f"{id[:28]}_{seq}"
            while id in self.ids:  # even that one may have been somebody's
                id += "_"
        self.ids.add(id)
        if not _NAME(name):
            self._note("tool calls with a name that providers refuse")
            name = _ODD.sub("_", name)[:64] or "unknown"
        if self._fence.number in name:
            self._note(BROKEN_UP)
            name = self._fence.named(name)
        self.called.add(name)
        arguments, valid = spelled(self._unfenced(arguments))
        if not valid:
            self._note("tool calls whose arguments are no JSON object")
        call = Call(id=id, name=name, arguments=arguments, seq=seq, meta=event.meta)
        self.fresh.append(call)
        self._names[event.id] = name
        return call

    # -- answers -------------------------------------------------------------------------------------------

    def _answers(
        self, calls: list[tuple[Call, ToolCall]], results: list[Logged], full: bool
    ) -> tuple[tuple[Answer, ...], list[Logged]]:
        """One answer for each call, in the calls' order, and the results that answer none of them."""
        found, rest = _matched([event.id for _, event in calls], results)
        answers = []
        for number, (call, event) in enumerate(calls):
            if result := found.get(number):
                answers.append(self._answer(call, result, full))
            else:
                self._note("tool calls without a result")
                answers.append(Answer(call=call, parts=(self._waits(event),), error=not event.waits_for))
        return tuple(answers), rest

    def _answer(self, call: Call, logged: Logged, full: bool) -> Answer:
        said, parts = logged.event, self._result(logged, full)
        error = isinstance(said, ToolResult) and said.error
        if call.name in QUOTES and not error:
            before, after = quoted(self._fence, QUOTES[call.name])
            parts = (self._put(before), *parts, self._put(after))
        if self.ways.beside and any(not isinstance(part, Text) for part in parts):
            parts = (*parts, self._put(f"[What is no text follows, {self._between()}.]"))
            self._fenced(0, RESULT, ())  # the tags that the provider's form puts around it
        return Answer(call=call, parts=parts, error=error, seq=logged.seq)

    def _waits(self, call: ToolCall) -> Text:
        """What stands for a result, and how a late one will be told."""
        if not call.waits_for:
            return self._put(_WAITS[""], CALL_WRAPPING)
        self._announced.add(call.id)
        return self._put(f"{_WAITS[call.waits_for]}, {self._between()}.", CALL_WRAPPING)

    def _result(self, logged: Logged, full: bool) -> tuple[Part, ...]:
        event = logged.event
        if not isinstance(event, ToolResult):
            self._note("redacted messages")
            return _GONE
        if logged.seq in self._shortened:
            self.simple = False
            return (self._cleaned(Text(text=self._shortened[logged.seq])),)
        if not full and logged.settled < logged.tokens:
            self.simple = False
            others = tuple(part for part in event.parts if not isinstance(part, Text))
            return (self._cleaned(Text(text=stub(logged))), *self._parts(others))
        return self._parts(event.parts)

    def _late(self, logged: Logged, full: bool) -> MessageItem:
        self._note("results told as text, because their tool call is not right before them")
        event = logged.event
        name = (event.name or self._names.get(event.id, event.id)) if isinstance(event, ToolResult) else ""
        error = isinstance(event, ToolResult) and event.error
        is_told = _NAME(name) and self._fence.holds(name)
        about = (f' of="{name}"' if is_told else "") + (' error="true"' if error else "")
        announced = isinstance(event, ToolResult) and event.id in self._announced
        parts = self._fenced(0 if announced else logged.seq, RESULT, self._result(logged, full), about)
        return MessageItem(role="user", parts=parts, seq=logged.seq, time=logged.micros, session=logged.session)

    # -- what the user did not say ---------------------------------------------------------------------------

    def _fenced(self, seq: int, kind: str, parts: tuple[Part, ...], about: str = "") -> tuple[Part, ...]:
        """Parts that are told on the user's side, between tags that only we can make. `seq`: of what the instructions
        must tell the tags for."""
        self.fences += [seq] if seq else []
        opening, closing = self._fence.opening(kind, about), self._fence.closing(kind)
        return (self._put(opening), *parts, self._put(closing))

    def _between(self) -> str:
        """The tags of a result, announced where nobody but us can speak: then the instructions need not tell of them,
        and the provider's cache stays good."""
        return f"between {self._fence.opening(RESULT)} and {self._fence.closing(RESULT)}"

    # -- texts ---------------------------------------------------------------------------------------------

    def _parts(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        if len(parts) == 1 and type(only := parts[0]) is Text and only.text.isascii() and self._fence.holds(only.text):
            return parts  # nearly all there are
        self.plain = self.plain and all(isinstance(part, Text) for part in parts)
        self.simple = self.simple and self.plain and len(parts) == 1
        return self._apart(tuple([self._cleaned(part) if isinstance(part, Text) else part for part in parts]))

    def _apart(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """Parts of which no text goes on with the number where the one before it ends: some forms put them together.
        Files of text are read by whoever has their bytes: see `Media.add`."""
        if not self._joins(parts):
            return parts
        return (parts[0], *[_parted(part) if type(part) is Text else part for part in parts[1:]])

    def _joins(self, parts: Sequence[Part | Call]) -> bool:
        if sum([type(part) is Text for part in parts]) < 2 or self._fence.holds("".join(map(_beside, parts))):
            return False
        self._note(BROKEN_UP)
        self.added += self._size(BREAK) * (len(parts) - 1)
        return True

    def _cleaned(self, part: Text) -> Text:
        cleaned = clean(part.text)
        if cleaned is not part.text:
            self._note("texts with characters that no request can carry")
        if not self._fence.holds(cleaned):
            cleaned = self._broken(cleaned)
        return part if cleaned is part.text else Text(text=cleaned, meta=part.meta)

    def _unfenced(self, arguments: str) -> str:
        """Arguments without the number, which may be spelled in escapes: some providers are sent what they spell."""
        spelt = compact(object_of(clean(arguments))) if "\\u" in arguments else ""
        if not self._fence.holds(spelt):
            arguments = spelt
        return arguments if self._fence.holds(arguments) else self._broken(clean(arguments))

    def _broken(self, text: str) -> str:
        """Content that has the number of the fence: somebody was told it."""
        self._note(BROKEN_UP)
        broken = self._fence.broken(text)
        self.added += max(0, self._size(broken) - self._size(text))
        return broken

    def _put(self, text: str, wrapping: int = 0) -> Text:
        self.simple = False
        self.added += self._size(text) + wrapping
        return Text(text=text)

    def _note(self, what: str) -> None:
        self.simple = False
        self.repaired[what] = self.repaired.get(what, 0) + 1


def _matched(ids: list[str], results: list[Logged]) -> tuple[dict[int, Logged], list[Logged]]:
    """Which result answers which call: the first open one with its id, or, where either has none, the first open
    one by position; and the results that answer none."""
    given = [event.id if isinstance(event := result.event, ToolResult) else "" for result in results]
    if given == ids and len(set(ids)) == len(ids) and "" not in ids:
        return dict(enumerate(results)), []
    open_calls: dict[str, list[int]] = {}
    for number in range(len(ids) - 1, -1, -1):
        open_calls.setdefault(ids[number], []).append(number)
    found: dict[int, Logged] = {}
    rest = []
    for id, result in zip(given, results, strict=True):
        if id and open_calls.get(id):
            found[open_calls[id].pop()] = result
        else:
            rest.append((id, result))
    return found, _matched_by_place(ids, rest, found)


def _matched_by_place(ids: list[str], rest: list[tuple[str, Logged]], found: dict[int, Logged]) -> list[Logged]:
    """Give results that no id matches to the first open calls, where either has none; those that are left."""
    anywhere = deque(number for number in range(len(ids)) if number not in found)
    nameless = deque(number for number in anywhere if not ids[number])
    left = []
    for id, result in rest:
        places = nameless if id else anywhere
        while places and places[0] in found:
            places.popleft()
        if places:
            found[places.popleft()] = result
        else:
            left.append(result)
    return left


def stub(logged: Logged, head: int = STUB_HEAD, tail: int = STUB_TAIL) -> str:
    """What is sent in place of a large result: its head and tail, and how to find the whole."""

    def short(whole: str) -> str:
        left = len(whole) - head - tail
        if left <= 0:
            return whole
        left_out = f"{left:,} of {len(whole):,} characters left out"
        note = f"[… {left_out}; the whole is event {logged.seq} of this conversation …]"
        return "\n".join(piece for piece in (whole[:head], note, whole[len(whole) - tail :]) if piece)

    return short(clean(logged.text))


def _parted(text: Text) -> Text:
    return Text(text=BREAK + text.text, meta=text.meta)


def _beside(part: Part | Call) -> str:
    """What stands between the parts around it; reasoning may be left out."""
    return part.text if isinstance(part, Text) else "" if isinstance(part, Reasoning) else "\n"


def _tells(parts: Sequence[Part | Call]) -> bool:
    """Whether there is anything that a provider would take for content: reasoning alone is not."""
    for part in parts:
        if not isinstance(part, Text):
            if not isinstance(part, Reasoning):
                return True
        elif part.text and not part.text.isspace():
            return True
    return False
