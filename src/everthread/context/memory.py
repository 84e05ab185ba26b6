"""What memory adds to a context: the brief or summary, facts, a recap, an extract of what none of them covers yet.

Each part stays within its share, so what memory holds never moves the window. The strategies `session` and
`importance` tell it as an exchange before the window, the others among the instructions.
"""

from __future__ import annotations

from typing import Any

from everthread.context.gaps import Gap
from everthread.context.plan import FENCE, Plan
from everthread.context.turn_cache import TurnCache
from everthread.core.estimates import Measure
from everthread.core.events import media_of
from everthread.core.fence import Fence
from everthread.core.request import Item
from everthread.core.sections import exchange, fenced, spans, untold
from everthread.core.tokens import count
from everthread.language.digest import within
from everthread.providers.summariser import summariser
from everthread.store.scripts.window import WindowRead

EXCHANGE = 40  # tokens of the exchange in which something is told before the window
LEAST = 24  # tokens of a text of memory's that is worth its fence


class FromMemory:
    """What memory has of what is left out, where the strategy wants it, in the order of what it is about."""

    def __init__(self, plan: Plan, seen: WindowRead, gap: Gap, turn_cache: TurnCache) -> None:
        self.plan = plan
        self._turn_cache = turn_cache
        self.seen = seen
        self._gap = gap
        self.sections: dict[str, str] = {}
        self.before: tuple[Item, ...] = ()  # what stands in front of the window
        self.degraded: list[str] = []
        self._remember()

    def _remember(self) -> None:
        assert self.seen.choice
        plan, gap, brief = self.plan, self._gap, self.seen.brief.brief
        last, recalls = self.seen.choice.begin.first - 1, plan.recalls
        room = plan.share_of_extract(brief) if gap.extract else 0
        if self._leaves_out:
            self._tell_brief(plan.share_of_brief(brief) - room)
        line = untold(gap.untold, recall=recalls)
        self._tell("untold", line)
        recap = self.seen.recap.recap.recap if self.seen.recap.recap else gap.recap
        share = plan.shares.get("recap_tokens", 0) - EXCHANGE
        self._tell("recap", self._fenced("recap", recap, share, recall=recalls and plan.strategy == "session"))
        room -= plan.measure.tokens(plan.measure.text(line)) if line else 0
        about = {"covers": last, "first": gap.first, "recall": recalls}
        self._tell("uncovered", self._fenced("extract", gap.extract, room, **about))
        self._say_what_is_missing(last)
        if self.seen.outlook.opening:
            self._say_what_has_left(last)
        if plan.strategy == "session":
            self._as_exchange("untold", "recap", "uncovered")

    def _say_what_has_left(self, last: int) -> None:
        """What was shown with the instructions that open the conversation: their text alone is sent for ever."""
        pinned = {event.seq for _, events in self.seen.older for event in events}
        opened = [event for event in self.seen.outlook.opening if event.seq <= last and event.seq not in pinned]
        if left := sum(len(media_of(event.event)) for event in opened):
            told = "images and files of the opening instructions that are no longer in the window"
            self.degraded.append(f"{told}: {left}")

    def _say_what_is_missing(self, last: int) -> None:
        brief, gap = self.seen.brief.brief, self._gap
        if brief and self.seen.brief.behind and gap.first:
            self.degraded.append(f"what is remembered ends at event {brief.covers}, the window begins at {last + 1}")
        elif gap.extract and self.plan.memory[0]:
            self.degraded.append(f"no model has summarised what was said up to event {last}: an extract stands in")
        elif brief and brief.extractive and self._leaves_out and summariser(self.plan.settings):
            self.degraded.append(f"no model has summarised what is remembered up to event {brief.covers} yet")
        if gap.untold and self.plan.memory[0]:
            self.degraded.append(f"{spans(gap.untold)} are neither sent nor summarised yet")

    @property
    def _leaves_out(self) -> bool:
        """Whether anything lies before the window that is not sent."""
        choice = self.seen.choice
        return bool(choice and choice.begin.messages > sum(len(events) for _, events in self.seen.older))

    def _tell_brief(self, room: int) -> None:
        brief = self.seen.brief.brief
        if not brief:
            return
        first, recalls = getattr(brief, "first", 1), self.plan.recalls
        about = {"covers": brief.covers, "first": first, "recall": recalls}
        if self.plan.strategy == "importance":
            self._tell("summary", self._fenced("summary", brief.text, room - EXCHANGE, **about))
            self._as_exchange("summary")
            if first > self.seen.outlook.head.cleared + 1:
                self.degraded.append(f"what is remembered begins at event {first}")
        else:
            self._tell("brief", self._fenced("brief", brief.text, room, covers=brief.covers, recall=recalls))
        facts = getattr(brief, "facts", "")
        self._tell("facts", self._fenced("facts", facts, self.plan.shares.get("facts_tokens", 0)))

    def _tell(self, section: str, text: str) -> None:
        if text:
            self.sections[section] = text

    def _as_exchange(self, *sections: str) -> None:
        """What these sections tell stands before the window instead, as an exchange."""
        if told := [text for name in sections if (text := self.sections.pop(name, ""))]:
            self.before = exchange("\n\n".join(told))

    def _fenced(self, kind: str, text: str, room: int, **about: Any) -> str:
        """A text of memory in its fence, cut to its share of the request."""
        if not text.strip():
            return ""
        return self._turn_cache.told(
            _fenced, self.plan.measure, self.plan.fence, kind, text, room, tuple(about.items())
        )


def _fenced(measure: Measure, fence: Fence, kind: str, text: str, room: int, about: tuple[tuple[str, Any], ...]) -> str:
    told = fenced(fence, kind, text, **dict(about))
    room = max(room, measure.tokens(FENCE + LEAST))
    if measure.tokens(measure.text(told)) <= room:
        return told
    left = int(room / measure.tokens(1_000) * 1_000) - measure.text(fenced(fence, kind, "", **dict(about)))
    cut = within(text, left, measure.counter or count) if left >= LEAST else ""
    return fenced(fence, kind, cut, **dict(about)) if cut else ""
