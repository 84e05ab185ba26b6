"""Before a window is chosen: the settings in force, the model, the instructions and tools, and the room they leave.

All of it follows from what the caller asked for, the settings and the log, never from the size of what memory
happens to hold: so the room stays the same from turn to turn, and with it the grid on which the cutoff steps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from everthread.config import DEFAULT, Resolved, Settings, Source, from_branch, from_conversation, resolve, usable
from everthread.context.items import Ways
from everthread.core.estimates import Measure, cl100k, counting, four_bytes, rounded, uncounted
from everthread.core.events import BriefUpdated, Summary
from everthread.core.fence import Fence, without
from everthread.core.request import Tool, clean
from everthread.core.sections import RECALL, instructions_of, noted
from everthread.core.strategies import STRATEGIES, Choice, Older, Strategy, View, choose, fewer, noting
from everthread.core.tokens import JOINT, WRAPPING, tools_size
from everthread.core.window import Lookups, Room, Start, excess, room_of, rung
from everthread.errors import NoModel
from everthread.providers.models import Limits, Model, model, warn
from everthread.store.scripts.lookups import Ahead
from everthread.store.scripts.window import Sighted

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
LOOKUPS_SHARE = 1 / 3  # of the budget, the most for memory's own tools
FENCE = 120  # tokens around a text that is fenced
PRIMING = 3
WAYS = {  # of the providers, where they are not OpenAI's of old
    "anthropic": Ways(as_user=True),
    "google": Ways(as_user=True, beside=True),
    "local": Ways(as_user=True, beside=True),
    "openai-responses": Ways(),
}
PINNED = "pinned"  # why a turn is sent that the log gives as a pin
OWN = ("brief_updated", True, ("brief_tokens", "facts_tokens", "recap_tokens"))


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller of `talk.context` asked for."""

    settings: dict[str, Any]
    strategy: Strategy | None = None
    instructions: str | Mapping[str, str] | None = None
    tools: tuple[Tool, ...] = ()
    lookups: tuple[Tool, ...] = ()  # memory's own, for models that can use them
    notes: str = ""  # MEMORY.md
    notes_of: str = ""  # or the document that it is, to be read with the rest
    at: int | None = None
    sources: tuple[Source, ...] = ()  # more specific than what holds for all: the agent's settings
    record: Source | None = None  # more specific than all but what was asked: of the model call that is gone on from
    factor: float | None = None  # in place of what was learnt: that of an earlier request, 0 for none
    window: int = 0  # likewise
    uncounted: str = ""  # why nothing can be counted: then so many messages are sent


class Learnt(msgspec.Struct, frozen=True):
    """What providers told of models, by model and address: their tokens for one of ours, and the most they take."""

    factors: dict[str, float] = {}
    windows: dict[str, int] = {}


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
    output_tokens: int  # of the schema of the reply
    window: int  # the most tokens that the model takes
    limit: int  # of which for the input
    budget: int
    shares: dict[str, int]  # the most tokens of the request for each part of memory, by the setting that grants them
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
        ways = WAYS.get(self.model.provider, Ways(beside=True))
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
        """The tokens of a text that may take so many of the request, in our own."""
        own = share if self.measure.counter else int(share / self.measure.factor)
        return max(0, own - FENCE)

    @property
    def by_size(self) -> bool:
        """Whether what fits is all that is asked for."""
        return self.strategy in ("budget", "own")

    @property
    def recalls(self) -> bool:
        return any(tool.name == RECALL for tool in self.tools)


