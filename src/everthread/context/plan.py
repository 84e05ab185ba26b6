"""Before a window is chosen: the settings in force, the model, the instructions and tools, and the room they leave.

All of it follows from what the caller asked for, the settings and the log, never from the size of what memory
happens to hold: so the room stays the same from turn to turn, and with it the grid on which the cutoff steps.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from everthread.config import (
    Resolved,
    Settings,
    Source,
    from_branch,
    from_conversation,
    given_source,
    resolve,
    usable,
)
from everthread.context.budget import budget_of, place_of, window_of
from everthread.context.offer import offer, unfenced, weighed
from everthread.context.output import TOLD, Output
from everthread.core.branches import CANVAS
from everthread.core.estimates import Measure, cl100k, four_bytes, rounded, uncounted
from everthread.core.events import BriefUpdated, Summary
from everthread.core.fence import Fence, without_number
from everthread.core.request import Tool, Ways, clean
from everthread.core.sections import RECALL, fenced_notes, instructions_of
from everthread.core.strategies import OWN as OWN_STRATEGY
from everthread.core.strategies import STRATEGIES, Choice, Older, Strategy, View, choose, fewer, noting
from everthread.core.tokens import JOINT, WRAPPING, Counter
from everthread.core.window import Lookups, Room, Start, excess, room_of, rung
from everthread.errors import NoModel
from everthread.providers.base import dialect_of
from everthread.providers.client import NO_HEADERS, Headers
from everthread.providers.models import Limits, Model, model, warn
from everthread.providers.registry import provider
from everthread.providers.shapes import shape_of
from everthread.store.scripts.lookups import Ahead
from everthread.store.scripts.outlook import Outlook

# Which memory goes with which strategy: the kind of its summary, whether the recap goes along, and the settings
# that say how much room they may take.
MEMORY: dict[str, tuple[str, bool, tuple[str, ...]]] = {
    "budget": ("brief_updated", True, ("brief_tokens", "facts_tokens", "recap_tokens")),
    "messages": ("brief_updated", False, ("brief_tokens", "facts_tokens")),
    "session": ("", True, ("brief_tokens", "recap_tokens")),
    "importance": ("summary", False, ("summary_tokens",)),
}
FIRST = ("facts_tokens", "brief_tokens", "summary_tokens", "recap_tokens")  # in which order they take what there is
MEMORY_SHARE, FACTS_SHARE = 1 / 7, 3 / 5  # of the budget for all of memory, and of that for facts
SMALL_SHARE, SMALL = 1 / 3, 400  # of a small budget, and up to how many tokens
CANVAS_SHARE = 1 / 24  # of the budget, for what is told of the canvas at once
FENCE = 120  # tokens around a text that is fenced
PRIMING = 3
PINNED = "pinned"  # why a turn is sent that the log gives as a pin
OWN = ("brief_updated", True, ("brief_tokens", "facts_tokens", "recap_tokens"))


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller of `talk.context` asked for."""

    settings: dict[str, Any]
    strategy: Strategy | None = None
    instructions: str | Mapping[str, str] | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: str = ""
    output: Output | None = None  # what the reply is to be; its schema is among the settings
    headers: Headers = NO_HEADERS  # for the provider of the model that is named first
    lookups: tuple[Tool, ...] = ()  # memory's own, for models that can use them
    notes_of: str = ""  # the document that MEMORY.md is
    notes: str | None = None  # what it said when the turn began; None: what it says now
    notes_since: int = 0  # when the first version of that was written; 0 where there was none
    at: int | None = None
    sources: tuple[Source, ...] = ()  # more specific than what holds for all: the agent's settings
    record: Source | None = None  # more specific than all but what was asked: of the model call that is gone on from
    factor: float | None = None  # in place of what was learnt: that of an earlier request, 0 for none
    window: int = 0  # likewise
    uncounted: str = ""  # why nothing can be counted: then messages are sent by their number


