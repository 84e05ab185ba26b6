"""Making memory: the next version of a brief, a recap, a range summary, a name.

Each is made from the log and the version before it, by the model that memory uses, or extractively where there is none
or it failed; and published by compare-and-set: if another worker was faster, what was made here is thrown away.
Coverage only advances with what was published.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from everthread import prompts
from everthread.config import Settings
from everthread.core import extract
from everthread.core.branches import ENDLESS, Line
from everthread.core.condensed import by_turn, checked, material, portions
from everthread.core.events import BriefUpdated, Event, ModelCall, SessionEnded, Summary, text_of
from everthread.core.facts import NOTHING, Facts, fold, ranked, rendered
from everthread.core.logged import Logged
from everthread.core.tokens import count
from everthread.engine.desk import Desk
from everthread.errors import BadValue, ModelError
from everthread.jobs.asking import AGENT, Told, ask, memory_model
from everthread.jobs.due import Due
from everthread.store.appending import Place
from everthread.store.conversations import Conversation

PORTION, FRAME = 6_000, 700  # tokens that one model call is shown, and of these for the brief and what is around
KNOWN_EVERY = 20  # versions after which all that is known of the facts is written down again
PAGE = 1_000  # events that are read at a time
BACK = 400  # messages that an extractive brief looks back over
REPLY = 1_000  # tokens that a summary may have, before its words are counted
NAME_WORDS, NAME_LENGTH = 6, 60


class Memory:
    """Makes what is due on one branch, with the settings in force there."""

    def __init__(self, desk: Desk, conversation: Conversation, line: Line, settings: Settings) -> None:
        self._desk, self._log = desk, desk.log
        self._conversation, self._line, self.settings = conversation, line, settings
        self._place = Place(line.tenant, line.conversation, line.branch.number)
        self.model = memory_model(settings)
        self.calls, self.spent = 0, 0.0  # model calls, and US dollars as far as prices are known

    # -- briefs ------------------------------------------------------------------------------------------------

    async def brief(self, due: Due) -> None:
        """The next version of the brief. Of a large gap, the first portion that the model can take."""
        events = await self._messages(due.covered + 1, due.upto)
        if not events:
            return
        before = due.brief.event if due.brief else None
        base = before if isinstance(before, BriefUpdated) else BriefUpdated(text="", covers=due.head.cleared)
        turns = portions(by_turn(events), PORTION - FRAME)[0] if self.model else by_turn(events)
        last = turns[-1][-1].seq
        known = await self._facts(due, last)
        facts = rendered(ranked(known, self.settings.facts_tokens, count))
        told = await self._told("brief", due, turns, brief=base.text)
        text = checked(told.text) if told else await self._extract(due.head.cleared, last, beside=facts)
        version = BriefUpdated(
            text=text,
            covers=last,
            facts=facts,
            known=msgspec.json.encode(known).decode() if _writes_known(due) else "",
            turns=base.turns + len(turns),
            extractive=told is None,
        )
        await self._publish(version, told, ("brief_updated", due.expected_brief))

    async def _facts(self, due: Due, last: int) -> Facts:
        """All that is known after event `last`: from the newest version that has it all, and what was said since."""
        before = due.known.event if due.known else None
        facts = _known(before) if isinstance(before, BriefUpdated) else NOTHING
        first = max(due.head.cleared, facts.seq) + 1
        while events := await self._messages(first, last):
            facts, first = fold(facts, events), events[-1].seq + 1
        return facts

    async def _extract(self, cleared: int, upto: int, *, beside: str) -> str:
        """The newest messages up to there, in their own words, without what the facts say already."""
        events = await self._log.before(self._line, upto + 1, limit=BACK, messages=True)
        own = [one for one in events if one.seq > cleared]
        return extract.summary(own, self.settings.brief_tokens, beside=beside)

    # -- recaps, range summaries, names ------------------------------------------------------------------------

    async def recap(self, due: Due) -> None:
        """Two to four sentences on the session that is over."""
        sessions = await self._log.sessions(self._line, limit=50)
        over = next((one for one in sessions if one.number == due.recap), None)
        if over is None:
            return
        events = [one for one in await self._messages(over.first, over.last) if one.seq > due.head.cleared]
        if not events:
            return
        told = await self._told("recap", due, portions(by_turn(events), PORTION - FRAME)[-1])
        text = checked(told.text, words=120) if told else extract.recap(events)
        event = SessionEnded(session=due.recap, recap=text, extractive=told is None)
        await self._publish(event, told, ("session_ended", due.expected_recap))

    async def summary(self, due: Due) -> None:
        """A summary of everything since the last clear, up to the newest message that can be covered."""
        before = due.summary.event if due.summary else None
        base = before if isinstance(before, Summary) else Summary(text="", covers=due.head.cleared)
        events = await self._messages(base.covers + 1, due.upto)
        if not events:
            return
        turns = portions(by_turn(events), PORTION - FRAME)[0] if self.model else by_turn(events)
        last = turns[-1][-1].seq
        tokens = self.settings.summary_tokens
        told = await self._told("summary", due, turns, brief=base.text)
        back = await self._log.before(self._line, last + 1, limit=2 * BACK, messages=True)
        own = extract.summary([one for one in back if one.seq > due.head.cleared], tokens)
        text = _within(checked(told.text, words=tokens), tokens) if told else own
        first = due.head.cleared + 1
        event = Summary(text=text, covers=last, first=first, extractive=told is None)
        await self._publish(event, told, ("summary", due.expected_summary))

    async def name(self) -> None:
        """The conversation's name, from its first message."""
        if self._conversation.name:
            return
        first = next((one for one in await self._messages(1, 50) if one.kind == "user"), None)
        if first is None or not text_of(first.event).strip():
            return
        said = " ".join(text_of(first.event).split())
        words = said.split(" ")[:NAME_WORDS]
        name = " ".join(words)[:NAME_LENGTH].strip(" .,;:!?")
        self._conversation = await self._log.change(self._conversation, name=name or said[:NAME_LENGTH])

    def wants_summary(self, due: Due) -> bool:
        """Whether so many messages went by since the last one that another is due."""
        before = due.summary.event if due.summary else None
        covered = max(due.head.cleared, before.covers if isinstance(before, Summary) else 0)
        return due.upto - covered >= self.settings.summarise_after

    def wants_name(self, due: Due) -> bool:
        return not self._conversation.name and due.upto > 0

    # -- how -----------------------------------------------------------------------------------------------------

    async def _told(self, prompt: str, due: Due, turns: Sequence[Sequence[Logged]], *, brief: str = "") -> Told | None:
        """What the model makes of these turns; None where there is none. A failure is recorded, and raised."""
        if not self.model or not turns:
            return None
        shown = material(turns, PORTION, brief=brief, goal=self._conversation.goal)
        at = due.head.seq + 1
        self.calls += 1
        try:
            told = await ask(
                self._desk,
                self.settings,
                self.model,
                instructions=prompts.text(prompt),
                text=shown,
                tokens=REPLY,
                at=at,
            )
            self.spent += told.record.price or 0.0
            checked(told.text)
        except (ModelError, BadValue) as problem:
            failed = ModelCall(model=self.model, at=at, agent=AGENT, error=str(problem))
            await self._log.append(self._place, [failed])
            raise
        return told

    async def _publish(self, made: Event, told: Told | None, newest: tuple[str, int]) -> None:
        events = [made, told.record] if told else [made]
        await self._log.append(self._place, events, newest=newest)

    async def _messages(self, first: int, last: int) -> list[Logged]:
        """A page of the messages from `first` to `last`, whole turns where there are several."""
        page = await self._log.after(self._line, first - 1, limit=PAGE, messages=True)
        found = [one for one in page if one.seq <= min(last, ENDLESS)]
        if len(found) == PAGE and found[0].turn != found[-1].turn:
            return [one for one in found if one.turn != found[-1].turn]
        return found


def _writes_known(due: Due) -> bool:
    """Not with every version: it is many times as large as the brief, and can be folded again from what was said."""
    return due.known is None or due.since_known >= KNOWN_EVERY


def _known(base: BriefUpdated) -> Facts:
    try:
        return msgspec.json.decode(base.known, type=Facts) if base.known else NOTHING
    except msgspec.MsgspecError:
        return NOTHING


def _within(text: str, tokens: int) -> str:
    """The text, cut to so many tokens at the end of a word."""
    words = text.split(" ")
    while words and count(" ".join(words)) > tokens:
        words = words[: max(1, len(words) * 9 // 10)] if len(words) > 1 else []
    return " ".join(words)
