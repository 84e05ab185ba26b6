"""What the log keeps beside conversations, for the agent: the other half of the `Log`'s verbs.

    leases        lease  renew  release  leased;  of a running reply: hold  keep  partial
    documents     put  document  documents  versions
    calibrations  calibrate  calibrations
    usage         usage  usage_of_tenant
    reminders     remind  remind_all  reminders  settle

Their rows are each a value by itself: no event refers to them, and none is needed to understand what was said.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from everthread.core.branches import Line
from everthread.store.beside import calibrations, documents, leases, reminders, usage
from everthread.store.beside.documents import Document
from everthread.store.beside.leases import FOREVER, Kept, Lease, Name, Term
from everthread.store.beside.reminders import ABOUT, Reminder
from everthread.store.beside.usage import By, Usage
from everthread.store.conversations import Owner
from everthread.store.engine import Engine

audit = logging.getLogger("everthread.audit")


class Beside:
    _engine: Engine
    _clock: Callable[[], int]
    _max_bytes: int

    # -- leases --------------------------------------------------------------------------------------------

    async def lease(self, tenant: str, name: str, *, holder: str, seconds: float, over: str = "") -> str:
        """Take a lease, or renew one's own, from now on; who has it now, which is the caller's holder if it succeeded.

        It is free when nobody has it, when it has run out, and when `over` has it, whom the caller knows to be dead.
        Those who wait may listen for `changes(leases.Name(tenant, name).about)`, and should look now and then.
        """
        wanted, seconds = leases.name_of(tenant, name), leases.check(holder, seconds)
        while True:
            if other := await self._take(wanted, holder, seconds, over):
                return other
            # Another may have been faster; and may have released it already, then once more.
            if found := await self._engine.read(lambda: leases.newest(wanted)):
                return found.holder

    async def _take(self, wanted: Name, holder: str, seconds: float, over: str) -> str:
        """Take it, unless another has it: who."""
        now = self._clock()
        term = leases.term(holder, now, seconds)
        # Holders of a file's leases all end with its machine, so no flush to disk is waited for.
        return await self._engine.write(
            lambda: leases.take(wanted, term, now=now, over=over), about=wanted.about, durable=False
        )

    async def renew(self, lease: Lease, *, seconds: float) -> bool:
        """Go on holding a lease, from now on. Whether nobody else has had it meanwhile."""
        term = leases.term(lease.holder, self._clock(), leases.check(lease.holder, seconds))
        await self._engine.write(lambda: leases.renew(lease, term.until), about=_about(lease), durable=False)
        found = await self._engine.read(lambda: leases.newest(Name(lease.tenant, lease.name)))
        return found == term

    async def release(self, tenant: str, name: str, *, holder: str, open: bool = False) -> None:
        """Give a lease back, if it still is the holder's. `open`: something that was written under it is not ended yet,
        and whoever takes it next should find it."""
        given = leases.name_of(tenant, name)
        await self._engine.write(lambda: leases.release(given, holder, open=open), about=given.about, durable=False)

    async def leased(self, tenant: str, name: str) -> Term | None:
        """Who has a lease and until when; None where nobody has, or it has run out."""
        asked, now = leases.name_of(tenant, name), self._clock()
        found = await self._engine.read(lambda: leases.newest(asked))
        return found if found and found.until > now else None

    async def hold(self, lease: Lease, *, at: int) -> None:
        """A reply begins that follows event `at`. TakenOver: the lease is another's by now."""
        await self._engine.write(lambda: leases.hold(lease, at), about=_about(lease), durable=False)

    async def keep(self, lease: Lease, conversation: str, *, at: int, text: str, forgotten: int) -> None:
        """Keep what has come of a reply that follows event `at`, unless it has been written, the lease is another's, or
        something of the conversation was redacted since it had been `forgotten` so often."""
        script = partial(leases.keep, lease, conversation, at=at, text=text, forgotten=forgotten)
        await self._engine.write(script, about=_about(lease), durable=False)

    async def partial(self, tenant: str, name: str) -> Kept | None:
        """What was kept of a reply under a lease, whether or not its holder still lives; None where nobody has it."""
        asked = leases.name_of(tenant, name)
        return await self._engine.read(lambda: leases.partial(asked))

    # -- documents -----------------------------------------------------------------------------------------

    async def put(self, owner: Owner, name: str, body: str, *, expect: int | None = None, of: str = "") -> Document:
        """Write a document's next version; what the newest says already is not written again.

        `expect`: the version that the caller knows (0: that there is none); Changed if there is another. `of`: the
        user's conversation in which it is written; UnknownConversation if that is gone. The user '' is the tenant
        itself.
        """
        stored = documents.stored_form(body, max_bytes=self._max_bytes)
        script = partial(documents.put, owner, name, stored, expect=expect, of=of, now=self._clock(), tried=[])
        # In turn with `erase_user`, where that matters: else it might be looked for before, and written after it.
        about = f"{owner.tenant}/{owner.user}" if of else _documents(owner)
        return await self._engine.write(script, about=about, alone=bool(of))

    async def document(self, owner: Owner, name: str, *, version: int | None = None) -> Document | None:
        """The newest version of a document, or one by number; None where there is none."""
        return await self._engine.read(lambda: documents.document(owner, name, version=version))

    async def documents(self, owner: Owner, *, prefix: str = "", limit: int = 1000) -> list[Document]:
        """The newest version of each document whose name begins with `prefix`, by name."""
        return await self._engine.read(lambda: documents.documents(owner, prefix=prefix, limit=limit), large=True)

    async def versions(self, owner: Owner, name: str, *, limit: int = 50) -> list[Document]:
        """The versions of a document, newest first."""
        return await self._engine.read(lambda: documents.versions(owner, name, limit=limit))

    # -- calibrations --------------------------------------------------------------------------------------

    async def calibrate(self, model: str, step: int) -> None:
        """Count a model call whose usage was so many twentieths of its canonical size (`core.calibration.step_of`)."""
        await self._engine.write(lambda: calibrations.calibrate(model, step), about="calibrations", durable=False)

    async def calibrations(self) -> dict[str, dict[int, int]]:
        """By model, how often each step came."""
        return await self._engine.read(calibrations.calibrations)

    # -- usage ---------------------------------------------------------------------------------------------

    async def usage(
        self,
        owner: Owner,
        *,
        by: By,
        conversation: str = "",
        since: int = 0,
        until: int = FOREVER,
        limit: int = 1000,
    ) -> list[Usage]:
        """Totals of a user's model calls, or of one conversation's, newest first. Without a user there are none.

        Times are microseconds since 1970: from `since` until just before `until`.
        """
        span = usage.span(by, since, until, limit)
        return await self._engine.read(lambda: usage.of_owner(owner, conversation, span), large=True)

    async def usage_of_tenant(
        self, tenant: str, *, by: By, since: int = 0, until: int = FOREVER, limit: int = 1000
    ) -> list[Usage]:
        """The same over all users of a tenant. For operators: crosses the walls between users, and is logged."""
        span = usage.span(by, since, until, limit)
        audit.info("an operator listed the usage of tenant %s", tenant)
        return await self._engine.read(lambda: usage.of_tenant(tenant, span), large=True)

    # -- reminders -----------------------------------------------------------------------------------------

    async def remind(self, owner: Owner, line: Line, *, seconds: float = 0.0) -> None:
        """Write down that something may be due on a branch, now or in so many seconds."""
        one = reminders.reminder(owner, line, self._clock() + int(seconds * 1e6))
        await self._engine.write(lambda: reminders.remind(one, later=seconds > 0), about=ABOUT, durable=False)

    async def remind_all(self) -> None:
        """The same of every branch there is. For workers: crosses every wall, and is logged."""
        now = self._clock()
        audit.info("a worker looks at all conversations")
        await self._engine.write(lambda: reminders.remind_all(now), about=ABOUT, large=True, durable=False)

    async def reminders(self, *, limit: int = 100) -> list[Reminder]:
        """Those that are due, the oldest first. For workers: crosses every wall."""
        now = self._clock()
        return await self._engine.read(lambda: reminders.due(now, limit))

    async def settle(self, one: Reminder) -> None:
        """It has been seen to; it stays if somebody has reminded again meanwhile."""
        await self._engine.write(lambda: reminders.settle(one), about="reminders settled", durable=False)


def _about(lease: Lease) -> str:
    return Name(lease.tenant, lease.name).about


def _documents(owner: Owner) -> str:
    return f"documents/{owner.tenant}/{owner.user}"
