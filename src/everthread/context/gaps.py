"""What is told of the turns between what is remembered and the window, each of them once.

A brief is made beside the conversation and may be behind, or there may be none at all. So that no turn is neither sent
nor told of, an extract of what lies between stands in until a version covers it, without the turns that are sent all
the same; of a very large gap, as after an import, it tells from which event on, and a line says that there was more. A
session that lies wholly in the gap is told by its recap where a model has made one. The strategy `session` has no
brief: it tells the session before its own by the recap, or by that session's own words until there is one, and in an
extract what of its own session no longer fits.

All of it depends on where the window begins and on the versions that are sent, so it stays the same until one of them
changes; it is made once and remembered.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from everthread.context.plan import Plan
from everthread.core.branches import Line
from everthread.core.logged import Logged, memorable
from everthread.core.turns import Head
from everthread.language import extract
from everthread.store.log import Log
from everthread.store.scripts.window import WindowRead

LOOKED_AT = 120  # messages before the window; of an older gap the newest count
LEAST = 40  # tokens of an extract, however little room there is
KEPT = 256


class Gap(NamedTuple):
    """What stands in for the recap that is on its way; what was said from event `first` on, in its own words (0 where
    all of it is told or sent otherwise); and from which events to which nothing is told at all."""

    recap: str = ""
    extract: str = ""
    first: int = 0
    untold: tuple[tuple[int, int], ...] = ()


NOTHING = Gap()


class Gaps:
    def __init__(self) -> None:
        self._made: OrderedDict[tuple[str | int, ...], Gap] = OrderedDict()

    async def told(self, log: Log, line: Line, plan: Plan, seen: WindowRead) -> Gap:
        """What is told of what lies between what is remembered and the window; nothing where nothing does."""
        if not plan.settings.memory or seen.choice is None or not seen.events:
            return NOTHING
        covered = max(seen.outlook.head.cleared, seen.brief.brief.covers if seen.brief.brief else 0)
        begin = seen.choice.begin.first
        if begin <= covered + 1 or (seen.brief.brief and not seen.brief.behind):
            return NOTHING
        make = _of_session if plan.strategy == "session" else _of_rest
        tokens = max(LEAST, plan.room_in(plan.share_of_extract(seen.brief.brief)))
        sent = [number for turn, _ in seen.older for number in (turn.start.first, turn.last)]
        whose = (line.about, line.branch.number, seen.outlook.forgotten, plan.strategy)
        parts = (covered, begin, tokens, plan.settings.recap_tokens, seen.recap.since, *sent)
        return await self._once((*whose, *parts), lambda: make(log, line, plan, seen, covered=covered, tokens=tokens))

    async def _once(self, wanted: tuple[str | int, ...], make: Callable[[], Awaitable[Gap]]) -> Gap:
        if wanted not in self._made:
            self._made[wanted] = await make()
            if len(self._made) > KEPT:
                self._made.popitem(last=False)
        self._made.move_to_end(wanted)
        return self._made[wanted]

    def forget(self) -> None:
        self._made.clear()


async def _of_rest(log: Log, line: Line, plan: Plan, seen: WindowRead, *, covered: int, tokens: int) -> Gap:
    """An extract, of all but the session that a recap tells of."""
    assert seen.choice
    page = await log.before(line, seen.choice.begin.first, limit=LOOKED_AT, messages=True)
    first = _reached(page, covered + 1)
    recapped = seen.recap.recap.session if seen.recap.recap and seen.recap.recap.recap else 0
    sent = [(turn.start.first, turn.last) for turn, _ in seen.older]
    own = [one for one in memorable(page) if one.seq >= first and one.session != recapped and not _within(one, sent)]
    text = await asyncio.to_thread(extract.summary, own, tokens)
    if not own:
        return Gap(untold=_without(_spans((covered + 1, first - 1)), sent))
    untold = _spans((covered + 1, (first if text else seen.choice.begin.first) - 1))
    return Gap("", text, first, _without(untold, sent))


async def _of_session(log: Log, line: Line, plan: Plan, seen: WindowRead, *, covered: int, tokens: int) -> Gap:
    """The session before this one, what has left of this one, and where others lie of which nothing is told."""
    assert seen.choice
    begin = seen.choice.begin.first
    began = (await log.head(line, at=begin)).session_first
    before = await log.head(line, at=began - 1) if began - 1 > covered else Head()
    page = await log.before(line, begin, limit=LOOKED_AT, messages=True)
    first = _reached(page, max(covered + 1, began))
    sent = [(turn.start.first, turn.last) for turn, _ in seen.older]
    own = [one for one in memorable(page) if one.seq >= first and not _within(one, sent)]
    text = await asyncio.to_thread(extract.summary, own, tokens) if own else ""
    recap = "" if seen.recap.recap else await _recap(log, line, plan, before, began, covered, sent)
    told = recap or seen.recap.recap
    earlier = (covered + 1, (before.session_first if told else began) - 1)
    untold = _spans(earlier, (max(covered + 1, began), first - 1))
    return Gap(recap, text, first, _without(untold, sent))


async def _recap(
    log: Log, line: Line, plan: Plan, before: Head, began: int, covered: int, sent: Sequence[tuple[int, int]]
) -> str:
    """The session before the one that `began` at that event, in its own words: its recap is on its way."""
    if before.spoken <= covered:
        return ""
    page = await log.before(line, began, limit=LOOKED_AT, messages=True)
    since = [one for one in memorable(page) if one.seq > covered and one.session == before.session]
    own = [one for one in since if not _within(one, sent)]
    return await asyncio.to_thread(extract.recap, own, tokens=plan.settings.recap_tokens)


def _reached(page: list[Logged], wanted: int) -> int:
    """From which event on a page tells, where all from `wanted` on was to be told."""
    return max(wanted, page[0].seq) if len(page) == LOOKED_AT else wanted


def _spans(*spans: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """Those of them that have something in them."""
    return tuple((first, last) for first, last in spans if first <= last)


def _without(spans: Iterable[tuple[int, int]], sent: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """What is left of them beside the turns that are sent."""
    left = tuple(spans)
    for begun, ended in sent:
        pieces = [_spans((first, min(last, begun - 1)), (max(first, ended + 1), last)) for first, last in left]
        left = tuple(piece for both in pieces for piece in both)
    return left


def _within(one: Logged, spans: Iterable[tuple[int, int]]) -> bool:
    return any(first <= one.seq <= last for first, last in spans)
