"""The account of a context: what is in it and what is not, why, how many tokens, and what it costs.

The sections, the turns that are sent and the named overhead add up to the estimate. What the provider reads
from its cache is predicted from the log: how much of this request the one before it began with.
"""

from __future__ import annotations

from typing import Any

import msgspec

from everthread.context.account import account
from everthread.context.pack import Packed, Packing
from everthread.core.request import Item, MessageItem, ReplyItem
from everthread.core.tokens import BROKEN
from everthread.core.values import Value
from everthread.providers.models import Model
from everthread.providers.prices import input_price

FIVE_MINUTES = 300 * 1_000_000
EXCERPT = 80
REMEMBERED = ("brief", "facts", "untold", "recap", "uncovered", "told before", "fence")  # change at each step
LIFETIMES = {"5m": FIVE_MINUTES, "1h": 12 * FIVE_MINUTES}


class TurnLine(msgspec.Struct, Value, frozen=True, kw_only=True):
    """One turn, or several in a row that are left out for the same reason: `number` to `number_last`."""

    number: int
    number_last: int
    first: int
    last: int
    messages: int
    tokens: int
    sent: bool
    why: str
    text: str = ""  # how it begins


class StepLine(msgspec.Struct, Value, frozen=True, kw_only=True):
    """A step of the cutoff: in which turn it happened, where the window began from then on, and what left it."""

    turn: int
    seq: int
    cutoff: int
    left_first: int
    left_last: int
    messages: int
    tokens: int


class Explanation(msgspec.Struct, Value, frozen=True, kw_only=True):
    """`sections` + the turns that are sent = `estimate`. Prices are in US dollars, for the input alone; None where
    the package genai-prices is not installed or does not know the model. `stepped`: the turn in which the cutoff moved
    to where it is; 0 where it has not moved, or does not move by steps. `print` it for an account in words."""

    model: str
    strategy: str
    budget: int
    limit: int
    estimate: int
    exact: bool
    factor: float
    over_budget: int
    cutoff: int
    stepped: int = 0
    sections: dict[str, int]
    turns: tuple[TurnLine, ...]
    cache_read: int
    cache_write: int
    price: float | None
    price_uncached: float | None
    degraded: tuple[str, ...]
    repaired: tuple[str, ...]
    settings: dict[str, Any]
    source_of: dict[str, str]

    def __str__(self) -> str:
        return account(self)


def explain(packing: Packing, *, cutoff: int, repaired: tuple[str, ...]) -> Explanation:
    plan, estimate = packing.plan, packing.estimate()
    read = cache_read(packing)
    cached = plan.settings.cache and plan.model.cache_write > 1 and estimate >= plan.model.cache_least
    write = estimate - read if cached else 0
    model = plan.model.provider, plan.model.name
    return Explanation(
        model=f"{plan.model.provider}:{plan.model.name}",
        strategy=plan.strategy,
        budget=plan.budget,
        limit=plan.limit,
        estimate=estimate,
        exact=plan.measure.exact and not packing.shows and not BROKEN,
        factor=plan.measure.factor,
        over_budget=estimate if estimate > plan.budget else 0,
        cutoff=cutoff,
        stepped=_stepped(packing),
        sections=packing.section_tokens(),
        turns=turn_lines(packing),
        cache_read=read,
        cache_write=write,
        price=input_price(*model, tokens=estimate, read=read, write=write, ttl=plan.settings.cache_ttl),
        price_uncached=input_price(*model, tokens=estimate, read=0, write=0),
        degraded=tuple(packing.degraded),
        repaired=repaired,
        settings=dict(plan.settings),
        source_of=plan.resolved.source_of,
    )


def _stepped(packing: Packing) -> int:
    """The first turn at whose end the window began where it does now. The log need not be asked: the cutoff has moved
    there in one of the turns that are sent."""
    if packing.plan.strategy != "budget" or not packing.turns or not packing.turns[0].start.before:
        return 0
    return next((turn.start.number for turn in packing.turns if packing.held(turn, turn.last + 1)), 0)


