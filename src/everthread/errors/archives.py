"""Archives: what cannot be moved out, and what cannot be brought back."""

from __future__ import annotations

from everthread.errors.store import StoreError
from everthread.errors.tree import Conflict, InputError, NotFound, short


class Archived(Conflict):
    """A conversation is in an archive. Whoever opened the store restores it and goes on; nobody else is told."""

    def __init__(self, tenant: str, conversation: str) -> None:
        super().__init__(f"The conversation {short(conversation)} is archived: restore it with `et.restore`.")
        self.tenant, self.conversation = tenant, conversation


class NotArchivable(Conflict):
    """Something of a conversation is under way. `why`: what."""

    def __init__(self, conversation: str, why: str) -> None:
        super().__init__(f"The conversation {short(conversation)} cannot be archived now: {why}.")
        self.conversation, self.why = conversation, why


class UnknownArchive(NotFound):
    def __init__(self, conversation: str) -> None:
        super().__init__(
            f"There is no archived conversation {short(conversation)} for this user: list those there are with "
            "`et.archives` or `everthread archive list`."
        )
        self.conversation = conversation


class NoPlace(InputError):
    """Nobody has said where archives are to be kept."""

    def __init__(self) -> None:
        super().__init__(
            "There is no place for archives: a store in PostgreSQL has no folder of its own, so set `archive_place` "
            "to a folder or to s3://bucket/folder."
        )


class ArchiveError(StoreError):
    """An archive cannot be used; it stays listed, and nothing of the conversation was changed."""


class DamagedArchive(ArchiveError):
    """An archive is not what was written; it stays listed, and nothing of it was restored."""

    def __init__(self, archive: str, why: str) -> None:
        super().__init__(
            f"The archive {short(archive)} is damaged ({why}): nothing of it was restored, and it stays listed. Bring "
            "back its file from a back-up; `everthread archive verify` checks all."
        )
        self.archive = archive


class ForeignArchive(ArchiveError):
    """An archive is another's; nothing of it was restored."""

    def __init__(self, archive: str) -> None:
        super().__init__(
            f"The archive {short(archive)} holds another conversation than the catalogue says: nothing of it was "
            "restored. Bring back its own file from a back-up."
        )
        self.archive = archive


class NewerArchive(ArchiveError):
    """An archive was written by a newer Everthread; nothing of it was restored."""

    def __init__(self, archive: str, *, version: int, known: int) -> None:
        super().__init__(
            f"The archive {short(archive)} has format {version}, written by a newer Everthread; this one knows up to "
            f"{known}: upgrade with `pip install -U everthread`."
        )
        self.archive, self.version, self.known = archive, version, known


class MissingArchive(ArchiveError):
    """The file of an archive is not where it was put; it stays listed."""

    def __init__(self, archive: str, place: str) -> None:
        super().__init__(
            f"The archive {short(archive)} is not in {place}: it stays listed; bring back its file from a back-up."
        )
        self.archive = archive


class NoArchiveKey(ArchiveError):
    """There is no master key that opens an archive."""

    def __init__(self, archive: str, why: str) -> None:
        super().__init__(f"The archive {short(archive)} cannot be opened ({why}).")
        self.archive = archive


class PlaceUnavailable(ArchiveError):
    """The place of the archives cannot be used now; nothing was lost."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place}, where the archives are, cannot be used ({why}): nothing was lost; try again.")
        self.place = place


class NotReached(ArchiveError):
    """Forgotten in the store, but files of archives are still to be deleted: that is written down, and tried again."""

    def __init__(self, left: int, why: str) -> None:
        files = "one file" if left == 1 else f"{left} files"
        super().__init__(
            f"It is forgotten in the store, but {files} of archives could not be reached ({why}): it is written down, "
            "and whoever works for the store next tries again."
        )
        self.left = left


class StillVersioned(ArchiveError):
    """Forgotten, but the place of the archives keeps older versions of what is deleted there."""

    def __init__(self, place: str) -> None:
        super().__init__(
            f"It is forgotten and its file deleted, but {place} keeps versions of what is deleted there, and the file "
            "was not encrypted: delete its old versions with the tools of that store, or set `archive_encryption`."
        )
        self.place = place
