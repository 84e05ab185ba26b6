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


class AnotherLoop(StoreError):
    """An open store belongs to the event loop that it was opened in."""

    def __init__(self, store: str) -> None:
        super().__init__(
            f"{store} was opened in another event loop: open it in each loop with `Everthread.open`, or share one "
            "among threads and loops with `from everthread.sync import Everthread`."
        )


class Forked(StoreError):
    """An open store belongs to the process that opened it. `open_then`: the file was open in the process that this one
    was forked from, and SQLite could lose what this one would write."""

    def __init__(self, store: str, *, open_then: bool = False) -> None:
        then = "was open" if open_then else "was opened"
        todo = "Close it there before the fork, or open it only in the processes that come of it"
        other = "; else start this process anew (multiprocessing: `spawn`)" if open_then else ""
        super().__init__(f"{store} {then} in the process that this one was forked from. {todo}{other}.")


class WouldHang(StoreError):
    """A verb of `everthread.sync` was called on the thread that would have to carry it out."""

    def __init__(self) -> None:
        super().__init__(
            "A verb without await was called on Everthread's own thread, by an async tool or a callback, and would "
            "wait for itself: make the tool a plain function, or use the asynchronous verbs of the talk it is given."
        )


class Corrupt(StoreError):
    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} is damaged ({why}): `everthread doctor` lists what is; the rest can be read.")
