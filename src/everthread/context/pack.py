"""Packing a context: the turns that were read become items, and what does not fit gives way in a fixed order.

The order (law 3): older turns leave, then pins; then the newest turn has its results shortened, from the
largest; then what memory adds shrinks, and its own tools leave. The instructions, the application's tools and the
user's newest message stay whole; if even they do not fit, the estimate stays above the budget, and the context says
what would be needed.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

from everthread.context.charge import charge, known_sizes, shown_of
from everthread.context.gaps import NOTHING, Gap
from everthread.context.items import Items, stub
from everthread.context.plan import FENCE, PINNED, Plan, pins_left, without_lookups
from everthread.context.turn_cache import TurnCache
from everthread.core.estimates import Measure
from everthread.core.events import media_of
from everthread.core.logged import Logged
from everthread.core.parts import Reasoning, Text
from everthread.core.request import Item, ReplyItem, Said
from everthread.core.sections import Asides, exchange, fenced, spans, untold
from everthread.core.strategies import fewer
from everthread.core.tokens import CALL_WRAPPING, JOINT, WRAPPING, count
from everthread.core.window import Start, excess, rung
from everthread.language.digest import within
from everthread.providers.summariser import summariser
from everthread.store.scripts.window import Seen

SHORT = ((1_000, 400), (200, 100), (0, 0))  # head and tail of a shortened result, tried in this order
SHORTEN_FROM = 80  # tokens of a result below which shortening gains nothing
EXCHANGE = 40  # tokens of the exchange in which something is told before the window
BESIDE = 148  # messages that a request may have beside those of its turns
LEAST = 24  # tokens of a text of memory's that is worth its fence
NAMES = {"uncovered": "extract"}  # of sections, for those who read what was left out
DECLARED = 16  # tokens of a tool that only its name is known of, beside that


class Packed(msgspec.Struct, kw_only=True):
    """A turn on its way into the request. `size` and `aside`, its notes of time, are before the factor."""

    start: Start
    last: int
    events: list[Logged]
    why: str
    full: bool = False
    settled: int = 0  # tokens, as the log has them
    score: float = 0.0
    items: list[Item] = []
    size: int = 0
    aside: int = 0

    @property
    def pinned(self) -> bool:
        return self.why == PINNED


class SoFar(NamedTuple):
    """How far a turn has come: events, tokens in full, and whether any of it is sent otherwise by now."""

    events: int = 0
    tokens: int = 0
    changed: bool = False


class Packing:
    def __init__(
        self, plan: Plan, seen: Seen, turn_cache: TurnCache, *, changed: int = 0, gap: Gap = NOTHING, form: int = 0
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
        self.form = form  # tokens that the form of the request adds to what the log has counted
        self._clock = plan.settings.clock
        self._changed = max(changed, seen.sighted.changed, seen.brief.since, seen.recap.since)
        self._gave_way = False
        self._gap = gap
        self.degraded += plan.notes
        if seen.choice:
            self.degraded += seen.choice.notes
            self._remember()
            self._take()
        self._fold()

    # -- what is there -------------------------------------------------------------------------------------

    def items(self) -> tuple[Item, ...]:
        return (*self.before, *(item for turn in (*self.older, *self.turns) for item in turn.items))

    def tokens(self, turn: Packed) -> int:
        return self.plan.measure.tokens(turn.size)

    def section_tokens(self) -> dict[str, int]:
        """Estimates of everything that is no turn, by name; "overhead" is what wraps it all."""
        measure = self.plan.measure
        found = {name: measure.tokens(measure.text(text)) for name, text in self.sections.items()}
        if self.plan.tools_tokens:
            found["tools"] = self.plan.tools_tokens
        elif self._items.called and self.plan.model.hidden:  # declared, because they are called
            declared = sum(DECLARED + measure.text(name) for name in self._items.called)
            found["tools"] = measure.tokens(declared) + self.plan.model.hidden
        if self.plan.output_tokens:
            found["output"] = self.plan.output_tokens
        if self.form:
            found["form"] = self.form
        if self.before:
            told = [part.text for item in self.before for part in item.parts if hasattr(part, "text")]
            found["told before"] = measure.tokens(sum(WRAPPING + measure.text(text) for text in told))
        if asides := sum(turn.aside for turn in self.turns):
            found["time"] = measure.tokens(asides)
        wrapping = WRAPPING + JOINT * (len(self.sections) - 1) if self.sections else 0
        found["overhead"] = self.plan.overhead + measure.tokens(wrapping)
        return found

    def estimate(self) -> int:
        turns = sum(map(self.tokens, self.older)) + sum(map(self.tokens, self.turns))
        return turns + sum(self.section_tokens().values())

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
        return self._begins_later or len(self.older) < len(self.seen.older)

    @property
    def _begins_later(self) -> bool:
        return bool(self.turns and self.seen.choice and self.turns[0].start.first > self.seen.choice.begin.first)

    @property
    def older_sent(self) -> set[int]:
        """Where the older turns begin that are sent."""
        return {turn.start.first for turn in self.older}

    @property
    def repaired(self) -> list[str]:
        return [f"{what}: {count}" for what, count in self._items.repaired.items()]

    # -- packing -------------------------------------------------------------------------------------------

    def _remember(self) -> None:
        """What memory has of what is left out, where the strategy wants it, each part within its share and in the order
        of what it is about."""
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
        if self.seen.sighted.opening:
            self._say_what_has_left(last)
        if plan.strategy == "session":
            self._as_exchange("untold", "recap", "uncovered")

    def _say_what_has_left(self, last: int) -> None:
        """What was shown with the instructions that open the conversation: their text alone is sent for ever."""
        pinned = {event.seq for _, events in self.seen.older for event in events}
        opened = [event for event in self.seen.sighted.opening if event.seq <= last and event.seq not in pinned]
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
            if first > self.seen.sighted.head.cleared + 1:
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
        """A text of memory's in its fence, with as much of it as so many tokens of the request take."""
        measure, fence = self.plan.measure, self.plan.fence
        told = fenced(fence, kind, text, **about) if text.strip() else ""
        room = max(room, measure.tokens(FENCE + LEAST))
        if measure.tokens(measure.text(told)) <= room:
            return told
        left = int(room / measure.tokens(1_000) * 1_000) - measure.text(fenced(fence, kind, "", **about))
        cut = within(text, left, measure.counter or count) if left >= LEAST else ""
        return fenced(fence, kind, cut, **about) if cut else ""

    def _take(self) -> None:
        choice, newest = self.seen.choice, self.seen.sighted.newest
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

    def _fold(self) -> None:
        """Items and sizes of all turns that are in."""
        self._items = Items(self.plan.measure.text, self.shortened, fence=self.plan.fence, ways=self.plan.ways)
        opening = {event.seq for event in self.seen.sighted.opening}
        newest = self.turns[-1] if self.turns else None
        plain = not self.shortened and self.plan.measure.counter is None
        for turn in (*self.older, *self.turns):
            events = turn.events
            if opening and events[0].seq <= max(opening):
                left = [shown_of(event) if event.seq in opening else event for event in events]
                events = [event for event in left if event]
            added = self._items.added
            again = not turn.full and not self.shortened and turn is not newest
            turn.items = self._turn_cache.fold(self._items, events) if again else self._items.of(events, full=turn.full)
            is_plain = plain and not turn.full and events is turn.events
            turn.size = (turn.settled if is_plain else self._size(events, turn.full)) + self._items.added - added
        self._tell_of_fence()
        if not self._items.plain:
            self._reason()
            self._charge_media()
        self._tell_time()

    def _tell_of_fence(self) -> None:
        """What the tags on the user's side mean, last among the instructions: with the first of them it is new there,
        and nothing that was sent before began so."""
        self.sections.pop("fence", None)
        if self._items.fences:
            self.sections["fence"] = self.plan.fence.told
        self._tagged = min(self._items.fences, default=0)

    def _size(self, events: list[Logged], full: bool) -> int:
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

    def _tell_time(self) -> None:
        asides, previous = Asides(self._clock), None
        for turn in self.turns:
            turn.aside = 0
            for place, item in enumerate(turn.items):
                if not isinstance(item, Said) or item.role != "user":
                    continue
                returned = previous is not None and previous.session != item.session and place == 0
                pause = item.time - previous.at if previous and returned else 0
                if text := asides.of(item.time, pause=pause):
                    turn.items[place] = msgspec.structs.replace(item, aside=text)
                    turn.aside += self.plan.measure.text(text) + 2
            previous = turn.events[-1]

    # -- reasoning: back to its model only, and only while what it was produced with is still sent -------------

    def _reason(self) -> None:
        for turn in self.turns:
            so_far = SoFar()
            for place, item in enumerate(turn.items):
                reasoning = [part for part in item.parts if isinstance(part, Reasoning)]
                if not reasoning:
                    continue
                so_far = self._onward(turn, so_far, item.seq)
                if isinstance(item, ReplyItem) and self._may_go_back(turn, item, so_far):
                    turn.items[place] = msgspec.structs.replace(item, reasons=True)
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
        return self.plan.measure.text(part.text) + sum(len(value) // 4 for value in part.meta.values())

    def _may_go_back(self, turn: Packed, reply: ReplyItem, so_far: SoFar) -> bool:
        model = self.plan.model
        if reply.model not in (model.name, f"{model.provider}:{model.name}"):
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
        if choice is None or seq <= max(self._changed, self._tagged) or self._gave_way or not self.turns:
            return False
        over = excess(turn.start, so_far.tokens, self.plan.room)
        return choice.held(turn.start.number, over, turn.start.messages + so_far.events)

    # -- giving way ----------------------------------------------------------------------------------------

    def fit(self) -> int:
        """The estimate, under the budget if that can be."""
        self._messages_leave()
        turns = (self._older_leave, self._turns_leave, self._pins_leave, self._shorten)
        for give_way in (*turns, self._forget, self._lookups_leave):
            if (estimate := self.estimate()) <= self.plan.budget:
                return estimate
            self._gave_way = True
            give_way()
        return self.estimate()

    @property
    def can_give_way(self) -> bool:
        """Whether it is over the budget, and something is left that would leave for it."""
        if self._over() <= 0:
            return False
        results = [event for turn in self.turns[-1:] for event in turn.events if event.kind == "tool_result"]
        remembered = self.before or self.sections.keys() - self.plan.sections.keys() - {"fence"}
        return bool(self.turns[1:] or self.older or results or remembered or self._lookups)

    def _over(self) -> int:
        return self.estimate() - self.plan.budget

    def _messages_leave(self) -> None:
        """Turns, where the provider takes so many messages only: by half of those, so that the cutoff seldom steps."""
        most = self.plan.model.limits.messages - BESIDE
        if most <= 0 or not self.turns:
            return
        newest, older = self.turns[-1], sum([len(turn.events) for turn in self.older])
        end = newest.start.messages + len(newest.events)
        if 3 * len(newest.events) > most - older:  # which a call, what stands for its result and a picture may come to
            self._cut_newest(most - older)
        if newest is not self.turns[0] and end - self.turns[0].start.messages + older > most:
            half = max(1, (most - older) // 2)
            line = -(-(end - 2 * half) // half) * half
            self.turns = [turn for turn in self.turns if turn.start.messages >= line] or [newest]
            self._gave_way = True
            self._fold()
            self.degraded.append(self._messages_taken)

    @property
    def _messages_taken(self) -> str:
        return f"the provider takes no more than {self.plan.model.limits.messages:,} messages"

    def _cut_newest(self, most: int) -> None:
        """Of a turn that alone has more messages than that the beginning leaves, likewise by half; but not what was
        first said in it by the user, and last."""
        newest = self.turns[-1]
        begins = list(accumulate(map(_messages_of, newest.items), initial=0))
        if begins[-1] <= most:
            return
        half = max(1, most // 2)
        line = -(-(begins[-1] - most) // half) * half
        first = newest.items[min(bisect_left(begins, line), len(newest.items) - 1)].seq
        left = [event for event in newest.events if event.seq < first]
        said = [event for event in left if event.kind == "user"]
        spared = {event.seq for event in (*said[:1], *said[-1:])}
        gone = _spans([event.seq for event in left if event.seq not in spared])
        newest.events = [event for event in newest.events if event.seq >= first or event.seq in spared]
        self.turns = [newest]
        self._gave_way = True
        told = [self.sections.get("untold"), untold(gone, recall=self.plan.recalls)]
        self._tell("untold", "\n".join(filter(None, told)))
        self._fold()
        self.degraded.append(f"{self._messages_taken}: {spans(gone)} are not sent")

    def _older_leave(self) -> None:
        while (loose := [turn for turn in self.older if not turn.pinned]) and self._over() > 0:
            self.older.remove(min(loose, key=lambda turn: (turn.score, turn.start.first)))
        self._fold()

    def _turns_leave(self) -> None:
        """From line to line of the grid on which the cutoff steps, so that it comes to stand where it will stay."""
        while len(self.turns) > 1 and (over := self._over()) > 0:
            left = 0
            while over > 0 and left < len(self.turns) - 1:
                until = self._next_line(left)
                over -= sum(map(self.tokens, self.turns[left:until]))
                left = until
            self.turns = self.turns[left:]
            self._fold()  # the first turn that is left now tells the time
        choice = self.seen.choice
        if choice and self._begins_later and not self.plan.by_size:
            self.degraded.append(fewer(choice.begin, self.turns[0].start))

    def _next_line(self, place: int) -> int:
        """The last turn up to the next line after this one, the newest excepted unless it comes next."""
        starts, step = [turn.start for turn in self.turns], self.plan.room.step
        line = (starts[place].before // step + 1) * step if step else starts[place].before
        upto = [n for n in range(place + 1, len(starts) - 1) if starts[n].before <= line]
        return max(place + 1, *upto[-1:]) if upto else place + 1

    def _pins_leave(self) -> None:
        count = len(self.older)
        while self.older and self._over() > 0:
            self.older.pop(0)
        if left := count - len(self.older):
            self.degraded.append(pins_left(left))
            self._fold()

    def _shorten(self) -> None:
        """The newest turn's results, from the largest.

        Sizes and what must go are taken coarsely, so that as the turn goes on the same results stay shortened,
        and its beginning stays in the provider's cache.
        """
        events = self.turns[-1].events if self.turns else []
        results = [event for event in events if event.kind == "tool_result" and event.tokens > SHORTEN_FROM]
        results.sort(key=lambda event: (-rung(event.tokens), event.seq))
        measure, full = self.plan.measure, bool(self.turns) and self.turns[-1].full
        coarse = max(1, measure.tokens(self.plan.room.room // 8))
        for head, tail in SHORT:
            over = -(-self._over() // coarse) * coarse
            for event in results:
                if over <= 0:
                    break
                short = stub(event, head, tail)
                if len(short) >= len(event.text):
                    continue
                was = self._size([event], full)
                self.shortened[event.seq] = short
                over -= measure.tokens(was - self._size([event], full))
            self._fold()
        if self.shortened:
            self.degraded.append(f"results of the newest turn, shortened to fit: {len(self.shortened)}")

    def _forget(self) -> None:
        """What memory adds, from what changes most to what changes least; and the time."""
        for name in ("uncovered", "untold", "recap", "facts", "brief"):
            if self._over() > 0 and self.sections.pop(name, "") and name != "untold":
                self.degraded.append(f"the {NAMES.get(name, name)} was left out to fit")
        if self._over() > 0 and self.before:
            self.before = ()
            self.degraded.append("what is remembered was left out to fit")
        if self._over() > 0:
            self._clock = "off"
            self.degraded.append("the time was left out to fit")
            self._fold()

    def _lookups_leave(self) -> None:
        """Memory's own tools, which say nothing by themselves."""
        if self._lookups:
            self.plan = without_lookups(self.plan)
            self.degraded.append("memory's own tools were left out to fit")

    @property
    def _lookups(self) -> bool:
        return any(tool.name in self.plan.lookups for tool in self.plan.tools)


def _messages_of(item: Item) -> int:
    """The most messages that a provider's form makes of an item."""
    if isinstance(item, Said):
        return 1
    shows = any(not isinstance(part, Text) for answer in item.answers for part in answer.parts)
    return len(item.parts) + len(item.answers) + shows


def _spans(seqs: list[int]) -> list[tuple[int, int]]:
    """Runs of neighbours among these."""
    found: list[tuple[int, int]] = []
    for seq in seqs:
        if found and found[-1][1] == seq - 1:
            found[-1] = (found[-1][0], seq)
        else:
            found.append((seq, seq))
    return found


def _by_turn(events: list[Logged]) -> list[list[Logged]]:
    turns: list[list[Logged]] = []
    number = -1
    for event in events:
        if event.turn != number:
            number = event.turn
            turns.append([])
        turns[-1].append(event)
    return turns
