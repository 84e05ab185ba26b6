"""Making memory: the next version of a brief, a recap, a range summary, a name.

Each is made from the log and the version before it, by the model that memory uses, or extractively where there is none
or it may not be called now; and published by compare-and-set: if another worker was faster, or something was redacted
meanwhile, what was made here is thrown away. Coverage only advances with what was published.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec

from everthread.agent.finish import finished
from everthread.agent.runtime import Runtime
from everthread.config import Settings
from everthread.core.branches import ENDLESS, Line
from everthread.core.events import MEMORY, BriefUpdated, Event, ModelCall, SessionEnded, Summary, text_of
from everthread.core.logged import Logged, memorable
from everthread.core.tokens import count
from everthread.errors import Outrun, TakenOver
from everthread.language import extract
from everthread.language.digest import WORDS, by_turn, checked, material, portions, within, words_of
from everthread.language.facts import NOTHING, STANDING, Facts, fold, ranked, rendered
from everthread.language.naming import name_of
from everthread.memory import prompts
from everthread.memory.ask import Told, ask
from everthread.memory.due import Due
from everthread.providers.summariser import summariser
from everthread.store.beside.leases import Lease
from everthread.store.conversations import Conversation
from everthread.store.scripts.append import Place

Todo = Callable[[], Awaitable[None]]

PORTION, FRAME = 6_000, 700  # tokens that one model call is shown, and of these for the brief and what is around
KNOWN_EVERY = 100  # events after which all that is known of the facts is written down again
PAGE = 1_000  # events that are read at a time
BACK = 400  # messages that an extractive brief looks back over
EXTRACT_AFTER = 10  # messages: what an extract would tell of fewer is still in the window
UNNAMED = "Untitled"  # a conversation without a word


class Unusable(Exception):
    """The model failed, or what it wrote cannot be used. It is in the log; the extractive form serves meanwhile."""


class Memory:
    """Makes what is due on one branch, with the settings in force there. Without a `model`, extractively."""

    def __init__(self, runtime: Runtime, conversation: Conversation, line: Line, settings: Settings) -> None:
        self._runtime, self.log = runtime, runtime.log
        self.conversation, self.line, self.settings = conversation, line, settings
        self.place = Place(line.tenant, line.conversation, line.branch.number)
        self.lease: Lease | None = None  # under which it writes; none where the user does
        self.model = summariser(settings)
        self._worth = 1 if self.model else EXTRACT_AFTER  # messages for which a brief is made

    def todo(self, due: Due, *, all: bool = True) -> tuple[str, Todo] | None:
        """The next piece of work, with its name: the most urgent. Not `all`: extracts only once they are worth it."""
        if due.recap:
            return "recap", lambda: self.recap(due)
        if self.settings.strategy == "importance":
            if due.unsummarised >= self.settings.summarise_after:
                return "summary", lambda: self.summary(due)
        elif self.settings.strategy != "session" and due.behind >= (1 if all else self._worth):
            return "brief", lambda: self.brief(due)
        if not self.conversation.name and due.head.turn:
            return "name", lambda: self.name(due)
        return None

    # -- briefs ------------------------------------------------------------------------------------------------

    async def brief(self, due: Due) -> None:
        """The next version of the brief. Of a large gap, the first portion that the model can take."""
        before = due.brief.event
        base = before if isinstance(before, BriefUpdated) else BriefUpdated(text="", covers=due.head.cleared)
        turns = await self._portion(due.covered, due.upto)
        last = turns[-1][-1].seq if turns else due.upto
        known, known_at = await self.facts(due, last)
        facts = rendered(ranked(known, self.settings.facts_tokens, count))
        told = await self._told("brief", due, turns, brief=base.text) if turns else None
        nothing_new = bool(self.model) and not turns  # but what memory is not to be told of
        text = base.text if nothing_new else await self._extract(due, base, last, beside=facts) if not told else ""
        version = BriefUpdated(
            text=checked(told.text) if told else text,
            covers=last,
            facts=facts,
            known="" if known_at else msgspec.json.encode(known).decode(),
            turns=base.turns + (turns[-1][-1].turn if turns else due.turns[1]) - due.turns[0],
            extractive=base.extractive if nothing_new else told is None,
            base=due.brief.seq if before and not before.extractive else base.base,
            known_at=known_at,
            corrected=due.brief.seq if base.by else base.corrected,
        )
        await self._publish(version, told, due)

    async def facts(self, due: Due, last: int) -> tuple[Facts, int]:
        """All that is known after event `last`, and the version that has it but for what was said since; 0 where the
        version that is being made must have it, because there is none or it was long ago."""
        before = due.known.event
        facts = _known(before.known) if before else NOTHING
        first = max(due.head.cleared, facts.seq) + 1
        known_at = due.known.seq if facts.seq and last - facts.seq < KNOWN_EVERY else 0
        while first <= last and (events := await self._messages(first, last)):
            facts, first = await asyncio.to_thread(fold, facts, events), events[-1].seq + 1
        return facts, known_at

    async def _extract(self, due: Due, base: BriefUpdated, upto: int, *, beside: str) -> str:
        """The newest messages up to there in their own words, without what the facts say already. What the user wrote
        stays in front, and what it covers is not told again."""
        written = await self._corrected(due, base)
        after = max(due.head.cleared, written.covers if written else 0)
        own = await self._before(upto + 1, limit=BACK, after=after)
        room = self.settings.brief_tokens - (count(written.text) if written else 0)
        said = await asyncio.to_thread(extract.summary, own, max(0, room), beside=beside)
        return within("\n".join(filter(None, (written.text if written else "", said))), WORDS, words_of)

    async def _corrected(self, due: Due, base: BriefUpdated) -> BriefUpdated | None:
        """What the user wrote in place of a brief, last."""
        if base.by or not base.corrected:
            return base if base.by else None
        found = await self.log.range(self.line, base.corrected, base.corrected)
        event = found[0].event if found else None
        return event if isinstance(event, BriefUpdated) and event.covers > due.head.cleared else None

    # -- recaps, range summaries, names ------------------------------------------------------------------------

    async def recap(self, due: Due) -> None:
        """Two to four sentences on the session that is over."""
        sessions = await self.log.sessions(self.line, limit=50)
        over = next((one for one in sessions if one.number == due.recap), None)
        last = over.last if over else 0
        before = await self._before(last + 1, limit=PAGE, after=due.head.cleared)
        events = [one for one in before if one.session == due.recap]
        told = await self._told("recap", due, await asyncio.to_thread(_portion, events, -1)) if events else None
        text = checked(told.text, words=120) if told else await asyncio.to_thread(extract.recap, events)
        # Where nothing can be told, no model could.
        await self._publish(SessionEnded(session=due.recap, recap=text, extractive=bool(text) and not told), told, due)

    async def summary(self, due: Due) -> None:
        """A summary of everything since the last clear, up to the newest message that can be covered."""
        before = due.summary.event
        base = before if isinstance(before, Summary) else Summary(text="", covers=due.head.cleared)
        turns = await self._portion(base.covers, due.upto)
        last, tokens = turns[-1][-1].seq if turns else due.upto, self.settings.summary_tokens
        known, known_at = await self.facts(due, last)
        told = await self._told("summary", due, turns, brief=base.text) if turns else None
        said = checked(told.text, words=tokens) if told else await self._range(due, last, tokens)
        if wishes := _wishes(known, said, tokens // 3):
            room = max(0, tokens - count(wishes) - 2)
            said = "\n".join((wishes, within(said, room, count) if told else await self._range(due, last, room)))
        version = Summary(
            text=within(said, tokens, count),
            covers=last,
            first=due.head.cleared + 1,
            extractive=told is None,
            base=due.summary.seq if before and not before.extractive else base.base,
            known="" if known_at else msgspec.json.encode(known).decode(),
            known_at=known_at,
        )
        await self._publish(version, told, due)

    async def _range(self, due: Due, upto: int, tokens: int) -> str:
        own = await self._before(upto + 1, limit=2 * BACK, after=due.head.cleared)
        return await asyncio.to_thread(extract.summary, own, tokens)

    async def name(self, due: Due) -> None:
        """The conversation's name, from its first message that has words."""
        names = (name_of(text_of(one.event)) for one in await self._messages(1, ENDLESS) if one.kind == "user")
        name = next(filter(None, names), UNNAMED)
        change = self.log.change(self.conversation, name=name, under=self.lease, forgotten=due.forgotten)
        self.conversation = await change

    # -- how -----------------------------------------------------------------------------------------------------

    async def _told(self, prompt: str, due: Due, turns: Sequence[Sequence[Logged]], *, brief: str = "") -> Told | None:
        """What the model makes of these turns; None where there is none. A failure is recorded, and raised."""
        if not self.model:
            return None
        goal, at = self.conversation.goal, due.head.seq + 1
        fence = await self._runtime.log.fence(self.line)
        shown = await asyncio.to_thread(material, turns, PORTION, fence=fence, brief=brief, goal=goal)
        record = ModelCall(model=self.model, at=at, agent=MEMORY)
        try:
            told = await ask(
                self._runtime, self.settings, self.model, instructions=prompts.text(prompt), text=shown, at=at
            )
            record = told.record
            checked(told.text)
        except asyncio.CancelledError:
            with suppress(TakenOver):  # it ends all the same
                await self._note(msgspec.structs.replace(record, finish="cancelled"))  # it is paid for
            raise
        except Exception as problem:  # whatever a client comes to, it is a failure like any other
            await self._note(msgspec.structs.replace(record, error=str(problem)))
            raise Unusable(str(problem)) from problem
        return told

    async def _note(self, record: ModelCall) -> None:
        await finished(self.log.append(self.place, [record], under=self.lease))

    async def _publish(self, made: Event, told: Told | None, due: Due) -> None:
        record = [told.record] if told else []
        try:
            await self.log.append(self.place, [made, *record], basis=due.basis(made.kind), under=self.lease)
        except Outrun:
            if told:  # likewise
                await self._note(told.record)
            raise

    async def _portion(self, covered: int, upto: int) -> Sequence[Sequence[Logged]]:
        """The turns after seq `covered` that one model call takes; none where no model is asked."""
        return await asyncio.to_thread(_portion, await self._messages(covered + 1, upto), 0) if self.model else ()

    async def _messages(self, first: int, last: int) -> list[Logged]:
        """A page of the messages from `first` to `last`, whole turns where there are several."""
        while True:
            page = await self.log.after(self.line, first - 1, limit=PAGE, messages=True)
            found = [one for one in page if one.seq <= min(last, ENDLESS)]
            if len(found) == PAGE and found[0].turn != found[-1].turn:
                found = [one for one in found if one.turn != found[-1].turn]
            told = await asyncio.to_thread(memorable, found)
            if told or not found:
                return told
            first = found[-1].seq + 1  # memory is told of none of these

    async def _before(self, seq: int, *, limit: int, after: int) -> list[Logged]:
        """The newest messages before event `seq`, as far as they came after event `after`."""
        page = await self.log.before(self.line, seq, limit=limit, messages=True)
        return await asyncio.to_thread(memorable, [one for one in page if one.seq > after])


def _wishes(known: Facts, said: str, tokens: int) -> str:
    """What the user prefers and demands, where a summary does not say it."""
    standing = [fact for fact in known.items if fact.kind in STANDING and fact.text[:60] not in said]
    return rendered(ranked(standing, tokens, count))


def _portion(events: Sequence[Logged], which: int) -> Sequence[Sequence[Logged]]:
    return portions(by_turn(events), PORTION - FRAME)[which] if events else ()


def _known(written: str) -> Facts:
    try:
        return msgspec.json.decode(written, type=Facts) if written else NOTHING
    except msgspec.MsgspecError:
        return NOTHING
