"""What no summary covers yet: the turns between what is remembered and the window, in their own words.

A brief is made beside the conversation and may be behind, or there may be none at all. So that no turn is ever neither
sent nor summarised, an extract of what lies between stands in until a version covers it. It depends on where the window
begins and on the version that is sent, so it stays the same until one of them changes; it is made once and remembered.
"""

from __future__ import annotations

from collections import OrderedDict

from everthread.context.planning import Plan
from everthread.core import extract
from everthread.core.branches import Line
from everthread.store.log import Log
from everthread.store.windowing import Seen

LOOKED_AT = 120  # messages before the window; of an older gap the newest count
KEPT = 256


class Gaps:
    def __init__(self) -> None:
        self._made: OrderedDict[tuple[str, int, int, int, int], str] = OrderedDict()

    async def text(self, log: Log, line: Line, plan: Plan, seen: Seen) -> str:
        """An extract of what lies between what is remembered and the window; empty where nothing does."""
        if not plan.settings.memory or not plan.memory[0] or seen.choice is None:
            return ""
        covered = max(seen.sighted.head.cleared, seen.brief.brief.covers if seen.brief.brief else 0)
        begin = seen.choice.begin.first
        if begin <= covered + 1 or (seen.brief.brief and not seen.brief.behind):
            return ""
        tokens = getattr(plan.settings, plan.memory[2][0]) // (2 if seen.brief.brief else 1)
        place = (line.conversation, line.branch.number, covered, begin, tokens)
        if place not in self._made:
            events = await log.before(line, begin, limit=LOOKED_AT, messages=True)
            self._made[place] = extract.summary([one for one in events if one.seq > covered], tokens)
            if len(self._made) > KEPT:
                self._made.popitem(last=False)
        self._made.move_to_end(place)
        return self._made[place]

    def forget(self) -> None:
        self._made.clear()
