"""The whole way from a branch to a request: plan, read, pack, render, check.

The log is read once, in one script; everything else is a function of what was read, the settings and what the
caller asked for. So the same question gives the same bytes in every process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from everthread.config import Settings, Source, given_source, resolve
from everthread.context.budget import place_of
from everthread.context.explain import Explanation, StepLine, explain
from everthread.context.gaps import Gaps
from everthread.context.give_way import can_give_way, fit
from everthread.context.items import BROKEN_UP
from everthread.context.output import of_setting
from everthread.context.pack import Packing
from everthread.context.plan import Asked, Learnt, Plan, as_packed, chosen, foreseen, plan
from everthread.context.turn_cache import TurnCache
from everthread.core.branches import Current, Line
from everthread.core.estimates import Measure, Uncountable
from everthread.core.events import Redacted, media_of
from everthread.core.hashing import hash_of
from everthread.core.images import dimensions
from everthread.core.request import Request
from everthread.core.strategies import OWN as OWN_STRATEGY
from everthread.core.strategies import Older, function_name, question, with_question
from everthread.core.tokens import BROKEN, WRAPPING, Counter
from everthread.core.values import Value, form_of, struct_of
from everthread.core.window import Lookups, Move, Start, moves
from everthread.errors import BadValue, BeyondModel, UnknownBlob
from everthread.providers import shapes
from everthread.providers.registry import provider
from everthread.store.log import HEAVY, LARGE, Log
from everthread.store.scripts.outlook import Outlook
from everthread.store.scripts.read import own_calls
from everthread.store.scripts.window import Planned, WindowRead

if TYPE_CHECKING:
    from everthread.context.frozen import FrozenContext
    from everthread.providers.base import Rendered
    from everthread.providers.models import Model

_log = logging.getLogger("everthread.tokens")

T = TypeVar("T")

TRIES = 3
BODY = attrgetter("body")  # for every event of a window: quicker than `event.body`


class Context(Value):
    """What the model is told at one moment, as one provider request, and the account of it."""

    def __init__(self, packing: Packing, rendered: Rendered, estimate: int) -> None:
        self._packing = packing
        self._body = rendered.body
        plan, head = packing.plan, packing.seen.outlook.head
        turns = [*packing.older, *packing.turns]
        self.model = f"{plan.model.provider}:{plan.model.name}"
        self.strategy = plan.strategy
        self.budget = plan.budget
        self.estimate = estimate
        self.over_budget = self.estimate if self.estimate > plan.budget else 0
        self.cutoff = packing.turns[0].start.first if packing.turns else head.seq + 1
        self.sent = sum(len(turn.events) for turn in turns)
        self.past = head.messages_sum - self.sent
        self.at = head.seq + 1
        self.notes = packing.seen.outlook.notes  # MEMORY.md, where it was read with the rest
        self.forgotten = packing.seen.outlook.forgotten  # how often something of the conversation was redacted
        self.memory = max(packing.seen.brief.since, packing.seen.recap.since)
        self.factor = plan.measure.factor if plan.measure.counter is None else 0.0
        self.window = plan.window
        self.place = place_of(plan.settings)
        self.agent = ""  # the name and version of whom it was built for; set by who prepared it
        self.degraded = (*packing.degraded, *rendered.left, *_doubts(plan))
        self.repaired = (*packing.repaired, *rendered.repaired)

    def __repr__(self) -> str:
        return f"<Context for {self.model}: {self.estimate:,} of {self.budget:,} tokens, from event {self.cutoff} on>"

    @property
    def request(self) -> dict[str, Any]:
        """The provider's request body, ready for its SDK. BeyondModel: it is more than the model can take."""
        limit = self._packing.plan.limit
        if self.estimate > limit:
            reply = self._packing.plan.settings.reply_tokens
            raise BeyondModel(self.model, needed=self.estimate, limit=limit, reply=reply)
        return self._body

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._packing.plan.settings

    @property
    def inputs(self) -> dict[str, Any]:
        """The settings, instructions and tools of the request, which the log alone does not tell."""
        plan = self._packing.plan
        given = {"settings": plan.settings, "instructions": plan.sections, "tools": plan.tools}
        given |= {"tool_choice": plan.tool_choice} if plan.tool_choice else {}
        return given | ({"strategy": function_name(plan.choose)} if plan.strategy == OWN_STRATEGY else {})

    @property
    def line(self) -> Line:
        """The branch that it was built from."""
        return self._packing.seen.outlook.line

    @property
    def redacted(self) -> bool:
        """Whether something in it is only a tombstone."""
        turns = (*self._packing.older, *self._packing.turns)
        return any(isinstance(event.event, Redacted) for turn in turns for event in turn.events)

    @property
    def canonical(self) -> int:
        """The size of the request before the model's factor: what usage is compared with."""
        return self._packing.canonical()

    @property
    def about(self) -> Model:
        """What is known of the model."""
        return self._packing.plan.model

    def parse(self, text: str) -> Any:
        """The value that a reply spells, as `output` asks for it. BadOutput: it is not that."""
        plan = self._packing.plan
        output = plan.output or of_setting(plan.settings.output)
        if output is None:
            raise BadValue("output", None, "given to `talk.context`, for there to be something to parse a reply by")
        return output.parse(text)

    def explain(self) -> Explanation:
        """Sections, turns in and out and why, tokens, predicted cache read and price."""
        account = explain(self._packing, cutoff=self.cutoff, repaired=self.repaired)
        return msgspec.structs.replace(account, degraded=self.degraded)

    def _form(self) -> dict[str, Any]:
        from everthread.context.frozen import frozen  # with what is known of models, where it is asked for

        return form_of(frozen(self))

    @classmethod
    def _of_form(cls, form: dict[str, Any]) -> FrozenContext:
        from everthread.context.frozen import FrozenContext

        return struct_of(FrozenContext, form)

    @classmethod
    def _fits(cls, form: dict[str, Any]) -> bool:
        return "explanation" in form

    @classmethod
    def _schema(cls) -> dict[str, Any]:
        from everthread.context.frozen import FrozenContext

        return FrozenContext._schema()


