"""What a model is given to summarise, and what is done with what it returns.

Turns become lines: what the user and the assistant said, shortened in the middle where it is long; tool calls as what
was asked, results as what came out, errors kept. Everything is fenced as reference. A gap that is too large for one
model call is taken in portions of whole turns; a turn that is too large by itself is shortened, never skipped. What
comes back is checked: no headings, no plans, a limited number of words, cut at the end of a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from everthread.core.events import Assistant, ToolCall, ToolResult, User, media_of, text_of
from everthread.core.fence import Fence
from everthread.core.logged import Logged
from everthread.core.request import clean, object_of
from everthread.core.sections import fenced
from everthread.core.tokens import count as count_tokens
from everthread.errors import BadValue
from everthread.language import entities
from everthread.language.sentences import sentences

Counter = Callable[[str], int]
Turns = Sequence[Sequence[Logged]]

WORDS = 300
_LENGTHS = (4_000, 1_500, 600, 240, 100, 40)  # characters of one message, from generous to terse
_ARGUMENTS, _VALUE = 240, 80  # characters of a tool call's arguments, and of one of them
JSON_READ, LINES_READ = 200_000, 100_000  # characters of a result that are read as JSON, and as lines
_ERROR = re.compile(r"error|fail|exception|traceback|denied|refused|not found|invalid|timed? ?out", re.IGNORECASE)


def by_turn(events: Iterable[Logged]) -> list[list[Logged]]:
    """Events in their order, turn by turn."""
    return [list(turn) for _, turn in groupby(events, key=attrgetter("turn"))]


def portions(turns: Turns, tokens: int, count: Counter = count_tokens) -> list[list[Sequence[Logged]]]:
    """The turns in order, in portions of at most `tokens` tokens; each turn is in exactly one of them."""
    taken: list[list[Sequence[Logged]]] = []
    room = 0
    for turn in turns:
        size = count(digest(turn, tokens, count)) + 2
        if not taken or size > room:
            taken.append([])
            room = tokens
        taken[-1].append(turn)
        room -= size
    return taken


def material(
    turns: Turns, tokens: int, *, fence: Fence, brief: str = "", goal: str = "", count: Counter = count_tokens
) -> str:
    """All that a summariser is shown: the goal, the brief so far, and these turns in the tokens that are left."""
    parts = []
    if goal.strip():
        parts.append(fenced(fence, "goal", goal.strip()))
    if brief.strip():
        parts.append(fenced(fence, "brief", brief.strip()))
    first, last = (turns[0][0].seq, turns[-1][-1].seq) if turns else (1, 0)
    frame = "\n\n".join([*parts, fenced(fence, "turns", "", covers=last, first=first)])
    texts = _shared(turns, max(0, tokens - count(frame) - 4), count)
    return "\n\n".join([*parts, fenced(fence, "turns", "\n\n".join(texts), covers=last, first=first)])


def digest(turn: Sequence[Logged], tokens: int, count: Counter = count_tokens) -> str:
    """One turn in at most `tokens` tokens. The more there is, the shorter each message; the first and last go last."""
    lines: list[str] = []
    for length in _LENGTHS:
        lines = list(filter(None, (told(logged, length) for logged in turn)))
        text = "\n".join(lines)
        if count(text) <= tokens:
            return text
    return _cut_down(_without_middle(lines, tokens, count), tokens, count)


def _without_middle(lines: list[str], tokens: int, count: Counter) -> str:
    """The first lines and the last, fewer and fewer until they fit, with how many are missing between them."""
    if len(lines) <= 2:
        return "\n".join(lines)
    keep = max(1, len(lines) // 4)
    while True:
        text = "\n".join([*lines[:keep], f"[… {len(lines) - 2 * keep} more …]", *lines[-keep:]])
        if keep == 1 or count(text) <= tokens:
            return text
        keep //= 2


def _cut_down(text: str, tokens: int, count: Counter) -> str:
    """As much of a text as fits: its beginning and its end."""
    while text and count(text) > tokens:
        text = shortened(text, len(text) * 2 // 3) if len(text) > 12 else ""
    return text


def told(logged: Logged, length: int) -> str:
    """One message as a line, its text at most `length` characters; nothing where there is nothing to tell."""
    match event := logged.event:
        case User() | Assistant():
            return _line(_speaker(event), _said(logged, length))
        case ToolCall():
            return _line(f"Tool call {event.name}", short_arguments(event, min(length, _ARGUMENTS)) or "no arguments")
        case ToolResult():
            return _line(_outcome(event), came_out(event, max(40, length // 4)) or "nothing")
    return ""


def _speaker(event: User | Assistant) -> str:
    if isinstance(event, User):
        return f"Message from {event.origin}" if event.origin else "User"
    return "Assistant (interrupted)" if event.interrupted else "Assistant"


def _outcome(event: ToolResult) -> str:
    how = "Error" if event.error else "Result"
    return f"{how} of {event.name}" if event.name else how


def short_arguments(call: ToolCall, length: int = _ARGUMENTS) -> str:
    """The arguments of a tool call, short: `origin LAS, destination IAH`."""
    arguments = object_of(call.arguments)
    if arguments is None:
        return shortened(_flat(call.arguments), length)
    pairs = (f"{key} {shortened(_flat(str(value)), _VALUE)}" for key, value in arguments.items())
    return shortened(clean(", ".join(pairs)), length)


def came_out(result: ToolResult, length: int = 400) -> str:
    """What a tool answered: the first lines, those that speak of an error, and the last."""
    text = clean(text_of(result)).strip()
    if pairs := entities.pairs_of_json(text[:JSON_READ]):
        return _first_pairs(pairs, length)
    return _flat(text) if len(text) <= length else _telling_lines(text, length)


def _first_pairs(pairs: list[tuple[str, str]], length: int) -> str:
    text = ", ".join(f"{key} {_flat(value)}".strip() for key, value in pairs)
    return text if len(text) <= length else f"{text[: length - 2].rpartition(', ')[0] or text[: length - 2]} …"


def _telling_lines(text: str, length: int) -> str:
    read = text if len(text) <= LINES_READ else f"{text[: LINES_READ // 2]}\n{text[-LINES_READ // 2 :]}"
    lines = [line.strip() for line in read.split("\n") if line.strip()]
    if len(lines) < 3:
        return shortened(_flat(text), length)
    wrong = [line for line in lines[1:-1] if _ERROR.search(line[:400])][:3]
    share = length // (2 + len(wrong))
    return " … ".join(shortened(_flat(line), max(20, share)) for line in (lines[0], *wrong, lines[-1]))


def shortened(text: str, length: int) -> str:
    """At most `length` characters: the beginning and the end, two parts to one, and between them what is missing."""
    if len(text) <= length:
        return text
    if length < 24:
        return f"{text[: max(0, length - 1)]}…"
    tail = (length - 3) // 3
    return f"{text[: length - 3 - tail].rstrip()} … {text[len(text) - tail :].lstrip()}"


def _shared(turns: Turns, tokens: int, count: Counter) -> list[str]:
    """The text of each turn; where together they are too long, the longest are shortened."""
    texts = [digest(turn, tokens, count) for turn in turns]
    sizes = [count(text) + 2 for text in texts]
    cap = _cap(sizes, tokens)
    return [
        text if size <= cap else digest(turn, max(0, cap - 2), count)
        for turn, text, size in zip(turns, texts, sizes, strict=True)
    ]


def _cap(sizes: list[int], room: int) -> int:
    """The most that each may have, so that together they are within the room."""
    for left, size in zip(range(len(sizes), 0, -1), sorted(sizes), strict=True):
        if size * left > room:
            return room // left
        room -= size
    return max(sizes, default=0)


def _said(logged: Logged, length: int) -> str:
    shown = [f"[{type(part).__name__.lower()}]" for part in media_of(logged.event)]
    return " ".join([shortened(clean(logged.text).strip(), length), *shown]).strip()


def _line(who: str, text: str) -> str:
    # Set in, so that no text can pass for a line of its own: "\nUser: …" is easily written.
    return f"{clean(who)}: {text}".replace("\n", "\n  ") if text else ""


def _flat(text: str) -> str:
    return " ".join(text.split())


# -- what came back ----------------------------------------------------------------------------------------

_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_WRAPPING = re.compile(r"^\s*```\w*\s*\n?|\n?```\s*$|</?(?:reference|summary|brief|recap)\b[^>]*>", re.IGNORECASE)
_OPENING = re.compile(
    r"^\s*(?:#+\s*[^\n]*(?:\n+|\Z)"
    r"|\**(?:(?:updated|new|running|here is the|here's the|the) )*(?:brief|summary|recap|overview)[^\n.:]{0,60}:\**\s*"
    r"|(?:sure|certainly|of course|okay|here)\b[^\n.:]{0,80}:\s*)",
    re.IGNORECASE,
)
_PLANS = re.compile(r"^[#*\s]*(?:next steps?|to-?dos?|action items?|what to do next)\b[^\n]*$", re.IGNORECASE)
_HEADING = re.compile(r"^\s*(?:#+\s|\*\*[^*\n]{1,60}\*\*:?\s*$|[A-Z][\w ]{1,40}:\s*$)")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_FIRST_PERSON = re.compile(r"(?<![\"“'‘\w])(?:I|[Mm]y|[Ww]e|[Oo]ur|[Ii]ch|[Jj]e|[Yy]o)\b(?![\"”'’])")


def trimmed(text: str, words: int = WORDS) -> str:
    """A model's summary as it may be kept: without headings and plans, at most `words` words, in whole sentences."""
    text = _WRAPPING.sub("", _THOUGHT.sub("", clean(text))).strip()
    while (opened := _OPENING.match(text)) and opened.end():
        text = text[opened.end() :].strip()
    text = _without_plans(text).strip()
    if not any(map(str.isalnum, text)):
        raise BadValue("the model's summary", text, "a text that says something")
    return within(text, words, word_count)


