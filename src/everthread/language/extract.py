"""Extractive summaries: the sentences of a conversation that say the most, in time order, as reported speech.

A sentence is worth what it names: numbers, ids, names, decisions; what a chosen sentence already says counts no more,
and a question counts for little. The user's preferences and standing instructions are chosen first. Whatever was said
stands in quotes behind who said it, so that nothing reads as if it were being said now. The text never takes more
tokens than it is given, and the time is linear in the messages but for a sort.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from everthread.core.events import Assistant, ToolCall, ToolResult, User, looks_up, text_of
from everthread.core.logged import Logged
from everthread.core.request import clean
from everthread.core.tokens import count as count_tokens
from everthread.language import entities
from everthread.language.digest import came_out, short_arguments, shortened
from everthread.language.fitting import Fitting
from everthread.language.sentences import Sentence, sentences
from everthread.language.statement_words import LOOSE
from everthread.language.statements import statement

Counter = Callable[[str], int]

LONGEST = 320  # characters of one sentence
READ, LOOKED_AT = 60, 20_000  # sentences of one message, and among how many characters they are looked for
MISSES = 40  # sentences in a row that do not fit, before no more are tried
CHATTER = -0.2  # the gain of what is better left out, even where there is room for it
STANDING = 100.0  # above whatever a sentence may be worth by what it names

# What the sentences name counts for so much; what a tool printed names too much to be taken at its word.
_OF_TOOLS = 0.3
_WORTH = {"id": 3, "path": 3, "command": 3, "email": 3, "phone": 3, "number": 2, "date": 2, "url": 2, "name": 1}
_DECISION = re.compile(
    r"\b(?:decid|agreed (?:to|that|on)|confirm|cho[os]e|chosen|conclu|because|therefore|instead|solved|fixed|chang|"
    r"cancel|book|updat|creat|delet|remov|install|deploy|merg|releas|fail|error|result|found|works\b|done\b|total|"
    r"deadline|plan\b|planned|must\b|need|goal|want|will\b|won't|cannot|can't|recommend|success|refund|approved|rejected|"
    r"beschlo|entschied|weil|fehler|ergebnis|décid|parce|erreur|résultat|porque|resultado)",
    re.IGNORECASE,
)
_DECISION_WIDE = re.compile(r"决定|因为|所以|错误|结果|完成|需要|必须|确认|取消|決|ため|エラー|結果|完了|必要|確認")
_ENDS = ".!?:;。！？؟।…"
_NO_CALL = ToolCall(id="", name="")  # of a result whose call is not known
_MARKS = re.compile(r"\*\*|^\s*(?:[-*+•]|#{1,6})\s+")
_CONTENT = re.compile(r"[^\W\d_]{5,}")
_PLEASANTRY = re.compile(
    r"(?:hi|hello|hey|thanks?|thank you|great|sure|ok(?:ay)?|yes|yeah|no|wow|aww?|bye|good (?:morning|day|to see)|"
    r"you're welcome|certainly|of course|sorry|perfect|sounds good|let me know|is there anything|i can help|how can i|"
    r"can't wait|just wanted to|(?:i )?(?:totally|completely|100%) agree|agreed?|if you (?:need|have)|feel free|"
    r"please (?:confirm|provide|let))\b",
    re.IGNORECASE,
)


_Names = set[tuple[str, str]]  # what sentences name: its kind, and what it is


class _Candidate(NamedTuple):
    place: int  # of its message
    number: int  # in the message
    text: str
    worth: float  # beside what it names
    names: frozenset[tuple[str, str]]
    share: float = 1.0  # of what it names that counts


def summary(logged: Sequence[Logged], tokens: int, count: Counter = count_tokens, *, beside: str = "") -> str:
    """What was said in these messages, in at most `tokens` tokens.

    What stands in `beside`, such as the facts, need not be repeated: it counts as covered, preferences included."""
    leads, candidates = _read(logged, beside)
    chosen = _fitting(leads, candidates, set(_names(beside, most=1_000)), tokens, count)
    while chosen and count("\n".join(_lines(leads, chosen))) > tokens:  # together they may be more than apart
        chosen.pop()
    if not chosen and candidates:
        return _alone(leads, max(candidates, key=lambda one: _gain(one, set())), tokens, count)
    return "\n".join(_lines(leads, chosen))


def recap(logged: Sequence[Logged], sentences: int = 4, tokens: int = 200, count: Counter = count_tokens) -> str:
    """What a session was about, in a few sentences: how it began, what mattered, how it ended."""
    leads, candidates = _read(logged)
    chosen = _few(_ends(logged, candidates)[:sentences], candidates, sentences)
    while chosen:
        text = " ".join(_lines(leads, chosen))
        if count(text) <= tokens:
            return text
        longest = max(chosen, key=lambda one: len(one.text))
        if len(longest.text) > 80:
            shorter = longest._replace(text=shortened(longest.text, len(longest.text) * 2 // 3))
            chosen[chosen.index(longest)] = shorter
        else:
            chosen.pop()
    return ""


# -- choosing ----------------------------------------------------------------------------------------------


def _fitting(
    leads: dict[int, str], candidates: list[_Candidate], covered: _Names, tokens: int, count: Counter
) -> list[_Candidate]:
    """The sentences that add the most, as many as fit when each is counted by itself."""
    chosen: list[_Candidate] = []
    opened: set[int] = set()
    fitting = Fitting(tokens, misses=MISSES)
    for best in _by_gain(candidates, covered):
        if chosen and _gain(best, covered) <= CHATTER:
            break
        if fitting.takes(count(best.text) + _lead_cost(best, leads, opened, count)):
            chosen.append(best)
            covered |= best.names
            opened.add(best.place)
        elif fitting.is_full:
            break
    return chosen


def _lead_cost(one: _Candidate, leads: dict[int, str], opened: set[int], count: Counter) -> int:
    """The tokens before a sentence: who said it, for the first of a message, else what separates two."""
    return 2 if one.place in opened else count(leads[one.place]) + 4


def _few(chosen: list[_Candidate], candidates: list[_Candidate], most: int) -> list[_Candidate]:
    """The sentences chosen already, and those that add the most to them, `most` in all."""
    covered: _Names = set().union(*(one.names for one in chosen))
    for best in _by_gain(candidates, covered):
        if len(chosen) >= most or (chosen and _gain(best, covered) <= CHATTER):
            break
        if best not in chosen:
            chosen.append(best)
            covered |= best.names
    return chosen


def _by_gain(candidates: list[_Candidate], covered: _Names) -> Iterator[_Candidate]:
    """Best first, by what each adds to `covered`, which the caller extends between two of them."""
    # Of those that add as much, the newest first: what was said lately matters more.
    heap = [(-_gain(one, covered), -number) for number, one in enumerate(candidates)]
    heapq.heapify(heap)
    while heap:
        gain, number = heapq.heappop(heap)
        now = -_gain(candidates[-number], covered)
        if heap and now > heap[0][0] and now > gain:
            heapq.heappush(heap, (now, number))
        else:
            yield candidates[-number]


def _gain(one: _Candidate, covered: _Names) -> float:
    if one.worth >= STANDING:
        return one.worth
    named = sum(_WORTH[name[0]] for name in one.names if name not in covered)
    gain: float = (one.worth + one.share * named) / math.sqrt(60 + len(one.text))
    return gain


def _ends(logged: Sequence[Logged], candidates: list[_Candidate]) -> list[_Candidate]:
    """What was asked at the beginning and what was answered at the end, a sentence each."""
    ends = []
    for kind, near in ((User, slice(0, 3)), (Assistant, slice(-2, None))):
        side = [one for one in candidates if isinstance(logged[one.place].event, kind)]
        places = set(sorted({one.place for one in side})[near])
        if side:
            ends.append(max((one for one in side if one.place in places), key=lambda one: _gain(one, set())))
    return ends


# -- reading -----------------------------------------------------------------------------------------------


def _read(logged: Sequence[Logged], beside: str = "") -> tuple[dict[int, str], list[_Candidate]]:
    """What stands before each message's words, by its place; and every sentence that might be chosen."""
    leads: dict[int, str] = {}
    candidates: list[_Candidate] = []
    seen: set[str] = set()
    calls: dict[str, ToolCall] = {}
    for place, one in enumerate(logged):
        event = one.event
        if isinstance(event, ToolCall):
            calls[event.id] = event
        lead, pieces = _pieces(event, calls)
        share = _OF_TOOLS if isinstance(event, ToolResult) else 1.0
        for number, (text, worth) in enumerate(pieces):
            if text not in seen:
                seen.add(text)
                leads[place] = lead
                worth = _worth_beside(text, worth, beside)
                candidates.append(_Candidate(place, number, text, worth, _names(text), share))
    return leads, _favoured(logged, candidates)


