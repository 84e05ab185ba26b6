"""A context's account in words: what `print(context.explain())` says, and what `everthread context` draws in colour.

Lines of plain text, as wide as they need be: whoever draws them cuts and paints.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from everthread.config import DEFAULT
from everthread.language.shown import counted, printable

if TYPE_CHECKING:
    from everthread.context.explain import Explanation, TurnLine

USUAL = "in the window"  # not said of every turn
HEAD, TAIL = 8, 14  # turns that are listed; those between are told in one line
NOTHING = "Nothing was said yet, or nothing since the last clear."


def account(about: Explanation) -> str:
    """The whole account."""
    parts = [
        [headline(about), fullness(about)],
        [f"  {name}: {tokens:,}" for name, tokens in shares(about)],
        list(_turns(about)),
        [*steps(about), cost(about), *notes(about)],
        ["Settings that are not the default:", *(f"  {one}" for one in changed(about) or ["none"])],
    ]
    return printable("\n\n".join("\n".join(part) for part in parts))


def headline(about: Explanation) -> str:
    estimated = "counted exactly" if about.exact else f"estimated with a factor of {about.factor:.2f}"
    return f"{about.model} · strategy {about.strategy} · {estimated}"


def fullness(about: Explanation) -> str:
    said = f"{about.estimate:,} of {about.budget:,} tokens"
    if about.over_budget:
        said += f": over the budget; {about.over_budget:,} would be needed"
    if about.estimate > about.limit:
        said += f", and {about.model} takes {about.limit:,}: nothing can be sent"
    return said


def shares(about: Explanation) -> Iterator[tuple[str, int]]:
    """What has a share of the budget, with its tokens."""
    yield from about.sections.items()
    yield "turns", sum(turn.tokens for turn in about.turns if turn.sent)
    if about.estimate < about.budget:
        yield "free", about.budget - about.estimate


# -- turns -------------------------------------------------------------------------------------------------


class Widths(NamedTuple):
    """How wide the columns of turns are."""

    number: int
    messages: int
    tokens: int


def widths(turns: Sequence[TurnLine]) -> Widths:
    rows = [
        (numbers(one.number, one.number_last), counted(one.messages, "message"), f"{one.tokens:,}") for one in turns
    ]
    return Widths(*(max(map(len, column)) for column in zip(*rows, strict=True)))


def listed(turns: Sequence[TurnLine], *, everything: bool = False) -> Iterator[TurnLine | int]:
    """The turns to list; a number stands for that many that are not."""
    if everything or len(turns) <= HEAD + TAIL + 1:
        yield from turns
        return
    yield from turns[:HEAD]
    yield len(turns) - HEAD - TAIL
    yield from turns[-TAIL:]


def begins(lines: Sequence[TurnLine | int], cutoff: int) -> TurnLine | None:
    """The first of the listed turns that is in the window."""
    turns = (one for one in lines if not isinstance(one, int))
    return next((one for one in turns if one.sent and one.first >= cutoff), None)


def rule(line: TurnLine) -> str:
    return f"the window begins here, at event {line.first}"


def left_out(turns: int) -> str:
    return f"… {counted(turns, 'turn')} more …"


def size(line: TurnLine, wide: Widths) -> tuple[str, str]:
    """A turn's number, and how large it is, in columns."""
    number = f"{numbers(line.number, line.number_last):>{wide.number}}"
    return number, f"{counted(line.messages, 'message'):>{wide.messages}}  {line.tokens:>{wide.tokens},}"


def reason(line: TurnLine) -> str:
    """Why a turn is sent or not, where that needs saying."""
    return "" if line.why == USUAL else line.why


def _turns(about: Explanation) -> Iterator[str]:
    if not about.turns:
        yield NOTHING
        return
    wide, lines = widths(about.turns), list(listed(about.turns))
    begin = begins(lines, about.cutoff)
    for line in lines:
        if isinstance(line, int):
            yield f"{'':>{wide.number}}  {left_out(line)}"
            continue
        if line is begin:
            yield f"── {rule(line)} ──"
        yield "  ".join(filter(None, (*size(line, wide), reason(line), line.text)))


# -- the rest ----------------------------------------------------------------------------------------------


def cost(about: Explanation) -> str:
    read = f"{about.cache_read:,} tokens should come from the provider's cache"
    if about.price is None or about.price_uncached is None:
        return f"Cost: {read}. (Prices: pip install 'everthread[prices]'.)"
    return f"Cost: {read}; ${about.price:.4f} for the input, ${about.price_uncached:.4f} without a cache."


def steps(about: Explanation) -> list[str]:
    """When the cutoff moved, where it has."""
    where = f"the cutoff moved to event {about.cutoff} in turn {about.stepped}"
    return [f"Step: {where}. (Those before it: await talk.steps().)"] if about.stepped else []


def notes(about: Explanation) -> list[str]:
    """What was given up and what was mended."""
    return [f"Given up: {one}" for one in about.degraded] + [f"Repaired: {one}" for one in about.repaired]


def changed(about: Explanation) -> list[str]:
    """The settings that are not the default, with their sources."""
    own = {name: source for name, source in about.source_of.items() if source != DEFAULT}
    values = {name: json.dumps(about.settings[name], ensure_ascii=False) for name in own}
    return [f"{name} = {values[name]}   ({source})" for name, source in own.items()]


def numbers(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}–{last}"