class Findings(msgspec.Struct, kw_only=True):
    """What a build has found out when it reads the same moment once more: the turns that fit, and the question."""

    at: int | None
    fitted: tuple[Start, set[int]] | None = None
    question: Older | None = None
    looked: bool = False

    def planned(self, plan: Plan, outlook: Outlook) -> Planned[Plan]:
        """What to read: the turns that the plan chooses, or those that fitted; and the question, if there is one."""
        choosing = chosen(plan, outlook)
        if self.fitted:
            choosing = as_packed(*self.fitted, choosing, by_size=plan.by_size)
        ahead = None if self.fitted else foreseen(plan, outlook)
        return Planned(plan, with_question(choosing, self.question), *plan.memory, ahead)

    def fits(self, packing: Packing) -> None:
        """From now on read the turns that fitted here, at the same moment."""
        self.fitted = packing.turns[0].start, packing.older_sent
        self.at = packing.seen.outlook.head.seq + 1

    async def found_question(self, log: Log, line: Line, packing: Packing) -> bool:
        """Look for the turn of the user's newest message before the window, once. Whether there is one."""
        if self.looked:
            return False
        self.looked, before, now = True, packing.turns[0].start.first, packing.seen.outlook.head.seq + 1
        self.question = await log.look(line, at=now, ask=lambda _: question(before), nothing=None)
        if self.question:
            self.fits(packing)
        return bool(self.question)