def plan(
    asked: Asked, sources: Sequence[Source], sighted: Sighted, fence: Fence, learnt: Learnt = NOTHING_LEARNT
) -> Plan:
    given = Source("the settings given", asked.settings)
    conversation = usable(from_conversation(msgspec.json.decode(sighted.marks.conversation)))
    branch = from_branch(sighted.settings)
    record = (asked.record,) if asked.record else ()
    resolved = resolve(*sources, *asked.sources, conversation, branch, *record, given)
    settings = resolved.settings
    if not settings.model:
        raise NoModel
    about = model(settings.model)
    if settings.address:  # a server of one's own has limits of its own
        about = msgspec.structs.replace(about, limits=Limits())
    if not about.known and not (settings.factor and settings.model_window):
        warn(settings.model)
    place = place_of(settings)
    measure = measure_of(about, settings, learnt.factors.get(place) if asked.factor is None else asked.factor)
    if asked.uncounted:
        measure = Measure(counter=uncounted)
    told = _told(asked.instructions, settings.instructions, fence)
    sections = instructions_of(_noted(told, asked.notes or sighted.notes, settings, fence))
    opening = clean("\n\n".join(event.text for event in sighted.opening if event.text.strip()))
    if opening := without(fence, opening):
        sections["opening"] = opening
    window = settings.model_window or asked.window or min(about.window, learnt.windows.get(place, about.window))
    limit = max(0, window - settings.reply_tokens)
    usual = about.budget if resolved.source_of["budget"] == DEFAULT else 0
    budget = min(usual or settings.budget or limit, limit)
    lookups = asked.lookups if about.looks_up and remembers(settings) else ()
    offered, notes = _offered(asked.tools, lookups, about, measure, budget=budget)
    tools = tuple([_unfenced(tool, fence) for tool in offered.tools])
    # A window that the application chooses by itself has the default's memory.
    strategy = settings.strategy if asked.strategy is None else "own"
    choose = asked.strategy or STRATEGIES[settings.strategy]
    if asked.uncounted:
        strategy, choose = "messages", STRATEGIES["messages"]
        notes.append(
            f"tokens could not be counted ({asked.uncounted}): the newest {settings.messages} messages are sent, "
            "however many tokens they have"
        )
    output_tokens = measure.tokens(measure.text(settings.output)) if settings.output else 0
    size = sum(measure.text(text) + JOINT for text in sections.values())
    fixed = offered.tokens + output_tokens + measure.tokens(size + WRAPPING)
    shares = _shares(budget, measure, settings, MEMORY.get(strategy, OWN)[2])
    room = _room(budget, fixed + sum(shares.values()), measure.factor, settings.step)
    running = sighted.head.state in ("open", "waiting")
    pins, room = _pinned(sighted.pins, room, settings)
    notes += [f"passed over: {problem}" for problem in (*conversation.passed_over, *branch.passed_over)]
    if sighted.unread:
        notes.append(f"passed over: settings of this branch that are damaged: {sighted.unread}")
    if left := len(sighted.pins) - len(pins):
        notes.append(f"pinned turns that do not fit into the share for pins: {left}")
    if sighted.more_pins:
        notes.append("there may be more pinned turns than were looked at")
    return Plan(
        resolved=resolved,
        model=about,
        measure=measure,
        strategy=strategy,
        choose=choose,
        fence=fence,
        sections=sections,
        tools=tools,
        tools_tokens=offered.tokens,
        lookups=tuple([tool.name for tool in lookups]),
        output_tokens=output_tokens,
        window=window,
        limit=limit,
        budget=budget,
        shares=shares,
        room=room,
        pins=pins,
        notes=tuple(notes),
        running=running,
        size=sighted.size if running else sighted.settled,
    )


def place_of(settings: Settings) -> str:
    """The model at its address: what is learnt of one is not true of another."""
    return f"{settings.model}@{settings.address}" if settings.address else settings.model


def chosen(plan: Plan, sighted: Sighted) -> Lookups[Choice]:
    """What the strategy chooses, and the pinned turns that it left out."""
    assert sighted.newest is not None
    view = View(
        newest=sighted.newest,
        size=plan.size,
        room=plan.room,
        messages=sighted.head.messages_sum,
        session_first=sighted.head.session_first,
        last_messages=plan.settings.messages,
        active_messages=plan.settings.active_messages,
    )
    choice = yield from choose(plan.choose, view)
    pinned = {pin.start.first: pin for pin in plan.pins if pin.start.first < choice.begin.first}
    older = [turn for turn in choice.older if turn.start.first not in pinned]
    both = sorted([*older, *pinned.values()], key=lambda turn: turn.start.first)
    return msgspec.structs.replace(choice, older=tuple(both))


def foreseen(plan: Plan, sighted: Sighted) -> Ahead | None:
    """What the choice will ask for, where it is by size alone."""
    if plan.strategy != "budget" or sighted.newest is None:
        return None
    return Ahead(excess(sighted.newest, plan.size, plan.room), plan.room.step)


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
    return {name: without(fence, text) for name, text in told.items()}


