"""Facts: what a summary loses and must not. Taken from the messages mechanically, folded, ranked, rendered.

`fold` takes the facts so far and the next events, and gives the facts after them; how the events are cut into portions
makes no difference. What the user states as a preference or a standing instruction comes first, always; what is said
later of the same subject takes the place of what was said before. Then come ids, paths, commands, numbers and the rest,
by kind, rarity, length, who said it, how often and how lately. Facts are bounded: with thousands of them the least is
let go. A `clear` starts afresh; what was redacted says nothing, so after a redaction fold again from the log.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec

from everthread.core.events import Assistant, Clear, ToolCall, ToolResult, User, looks_up, text_of
from everthread.core.logged import Logged
from everthread.core.request import clean
from everthread.core.values import Value
from everthread.language import entities
from everthread.language.fitting import Fitting
from everthread.language.sentences import sentences
from everthread.language.statement_words import LOOSE
from everthread.language.statement_words import Kind as StandingKind
from everthread.language.statements import Statement, statement

Kind = StandingKind | entities.Kind | Literal["taste"]
Speaker = Literal["user", "assistant", "tool"]
Counter = Callable[[str], int]

KEPT, KEPT_STANDING, SLACK = 160, 80, 60  # facts that are kept, and how many more before the least are let go
OF_RESULT = 25  # facts of one tool result
READ_OF_RESULT = 6_000  # characters of a tool result that is no JSON
JSON_READ = 200_000
RECENT = 80  # events after which recency counts for half
SHORT = 16  # characters up to which a fact's length does not count against it
MISSES = 24  # facts in a row that do not fit, before no more are tried

STANDING = ("preference", "instruction")
_WEIGHTS: dict[str, float] = {
    "email": 7,
    "phone": 7,
    "id": 6,
    "path": 6,
    "command": 6,
    "url": 5,
    "number": 5,
    "date": 4,
    "taste": 4,
    "name": 3,
}
_HEADINGS = {
    "taste": "tastes, in the user's words",
    "name": "names",
    "id": "ids",
    "number": "numbers",
    "date": "dates",
    "path": "paths",
    "command": "commands",
    "url": "addresses",
    "email": "e-mail",
    "phone": "phone",
}
_STANDING_HEADING = "[event] preferences and standing instructions, in the user's words"
_MARKS = {"taste": '"', "command": "`"}  # around a fact of that kind
_SPEAKER = {"user": 1.5, "assistant": 0.0, "tool": -1.5}


class Fact(msgspec.Struct, Value, frozen=True, kw_only=True, gc=False, array_like=True):
    """`seq` is the newest event that says it, `at` the one that has it in these words, where that is another; `weight`
    leaves out how often and how lately it was said."""

    kind: Kind
    text: str
    seq: int
    weight: float
    key: str
    by: Speaker = "user"
    times: int = 1
    at: int = 0

    @property
    def line(self) -> str:
        """The fact by itself, as in `preference: "I prefer aisle seats" (user, event 17)`."""
        said = f'"{self.text}"' if self.kind in (*STANDING, "taste") else self.text
        return f"{self.kind}: {said} ({self.by}, event {self.at or self.seq})"


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known after event `seq`. Small enough to be stored, as JSON, with what it was made for."""

    items: tuple[Fact, ...] = ()
    seq: int = 0


NOTHING = Facts()


def fold(previous: Facts, events: Iterable[Logged]) -> Facts:
    """The facts after these events. Folding them in one go or in several gives the same."""
    known = {fact.key: fact for fact in previous.items}
    seq = previous.seq
    for logged in events:
        seq = max(seq, logged.seq)
        if isinstance(logged.event, Clear):
            known.clear()
        for fact in facts_of(logged):
            known[fact.key] = _merged(known.get(fact.key), fact)
        if len(known) > KEPT + KEPT_STANDING + SLACK:  # after an event, never between portions
            known = _trimmed(known, seq)
    return Facts(items=tuple(known.values()), seq=seq)


def facts_of(logged: Logged) -> Iterator[Fact]:
    """What one event says."""
    if looks_up(logged.event):
        return
    match event := logged.event:
        case User():
            yield from _of_user(event, logged.seq)
        case Assistant():
            yield from _exact(entities.found(clean(text_of(event))), logged.seq, "assistant")
        case ToolCall():
            yield from _exact(entities.of_json(clean(event.arguments)) or (), logged.seq, "assistant")
        case ToolResult():
            yield from _exact(_in_result(clean(text_of(event))), logged.seq, "tool")


def _of_user(event: User, seq: int) -> Iterator[Fact]:
    text = clean(text_of(event))
    if not event.origin:  # what an application or a schedule says is no wish of the user's
        yield from _statements(text, seq)
    yield from _exact(entities.found(text), seq, "user")


def _in_result(text: str) -> list[entities.Entity]:
    found = entities.of_json(text, OF_RESULT) if len(text) <= JSON_READ else None
    return entities.found(text[:READ_OF_RESULT], OF_RESULT) if found is None else found


def ranked(facts: Facts | Iterable[Fact], tokens: int, count: Counter) -> list[Fact]:
    """The facts to keep, best first; rendered, they take at most `tokens` tokens."""
    known = facts.items if isinstance(facts, Facts) else tuple(facts)
    chosen: list[Fact] = []
    headings: set[str] = set()
    fitting = Fitting(tokens, misses=MISSES)
    for fact in _in_order(known):
        if fitting.takes(_cost(fact, headings, count)):
            headings.add(_heading(fact))
            chosen.append(fact)
        elif fitting.is_full:
            break
    while chosen and count(rendered(chosen)) > tokens:  # pieces apart may count for less than together
        chosen.pop()
    return chosen


