"""The database cannot do what it should."""

from __future__ import annotations

import re

from everthread.errors.tree import EverthreadError, short


class StoreError(EverthreadError):
    """The database cannot do what it should; what was acknowledged before is safe."""


class BadAddress(StoreError):
    def __init__(self, address: str) -> None:
        shown = re.sub(r"(://[^/:@]*:)[^@]*@", r"\1…@", address)  # never a password
        super().__init__(
            f"{short(shown)} is not an address of a store: write sqlite:///talk.db (three slashes for a relative "
            "path, four for an absolute one) or postgresql://user@host/database."
        )


class NotADatabase(StoreError):
    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} is not an Everthread database ({why}): choose another path; it was not touched.")
        self.path = path


class NewerSchema(StoreError):
    def __init__(self, store: str, *, version: int, name: str, known: int) -> None:
        super().__init__(
            f"{store} has schema {version} ({name!r}), written by a newer Everthread; this one knows up to "
            f"{known}: upgrade with `pip install -U everthread`."
        )
        self.version, self.known = version, known


class MigrationFailed(StoreError):
    def __init__(self, store: str, *, version: int, name: str, why: str) -> None:
        super().__init__(
            f"{store} could not be brought to schema {version} ({name!r}): {why}. It is as it was; open it with the "
            "Everthread that made it, and report this."
        )
        self.version = version


class ReadOnly(StoreError):
    def __init__(self, store: str) -> None:
        super().__init__(f"{store} cannot be written: check the permissions of the file and of its folder.")


class Full(StoreError):
    def __init__(self, store: str) -> None:
        super().__init__(f"There is no room left to write {store}: free some space and try again; nothing was lost.")


class Busy(StoreError):
    def __init__(self, store: str, *, seconds: float) -> None:
        super().__init__(
            f"Another program has kept {store} locked for {seconds:g} s: end it or wait for it, then try again."
        )


class NotYetGone(StoreError):
    """Forgotten in the log, but the old bytes are still in a file that another program reads."""

    def __init__(self, store: str, *, seconds: float) -> None:
        super().__init__(
            f"It is forgotten, but for {seconds:g} s another program has been reading what {store} held before, so the "
            "old bytes are not overwritten yet: end that program, then do the same again."
        )


class Unavailable(StoreError):
    def __init__(self, store: str, why: str) -> None:
        super().__init__(
            f"{store} cannot be reached ({why}): check the address, and that what is behind it is there and runs."
        )


class Closed(StoreError):
    def __init__(self, store: str) -> None:
        super().__init__(f"{store} has been closed: open it again with `Everthread.open`.")


class Corrupt(StoreError):
    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} is damaged ({why}): `everthread doctor` lists what is; the rest can be read.")