def turn_lines(packing: Packing) -> tuple[TurnLine, ...]:
    """Every turn of the branch in order: those that are sent one by one, the others in ranges."""
    lines: list[TurnLine] = []
    number, first, before, messages = _first_turn(packing), 1, -packing.seen.outlook.head.cleared_sum, 0
    for turn in (*packing.older, *packing.turns):
        start, count = turn.start, len(turn.events)
        if start.messages > messages:
            lines.append(
                TurnLine(
                    number=number,
                    number_last=max(number, start.number - 1),
                    first=first,
                    last=start.first - 1,
                    messages=start.messages - messages,
                    tokens=packing.plan.measure.tokens(start.before - before),
                    sent=False,
                    why=_why_not(packing, start.first),
                )
            )
        lines.append(
            TurnLine(
                number=start.number,
                number_last=start.number,
                first=start.first,
                last=turn.last,
                messages=count,
                tokens=packing.tokens(turn),
                sent=True,
                why=turn.why,
                text=_beginning(turn),
            )
        )
        number, first, messages = start.number + 1, turn.last + 1, start.messages + count + turn.left
        before = start.before + sum(event.settled for event in turn.events)
    head = packing.seen.outlook.head
    if not lines and head.messages_sum:
        return (
            TurnLine(
                number=_first_turn(packing),
                number_last=head.turn,
                first=1,
                last=head.seq,
                messages=head.messages_sum,
                tokens=packing.plan.measure.tokens(head.settled_sum),
                sent=False,
                why="before the last clear",
            ),
        )
    return tuple(lines)


def _first_turn(packing: Packing) -> int:
    """There is a turn 0 only where somebody else spoke before the user."""
    return 1 if packing.seen.outlook.position.opening == "user" else 0


def _beginning(turn: Packed) -> str:
    """The first words that were said in a turn."""
    said = next((event.text for event in turn.events if event.text.strip()), "")
    words = " ".join(said[: 2 * EXCERPT].split())
    return words if len(words) <= EXCERPT else f"{words[: EXCERPT - 1]}…"


def _why_not(packing: Packing, before: int) -> str:
    """Why the turns that end before this seq are not sent."""
    if packing.plan.strategy == "importance":
        why = "less important than what is sent"
    elif packing.turns and before > packing.turns[0].start.first:
        why = "no longer in the window"
    else:
        why = "before the cutoff"
    return f"{why}, or before the last clear" if packing.seen.outlook.head.cleared else why


def cache_read(packing: Packing) -> int:
    """Tokens of this request that the provider should find in its cache: those with which the request that led to the
    newest reply began as well."""
    plan = packing.plan
    if not plan.settings.cache or plan.model.cache_read >= 1:
        return 0
    found = _newest_reply(packing)
    if found is None:
        return 0
    turn, index = found
    reply = turn.items[index]
    if not _is_by(reply, plan.model):
        return 0  # another model's cache has it
    now = packing.seen.outlook.head.time
    then = next(event.micros for event in turn.events if event.seq == reply.seq)
    if now - then > LIFETIMES[plan.settings.cache_ttl]:
        return 0
    held = packing.held(turn, reply.seq)
    other = ("time", "canvas", "outcomes", "overhead", "form", *(() if held else REMEMBERED))
    read = sum(tokens for name, tokens in packing.section_tokens().items() if name not in other)
    if held:
        measure = plan.measure
        read += sum(packing.tokens(old) + measure.tokens(old.aside) for old in packing.older)
        for earlier in packing.turns:
            if earlier is turn:
                read += measure.tokens(_until(packing, turn, reply.seq))
                break
            read += packing.tokens(earlier) + measure.tokens(earlier.aside)
    # Each part is rounded up by itself, so that together they may come to a little more than the whole.
    return min(read, packing.estimate()) if read >= plan.model.cache_least else 0


def _is_by(reply: Item, model: Model) -> bool:
    """Whether this model made the reply, or may have: not every reply names its model."""
    return not isinstance(reply, ReplyItem) or not reply.model or model.made(reply.model)


def _newest_reply(packing: Packing) -> tuple[Packed, int] | None:
    for turn in reversed(packing.turns):
        for index in range(len(turn.items) - 1, -1, -1):
            if not isinstance(turn.items[index], MessageItem):
                return turn, index
    return None


def _until(packing: Packing, turn: Packed, seq: int) -> int:
    """The size of a turn's events before event `seq`, up to the first that is no longer sent as it was then."""
    size = turn.aside
    for event in turn.events:
        settles = not turn.full and event.settled < event.tokens
        if event.seq >= seq or settles or event.seq in packing.shortened:
            break
        size += packing.plan.measure.event(event, full=turn.full)
    return min(size, turn.aside + turn.size)  # an event's size counts reasoning that is not sent