class Learnt(msgspec.Struct, frozen=True):
    """What was told of models while the store is open. By providers, by model and address: their tokens for each of our
    own, and the most they take. By the application: functions that count, by patterns of models' names."""

    factors: dict[str, float] = {}
    windows: dict[str, int] = {}
    counters: dict[str, Counter] = {}


NOTHING_LEARNT = Learnt()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is settled before a single turn is chosen. Sizes are in the measure's tokens."""

    resolved: Resolved
    model: Model
    measure: Measure
    strategy: str
    choose: Strategy
    fence: Fence
    sections: dict[str, str]
    tools: tuple[Tool, ...]
    tools_tokens: int
    lookups: tuple[str, ...]  # the names of those that are memory's own
    tool_choice: str
    output: Output | None  # what the caller asks for
    shape: str  # the schema of the reply, as the provider takes it
    output_tokens: int  # of that
    extra_tokens: int  # of fields that the settings add
    window: int  # the most tokens that the model takes
    limit: int  # of which for the input
    budget: int
    shares: dict[str, int]  # the most tokens of the request for each part of memory, by the setting that grants them
    canvas_most: int  # what is told of the canvas at once, in our own tokens; 0 where there is none
    room: Room
    pins: tuple[Older, ...]
    notes: tuple[str, ...]
    running: bool
    size: int

    @property
    def settings(self) -> Settings:
        return self.resolved.settings

    @property
    def ways(self) -> Ways:
        ways = provider(self.model.provider).ways
        return ways._replace(beside=False) if self.model.blind else ways  # which is told all of it in words

    @property
    def overhead(self) -> int:
        """What primes the reply."""
        return self.measure.tokens(PRIMING)

    @property
    def memory(self) -> tuple[str, bool]:
        """The kind of summary that is read, and whether the recap is; none where there is to be no memory."""
        return MEMORY.get(self.strategy, OWN)[:2] if self.settings.memory else ("", False)

    def share_of_brief(self, brief: BriefUpdated | Summary | None) -> int:
        """The tokens of the request for what is told of the past in prose; where there are no facts, theirs as well."""
        prose = self.shares.get("summary_tokens", self.shares.get("brief_tokens", 0))
        return prose if getattr(brief, "facts", "") else prose + self.shares.get("facts_tokens", 0)

    def share_of_extract(self, brief: BriefUpdated | Summary | None) -> int:
        """Of these, the ones for an extract of what no brief covers: half of them where it stands beside one."""
        return self.share_of_brief(brief) // (2 if brief else 1)

    def room_in(self, share: int) -> int:
        """How long a text may be, in our own tokens, that has this share of the request."""
        own = share if self.measure.counter else int(share / self.measure.factor)
        return max(0, own - FENCE)

    @property
    def by_size(self) -> bool:
        """Whether what fits is all that is asked for."""
        return self.strategy in ("budget", OWN_STRATEGY)

    @property
    def recalls(self) -> bool:
        return any(tool.name == RECALL for tool in self.tools)


