"""Memory of one branch: what was said there, the model that is asked about it, and publishing what was made of it.

A version is published by compare-and-set: if another worker was faster, or something was redacted meanwhile, what was
made here is thrown away. Coverage only advances with what was published.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from everthread.agent.finish import finished
from everthread.agent.runtime import Runtime
from everthread.config import Settings
from everthread.core.branches import ENDLESS, Line
from everthread.core.events import MEMORY, Event, ModelCall
from everthread.core.logged import Logged, memorable
from everthread.errors import Outrun, TakenOver
from everthread.language.digest import by_turn, material, portions, trimmed
from everthread.memory import prompts
from everthread.memory.ask import Told, ask, own_model
from everthread.memory.due import Due
from everthread.providers.summariser import summariser
from everthread.store.beside.leases import Lease
from everthread.store.conversations import Conversation

PORTION, FRAME = 6_000, 700  # tokens that one model call is shown, and of these for the brief and what is around
PAGE = 1_000  # events that are read at a time
EXTRACT_AFTER = 10  # messages: what an extract would tell of fewer is still in the window

Turns = Sequence[Sequence[Logged]]


class Unusable(Exception):
    """The model failed, or what it wrote cannot be used. It is in the log; the extractive form serves meanwhile."""


class Portion(NamedTuple):
    """The turns that one model call is shown (none where no model is asked), and the seq and the turn up to which a
    version made from them reaches."""

    turns: Turns
    seq: int
    turn: int


class Memory:
    """Memory of a branch, with the settings in force there. Without a `model` it is extractive. `worth`: how many new
    messages are worth a brief that nobody asked for."""

    def __init__(self, runtime: Runtime, conversation: Conversation, line: Line, settings: Settings) -> None:
        self._runtime, self.log = runtime, runtime.log
        self.conversation, self.line, self.settings = conversation, line, settings
        self.lease: Lease | None = None  # under which it writes; none where the user does
        self.model = own_model(runtime) or summariser(settings)
        self.worth = 1 if self.model else EXTRACT_AFTER

    # -- the model ---------------------------------------------------------------------------------------------

    async def told(self, prompt: str, due: Due, turns: Turns, *, brief: str = "") -> Told | None:
        """What the model makes of these turns; None where there is no model, or no turn. A failure is recorded, and
        raised as Unusable."""
        if not self.model or not turns:
            return None
        goal, at = self.conversation.goal, due.head.seq + 1
        fence = await self.log.fence(self.line)
        shown = await asyncio.to_thread(material, turns, PORTION, fence=fence, brief=brief, goal=goal)
        record = ModelCall(model=self.model, at=at, agent=MEMORY)
        try:
            told = await ask(
                self._runtime,
                self.settings,
                self.model,
                tenant=self.line.tenant,
                instructions=prompts.text(prompt),
                text=shown,
                at=at,
            )
            record = told.record
            trimmed(told.text)
        except asyncio.CancelledError:
            with suppress(TakenOver):  # it ends all the same
                await self._note(msgspec.structs.replace(record, finish="cancelled"))  # it is paid for
            raise
        except Exception as problem:  # whatever a client comes to, it is a failure like any other
            await self._note(msgspec.structs.replace(record, error=str(problem)))
            raise Unusable(str(problem)) from problem
        return told

    async def _note(self, record: ModelCall) -> None:
        await finished(self.log.append(self.line.target, [record], under=self.lease))

    async def publish(self, made: Event, told: Told | None, due: Due) -> None:
        """Append what was made, with the record of the model call that made it. Raises Outrun."""
        record = [told.record] if told else []
        try:
            await self.log.append(self.line.target, [made, *record], basis=due.basis(made.kind), under=self.lease)
        except Outrun:
            if told:
                await self._note(told.record)  # it is paid for
            raise

    # -- what was said -----------------------------------------------------------------------------------------

    async def portion(self, due: Due, *, after: int) -> Portion:
        """What one model call takes of the turns after seq `after`."""
        messages = await self.messages(after + 1, due.upto) if self.model else []
        turns = (await asyncio.to_thread(parted, messages))[0]
        if not turns:
            return Portion((), due.upto, due.turns[1])
        return Portion(turns, turns[-1][-1].seq, turns[-1][-1].turn)

    async def messages(self, first: int, last: int = ENDLESS) -> list[Logged]:
        """A page of the messages from `first` to `last`, whole turns where there are several."""
        while found := await self._page(first, last):
            if told := await asyncio.to_thread(memorable, found):
                return told
            first = found[-1].seq + 1  # memory is told of none of these
        return []

    async def _page(self, first: int, last: int) -> list[Logged]:
        page = await self.log.after(self.line, first - 1, limit=PAGE, messages=True)
        found = [one for one in page if one.seq <= last]
        if len(found) == PAGE and found[0].turn != found[-1].turn:
            return [one for one in found if one.turn != found[-1].turn]
        return found

    async def before(self, seq: int, *, limit: int, after: int) -> list[Logged]:
        """The newest messages before event `seq`, as far as they came after event `after`."""
        page = await self.log.before(self.line, seq, limit=limit, messages=True)
        return await asyncio.to_thread(memorable, [one for one in page if one.seq > after])


def parted(events: Sequence[Logged]) -> Sequence[Turns]:
    """Messages by turn, in portions; a single empty portion where there are no messages."""
    return portions(by_turn(events), PORTION - FRAME) if events else [()]