def _worth_beside(text: str, worth: float, beside: str) -> float:
    """A standing wish that is told beside the summary need not be told again."""
    return 0.0 if worth >= STANDING and text[:60] in beside else worth


def _pieces(event: object, calls: dict[str, ToolCall]) -> tuple[str, Iterable[tuple[str, float]]]:
    match event:
        case User():
            who = f"A message from {_flat(event.origin)} said" if event.origin else "The user said"
            return who, _sentences(text_of(event), own=not event.origin, worth=1.0)
        case Assistant():
            return "The assistant said", _sentences(text_of(event), own=False, worth=0.0)
        case ToolResult() if not looks_up(event):
            return _of_result(event, calls.get(event.id, _NO_CALL))
        case _:
            return "", ()


def _of_result(event: ToolResult, call: ToolCall) -> tuple[str, list[tuple[str, float]]]:
    name = _flat(event.name or call.name) or "without a name"
    given = f" ({short_arguments(call, 120)})" if call.arguments.strip() not in ("", "{}") else ""
    how, worth = ("failed with", 1.5) if event.error else ("gave", -0.5)
    came = came_out(event, 240)
    return f"The tool {name}{given} {how}", [(came, worth)] if came else []


def _sentences(text: str, *, own: bool, worth: float) -> Iterator[tuple[str, float]]:
    """The sentences of a message with what each is worth by its wording."""
    for sentence in sentences(clean(text[:LOOKED_AT]))[:READ]:
        if any(map(str.isalnum, sentence.text)):
            yield _without_marks(sentence), _worth_of(sentence, own=own, worth=worth)