class Contexts:
    """Makes contexts for all conversations of a store. `sources`: the settings that hold for every one of them."""

    def __init__(
        self, sources: Callable[[], tuple[Source, ...]] = tuple, counters: Mapping[str, Counter] | None = None
    ) -> None:
        self.sources = sources
        self._turn_cache, self._gaps = TurnCache(), Gaps()
        self.learnt = Learnt({}, {}, dict(counters or {}))

    def check(self, asked: Asked) -> None:
        """Check the settings that are known before anything is read. Raises BadSetting."""
        resolve(*self.sources(), *asked.sources, given_source(asked.settings))

    async def build(self, log: Log, way: Line | Current, asked: Asked) -> Context:
        """The context of a line, or of the current branch. Where tokens cannot be counted, as many messages as the
        settings say are sent."""
        try:
            return await self._build(log, way, asked)
        except Uncountable as problem:
            _log.warning("Tokens could not be counted (%s): messages are sent by their number.", problem)
            return await self._build(log, way, msgspec.structs.replace(asked, uncounted=str(problem)))

    async def _build(self, log: Log, way: Line | Current, asked: Asked) -> Context:
        sources, fence = self.sources(), await log.fence(way)
        known = Findings(at=asked.at)

        def planning(outlook: Outlook) -> Planned[Plan]:
            return known.planned(plan(asked, sources, outlook, fence, self.learnt), outlook)

        form_tokens = tried = 0
        while True:
            forgotten = self._turn_cache.forgotten
            with shapes.reading():
                seen, made = await log.window(way, at=known.at, plan=planning, notes=asked.notes_of)
            line = way = seen.outlook.line  # from now on it stays the same branch
            gap = await self._gaps.told(log, line, made, seen)
            changed = await _changed(log, line, made, seen)
            heavy = _heavy(made, seen)
            # What was read before something was redacted is used this once, and not remembered; nor what has no size.
            # What is packed in a thread has a cache of its own: the shared one is for the event loop alone.
            remembers = self._turn_cache.forgotten == forgotten and not asked.uncounted and not heavy
            turn_cache = self._turn_cache if remembers else TurnCache()
            pack = partial(_packed, made, seen, turn_cache, changed=changed, gap=gap, form_tokens=form_tokens)
            packing, estimate = await asyncio.to_thread(pack) if heavy else pack()
            # Nobody asks anything in the window: once more, of the same moment, with the turn of the question.
            if packing.unasked and await known.found_question(log, line, packing):
                continue
            tried += 1
            # Turns left that memory was not read for: once more, of the same moment, with those that fitted.
            if packing.has_stepped and made.settings.memory and tried < TRIES:
                known.fits(packing)
                continue
            rendered = await _rendered(log, line, packing, heavy=heavy)
            # The form adds more than was reckoned with: once more, with less of the history.
            if packing.form_tokens <= form_tokens or not can_give_way(packing) or tried >= 2 * TRIES:
                return Context(packing, rendered, estimate - form_tokens + packing.form_tokens)
            form_tokens, known.at = packing.form_tokens, seen.outlook.head.seq + 1

    async def steps(self, log: Log, way: Line | Current, asked: Asked, *, limit: int) -> list[StepLine]:
        """The newest steps of the stepped cutoff, as the log and the settings of now have it; none where nothing can be
        counted."""
        try:
            return await self._steps(log, way, asked, limit=limit)
        except Uncountable:
            return []

    async def _steps(self, log: Log, way: Line | Current, asked: Asked, *, limit: int) -> list[StepLine]:
        sources, fence, none = self.sources(), await log.fence(way), list[StepLine]()

        def ask(outlook: Outlook) -> Lookups[list[StepLine]]:
            made = plan(asked, sources, outlook, fence, self.learnt)
            if made.strategy != "budget" or outlook.newest is None:  # the others do not step
                return none
            found = yield from moves(outlook.newest, made.size, made.room, limit)
            return [_step_line(move, made.measure) for move in found]

        with shapes.reading():
            return await log.look(way, at=asked.at, ask=ask, nothing=none, notes=asked.notes_of)

    def forget(self) -> None:
        """Drop what is remembered of turns, because something in them is to be gone."""
        from everthread.providers import pictures

        self._turn_cache.forget()
        self._gaps.forget()
        pictures.forget()
        shapes.forget()


def holding(context: Context, asked: Asked) -> Asked:
    """What was asked, with MEMORY.md as this context has read it, for as long as that is not forgotten."""
    since = context._packing.seen.outlook.notes_since
    return msgspec.structs.replace(asked, notes=context.notes, notes_since=since)


async def drop_turns_around(contexts: Contexts, work: Awaitable[T]) -> T:
    """Do work that forgets something, and drop what is remembered of turns before it and after: a context that was
    built meanwhile has read what is gone now."""
    contexts.forget()
    try:
        return await work
    finally:
        contexts.forget()


def _packed(plan: Plan, seen: WindowRead, turn_cache: TurnCache, **given: Any) -> tuple[Packing, int]:
    """Pack what was read. The packing and its estimate."""
    packing = Packing(plan, seen, turn_cache, **given)
    return packing, fit(packing)


async def _rendered(log: Log, line: Line, packing: Packing, *, heavy: bool) -> Rendered:
    """The request in the provider's form; from now on the packing knows what that adds."""
    blobs = await _blobs(log, line, packing) if packing.shows else {}
    rendering = partial(_weighed, packing, blobs, key=line.conversation)
    heavy = heavy or any(_must_be_scaled(data or b"", packing.plan.model) for data in blobs.values())
    heavy = heavy or sum([len(data or b"") for data in blobs.values()]) > LARGE
    return await asyncio.to_thread(rendering) if heavy else rendering()


def _must_be_scaled(data: bytes, model: Model) -> bool:
    """Whether a picture must be made smaller, or may have to be where there are many. Few bytes can be many pixels."""
    return 0 < model.limits.many_image_side < max(dimensions(data))


def _weighed(packing: Packing, blobs: dict[str, bytes | None], *, key: str) -> Rendered:
    """The request in the provider's form. Sets in the packing how many tokens the form adds to what was counted."""
    from everthread.providers.base import STAND_INS
    from everthread.providers.weigh import weigh

    rendered = render(packing, blobs, key=key)
    plan, packing.form_tokens = packing.plan, 0
    spelt = packing.calls and plan.ways.spelt
    if packing.simple and not spelt and not rendered.flat:  # all is sent as the log has counted it
        put_in = [STAND_INS[what] for what in rendered.repaired if what in STAND_INS]
        packing.form_tokens = plan.measure.tokens(sum(WRAPPING + plan.measure.text(text) for text in put_in))
        return rendered
    sent = weigh(rendered.body, plan.model, plan.measure, packing.known()) + plan.overhead + plan.output_tokens
    sent += plan.extra_tokens
    sent += packing.section_tokens().get("tools", 0)
    packing.form_tokens = max(0, sent - packing.estimate())
    return rendered


