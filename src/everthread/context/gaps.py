"""What memory has not told yet, in its own words: turns between what is remembered and the window, and the session that
was over when the newest message came.

A brief is made beside the conversation and may be behind, or there may be none at all. So that no turn is neither sent
nor summarised, an extract of what lies between stands in until a version covers it; of a very large gap, as after an
import, it tells from which event on. It depends on where the window begins and on the version that is sent, so it stays
the same until one of them changes; it is made once and remembered. A recap is on its way when the first message of a
session is answered: until it is there, its extractive form serves.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from everthread.context.planning import Plan
from everthread.core import extract
from everthread.core.branches import Line
from everthread.core.logged import readable
from everthread.store.log import Log
from everthread.store.windowing import Seen

LOOKED_AT = 120  # messages before the window; of an older gap the newest count
LEAST = 40  # tokens of an extract, however little room there is
KEPT = 256


class Extract(NamedTuple):
    """What was said from event `first` on, in its own words."""

    text: str
    first: int


NOTHING = Extract("", 0)


class Gaps:
    def __init__(self) -> None:
        self._made: OrderedDict[tuple[str | int, ...], Extract] = OrderedDict()

    async def uncovered(self, log: Log, line: Line, plan: Plan, seen: Seen) -> Extract:
        """What lies between what is remembered and the window; nothing where nothing does."""
        if not plan.settings.memory or not plan.memory[0] or seen.choice is None:
            return NOTHING
        covered = max(seen.sighted.head.cleared, seen.brief.brief.covers if seen.brief.brief else 0)
        begin = seen.choice.begin.first
        if begin <= covered + 1 or (seen.brief.brief and not seen.brief.behind):
            return NOTHING
        share = plan.share_of_brief(getattr(seen.brief.brief, "facts", ""))
        tokens = max(LEAST, plan.room_in(share // 2 if seen.brief.brief else share))

        async def made() -> Extract:
            events = await log.before(line, begin, limit=LOOKED_AT, messages=True)
            own = readable(one for one in events if one.seq > covered)
            all_read = len(events) < LOOKED_AT or not own
            text = await asyncio.to_thread(extract.summary, own, tokens)
            return Extract(text, covered + 1 if all_read else own[0].seq)

        return await self._once(("uncovered", *_place(line, seen), covered, begin, tokens), made)

    async def recap(self, log: Log, line: Line, plan: Plan, seen: Seen) -> str:
        """The session before this one, where it has no recap yet, and the window does not reach back beyond it."""
        head, wanted = seen.sighted.head, seen.sighted.head.session - 1
        if not plan.settings.memory or not plan.memory[1] or seen.recap.recap or wanted < 1 or not seen.events:
            return ""
        if seen.events[0].session < wanted or head.session_first - 1 <= head.cleared:
            return ""

        async def made() -> Extract:
            before = await log.before(line, head.session_first, limit=LOOKED_AT, messages=True)
            own = readable(one for one in before if one.session == wanted and one.seq > head.cleared)
            text = await asyncio.to_thread(extract.recap, own, tokens=plan.settings.recap_tokens)
            return Extract(text, own[0].seq if own else 0)

        return (await self._once(("recap", *_place(line, seen), wanted, plan.settings.recap_tokens), made)).text

    async def _once(self, place: tuple[str | int, ...], make: Callable[[], Awaitable[Extract]]) -> Extract:
        if place not in self._made:
            self._made[place] = await make()
            if len(self._made) > KEPT:
                self._made.popitem(last=False)
        self._made.move_to_end(place)
        return self._made[place]

    def forget(self) -> None:
        self._made.clear()


def _place(line: Line, seen: Seen) -> tuple[str, int, int]:
    """The branch, as long as nothing of the conversation is redacted, here or in another process."""
    return line.about, line.branch.number, seen.sighted.marks.forgotten
