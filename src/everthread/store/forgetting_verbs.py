"""The log's verbs for forgetting: `redact`, `erase`, `erase_user`, and `finish` for what a crash left undone.

Each writes down with its first step what it is about (`forgetting.Forgetting`) and strikes it out after the last, when
the old bytes are gone from the disk as well. `finish` does the rest of whatever is written down: every step may be done
twice, and by several at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from everthread.core.branches import Line
from everthread.errors import NotFound, NotYetGone
from everthread.store import branching, documents, forgetting
from everthread.store.appending import Tries
from everthread.store.branching import Act
from everthread.store.conversations import Conversation, Owner, Owners
from everthread.store.engine import Engine
from everthread.store.forgetting import DOCUMENT, EVENT, USER, Forgetting

MOST = 1_000  # that are looked at together

audit = logging.getLogger("everthread.audit")
_log = logging.getLogger("everthread.store")


class Forgets:
    _engine: Engine
    _clock: Callable[[], int]
    _gap: int
    _lines: branching.Lines
    _owners: Owners

    async def redact(self, line: Line, *seqs: int) -> None:
        """Take the content out of events for ever, on every branch that shares them, and out of every copy that was
        made of it: by memory, and by results that quote it in all of the user's conversations. Tombstones stay.

        NotYetGone: it is done, but the old bytes are still in a file that another program reads.
        """
        for seq in seqs:
            await self._redact(line, seq)
            audit.info("redacted event %s of conversation %s", seq, line.conversation)
        if seqs:
            await self.finish()

    async def erase(self, conversation: Conversation) -> None:
        """Remove a conversation for ever, and what others quote of it; only that there was one stays.

        NotYetGone: as for `redact`.
        """
        await self._erase(conversation)
        await self.finish()

    async def erase_user(self, owner: Owner) -> int:
        """Remove a user's conversations and documents, and the name from what stays. How many conversations."""
        one = Forgetting(owner.tenant, "", 0, 0, user=owner.user, what=USER, time=self._clock())
        await self._engine.write(lambda: forgetting.begin(one), about=_about(owner))
        erased = await self._erase_all(owner)
        await self.finish()
        return erased

    async def forget_document(self, owner: Owner, name: str) -> None:
        """Remove a document for ever, with all its versions. NotYetGone: as for `redact`."""
        one = Forgetting(owner.tenant, "", 0, 0, user="", what=DOCUMENT, time=self._clock())
        script = partial(documents.forget, owner, name, forgetting.begun(one))
        await self._engine.write(script, about=f"documents/{owner.tenant}/{owner.user}")
        audit.info("forgot a document %s", "of a user" if owner.user else "of a tenant")
        await self.finish()

    # -- finishing -----------------------------------------------------------------------------------------

    async def unfinished(self) -> list[Forgetting]:
        """What is being forgotten at this moment, or was when its process died. For operators: of every user."""
        return await self._engine.read(lambda: forgetting.pending(MOST))

    async def finish(self, *, patient: bool = True) -> None:
        """Do the rest of all that is being forgotten, whoever began it. Not `patient`: what another program still reads
        is left for the next time, and otherwise NotYetGone says so."""
        done: dict[Forgetting, None] = {}
        while found := [one for one in await self.unfinished() if one not in done]:
            for one in found:
                await self._go_on(one)
                done[one] = None
        if not done:
            return
        try:
            await self._engine.scrub(patient=patient)
        except NotYetGone:
            if patient:
                raise
            return
        await self._engine.write(lambda: forgetting.ended(done), about="forgetting")

    async def finish_later(self) -> None:
        """Do as much of it as can be done now. Should something be left, `doctor` tells of it, and whoever opens the
        store next tries again."""
        try:
            await self.finish(patient=False)
        except Exception as problem:  # noqa: BLE001 - a damaged row, say: nobody else should be kept out by it
            _log.warning("Something is half-forgotten: %s", problem)

    async def _go_on(self, one: Forgetting) -> None:
        """The next steps. What is gone altogether by now needs none."""
        if one.what == USER and one.user:
            await self._erase_all(Owner(one.tenant, one.user))
        elif one.what == EVENT:
            try:
                line = await self._engine.read(
                    lambda: branching.line(one.tenant, one.conversation, one.branch, known=self._lines)
                )
                while await self._redact(line, one.seq, again=True):
                    pass  # once more until there is none: somebody may have written while we were at it
            except NotFound:
                pass

    async def _redact(self, line: Line, seq: int, *, again: bool = False) -> bool:
        # Alone: whoever indexes it at this moment must have done so, or see that it is gone.
        script = partial(forgetting.redact, line, seq, Act(self._clock(), self._gap, Tries()), again=again)
        return await self._engine.write(script, about=line.about, alone=True)

    async def _erase(self, conversation: Conversation) -> None:
        now = self._clock()
        self._owners.forget(conversation)
        await self._engine.write(lambda: forgetting.erase(conversation, now=now), about=conversation.about, alone=True)
        audit.info("erased conversation %s", conversation.id)

    async def _erase_all(self, owner: Owner) -> int:
        found = await self._engine.read(lambda: forgetting.everything_of(owner), large=True)
        for conversation in found:
            await self._erase(conversation)
        await self._engine.write(lambda: forgetting.forget_user(owner), about=_about(owner))
        audit.info("erased a user and %s conversations", len(found))
        return len(found)


def _about(owner: Owner) -> str:
    return f"{owner.tenant}/{owner.user}"