def plan(
    asked: Asked, sources: Sequence[Source], outlook: Outlook, fence: Fence, learnt: Learnt = NOTHING_LEARNT
) -> Plan:
    resolved, passed_over = _resolved(asked, sources, outlook)
    settings = resolved.settings
    counter, place = _counter(settings.model, learnt.counters), place_of(settings)
    model = _model(settings, counts=counter is not None)
    measure = _measure(asked, model, settings, learnt.factors.get(place), counter)
    sections = _sections(asked, outlook, settings, fence)
    window = window_of(settings, model, learnt.windows, told=asked.window)
    limit = max(0, window - settings.reply_tokens)
    budget = budget_of(resolved, model, limit)
    lookups = asked.lookups if model.looks_up and settings.memory else ()
    offered, left_out = offer(asked.tools, lookups, model, measure, budget=budget)
    strategy, choose = _strategy(asked, settings)
    shape, unshaped = _shape(settings, model, sections, fence, tools=bool(offered.tools))
    output_tokens, extra_tokens = (measure.tokens(measure.text(text)) for text in (shape, settings.extra_body))
    size = sum(measure.text(text) + JOINT for text in sections.values())
    fixed = offered.tokens + output_tokens + extra_tokens + measure.tokens(size + WRAPPING)
    shares = _shares(budget, measure, settings, MEMORY.get(strategy, OWN)[2])
    canvas_most = _canvas_most(settings, outlook, budget, measure.factor)
    set_aside = sum(shares.values()) + 2 * measure.tokens(canvas_most)  # all of it once, and what changes
    whole = _room(budget, fixed + set_aside, measure.factor, settings.step)
    pins, room = _pinned(outlook.pins.turns, whole, settings)
    running = outlook.head.state in ("open", "waiting")
    return Plan(
        resolved=resolved,
        model=model,
        measure=measure,
        strategy=strategy,
        choose=choose,
        fence=fence,
        sections=sections,
        tools=tuple([unfenced(tool, fence) for tool in offered.tools]),
        tools_tokens=offered.tokens,
        lookups=tuple([tool.name for tool in lookups]),
        tool_choice=asked.tool_choice,
        output=asked.output,
        shape=shape,
        output_tokens=output_tokens,
        extra_tokens=extra_tokens,
        window=window,
        limit=limit,
        budget=budget,
        shares=shares,
        canvas_most=canvas_most,
        room=room,
        pins=pins,
        notes=(*left_out, *unshaped, *_uncounted(asked, settings), *passed_over, *_pins_passed_over(outlook, pins)),
        running=running,
        size=outlook.size if running else outlook.settled,
    )


def _resolved(asked: Asked, sources: Sequence[Source], outlook: Outlook) -> tuple[Resolved, list[str]]:
    """The settings in force, and those that could not be used."""
    given = given_source(asked.settings)
    conversation = usable(from_conversation(msgspec.json.decode(outlook.conversation)))
    branch = from_branch(outlook.settings)
    record = (asked.record,) if asked.record else ()
    resolved = resolve(*sources, *asked.sources, conversation, branch, *record, given)
    notes = [f"passed over: {problem}" for problem in (*conversation.passed_over, *branch.passed_over)]
    if outlook.unread:
        notes.append(f"passed over: settings of this branch that are damaged: {outlook.unread}")
    return resolved, notes


def _counter(model: str, counters: Mapping[str, Counter]) -> Counter | None:
    """The application's own counter for a model, by the first pattern that fits its name."""
    return next((counter for pattern, counter in counters.items() if fnmatchcase(model, pattern)), None)


def _model(settings: Settings, *, counts: bool) -> Model:
    """What is known of the model; a warning where that is nothing, and the application does not say it either."""
    if not settings.model:
        raise NoModel
    about = model(settings.model)
    if settings.address:  # a server of one's own has limits of its own
        about = msgspec.structs.replace(about, limits=Limits())
    if not about.known and not ((settings.factor or counts) and settings.model_window):
        warn(settings.model)
    return about


def _measure(asked: Asked, model: Model, settings: Settings, learnt: float | None, counter: Counter | None) -> Measure:
    if asked.uncounted:
        return Measure(counter=uncounted)
    if counter:
        return Measure(counter=counter, exact=True, own=True)
    return measure_of(model, settings, learnt if asked.factor is None else asked.factor)


def _sections(asked: Asked, outlook: Outlook, settings: Settings, fence: Fence) -> dict[str, str]:
    """The instructions by section: those given, MEMORY.md, and those that open the conversation."""
    told = _told(asked.instructions, settings.instructions, fence)
    # Until the turn ends it stays as it is, because it stands before all that is cached; unless it was forgotten.
    held = asked.notes if outlook.notes and asked.notes_since in (0, outlook.notes_since) else None
    notes = outlook.notes if held is None else held
    sections = instructions_of(_with_notes(told, notes, settings, fence))
    opening = clean("\n\n".join(event.text for event in outlook.opening if event.text.strip()))
    if opening := without_number(fence, opening):
        sections["opening"] = opening
    return sections


