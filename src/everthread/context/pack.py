"""Packing a context: the turns that were read become items with sizes, beside the instructions and what memory adds.

What does not fit gives way in a fixed order (law 3): see `context.give_way`. If even what must stay does not fit, the
estimate stays above the budget, and the context says what would be needed.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from everthread.context.asides import WRAPPED, Asides, whole_canvas
from everthread.context.charge import charge, known_sizes, shown_of
from everthread.context.gaps import NOTHING, Gap
from everthread.context.items import Items
from everthread.context.memory import FromMemory
from everthread.context.plan import PINNED, Plan
from everthread.context.turn_cache import TurnCache
from everthread.core.estimates import Measure
from everthread.core.events import media_of
from everthread.core.logged import Logged
from everthread.core.parts import Reasoning
from everthread.core.request import Item, MessageItem, ReplyItem
from everthread.core.sections import Clock
from everthread.core.strategies import ASKED
from everthread.core.tokens import CALL_WRAPPING, JOINT, WRAPPING, echo_size
from everthread.core.window import Start, excess
from everthread.store.scripts.window import WindowRead

DECLARED = 16  # tokens of a tool that only its name is known of, beside that


class Packed(msgspec.Struct, kw_only=True):
    """A turn on its way into the request. `size`, and by section what its `asides` take, are before the factor."""

    start: Start
    last: int
    events: list[Logged]
    why: str
    full: bool = False
    settled: int = 0  # tokens, as the log has them
    score: float = 0.0
    left: int = 0  # messages of it that are not sent
    items: list[Item] = []
    size: int = 0
    asides: dict[str, int] = {}

    @property
    def aside(self) -> int:
        """What is told beside its messages."""
        return sum(self.asides.values())

    @property
    def stays(self) -> bool:
        """Whether it was pinned, or is the question."""
        return self.why in (PINNED, ASKED)


class SoFar(NamedTuple):
    """How far a turn has come: events, tokens in full, and whether any of it is sent otherwise by now."""

    events: int = 0
    tokens: int = 0
    changed: bool = False


class Packing:
    def __init__(
        self,
        plan: Plan,
        seen: WindowRead,
        turn_cache: TurnCache,
        *,
        changed: int = 0,
        gap: Gap = NOTHING,
        form_tokens: int = 0,
    ) -> None:
        self._turn_cache = turn_cache
        self.plan = plan
        self.seen = seen
        self.degraded: list[str] = []
        self.sections = dict(plan.sections)
        self.before: tuple[Item, ...] = ()  # what memory puts in front of the window
        self.older: list[Packed] = []
        self.turns: list[Packed] = []
        self.shortened: dict[int, str] = {}
        self.form_tokens = form_tokens  # which the form of the request adds to what the log has counted
        self.clock, self.canvas = plan.settings.clock, plan.settings.canvas
        self._changed = max(changed, seen.outlook.changed, seen.brief.since, seen.recap.since)
        if self.canvas == "instructions":  # which stand before all that was sent
            self._changed = max(self._changed, seen.outlook.markers.of("canvas"))
        self.gave_way = False
        self.degraded += plan.notes
        if seen.choice:
            self.degraded += seen.choice.notes
            memory = FromMemory(plan, seen, gap, turn_cache)
            self.sections |= memory.sections
            self.before = memory.before
            self.degraded += memory.degraded
            self._take()
            if self.canvas == "instructions":
                told = whole_canvas(seen.beside, plan.measure, plan.fence, plan.canvas_most)
                self.sections |= {"canvas": told} if told else {}
        self.fold()

    # -- what is there -------------------------------------------------------------------------------------

    def items(self) -> tuple[Item, ...]:
        return (*self.before, *(item for turn in (*self.older, *self.turns) for item in turn.items))

    def tokens(self, turn: Packed) -> int:
        return self.plan.measure.tokens(turn.size)

    def with_asides(self, turn: Packed) -> int:
        """A turn, and what is told beside its messages."""
        return self.tokens(turn) + self.plan.measure.tokens(turn.aside)

    def section_tokens(self) -> dict[str, int]:
        """Estimates of everything that is no turn, by name; "overhead" is what wraps it all."""
        measure = self.plan.measure
        found = {name: measure.tokens(measure.text(text)) for name, text in self.sections.items()}
        if self.plan.tools_tokens:
            found["tools"] = self.plan.tools_tokens
        elif self._items.called and self.plan.model.hidden:  # declared, because they are called
            declared = sum(DECLARED + measure.text(name) for name in self._items.called)
            found["tools"] = measure.tokens(declared) + self.plan.model.hidden
        found |= self._beside()
        if self.before:
            told = [part.text for item in self.before for part in item.parts if hasattr(part, "text")]
            found["told before"] = measure.tokens(sum(WRAPPING + measure.text(text) for text in told))
        for name, size in self._asides().items():
            found[name] = found.get(name, 0) + measure.tokens(size)
        wrapping = WRAPPING + JOINT * (len(self.sections) - 1) if self.sections else 0
        found["overhead"] = self.plan.overhead + measure.tokens(wrapping)
        return found

    def _asides(self) -> dict[str, int]:
        """What is told beside messages, by section."""
        found: dict[str, int] = {}
        for asides in [turn.asides for turn in self.turns if turn.asides]:
            for name, size in asides.items():
                found[name] = found.get(name, 0) + size
        return found

    def _beside(self) -> dict[str, int]:
        """Of what stands beside the messages."""
        found: dict[str, int] = {}
        found["output"] = self.plan.output_tokens
        found["extra body"] = self.plan.extra_tokens
        found["form"] = self.form_tokens
        return {name: tokens for name, tokens in found.items() if tokens}

    def estimate(self) -> int:
        turns = sum(map(self.tokens, self.older)) + sum(map(self.tokens, self.turns))
        return turns + sum(self.section_tokens().values())

    @property
    def over(self) -> int:
        """The tokens by which it is over the budget; negative where it is not."""
        return self.estimate() - self.plan.budget

    @property
    def simple(self) -> bool:
        """Whether every message is sent as it was counted when it was appended."""
        return self._items.simple

    @property
    def calls(self) -> bool:
        """Whether there are tool calls among what is sent."""
        return bool(self._items.called)

    def known(self) -> dict[str, int]:
        """The sizes of texts that the log has counted already."""
        if self.plan.measure.counter:
            return {}
        return known_sizes(event for turn in (*self.older, *self.turns) for event in turn.events)

    def canonical(self) -> int:
        """What is sent, in our own tokens: the estimate without the model's factor and its hidden tokens."""
        measure = self.plan.measure
        hidden = self.plan.model.hidden if "tools" in self.section_tokens() else 0
        if measure.counter is None:
            return round((self.estimate() - hidden) / measure.factor)
        ours = Measure()
        events = [(event, turn.full) for turn in (*self.older, *self.turns) for event in turn.events]
        texts = [*self.sections.values(), *(tool.description + str(tool.schema) for tool in self.plan.tools)]
        return sum(ours.event(event, full=full) for event, full in events) + sum(map(ours.text, texts))

    @property
    def has_stepped(self) -> bool:
        """Whether turns had to leave that the strategy would have sent."""
        return self.begins_later or len(self.older) < len(self.seen.older)

    @property
    def begins_later(self) -> bool:
        """Whether the window begins after the turn where the strategy would have begun it."""
        return bool(self.turns and self.seen.choice and self.turns[0].start.first > self.seen.choice.begin.first)

    @property
    def unasked(self) -> bool:
        """Whether no turn of the window has a user message, though turns come before it. If one has, it is the first of
        its turn, and the newest of all."""
        begins = [turn.events[0].kind for turn in self.turns]
        return bool(begins) and "user" not in begins and self.turns[0].start.before > 0

    @property
    def question(self) -> Packed | None:
        """The turn of the user's newest message, where that lies before the window."""
        return next((turn for turn in self.older if turn.why == ASKED), None)

    @property
    def older_sent(self) -> set[int]:
        """Where the older turns begin that are sent."""
        return {turn.start.first for turn in self.older}

    @property
    def repaired(self) -> list[str]:
        return [f"{what}: {count}" for what, count in self._items.repaired.items()]

    # -- packing -------------------------------------------------------------------------------------------

    def _take(self) -> None:
        choice, newest = self.seen.choice, self.seen.outlook.newest
        assert choice
        assert newest
        for turn, events in self.seen.older:
            settled = sum([event.settled for event in events])
            packed = Packed(start=turn.start, last=turn.last, events=events, why=turn.why, settled=settled)
            packed.score = turn.score
            self.older.append(packed)
        before, messages = choice.begin.before, choice.begin.messages
        for events in _by_turn(self.seen.events):
            number = events[0].turn
            start = Start(events[0].seq, before, number, messages)
            full = self.plan.running and number == newest.number
            why = "the newest turn" if number == newest.number else "in the window"
            settled = sum([event.settled for event in events])
            last = events[-1].seq
            self.turns.append(Packed(start=start, last=last, events=events, why=why, full=full, settled=settled))
            before += settled
            messages += len(events)

    def fold(self) -> None:
        """Items and sizes of all turns that are in."""
        self._items = items = Items(self.plan.measure.text, self.shortened, fence=self.plan.fence, ways=self.plan.ways)
        opening = {event.seq for event in self.seen.outlook.opening}
        newest = self.turns[-1] if self.turns else None
        changes, counts = bool(self.shortened), self.plan.measure.counter is not None
        for turn in (*self.older, *self.turns):
            events = _without(opening, turn.events) if opening else turn.events
            added = items.added
            again = not changes and not turn.full and turn is not newest
            turn.items = self._turn_cache.fold(items, events) if again else items.of(events, full=turn.full)
            as_logged = not (changes or counts or turn.full) and events is turn.events
            turn.size = (turn.settled if as_logged else self.size_of(events, turn.full)) + items.added - added
        self._tell_asides()
        self._tell_of_fence()
        if not items.plain:
            self._reason()
            self._charge_media()

    def _tell_of_fence(self) -> None:
        """What the tags on the user's side mean, last among the instructions: with the first of them it is new there,
        and nothing that was sent before began so."""
        self.sections.pop("fence", None)
        fences = [*self._items.fences, *self._tags]
        if fences:
            self.sections["fence"] = self.plan.fence.told
        self._tagged = min(fences, default=0)

    def size_of(self, events: list[Logged], full: bool) -> int:
        measure = self.plan.measure
        if not self.shortened and measure.counter is None:
            return sum([event.tokens for event in events] if full else [event.settled for event in events])
        return sum(
            CALL_WRAPPING + measure.text(self.shortened[event.seq])
            if event.seq in self.shortened
            else measure.event(event, full=full)
            for event in events
        )

    def _charge_media(self) -> None:
        """Pictures as their provider charges them; and what is told in words at the size of these."""
        model, measure = self.plan.model, self.plan.measure
        for turn in (*self.older, *self.turns):
            shown = [part for event in turn.events for part in media_of(event.event)]
            turn.size += sum(charge(part, model, measure) for part in shown)

    @property
    def shows(self) -> bool:
        """Whether there may be pictures or files among what is sent."""
        return not self._items.plain

    def _tell_asides(self) -> None:
        """What was so at the moment of each message."""
        self._tags: list[int] = []  # messages beside which something stands between tags
        self._restarted = 0
        beside = self.seen.beside
        if beside.canvas or beside.markers:
            self._tell_all()
        else:
            self._tell_time()

    def _tell_time(self) -> None:
        """The same where there is nothing but the time, as nearly always: with hardly a call for each message."""
        clock, previous = Clock(self.clock), None
        for turn in self.turns:
            turn.asides = {}
            for index, item in enumerate(turn.items):
                if not isinstance(item, MessageItem) or item.role != "user":
                    continue
                returned = index == 0 and previous is not None and previous.session != item.session
                pause = item.time - previous.micros if previous and returned else 0
                if text := clock.of(item.time, pause):
                    turn.items[index] = msgspec.structs.replace(item, aside=text)
                    turn.asides = {"time": turn.asides.get("time", 0) + self.plan.measure.text(text) + WRAPPED}
            previous = turn.events[-1]

    def _tell_all(self) -> None:
        plan, previous = self.plan, None
        most = plan.canvas_most if self.canvas == "message" else 0
        asides = Asides(self.seen.beside, plan.measure, plan.fence, clock=self.clock, canvas_most=most)
        asked = [item.seq for turn in self.turns for item in turn.items if _is_asked(item)]
        self._restarted = asides.restart(asked) if most else 0
        for turn in self.turns:
            turn.asides = {}
            for index, item in enumerate(turn.items):
                if not (asides.pending or isinstance(item, MessageItem)):
                    continue  # nearly always: an outcome is rare, and nothing else is told after a reply
                turn.items[index], told = asides.beside(item, previous if index == 0 else None)
                self._tags += [item.seq] if told.keys() - {"time"} else []
                for name, text in told.items():
                    turn.asides[name] = turn.asides.get(name, 0) + asides.size(text)
            previous = turn.events[-1]

    # -- reasoning: back to its model only, and only while what it was produced with is still sent -------------

    def _reason(self) -> None:
        for turn in self.turns:
            so_far = SoFar()
            for index, item in enumerate(turn.items):
                reasoning = [part for part in item.parts if isinstance(part, Reasoning)]
                if not reasoning:
                    continue
                so_far = self._onward(turn, so_far, item.seq)
                if isinstance(item, ReplyItem) and self._may_go_back(turn, item, so_far):
                    turn.items[index] = msgspec.structs.replace(item, reasons=True)
                else:
                    turn.size -= sum(map(self._reasoned, reasoning))
        for turn in self.older:
            turn.size -= sum(self._reasoned(p) for item in turn.items for p in item.parts if isinstance(p, Reasoning))

    def _onward(self, turn: Packed, so_far: SoFar, seq: int) -> SoFar:
        """How far a turn had come before event `seq`, counted on from an earlier one."""
        events, tokens, changed = so_far
        while events < len(turn.events) and (event := turn.events[events]).seq < seq:
            events, tokens = events + 1, tokens + event.tokens
            changed = changed or event.seq in self.shortened or (not turn.full and event.settled < event.tokens)
        return SoFar(events, tokens, changed)

    def _reasoned(self, part: Reasoning) -> int:
        return self.plan.measure.text(part.text) + echo_size(part.meta)

    def _may_go_back(self, turn: Packed, reply: ReplyItem, so_far: SoFar) -> bool:
        model = self.plan.model
        if not model.made(reply.model):
            return False
        if turn.full and not model.bound:
            return True
        return not so_far.changed and self._held(turn, so_far, reply.seq)

    def held(self, turn: Packed, seq: int) -> bool:
        """Whether the request before event `seq` of this turn began as this one does."""
        return self._held(turn, self._onward(turn, SoFar(), seq), seq)

    def _held(self, turn: Packed, so_far: SoFar, seq: int) -> bool:
        choice = self.seen.choice
        # What gave way in this request had not when there was less, or gave way otherwise.
        begun = max(self._changed, self._tagged, self._restarted)
        if choice is None or seq <= begun or self.gave_way or not self.turns:
            return False
        over = excess(turn.start, so_far.tokens, self.plan.room)
        return choice.held(turn.start.number, over, turn.start.messages + so_far.events)


def _without(opening: set[int], events: list[Logged]) -> list[Logged]:
    """The events of a turn but for what is told among the instructions: of that, only what can be shown is left."""
    if events[0].seq > max(opening):
        return events
    left = [shown_of(event) if event.seq in opening else event for event in events]
    return [event for event in left if event]


def _by_turn(events: list[Logged]) -> list[list[Logged]]:
    turns: list[list[Logged]] = []
    number = -1
    for event in events:
        if event.turn != number:
            number = event.turn
            turns.append([])
        turns[-1].append(event)
    return turns


def _is_asked(item: Item) -> bool:
    return isinstance(item, MessageItem) and item.role == "user"