def first_person(text: str) -> bool:
    """Whether a summary says "I" or the like outside of quotes: worth a note, not worth losing the summary."""
    return bool(_FIRST_PERSON.search(re.sub(r'"[^"\n]*"|“[^”\n]*”', '""', text)))


def word_count(text: str) -> int:
    """The number of words; in scripts without spaces two characters count as one."""
    wide = len(_WIDE.findall(text))
    return len(_WIDE.sub(" ", text).split()) + -(-wide // 2)


def _without_plans(text: str) -> str:
    """The text without a section of next steps: a model that reads it would carry them out."""
    kept, dropping = [], False
    for line in text.split("\n"):
        if _PLANS.match(line):
            dropping = True
        elif dropping and _HEADING.match(line):
            dropping = False
        if not dropping:
            kept.append(line)
    return "\n".join(kept)


def within(text: str, most: int, measure: Counter) -> str:
    """The text, or as many of its first lines and sentences as measure at most `most`."""
    if measure(text) <= most:
        return text
    kept: list[str] = []
    left = most
    for line in text.split("\n"):
        size = measure(line) + (measure is not word_count)  # the line's end
        if size > left:
            kept.append(" ".join(_first(line, left, measure)))
            break
        kept.append(line)
        left -= size
    found = "\n".join(kept).rstrip()
    return found if found and measure(found) <= most else _cut(text, most, measure)


def _first(line: str, most: int, measure: Counter) -> Iterator[str]:
    """The first sentences of a line that together measure at most `most`."""
    for sentence in sentences(line):
        most -= measure(sentence.text)
        if most < 0:
            return
        yield sentence.text


def _cut(text: str, most: int, measure: Counter) -> str:
    """One sentence that is longer than all that is allowed: up to a comma or a word."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if measure(text[:middle]) <= most - 1 else (low, middle - 1)
    head = text[:low]
    at = max(head.rfind(mark) for mark in (", ", "; ", "，", "、"))
    at = at if at > len(head) // 2 else head.rfind(" ")
    return f"{head[:at].rstrip(' ,;，、')} …" if at > 0 else f"{head}…"