def _shape(
    settings: Settings, model: Model, sections: dict[str, str], fence: Fence, *, tools: bool
) -> tuple[str, list[str]]:
    """The schema of the reply as the provider takes it. Where it takes none, a section tells it in words."""
    if not settings.output:
        return "", []
    dialect = dialect_of(provider(model.provider).request_form(), model, tools=tools)
    shape = shape_of(settings.output, dialect)
    if shape.text:
        return shape.text, []
    sections["output"] = without_number(fence, clean(TOLD + settings.output))
    return "", [f"the schema of the reply is told in the instructions, because {shape.why}"]


def _strategy(asked: Asked, settings: Settings) -> tuple[str, Strategy]:
    """The strategy by name, and the function that chooses."""
    if asked.uncounted:
        return "messages", STRATEGIES["messages"]
    if asked.strategy is not None:
        return OWN_STRATEGY, asked.strategy  # a window that the application chooses by itself has the default's memory
    return settings.strategy, STRATEGIES[settings.strategy]


def _uncounted(asked: Asked, settings: Settings) -> Iterator[str]:
    """What to say where tokens could not be counted."""
    if asked.uncounted:
        yield (
            f"tokens could not be counted ({asked.uncounted}): the newest {settings.messages} messages are sent, "
            "however many tokens they have"
        )


def _pins_passed_over(outlook: Outlook, kept: tuple[Older, ...]) -> Iterator[str]:
    if left := len(outlook.pins.turns) - len(kept):
        yield f"pinned turns that do not fit into the share for pins: {left}"
    if outlook.pins.more:
        yield "there may be more pinned turns than were looked at"


def chosen(plan: Plan, outlook: Outlook) -> Lookups[Choice]:
    """What the strategy chooses, and the pinned turns that it left out."""
    assert outlook.newest is not None
    view = View(
        newest=outlook.newest,
        size=plan.size,
        room=plan.room,
        messages=outlook.head.messages_sum,
        session_first=outlook.head.session_first,
        last_messages=plan.settings.messages,
        active_messages=plan.settings.active_messages,
    )
    choice = yield from choose(plan.choose, view)
    pinned = {pin.start.first: pin for pin in plan.pins if pin.start.first < choice.begin.first}
    older = [turn for turn in choice.older if turn.start.first not in pinned]
    both = sorted([*older, *pinned.values()], key=lambda turn: turn.start.first)
    return msgspec.structs.replace(choice, older=tuple(both))


def foreseen(plan: Plan, outlook: Outlook) -> Ahead | None:
    """What the choice will ask for, where it is by size alone."""
    if plan.strategy != "budget" or outlook.newest is None:
        return None
    return Ahead(excess(outlook.newest, plan.size, plan.room), plan.room.step)


def as_packed(begin: Start, older: Container[int], choosing: Lookups[Choice], *, by_size: bool) -> Lookups[Choice]:
    """The same choice, begun later, with those of the older turns that fitted."""
    choice = yield from choosing
    kept = tuple(turn for turn in choice.older if turn.start.first in older)
    if pins := sum(turn.why == PINNED for turn in choice.older) - sum(turn.why == PINNED for turn in kept):
        choice = noting(choice, pins_left(pins))
    if begin != choice.begin and not by_size:
        choice = noting(choice, fewer(choice.begin, begin))
    return msgspec.structs.replace(choice, begin=begin, older=kept, above=None)


def pins_left(count: int) -> str:
    return f"pinned turns that do not fit: {count}"