def _worth_of(sentence: Sentence, *, own: bool, worth: float) -> float:
    stated = statement(sentence.text) if own and sentence.kind in ("prose", "item") else None
    if stated and stated.firmness > LOOSE:
        return STANDING + stated.firmness
    code = 1.0 if sentence.kind == "code" else 0.0
    return worth - code + _wording(sentence.text, bool(stated))


def _without_marks(sentence: Sentence) -> str:
    """The sentence on one line, without Markdown's marks."""
    text = sentence.text if sentence.kind == "code" else _MARKS.sub("", sentence.text)
    return shortened(_flat(text), LONGEST)


def _wording(text: str, stated: bool) -> float:
    worth = (1.0 if stated else 0.0) + min(3.0, 0.4 * len(set(_CONTENT.findall(text[:LONGEST]))))
    if len(text) < 24:
        worth -= 2.0
    worth += min(3.0, 1.5 * len(_DECISION.findall(text[:LONGEST])))
    if not text.isascii():
        worth += min(3.0, 1.5 * len(_DECISION_WIDE.findall(text[:LONGEST])))
    if text.rstrip("\"'”’)* ").endswith(("?", "？", "؟")):
        worth -= 3.0
    if _PLEASANTRY.match(text):
        worth -= 2.0
    return worth


def _names(text: str, most: int = 8) -> frozenset[tuple[str, str]]:
    return frozenset((found.kind, found.value.lower()) for found in entities.found(text, most))


def _favoured(logged: Sequence[Logged], candidates: list[_Candidate]) -> list[_Candidate]:
    """The first thing that the user said is mostly the goal, and the last that was said mostly the outcome."""
    first = next((one.place for one in candidates if isinstance(logged[one.place].event, User)), -1)
    last = candidates[-1].place if candidates else -1
    return [one._replace(worth=one.worth + 2) if one.place in (first, last) else one for one in candidates]


# -- text --------------------------------------------------------------------------------------------------


def _lines(leads: dict[int, str], chosen: Iterable[_Candidate]) -> Iterator[str]:
    """A line for each message; an ellipsis where sentences were left out between."""
    places: dict[int, list[_Candidate]] = {}
    for one in sorted(chosen, key=lambda one: (one.place, one.number)):
        places.setdefault(one.place, []).append(one)
    for place, said in places.items():
        text = said[0].text
        for before, one in pairwise(said):
            text += ("" if text[-1] in _ENDS else ";") if one.number == before.number + 1 else " …"
            text += f" {one.text}"
        yield f"{leads[place]}: {_quoted(text)}"


def _quoted(text: str) -> str:
    return f"“{text}”" if '"' in text else f'"{text}"'


def _alone(leads: dict[int, str], one: _Candidate, tokens: int, count: Counter) -> str:
    """Where not even one sentence fits: as much of the best as does."""
    length = len(one.text)
    while length > 12:
        length = length * 2 // 3
        text = f"{leads[one.place]}: {_quoted(shortened(one.text, length))}"
        if count(text) <= tokens:
            return text
    return ""


def _flat(text: str) -> str:
    return " ".join(clean(text).split())
