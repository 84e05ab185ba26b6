"""What moves conversations out of the store and into it: archives, exports, imports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from everthread import arguments
from everthread.agent.runtime import DEFAULT_AGENT
from everthread.archive.catalogue import ArchiveProblem, ArchiveProgress, ListedArchive, listed
from everthread.archive.move import Archiver, Rules
from everthread.config import Source, resolve
from everthread.errors import UnknownArchive
from everthread.store.conversations import Conversation
from everthread.store.log import Log
from everthread.talk import Talk
from everthread.transfer import all_lines
from everthread.transfer.detect import Format
from everthread.transfer.importing import Imported, OnProgress, as_it_is, import_path, unlocked_portion
from everthread.transfer.lines import Keeps
from everthread.transfer.mirrored import is_mirror

TENANT = "default"
AGENT = DEFAULT_AGENT


class Moving:
    """Of `Everthread`, which is a store that is open, these verbs."""

    if TYPE_CHECKING:
        log: Log
        _archiver: Archiver
        _locked: bool

        def talk(self, conversation: Conversation) -> Talk: ...

        def _sources(self) -> tuple[Source, ...]: ...

    # -- archives ----------------------------------------------------------------------------------------------

    async def archives(
        self, *, user: str, query: str = "", offset: int = 0, limit: int = 50, tenant: str = TENANT
    ) -> list[ListedArchive]:
        """A page of a user's archived conversations, archived last first, without opening their files; the next page
        has an `offset` of as many more. Without a user there are none. `query`: those that have words of it, best
        first, by the few words that are kept of each."""
        if not user:
            return []
        owner, limit = arguments.owner(tenant, user), arguments.count("limit", limit)
        offset = arguments.offset(offset)
        if query:
            found = await self.log.archives.search(owner, arguments.text("query", query), limit=offset + limit)
            return [listed(one) for one, _ in found[offset:]]
        return [listed(one) for one in await self.log.archives.page(owner, offset=offset, limit=limit)]

    async def archive(self, *, user: str, id: str, tenant: str = TENANT) -> ListedArchive:
        """Move a conversation out of the database into a file, now, however lately it was active. Whoever reads or
        writes it next restores it. NotArchivable: a turn of it runs, a tool call waits, or a message is scheduled."""
        owner = arguments.owner(tenant, user)
        found = await self.log.conversations.find(owner, arguments.text("id", id))
        return listed(await self._archiver.archive(found))

    async def restore(self, *, user: str, id: str, tenant: str = TENANT) -> Talk:
        """Bring an archived conversation back, identical. ArchiveError: it cannot be, and stays as it is."""
        owner = arguments.owner(tenant, user)
        found = await self.log.conversations.find(owner, arguments.text("id", id))
        if found.archived is None:
            raise UnknownArchive(id)
        await self._archiver.restore(found.tenant, found.id)
        return self.talk(await self.log.conversations.find(owner, found.id))

    async def archive_idle(self, *, tell: Callable[[ArchiveProgress], None] | None = None) -> int:
        """Archive all conversations that have been idle for as long as the setting `archive_after` says. How many. One
        that fails keeps no other back. `tell` hears of each. Works for all users and tenants."""
        await self._archiver.finish()
        days = resolve(*self._sources()).settings.archive_after
        return await self._archiver.archive_idle(days=days, tell=tell)

    async def verify_archives(self) -> list[ArchiveProblem]:
        """Read and check every archive of all users and tenants; what is wrong. Restores nothing."""
        return await self._archiver.verify()

    def _archive_rules(self, beside: str) -> Rules:
        settings = resolve(*self._sources()).settings
        return Rules(place=settings.archive_place, beside=beside, encrypted=settings.archive_encryption)

    # -- exports and imports -----------------------------------------------------------------------------------

    def export(self, *, user: str, tenant: str = TENANT) -> AsyncIterator[bytes]:
        """All conversations of a user, and MEMORY.md with its versions, as JSON Lines, one after another. Outdated:
        something was redacted meanwhile that may stand in what came: begin anew."""
        return all_lines(self.log, arguments.owner(tenant, user))

    async def import_file(
        self,
        path: str | Path,
        *,
        user: str,
        agent: str = AGENT,
        format: Format | None = None,
        keep_users: bool = False,
        progress: OnProgress | None = None,
        tenant: str = TENANT,
    ) -> Imported:
        """Import conversations from a file: an Everthread export (same ids and times), a data export of ChatGPT or
        Claude (the zip file, too), or message lists of OpenAI, Anthropic or Gemini; or from a folder of these, such as
        a mirror. It is read piece by piece. A fault anywhere imports nothing (BadFormat, AlreadyExists); the same file
        again adds nothing, and finishes what was cut short.

        All becomes the user's; with `keep_users` an Everthread export goes back to those whose it was. `agent`: with
        whom, for histories of other programs. `format` is found out unless it is given. `progress` is told, from
        another thread, what is being done, and how many bytes of how many are.
        """
        owner, agent = arguments.owner(tenant, user), arguments.name("agent", agent)
        return await import_path(
            self.log,
            Path(path),
            owner,
            agent=agent,
            format=arguments.format(format),
            keeps=Keeps(users=keep_users, tenants=False),
            torn=is_mirror(Path(path)),
            tell=progress or (lambda *_: None),
            adapt=unlocked_portion if self._locked else as_it_is,
        )