def _heavy(plan: Plan, seen: WindowRead) -> bool:
    """Whether packing would be felt on the event loop: most measures add up what the log says, some count texts."""
    size = sum(map(len, map(BODY, seen.events)))
    size += sum(len(event.body) for _, events in seen.older for event in events)
    return size > (HEAVY if plan.measure.counter else LARGE)


def _step_line(move: Move, measure: Measure) -> StepLine:
    return StepLine(
        turn=move.turn.number,
        seq=move.turn.first,
        cutoff=move.begin.first,
        left_first=move.left.number,
        left_last=move.begin.number - 1,
        messages=move.begin.messages - move.left.messages,
        tokens=measure.tokens(move.begin.before - move.left.before),
    )


def render(packing: Packing, blobs: dict[str, bytes | None], *, key: str) -> Rendered:
    """The provider's form of what was packed, checked once more by the provider's rules."""
    from everthread.providers.base import (  # with the provider that is asked for, not before
        Media,
        flattened,
        without_media,
    )

    about, settings = packing.plan.model, packing.plan.settings
    form = provider(about.provider).request_form()
    request = Request(
        model=about.name,
        instructions=tuple(packing.sections.values()),
        changing=len(packing.sections.keys() - packing.plan.sections.keys()),
        tools=packing.plan.tools,
        items=packing.items(),
        reply_tokens=settings.reply_tokens,
        temperature=settings.temperature,
        top_p=settings.top_p,
        stop=msgspec.json.decode(settings.stop, type=tuple[str, ...]) if settings.stop else (),
        seed=settings.seed,
        effort=settings.effort,
        tool_choice=packing.plan.tool_choice,
        output=msgspec.json.decode(packing.plan.shape) if packing.plan.shape else None,
        extra_body=msgspec.json.decode(settings.extra_body) if settings.extra_body else {},
        cache=settings.cache,
        cache_ttl=settings.cache_ttl,
        key=key,
        fence=packing.plan.fence,
    )
    shows = partial(Media, blobs, packing.plan.fence, hears=about.hears)
    media = shows()
    request = without_media(request, media) if about.blind else request
    rendered = form.render(request, about, media)
    if problems := form.check(rendered.body):
        rendered = form.render(flattened(request, media), about, shows())
        rendered.repaired.append(f"tool calls were told as text, because {'; '.join(problems)}")
        rendered.flat = True
    if media.parted:
        rendered.repaired.append(f"{BROKEN_UP}: {media.parted}")
    if media.unsent:
        rendered.repaired.append(f"images and files that cannot be sent, told in words: {media.unsent}")
    return rendered


async def _changed(log: Log, line: Line, plan: Plan, seen: WindowRead) -> int:
    """The seq of the newest model call with other instructions, tools, settings or window; 0 where there is none, or
    where the model's reasoning is not bound to these."""
    if not plan.model.bound:
        return 0
    given = {"instructions": plan.sections, "tools": plan.tools, "settings": plan.settings}
    now = {name: hash_of(value) for name, value in given.items()}
    for seq, call in await log.ask(lambda: own_calls(line, last=seen.outlook.head.seq)):
        if call.window != plan.window or any(call.inputs.get(name) != hash for name, hash in now.items()):
            return seq
    return 0


async def _blobs(log: Log, line: Line, packing: Packing) -> dict[str, bytes | None]:
    """The bytes of the images and files that are sent; None for one that is gone."""
    turns = (*packing.older, *packing.turns)
    shown = [media for turn in turns for event in turn.events for media in media_of(event.event)]
    found: dict[str, bytes | None] = {}
    for hash in {media.blob for media in shown if media.blob}:
        try:
            found[hash] = await log.blob(line, hash)
        except UnknownBlob:
            found[hash] = None
    return found


def _doubts(plan: Plan) -> list[str]:
    """What the estimate is unsure of."""
    doubts = [f"the tokenizer failed ({why}): estimated at four bytes a token" for why in sorted(set(BROKEN.values()))]
    about, stated = plan.model, plan.settings.factor or plan.measure.own
    if stated and (plan.settings.model_window or (about.known and not about.guessed)):
        return doubts
    if stated:
        doubts.append(f"the window of {about.name} is guessed")
    elif not about.known:
        doubts.append(f"nothing is known of {about.name}: estimated at four bytes a token")
    elif about.guessed:
        doubts.append(f"what is known of {about.name} is guessed from its name")
    return doubts