def _cost(fact: Fact, headings: set[str], count: Counter) -> int:
    """The tokens that a fact adds, with its heading where that is not there yet."""
    heading = _heading(fact)
    return count(_piece(fact)) + (0 if heading in headings else count(f"{heading}:\n") + bool(headings))


def rendered(facts: Iterable[Fact]) -> str:
    """Compact lines by kind, oldest first; what the user wants on lines of their own, each after its event."""
    groups: dict[str, list[Fact]] = {}
    for fact in facts:
        groups.setdefault(_heading(fact), []).append(fact)
    headings = [_STANDING_HEADING, *_HEADINGS.values()]
    return "\n".join(_group(heading, groups[heading]) for heading in headings if heading in groups)


# -- from an event -----------------------------------------------------------------------------------------


def _statements(text: str, seq: int) -> Iterator[Fact]:
    """What the user's own prose states: code is not a wish, and a quoted line is somebody else's."""
    for sentence in sentences(text):
        if sentence.kind in ("prose", "item") and (stated := statement(sentence.text)):
            yield _stated(stated, seq)


def _stated(stated: Statement, seq: int) -> Fact:
    loose = stated.firmness == LOOSE
    text = stated.text.strip().lstrip("-*• ").rstrip()
    return Fact(
        kind="taste" if loose else stated.kind,
        text=" ".join(text.split()),
        seq=seq,
        weight=_WEIGHTS["taste"] if loose else 100.0 * stated.firmness,
        key=f"{'taste' if loose else 'stated'} {stated.subject}",  # a taste takes no preference's place
    )


def _exact(found: Iterable[entities.Entity], seq: int, by: Speaker) -> Iterator[Fact]:
    for one in found:
        # A rare number is the same wherever it stands; "3" is nothing without its words, and little with them.
        plain = one.kind in ("number", "date")
        same = one.text if plain and one.rarity < 2 else one.value
        yield Fact(
            kind=one.kind,
            text=" ".join(one.text.split()),
            seq=seq,
            weight=_WEIGHTS[one.kind] + (2 * one.rarity - 2 if plain else one.rarity) + _SPEAKER[by],
            key=f"{one.kind} {same.lower()}",
            by=by,
        )


def _merged(old: Fact | None, new: Fact) -> Fact:
    if old is None:
        return new
    times = old.times + (old.seq != new.seq)
    if new.kind in (*STANDING, "taste"):
        return msgspec.structs.replace(new, times=times)
    kept = new if new.weight > old.weight else old  # the user's own words for it, where there are any
    return msgspec.structs.replace(kept, seq=new.seq, times=times, at=kept.at or kept.seq)


def _trimmed(known: dict[str, Fact], seq: int) -> dict[str, Fact]:
    room = {True: KEPT_STANDING, False: KEPT}
    kept = set()
    for fact in sorted(known.values(), key=lambda fact: _score(fact, seq), reverse=True):
        if room[stands := fact.kind in STANDING]:
            room[stands] -= 1
            kept.add(fact.key)
    return {key: fact for key, fact in known.items() if key in kept}


# -- ranking -----------------------------------------------------------------------------------------------


def _in_order(known: tuple[Fact, ...]) -> list[Fact]:
    newest = max((fact.seq for fact in known), default=0)
    standing = [fact for fact in known if fact.kind in STANDING]
    standing.sort(key=lambda fact: (fact.weight, fact.seq), reverse=True)
    others = [fact for fact in known if fact.kind not in STANDING]
    others.sort(key=lambda fact: (_score(fact, newest), fact.seq, fact.key), reverse=True)
    places: dict[str, int] = {}
    scores: dict[str, float] = {}
    for fact in others:  # each further fact of a kind counts for a little less, so that no kind takes all the room
        place = places[fact.kind] = places.get(fact.kind, -1) + 1
        scores[fact.key] = _score(fact, newest) - 0.15 * place
    return standing + sorted(others, key=lambda fact: scores[fact.key], reverse=True)


def _score(fact: Fact, newest: int) -> float:
    recency = 2 * math.exp2((fact.seq - newest) / RECENT)
    # An hour or a small number that comes up often is another one each time.
    often = 0.0 if fact.kind in ("number", "date") else min(2.0, math.log2(fact.times))
    room = math.log2(max(SHORT, len(fact.text)) / SHORT) / 2  # a long one stands where several might
    return fact.weight + often + recency - room


# -- text --------------------------------------------------------------------------------------------------


def _heading(fact: Fact) -> str:
    return _STANDING_HEADING if fact.kind in STANDING else _HEADINGS[fact.kind]


def _piece(fact: Fact) -> str:
    if fact.kind in STANDING:
        return f"[{fact.seq}] {fact.text}\n"
    mark = _MARKS.get(fact.kind, "")
    return f"; {mark}{fact.text}{mark}"


def _group(heading: str, facts: list[Fact]) -> str:
    facts = sorted(facts, key=lambda fact: fact.seq)
    if heading == _STANDING_HEADING:
        return f"{heading}:\n{''.join(map(_piece, facts))}".rstrip("\n")
    return f"{heading}: {''.join(map(_piece, facts))[2:]}"
