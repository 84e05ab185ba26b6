"""`log.schedules`: what is to be said at a time, and what workers need to say it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec

from everthread.core.schedules import Schedule
from everthread.store.audit import audit
from everthread.store.beside import schedules
from everthread.store.beside.leases import Lease
from everthread.store.beside.schedules import ABOUT, Change
from everthread.store.conversations import Conversation, Owner
from everthread.store.engine import Engine, Outcome, Script
from everthread.store.scripts.forget import SCHEDULE, HalfForgotten, begun
from everthread.store.verbs.forgetting import Forgetting

T = TypeVar("T")


class Schedules:
    def __init__(self, engine: Engine, clock: Callable[[], int], forgetting: Forgetting) -> None:
        self._engine = engine
        self._clock = clock
        self._forgetting = forgetting

    async def add(self, conversation: Conversation, new: Schedule) -> Schedule:
        """Keep a schedule of a conversation; with the id that it gets."""
        whose = {"tenant": conversation.tenant, "user": conversation.user, "conversation": conversation.id}
        new = msgspec.structs.replace(new, **whose)
        script = partial(schedules.add, new, now=self._clock(), chance=secrets.randbits(80), tried=[])
        # In turn with `erase` and `redact`: else it might be looked for before them, and written after.
        added = await self._engine.write(script, about=conversation.about, alone=True)
        self._ring()
        return added

    async def get(self, conversation: Conversation, id: str) -> Schedule:
        """One by its id; UnknownSchedule where the conversation has none of that id."""
        return await self._engine.read(lambda: schedules.find(_where(conversation), id))

    async def of(self, conversation: Conversation) -> list[Schedule]:
        """All of a conversation, those made first before the others."""
        return await self._engine.read(lambda: schedules.of_conversation(conversation.tenant, conversation.id))

    async def of_owner(self, owner: Owner) -> list[Schedule]:
        """All of a user; none without a user."""
        return await self._engine.read(lambda: schedules.of_owner(owner)) if owner.user else []

    async def pending(self, conversation: Conversation) -> bool:
        """Whether a conversation has one that is not done: then it is not archived."""
        return any(one.state != "done" for one in await self.of(conversation))

    async def change(self, conversation: Conversation, id: str, to: Change) -> Schedule:
        """Make of a schedule, as it is now, what `to` says."""
        changed = await self._write(conversation, id, partial(schedules.change, _where(conversation), id, to))
        self._ring()
        return changed

    async def remove(self, conversation: Conversation, id: str) -> None:
        """Delete one for ever. NotYetGone: as for `redact`."""
        one = HalfForgotten(conversation.tenant, "", 0, 0, user="", what=SCHEDULE, time=self._clock())
        script = partial(schedules.remove, _where(conversation), id, begun(one), tried=[])
        await self._write(conversation, id, script)
        await self._forgetting.finish()

    # -- for workers: across every wall --------------------------------------------------------------------

    async def due(self, *, limit: int = 100) -> list[Schedule]:
        """Those that are to be looked at, the longest due first."""
        now = self._clock()
        return await self._engine.read(lambda: schedules.due(now, limit))

    async def next_look(self) -> int | None:
        """When one is to be looked at next, in microseconds since 1970, beside those that are due now; None where none
        is."""
        now = self._clock()
        return await self._engine.read(lambda: schedules.next_look(now))

    async def move(self, conversation: Conversation, was: Schedule, to: Change, *, under: Lease) -> Schedule:
        """The same as `change` for who runs it, unless somebody has moved it meanwhile. TakenOver: another runs it."""

        def moved(one: Schedule) -> Schedule:
            stands = (one.due, one.look, one.failures) == (was.due, was.look, was.failures)
            return to(one) if stands else one

        script = partial(schedules.change, _where(conversation), was.id, moved, holds=under)
        return await self._write(conversation, was.id, script)

    def audit(self) -> None:
        """Note that this process works for all users."""
        audit.info("a worker runs the schedules of all users")

    async def _write(self, conversation: Conversation, id: str, script: Callable[[], Script[Outcome[T]]]) -> T:
        return await self._engine.write(script, about=f"schedule/{conversation.tenant}/{id}", alone=True)

    def _ring(self) -> None:
        self._engine.bells.ring(ABOUT)
        self._engine.bus.send(ABOUT)


def _where(conversation: Conversation) -> dict[str, str]:
    return {"tenant": conversation.tenant, "conversation": conversation.id}
