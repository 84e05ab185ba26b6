"""Every error that Everthread raises on purpose.

One tree: catch `EverthreadError` for all of them, or a branch of it for a kind. Each error is one sentence
that says what happened and what to do about it, and carries the ids it speaks of as attributes. Whatever is
raised, the log is as it was before the operation began.
"""

from __future__ import annotations

import re
import reprlib


class EverthreadError(Exception):
    """The root of the tree."""


# -- what the caller gave --------------------------------------------------------------------------------


class InputError(EverthreadError):
    """What was given cannot be used; nothing was changed."""


class BadValue(InputError):
    """A value that is not allowed."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(f"{name} is {_short(value)}, but must be {allowed}.")
        self.name = name


class BadSetting(InputError):
    """A setting that does not exist, or a value that it may not have; `source` is where it was set."""

    def __init__(self, name: str, value: object, source: str, problem: str) -> None:
        shown = name if re.fullmatch(r"\w{1,40}", name) else _short(name)
        super().__init__(f"{shown} is {_short(value)} in {source}, but {problem}.")
        self.name, self.source = name, source


class BadSettingsFile(InputError):
    """A file of settings that is not there or cannot be understood."""

    def __init__(self, path: object, problem: str) -> None:
        super().__init__(
            f"The settings file {path} cannot be used ({problem}): correct it, or name another in EVERTHREAD_CONFIG."
        )
        self.path = path


class NoUser(InputError):
    """A conversation was asked for without saying whose."""

    def __init__(self) -> None:
        super().__init__("A conversation belongs to a user: name one, as in user='ana'.")


class EventTooLarge(InputError):
    def __init__(self, *, size: int, limit: int) -> None:
        super().__init__(
            f"An event of {size:,} bytes is larger than the limit of {limit:,} bytes: "
            "split it, attach it as a file part, or open the log with a larger `max_event_bytes`."
        )
        self.size, self.limit = size, limit


class BadFormat(InputError):
    """A file or message list that cannot be understood; nothing of it was imported."""

    def __init__(self, reason: str, *, where: str) -> None:
        super().__init__(f"{where}: {reason}. Nothing was imported.")
        self.reason, self.where = reason, where


class BeyondModel(EverthreadError):
    """What must be sent is more than the model takes; nothing was sent. `reply`: what is kept for the reply."""

    def __init__(self, model: str, *, needed: int, limit: int, reply: int = 0) -> None:
        todo = "shorten the newest message, the instructions or the tools, or take a model with a larger window"
        if not limit or needed <= limit + reply:
            todo = f"lower reply_tokens, which keeps {f'{reply:,} of them' if reply else 'the rest'} for the reply"
        super().__init__(
            f"The instructions, tools and newest turn need {needed:,} tokens, but {model} takes {limit:,} beside its "
            f"reply: {todo}."
        )
        self.model, self.needed, self.limit = model, needed, limit


# -- what was asked for does not exist, or is no longer as the caller thinks -------------------------------


class NotFound(EverthreadError):
    """Something named does not exist for this user."""


class UnknownConversation(NotFound):
    def __init__(self, conversation: str, *, erased: str = "") -> None:
        gone = f"; it was erased on {erased}" if erased else ""
        super().__init__(
            f"There is no conversation {_short(conversation)} for this user{gone}: list those there are with "
            "`et.conversations` or `everthread conversations`."
        )
        self.conversation = conversation


class UnknownBranch(NotFound):
    def __init__(self, branch: str | int, known: str) -> None:
        super().__init__(f"There is no branch {_short(branch)} in this conversation; it has: {known}.")
        self.branch = branch


class UnknownSeq(NotFound):
    def __init__(self, seq: int, *, last: int) -> None:
        has = f"its events are numbered 1 to {last}" if last else "it has no events yet"
        super().__init__(f"There is no event {seq} on this branch: {has}.")
        self.seq, self.last = seq, last


class UnknownMark(NotFound):
    def __init__(self, mark: str) -> None:
        super().__init__(f"There is no mark {_short(mark)} on this branch: set it with `mark` first, or give a seq.")
        self.mark = mark


class UnknownBlob(NotFound):
    def __init__(self, blob: str) -> None:
        super().__init__(f"This conversation keeps no image or file with the hash {_short(blob)}.")
        self.blob = blob


class Conflict(EverthreadError):
    """The log has moved on, or says otherwise; read it again and decide."""


class Moved(Conflict):
    def __init__(self, *, expected: int, found: int) -> None:
        super().__init__(
            f"A message was expected to be the last at seq {expected}, but seq {found} has been said since: "
            "read what came after it, then append again."
        )
        self.expected, self.found = expected, found


class KeyReused(Conflict):
    def __init__(self, key: str) -> None:
        super().__init__(
            f"The idempotency key {_short(key)} was used before with other content: use a new key for a new append."
        )
        self.key = key


class AlreadyExists(Conflict):
    def __init__(self, what: str, name: str) -> None:
        todo = "choose another name" if what == "branch" else "nothing was written; erase it first if you want this one"
        super().__init__(f"There already is a {what} {_short(name)}: {todo}.")
        self.name = name


class Outdated(Conflict):
    """What has been written out so far holds what must be forgotten."""

    def __init__(self) -> None:
        super().__init__("Something was redacted while it was exported: export it again.")


# -- the store -------------------------------------------------------------------------------------------


class StoreError(EverthreadError):
    """The database cannot do what it should; what was acknowledged before is safe."""


class BadAddress(StoreError):
    def __init__(self, address: str) -> None:
        shown = re.sub(r"(://[^/:@]*:)[^@]*@", r"\1…@", address)  # never a password
        super().__init__(
            f"{_short(shown)} is not an address of a store: write sqlite:///talk.db (three slashes for a relative "
            "path, four for an absolute one) or postgresql://user@host/database."
        )


class MissingExtra(StoreError):
    def __init__(self, extra: str) -> None:
        super().__init__(f"This store needs more packages: pip install 'everthread[{extra}]'.")


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
    """Forgotten in the log, but the old bytes are still in a file that somebody reads."""

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


def _short(value: object) -> str:
    """A value as an error shows it: quoted, on one line, and not for pages."""
    try:
        return _shortening.repr(value)
    except (ValueError, RecursionError):  # a number of 5,000 digits, brackets without end
        return f"a {type(value).__name__} too large to show"


_shortening = reprlib.Repr()
_shortening.maxstring = _shortening.maxother = 200