def remembers(settings: Settings) -> bool:
    """Whether the model is told of MEMORY.md, and may look things up."""
    return settings.memory


def _noted(told: Mapping[str, str], notes: str, settings: Settings, fence: Fence) -> Mapping[str, str]:
    """The instructions with MEMORY.md among them, unless other notes were given."""
    if not notes.strip() or "memory" in told or not remembers(settings):
        return told
    return {**told, "memory": noted(fence, notes)}


class Offered(NamedTuple):
    tools: tuple[Tool, ...]
    tokens: int


def _offered(
    tools: tuple[Tool, ...], lookups: tuple[Tool, ...], model: Model, measure: Measure, *, budget: int
) -> tuple[Offered, list[str]]:
    """The tools that the model is told of, in the order of their names, and what was given up: memory's own, where they
    would take too much of a small budget."""
    both = tuple(sorted((*tools, *lookups), key=lambda tool: tool.name)) if lookups else tools
    every, notes = _taken(both, model.limits)
    found, most = _weighed(every, model, measure), int(budget * LOOKUPS_SHARE)
    if not lookups or found.tokens <= most:
        return found, notes
    own, own_notes = _taken(tools, model.limits)
    without = _weighed(own, model, measure)
    if found.tokens - without.tokens <= most:
        return found, notes
    return without, [*own_notes, "memory's own tools were left out: they would take more than a third of the budget"]


def without_lookups(plan: Plan) -> Plan:
    """The same without memory's own tools."""
    own = tuple([tool for tool in plan.tools if tool.name not in plan.lookups])
    return msgspec.structs.replace(plan, tools=own, tools_tokens=_weighed(own, plan.model, plan.measure).tokens)


def _weighed(tools: tuple[Tool, ...], model: Model, measure: Measure) -> Offered:
    hidden = model.hidden if tools else 0
    return Offered(tools, measure.tokens(_tools_size(tools, model, measure)) + hidden)


def _taken(tools: tuple[Tool, ...], limits: Limits) -> tuple[tuple[Tool, ...], list[str]]:
    """As many tools as the provider takes, none described at greater length than it takes; and what was given up."""
    notes = []
    if limits.properties and (odd := [tool for tool in tools if not _has_names(tool, limits.properties)]):
        names = ", ".join(tool.name for tool in odd)
        notes.append(f"tools whose arguments have names that the provider refuses, left out: {names}")
        tools = tuple(tool for tool in tools if tool not in odd)
    if limits.tools and len(tools) > limits.tools:
        left = len(tools) - limits.tools
        notes.append(f"tools beyond the {limits.tools} that the provider takes, left out: {left}")
        tools = tools[: limits.tools]
    most = limits.description
    if most and (long := sum(len(tool.description) > most for tool in tools)):
        notes.append(f"descriptions of tools, shortened to the {most:,} characters that the provider takes: {long}")
        tools = tuple(_shortened(tool, most) for tool in tools)
    return tools, notes


def _unfenced(tool: Tool, fence: Fence) -> Tool:
    """A tool's description may be a server's own words."""
    told = without(fence, tool.description)
    return tool if told is tool.description else msgspec.structs.replace(tool, description=told)


def _shortened(tool: Tool, most: int) -> Tool:
    if len(tool.description) <= most:
        return tool
    return msgspec.structs.replace(tool, description=f"{tool.description[: most - 1]}…")


def _has_names(tool: Tool, pattern: str) -> bool:
    """Whether the provider takes the names of its arguments."""
    return all(re.fullmatch(pattern, name) for name in tool.schema.get("properties", ()))


def _tools_size(tools: tuple[Tool, ...], model: Model, measure: Measure) -> int:
    """OpenAI turns the schemas into a shorter text first; the others are told them as they are."""
    if not tools:
        return 0
    plain = [{"name": tool.name, "description": tool.description, "schema": tool.schema} for tool in tools]
    if model.encoding and measure.counter is not uncounted:
        with counting():
            return tools_size(plain, model.encoding)
    return measure.text(json.dumps(plain, ensure_ascii=False))


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
