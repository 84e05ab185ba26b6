"""`log.forgetting`: `redact`, `erase`, `erase_user`, and `finish` for what a crash left undone.

Each writes down with its first step what it is about (`forget.HalfForgotten`) and strikes it out after the last, when
the old bytes are gone from the disk as well. `finish` does the rest of whatever is written down: every step may be done
twice, and by several at once.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from functools import partial

from everthread.core.branches import Line
from everthread.errors import Corrupt, NotFound, NotYetGone, StoreError
from everthread.store import conversations
from everthread.store.audit import audit
from everthread.store.beside import accounts
from everthread.store.conversations import Conversation, Owner, Owners
from everthread.store.engine import Engine
from everthread.store.scripts import branch, canvas, forget
from everthread.store.scripts.append import Tries
from everthread.store.scripts.branch import Act
from everthread.store.scripts.forget import CONVERSATION, EVENT, USER, HalfForgotten
from everthread.store.windows import Windows

MOST = 1_000  # that are looked at together

Forgotten = Collection[tuple[str, str]]  # tenant and conversation of what is forgotten now

_log = logging.getLogger("everthread.store")


class Forgetting:
    def __init__(
        self,
        engine: Engine,
        clock: Callable[[], int],
        owners: Owners,
        lines: branch.Lines,
        windows: Windows,
        *,
        session_gap: int,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._owners = owners
        self._lines = lines
        self._windows = windows
        self._gap = session_gap
        self.followers: list[Callable[[Forgotten], Awaitable[None]]] = []  # beyond the store: mirrors, archives

    async def redact(self, line: Line, *seqs: int) -> None:
        """Take the content out of events for ever, on every branch that shares them, and out of every copy that was
        made of it: by memory, and by results that quote it in all of the user's conversations. Tombstones stay.

        NotYetGone: it is done, but the old bytes are still in a file that another program reads.
        """
        kept = await self._newest_kept(line)
        for seq in seqs:
            await self._redact(line, seq)
            audit.info("redacted event %s of conversation %s", seq, line.conversation)
        if kept:
            await self._keep_again(line, kept)
        if seqs:
            await self.finish(own={(line.tenant, line.conversation)})

    async def _newest_kept(self, line: Line) -> dict[int, int]:
        return await self._engine.read(lambda: canvas.newest_kept(line.tenant, line.conversation))

    async def _keep_again(self, line: Line, before: dict[int, int]) -> None:
        """Keep the canvases again that were removed with what they were folded from, so that reading is as fast as it
        was. If that fails, the next changes do it."""
        now = await self._newest_kept(line)
        for number in [number for number, seq in before.items() if now.get(number, 0) < seq]:
            find = partial(branch.line, line.tenant, line.conversation, number, known=self._lines)
            own = await self._engine.read(find)
            await self._engine.write(partial(canvas.keep_again, own), about=line.about, alone=True)

    async def erase(self, conversation: Conversation) -> None:
        """Remove a conversation for ever, and what others quote of it; only that there was one stays.

        NotYetGone: as for `redact`.
        """
        await self._erase(conversation)
        await self.finish(own={(conversation.tenant, conversation.id)})

    async def erase_user(self, owner: Owner) -> int:
        """Remove a user's conversations and documents, the account with all that belongs to it, and the name from what
        stays. How many conversations."""
        script = partial(forget.erase_user, owner, now=self._clock())
        found = await self._engine.write(script, about=_about(owner), large=True, alone=True)
        await self.finish(own={(one.tenant, one.id) for one in found})
        audit.info("erased a user and %s conversations", len(found))
        return len(found)

    # -- finishing -----------------------------------------------------------------------------------------

    async def unfinished(self) -> list[HalfForgotten]:
        """What is being forgotten at this moment, or was when its process died. For operators: of every user."""
        return await self._engine.read(lambda: forget.pending(MOST))

    async def finish(self, *, patient: bool = True, own: Forgotten = ()) -> None:
        """Finish all that is being forgotten, whoever began it, beyond the store as well: NotReached, where that is out
        of reach now of `own` or of what was finished. NotYetGone: another program still reads the old bytes; without
        `patient` they are left for the next time instead."""
        forgotten = {*own}
        while done := await self._go_on_with_all():
            try:
                await self._engine.scrub(patient=patient)
            except NotYetGone:
                if patient:
                    raise
                return
            await self._engine.write(partial(forget.ended, done), about="forgetting")
            forgotten |= {(one.tenant, one.conversation) for one in done}
        await self._have_followed(forgotten)

    async def _have_followed(self, forgotten: Forgotten) -> None:
        """Whoever cannot follow keeps no other from it."""
        wrong: StoreError | None = None
        for follow in self.followers:
            try:
                await follow(forgotten)
            except StoreError as problem:
                wrong = wrong or problem
        if wrong:
            raise wrong

    async def _go_on_with_all(self) -> list[HalfForgotten]:
        """Go on with all that is being forgotten; what could be done. One that fails keeps no other back."""
        tried: dict[HalfForgotten, bool] = {}
        while found := [one for one in await self.unfinished() if one not in tried]:
            for one in found:
                tried[one] = await self._could_go_on(one)
        return [one for one, done in tried.items() if done]

    async def _could_go_on(self, one: HalfForgotten) -> bool:
        try:
            await self._go_on(one)
            return True
        except Exception as problem:
            if isinstance(problem, StoreError) and not isinstance(problem, Corrupt):
                raise
            _log.warning("%s is half-forgotten: %s", one, problem)
            return False

    async def finish_later(self) -> None:
        """Finish what can be finished now. If something is left, `doctor` reports it, and whoever opens the store next
        tries again."""
        try:
            await self.finish(patient=False)
        except Exception as problem:  # noqa: BLE001 - a damaged row, say: nobody else should be kept out by it
            _log.warning("Something is half-forgotten: %s", problem)

    async def _go_on(self, one: HalfForgotten) -> None:
        """The next steps. What is gone altogether by now needs none, nor does a document or a schedule."""
        owner = Owner(one.tenant, one.user)
        with suppress(NotFound):
            if one.what == EVENT:
                await self._finish_redacting(one)
            elif one.what == CONVERSATION and one.user:
                await self._erase(await self._engine.read(lambda: conversations.find(owner, one.conversation)))
            elif one.what == USER and one.user:
                # A mark of chance, not a hash of the name: that could confirm a guess.
                erased = partial(accounts.erase, owner, f"erased-{secrets.token_hex(8)}")
                await self._engine.write(erased, about=accounts.about(owner.tenant), alone=True)
                await self._engine.write(lambda: forget.forget_user(owner), about=_about(owner))

    async def _finish_redacting(self, one: HalfForgotten) -> None:
        """Redact what is left of an event and its copies, until nothing is: somebody may write while we are at it."""
        found = await self._engine.read(
            lambda: branch.line(one.tenant, one.conversation, one.branch, known=self._lines)
        )
        while await self._redact(found, one.seq, again=True):
            pass

    async def _redact(self, line: Line, seq: int, *, again: bool = False) -> bool:
        # Alone: whoever indexes it at this moment must have done so, or see that it is gone.
        script = partial(forget.redact, line, seq, Act(self._clock(), self._gap, Tries()), again=again)
        with self._windows.forgotten():
            return await self._engine.write(script, about=line.about, alone=True)

    async def _erase(self, conversation: Conversation) -> None:
        now = self._clock()
        self._owners.forget(conversation)
        script = partial(forget.erase, conversation, now=now)
        with self._windows.forgotten():
            await self._engine.write(script, about=conversation.about, alone=True)
        audit.info("erased conversation %s", conversation.id)


def _about(owner: Owner) -> str:
    return f"{owner.tenant}/{owner.user}"