def measure_of(model: Model, settings: Settings, learnt: float | None = None) -> Measure:
    """How this model's tokens are reckoned. A factor that was stated or learnt is taken as it is."""
    if factor := settings.factor or (learnt if model.calibrate else None):
        return Measure(factor=rounded(factor))
    if not model.known:
        return Measure(counter=four_bytes)
    if model.encoding == "cl100k":
        return Measure(factor=model.factor, exact=True, counter=cl100k)
    if model.calibrate:
        return Measure(factor=rounded(model.factor * (1 + settings.margin)))
    return Measure(factor=model.factor, exact=True)


def _told(given: str | Mapping[str, str] | None, persona: str, fence: Fence) -> Mapping[str, str]:
    """The instructions given; the persona is the configured one where they say nothing of it."""
    told = {"persona": persona, **({"persona": given} if isinstance(given, str) else given or {})}
    return {name: without_number(fence, text) for name, text in told.items()}


def _with_notes(told: Mapping[str, str], notes: str, settings: Settings, fence: Fence) -> Mapping[str, str]:
    """The instructions with MEMORY.md among them, unless other notes were given."""
    if not notes.strip() or "memory" in told or not settings.memory:
        return told
    return {**told, "memory": fenced_notes(fence, notes)}


def without_lookups(plan: Plan) -> Plan:
    """The same without memory's own tools."""
    own = tuple([tool for tool in plan.tools if tool.name not in plan.lookups])
    return msgspec.structs.replace(plan, tools=own, tools_tokens=weighed(own, plan.model, plan.measure).tokens)


def _shares(budget: int, measure: Measure, settings: Settings, names: tuple[str, ...]) -> dict[str, int]:
    """What the settings grant each part of memory, its fence included; where a small budget has less, facts come first,
    and leave something for the rest. Nothing is sent beyond it, so the window is where the room says."""
    granted = {name: getattr(settings, name) for name in FIRST if name in names}
    wanted = {name: measure.tokens(tokens + FENCE) if tokens else 0 for name, tokens in granted.items()}
    most = max(int(budget * MEMORY_SHARE), min(int(budget * SMALL_SHARE), SMALL))
    shares, left = dict[str, int](), most
    for name, tokens in wanted.items():
        cap = int(most * FACTS_SHARE) if name == "facts_tokens" else left
        shares[name] = min(tokens, left if sum(wanted.values()) <= most else cap)
        left -= shares[name]
    return shares


def _canvas_most(settings: Settings, outlook: Outlook, budget: int, factor: float) -> int:
    """What may be told of the canvas at once, in our own tokens. Nothing is set aside for one that was never used."""
    if settings.canvas == "off" or not outlook.markers.of(CANVAS):
        return 0
    return min(settings.canvas_tokens, int(budget * CANVAS_SHARE / factor))


def _room(budget: int, fixed: int, factor: float, step: float) -> Room:
    """What instructions, tools and memory's share leave, less what the notes of time may take.

    The amount is rounded up to a round one, and memory's share is what it is granted, whether or not it is used:
    nothing that changes from turn to turn may move the grid.
    """
    unit = max(1, rung(budget // 64))
    set_aside = -(-fixed // unit) * unit + unit
    return room_of(budget, set_aside=set_aside, factor=factor, step=step)


def _pinned(pins: tuple[Older, ...], room: Room, settings: Settings) -> tuple[tuple[Older, ...], Room]:
    """The pins that fit into their share, the newest first, and the room without them.

    They are counted whether or not the window reaches back to them, so that the room changes with a pin only.
    """
    free = int(room.room * settings.pins)
    kept = []
    for pin in pins:
        if pin.size <= free:
            kept.append(pin)
            free -= pin.size
    taken = sum(pin.size for pin in kept)
    if not taken:
        return tuple(kept), room
    rest = room_of(room.room - taken, set_aside=0, factor=1.0, step=settings.step)
    return tuple(kept), rest
